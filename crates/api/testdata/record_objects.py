#!/usr/bin/env python3
"""Records what a real kube-apiserver answers to the objects in custom-objects.cases.json, beside it.

usage: record_objects.py https://127.0.0.1:16443 TOKEN custom-objects.cases.json
A case is a schema with objects to create (dry run) and pairs of objects: the first is stored while the schema allows
anything, then replaced by the second under the schema. Upstream goes through maps in random order: causes are sorted."""
import json, ssl, sys, time, urllib.request, urllib.error

url, token, file = sys.argv[1:4]
context = ssl._create_unverified_context()
GROUP = "structural%d.example.com" % (time.time() % 100000)
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LAX = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def call(method, path, body=None):
    request = urllib.request.Request(url + path, method=method, data=body and json.dumps(body).encode(),
                                     headers={"Authorization": "Bearer " + token, "Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, context=context) as answer:
            return json.load(answer), answer.headers.get_all("Warning") or []
    except urllib.error.HTTPError as error:
        body = error.read()
        status = json.loads(body) if body.startswith(b"{") else {"kind": "Status", "message": body.decode()}
        return status, error.headers.get_all("Warning") or []


def definition(plural, schema):
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{GROUP}"},
            "spec": {"group": GROUP, "scope": "Cluster", "names": {"plural": plural, "kind": "X" + plural},
                     "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]}}


def full(plural, name, body):
    return {**body, "apiVersion": f"{GROUP}/v1", "kind": "X" + plural,
            "metadata": {**body.get("metadata", {}), "name": name}}


def outcome(answer, warnings):
    result = {}
    if answer["kind"] == "Status":
        causes = answer.get("details", {}).get("causes")
        if causes:
            result["errors"] = sorted(f'{c["reason"]} {c["field"]}: {c["message"]}' for c in causes)
        else:
            result["refused"] = answer["message"]
    else:
        for field in ("managedFields", "uid", "creationTimestamp", "resourceVersion", "generation", "name"):
            answer["metadata"].pop(field, None)
        if not answer["metadata"]:
            answer.pop("metadata")
        result["stored"] = {k: v for k, v in answer.items() if k not in ("apiVersion", "kind")}
    texts = [w.split('"', 1)[1].rsplit('"', 1)[0].replace('\\"', '"').replace("\\\\", "\\") for w in warnings]
    if texts:
        result["warnings"] = texts
    return result


def wait_for(path):
    for _ in range(200):
        if call("GET", path)[0]["kind"] != "Status":
            return
        time.sleep(0.05)
    sys.exit("never served: " + path)


recorded = []
for number, case in enumerate(json.load(open(file))):
    plural = f"g{number}s"
    path = f"/apis/{GROUP}/v1/{plural}"
    answer, _ = call("POST", DEFINITIONS, definition(plural, LAX if case.get("updates") else case["schema"]))
    assert answer["kind"] != "Status", (case["name"], answer["message"])
    wait_for(path)
    out = {"name": case["name"], "schema": case["schema"], "kind": "X" + plural, "apiVersion": f"{GROUP}/v1"}
    out["objects"] = []
    for body in case["objects"]:
        answer = call("POST", path + "?dryRun=All&fieldValidation=Warn", full(plural, "x", body))
        out["objects"].append({"object": body, **outcome(*answer)})
    if case.get("updates"):
        stored = []
        for index, (old, _) in enumerate(case["updates"]):
            answer, _ = call("POST", path, full(plural, f"x{index}", old))
            assert answer["kind"] != "Status", answer
            stored.append(answer)
        current, _ = call("GET", f"{DEFINITIONS}/{plural}.{GROUP}")
        current["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = case["schema"]
        answer, _ = call("PUT", f"{DEFINITIONS}/{plural}.{GROUP}", current)
        assert answer["kind"] != "Status", answer
        time.sleep(3)
        out["updates"] = []
        for (old, new), answer in zip(case["updates"], stored):
            answer = call("PUT", f'{path}/{answer["metadata"]["name"]}?dryRun=All', {**answer, **new})
            out["updates"].append({"old": old, "new": new, **outcome(*answer)})
    recorded.append(out)
    call("DELETE", f"{DEFINITIONS}/{plural}.{GROUP}")
with open(file.replace(".cases.", ".recorded."), "w") as target:
    target.write("[\n" + ",\n".join(json.dumps(case) for case in recorded) + "\n]\n")
