#!/usr/bin/env python3
"""Records what a real kube-apiserver answers to the cases in *.cases.json, into *.recorded.json beside them.

usage: record.py https://127.0.0.1:16443 TOKEN file.cases.json...
A case is {resource: "group/version/plural[/subresource]", object} for a creation; with "old", that is created first and
then replaced by "object" (merged over what the server stored, so that fields it fills in are there)."""
import json, ssl, sys, time, urllib.request, urllib.error

url, token, files = sys.argv[1], sys.argv[2], sys.argv[3:]
context = ssl._create_unverified_context()


def call(method, path, body=None):
    request = urllib.request.Request(url + path, method=method, data=body and json.dumps(body).encode(),
                                     headers={"Authorization": "Bearer " + token, "Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, context=context) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.load(error)


def merge(base, over):
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    return {k: merge(base.get(k), over.get(k, base.get(k))) if k in over else v for k, v in {**over, **base}.items()
            if over.get(k, v) != "<remove>"}


def strip(answer):
    for field in ("managedFields", "uid", "creationTimestamp", "resourceVersion", "generation"):
        answer["metadata"].pop(field, None)
    return answer


for file in files:
    recorded = []
    for case in json.load(open(file)):
        group, version, plural, *sub = case["resource"].split("/")
        namespace = case["object"].get("metadata", {}).get("namespace")
        root = f"/apis/{group}" if group else "/api"
        base = f"{root}/{version}" + (f"/namespaces/{namespace}" if namespace else "") + f"/{plural}"
        out = dict(case)
        if "old" in case:
            name = case["old"]["metadata"]["name"]
            call("DELETE", f"{base}/{name}")
            time.sleep(case.get("wait", 0))
            answer = call("POST", base, case["old"])
            assert answer["kind"] != "Status", answer
            if case.get("oldStatus"):
                for path, status in case["oldStatus"].items():
                    answer = call("PUT", f"{base}/{name}/{path}", {**answer, "status": status})
                    assert answer["kind"] != "Status", answer
            time.sleep(case.get("wait", 0))
            old = call("GET", f"{base}/{name}")
            new = merge(old, case["object"])
            answer = call("PUT", "/".join([base, name, *sub]) + "?dryRun=All", new)
            out["old"], out["object"] = strip(json.loads(json.dumps(old))), strip(new)
            out.pop("oldStatus", None), out.pop("wait", None)
            call("DELETE", f"{base}/{name}")
        else:
            answer = call("POST", base + "?dryRun=All", case["object"])
        if answer["kind"] == "Status":
            causes = answer.get("details", {}).get("causes")
            out["errors"] = [f'{c["field"]}: {c["message"]}' for c in causes] if causes else [answer["message"]]
        else:
            out["stored"] = strip(answer)
        recorded.append(out)
    with open(file.replace(".cases.", ".recorded."), "w") as target:
        lines = (json.dumps(case, sort_keys=True) for case in recorded)
        target.write("[\n" + ",\n".join(lines) + "\n]\n")
