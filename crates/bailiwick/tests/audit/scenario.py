#!/usr/bin/env python3
"""Writes scenario.json, and with a URL and kube-apiserver's audit log as arguments records its events as golden.jsonl.

The server must run with policy.yaml and log in json, and have the tokens admin-token (system:masters) and alice-token
(alice, of dev and qa): scenario.py https://127.0.0.1:18443 /path/to/audit.log
"""
import json, pathlib, ssl, sys, time, urllib.request

HERE = pathlib.Path(__file__).parent
NS = "/api/v1/namespaces/audited"
ADMIN, ALICE = {"authorization": "Bearer admin-token"}, {"authorization": "Bearer alice-token"}
JSON = {"content-type": "application/json"}


def one(name, method, path, headers={}, body=None):
    if isinstance(body, dict):
        body, headers = json.dumps(body), {**JSON, **headers}
    return {"id": name, "method": method, "path": path, "headers": headers, "body": body}


def config_map(name, **rest):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **rest}


APPLY, MERGE = {"content-type": "application/apply-patch+yaml"}, {"content-type": "application/merge-patch+json"}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "audited"}}
AUTHN, AUTHZ = "authentication.k8s.io/v1", "authorization.k8s.io/v1"
SCENARIO = [
    one("create-namespace", "POST", "/api/v1/namespaces", ADMIN, NAMESPACE),
    one("create", "POST", NS + "/configmaps?fieldManager=t", ADMIN, config_map("c1", data={"a": "1"})),
    one("get", "GET", NS + "/configmaps/c1", ADMIN),
    one("list-selected", "GET", NS + "/configmaps?labelSelector=a%3Db", ADMIN),
    one("forbidden", "GET", NS + "/configmaps/c1", ALICE),
    one("unauthorized", "GET", NS + "/configmaps/c1", {"authorization": "Bearer nonsense"}),
    one("anonymous", "GET", NS + "/configmaps"),
    one("anonymous-version", "GET", "/version"),
    one("impersonated", "GET", NS + "/configmaps", {**ADMIN, "impersonate-user": "alice", "impersonate-group": "dev", "impersonate-extra-scopes": "s"}),
    one("impersonation-forbidden", "GET", NS + "/configmaps", {**ALICE, "impersonate-user": "bob"}),
    one("update", "PUT", NS + "/configmaps/c1?fieldManager=t", ADMIN, config_map("c1", data={"a": "2"})),
    one("merge-patch", "PATCH", NS + "/configmaps/c1?fieldManager=t", {**ADMIN, **MERGE}, '{"data":{"b":"3"}}'),
    one("apply", "PATCH", NS + "/configmaps/c3?fieldManager=f", {**ADMIN, **APPLY}, json.dumps(config_map("c3", data={"x": "1"}))),
    one("watch", "GET", NS + "/configmaps?watch=1&timeoutSeconds=1", ADMIN),
    one("watch-forbidden", "GET", NS + "/configmaps?watch=1", ALICE),
    one("create-secret", "POST", NS + "/secrets?fieldManager=t", ADMIN, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s1"}, "stringData": {"password": "hunter2"}}),
    one("get-secret", "GET", NS + "/secrets/s1", ADMIN),
    one("patch-secret", "PATCH", NS + "/secrets/s1?fieldManager=t", {**ADMIN, **MERGE}, '{"stringData":{"password":"hunter2"}}'),
    one("create-account", "POST", NS + "/serviceaccounts?fieldManager=t", ADMIN, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot"}}),
    one("token-request", "POST", NS + "/serviceaccounts/bot/token", ADMIN, {"apiVersion": AUTHN, "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}),
    one("token-review", "POST", f"/apis/{AUTHN}/tokenreviews", ADMIN, {"apiVersion": AUTHN, "kind": "TokenReview", "spec": {"token": "alice-token"}}),
    one("access-review", "POST", f"/apis/{AUTHZ}/selfsubjectaccessreviews", ADMIN, {"apiVersion": AUTHZ, "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": {"verb": "get", "resource": "secrets"}}}),
    one("delete", "DELETE", NS + "/configmaps/c1", ADMIN),
    one("delete-again", "DELETE", NS + "/configmaps/c1", ADMIN, {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}),
    one("list", "GET", NS + "/configmaps?limit=500", ADMIN),
    one("list-protobuf", "GET", NS + "/configmaps?limit=500", {**ADMIN, "accept": "application/vnd.kubernetes.protobuf"}),
    one("deletecollection", "DELETE", NS + "/configmaps", ADMIN),
    one("not-found", "GET", NS + "/configmaps/none", ADMIN),
    one("exists", "POST", "/api/v1/namespaces", ADMIN, NAMESPACE),
    one("invalid", "POST", NS + "/configmaps", ADMIN, config_map("C_1")),
    one("malformed", "POST", NS + "/configmaps", {**ADMIN, **JSON}, '{"apiVersion":'),
    one("unknown-resource", "GET", "/api/v1/nonsense", ADMIN),
    one("unknown-path", "GET", "/nothing/here", ADMIN),
    one("forwarded", "GET", "/version", {**ADMIN, "x-forwarded-for": "10.0.0.1, 10.0.0.2", "x-real-ip": "10.0.0.3"}),
    one("generated-name", "POST", NS + "/configmaps?dryRun=All", ADMIN, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g-"}}),
    one("metadata-only", "GET", "/api/v1/namespaces/audited", {**ADMIN, "accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}),
    one("not-recorded", "GET", "/healthz", ADMIN),
]


def record(url, log):
    context = ssl._create_unverified_context()
    for step in SCENARIO:
        headers = {"user-agent": "audit-test/1", **step["headers"], "audit-id": step["id"]}
        body = step["body"].encode() if step["body"] is not None else None
        request = urllib.request.Request(url + step["path"], body, headers, method=step["method"])
        try:
            urllib.request.urlopen(request, context=context).read()
        except urllib.error.HTTPError:
            pass
    time.sleep(1)
    ids = {step["id"] for step in SCENARIO}
    events = [json.loads(line) for line in open(log)]
    with open(HERE / "golden.jsonl", "w") as golden:
        for event in events:
            if event["auditID"] in ids:
                golden.write(json.dumps(event, separators=(",", ":"), sort_keys=True) + "\n")


(HERE / "scenario.json").write_text(json.dumps(SCENARIO, indent=1) + "\n")
if len(sys.argv) > 2:
    record(sys.argv[1], sys.argv[2])
