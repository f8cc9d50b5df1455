#!/usr/bin/env python3
"""Records what a real kube-apiserver does with sequences of writes, for tests/apply_recorded.rs.

    BASE=https://127.0.0.1:16443 TOKEN=admin-token python3 record_apply.py > apply.recorded.json

Every sequence works on an object of its own; the answer to each step is kept, and the next step of the replay starts from
it. Some sequences wait a second between steps, so that it shows which entries got a new time. One line per sequence.
"""
import concurrent.futures, copy, json, os, random, ssl, sys, time, urllib.request, urllib.error

BASE = os.environ.get("BASE", "https://127.0.0.1:16443")
TOKEN = os.environ.get("TOKEN", "admin-token")
RUN = "%x" % (int(time.time()) % 0xFFFFFF)
NS = f"merge-apply-{RUN}"
GROUP = f"r{RUN}.merge-apply.test"
CTX = ssl._create_unverified_context()


def call(method, path, body=None, content_type="application/json", agent=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": "Bearer " + TOKEN, "Content-Type": content_type, "Accept": "application/json"}
    if agent is not None:
        headers["User-Agent"] = agent
    request = urllib.request.Request(BASE + path, data=data, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, context=CTX) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


TEXT, INT = {"type": "string"}, {"type": "integer"}
WIDGET = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "replicas": INT,
                "size": {"type": "number"},
                "on": {"type": "boolean"},
                "text": TEXT,
                "when": {"type": "string", "format": "date-time"},
                "mode": {"type": "string", "default": "auto"},
                "ports": {
                    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
                    "items": {"type": "object", "required": ["port"], "properties": {
                        "port": INT, "protocol": {"type": "string", "default": "TCP"}, "name": TEXT,
                        "limits": {"type": "object", "properties": {"rate": INT, "burst": {"type": "integer", "default": 5}}}}},
                },
                "rules": {
                    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "required": ["name"], "properties": {
                        "name": TEXT, "hosts": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
                        "paths": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["path"],
                                  "items": {"type": "object", "required": ["path"], "properties": {"path": TEXT, "to": TEXT}}}}},
                },
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
                "numbers": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "number"}},
                "plain": {"type": "array", "items": {"type": "object", "properties": {"a": TEXT, "b": INT}}},
                "labels": {"type": "object", "additionalProperties": TEXT},
                "groups": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": TEXT, "b": TEXT}}},
                "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": TEXT, "b": TEXT}},
                "nested": {"type": "object", "properties": {"one": {"type": "object", "properties": {"two": TEXT, "three": INT}}}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"known": {"type": "object", "properties": {"a": TEXT}}}},
                "target": {"x-kubernetes-int-or-string": True},
                "embedded": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "phase": TEXT,
                "conditions": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                               "items": {"type": "object", "required": ["type"], "properties": {"type": TEXT, "status": TEXT, "reason": TEXT}}},
            },
        },
    },
}
BLOB = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

KINDS = {
    "cm": dict(api="v1", kind="ConfigMap", path="/api/v1/namespaces/{ns}/configmaps", namespaced=True, reset={}),
    "sa": dict(api="v1", kind="ServiceAccount", path="/api/v1/namespaces/{ns}/serviceaccounts", namespaced=True, reset={}, compare_object=False),
    "ns": dict(api="v1", kind="Namespace", path="/api/v1/namespaces", namespaced=False,
               reset={"": [["status"]], "status": [["spec"]]}),
    "role": dict(api="rbac.authorization.k8s.io/v1", kind="Role", path="/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles", namespaced=True, reset={}),
    "binding": dict(api="rbac.authorization.k8s.io/v1", kind="RoleBinding", path="/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings", namespaced=True, reset={}),
    "crole": dict(api="rbac.authorization.k8s.io/v1", kind="ClusterRole", path="/apis/rbac.authorization.k8s.io/v1/clusterroles", namespaced=False, reset={}),
    "vwc": dict(api="admissionregistration.k8s.io/v1", kind="ValidatingWebhookConfiguration", path="/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", namespaced=False, reset={}, compare_object=False),
    "widget": dict(api=GROUP + "/v1", kind="Widget", path="/apis/" + GROUP + "/v1/namespaces/{ns}/widgets", namespaced=True, schema=WIDGET,
                   versions=["v1", "v2"], reset={"": [["status"]], "status": [["metadata"], ["spec"]]}),
    "blob": dict(api=GROUP + "/v1", kind="Blob", path="/apis/" + GROUP + "/v1/namespaces/{ns}/blobs", namespaced=True, schema=BLOB, versions=["v1"], reset={}),
}


def install():
    for _, kind in KINDS.items():
        if "schema" not in kind:
            continue
        plural = kind["kind"].lower() + "s"
        versions = [dict(name=v, served=True, storage=v == "v1", schema={"openAPIV3Schema": kind["schema"]},
                         **({"subresources": {"status": {}}} if kind["reset"] else {})) for v in kind["versions"]]
        code, answer = call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": plural + "." + GROUP},
            "spec": {"group": GROUP, "scope": "Namespaced", "names": {"plural": plural, "kind": kind["kind"], "singular": plural[:-1], "listKind": kind["kind"] + "List"}, "versions": versions}})
        assert code == 201, answer
    code, answer = call("POST", "/api/v1/namespaces", {"metadata": {"name": NS}})
    assert code == 201, answer
    for _ in range(60):
        codes = [call("GET", kind["path"].format(ns=NS))[0] for kind in KINDS.values()]
        if all(code == 200 for code in codes):
            time.sleep(2)
            return
        time.sleep(0.5)
    sys.exit("custom resources are not served")


# Steps. A body is a dict of what is beside apiVersion, kind and metadata.name; `meta` adds metadata.
def apply(manager, body=None, force=False, sub="", meta=None, raw=None, version=None):
    return dict(op="apply", manager=manager, body=body or {}, force=force, sub=sub, meta=meta, raw=raw, version=version)


def create(manager, body=None, meta=None, agent=None):
    return dict(op="create", manager=manager, body=body or {}, meta=meta, sub="", agent=agent)


def put(manager, edit, sub="", version=None):
    return dict(op="put", manager=manager, edit=edit, sub=sub, version=version)


def merge(manager, body, sub="", version=None):
    return dict(op="merge", manager=manager, body=body, sub=sub, version=version)


def setter(path, value):
    def edit(obj):
        at = obj
        for step in path[:-1]:
            at = at.setdefault(step, {}) if isinstance(at, dict) else at[step]
        if value is None:
            at.pop(path[-1], None)
        else:
            at[path[-1]] = value
    return edit


def edits(*all_edits):
    def edit(obj):
        for one in all_edits:
            one(obj)
    return edit


SEQUENCES = []


def seq(name, kind, *steps, slow=False):
    SEQUENCES.append(dict(name=name, kind=kind, steps=steps, slow=slow))


def data(**kw):
    return {"data": kw}


# --- ConfigMaps
seq("create", "cm", create("one", data(a="1", b="2")))
seq("create with labels, annotations and finalizers", "cm", create("one", data(a="1"), meta={"labels": {"l": "1"}, "annotations": {"x/y": "1"}, "finalizers": ["a.b/c"], "generateName": "g"}))
seq("create with a user agent", "cm", create(None, data(a="1"), agent="curl/7.0 (x)"), merge("two", data(a="2")))
seq("create with a long user agent", "cm", create(None, data(a="1"), agent="x" * 200 + "/1"))
seq("create an empty object, then update", "cm", create("one"), merge("two", data(a="1")))
seq("create with managed fields", "cm", create("one", data(a="1"), meta={"managedFields": [{"manager": "zero", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}, "f:z": {}}}}]}), apply("zero", data(b="1")))
seq("create with binary data and immutable", "cm", create("one", {"binaryData": {"k": "AAE="}, "immutable": True}), apply("two", {"immutable": True}))
seq("update by the same manager", "cm", create("one", data(a="1")), put("one", setter(["data", "b"], "1")), put("one", setter(["data", "a"], None)), slow=True)
seq("update by another manager", "cm", create("one", data(a="1", b="1")), put("two", setter(["data", "a"], "2")), put("three", setter(["data", "b"], None)), slow=True)
seq("update removes all data", "cm", create("one", data(a="1")), put("two", setter(["data"], None)), put("two", setter(["data"], {"b": "1"})))
seq("update without managed fields", "cm", create("one", data(a="1")), put("two", edits(setter(["metadata", "managedFields"], None), setter(["data", "b"], "1"))))
seq("update without change", "cm", create("one", data(a="1")), put("two", setter(["data", "a"], "1")), merge("three", {"data": {"a": "1"}}), slow=True)
seq("update resets managers", "cm", create("one", data(a="1")), put("two", edits(setter(["metadata", "managedFields"], []), setter(["data", "b"], "1"))), put("two", setter(["data", "c"], "1")), apply("three", data(d="1")), slow=True)
seq("update resets managers with an empty entry", "cm", create("one", data(a="1")), put("two", setter(["metadata", "managedFields"], [{}])), apply("three", data(a="1")))
seq("patch resets managers", "cm", create("one", data(a="1")), merge("two", {"metadata": {"managedFields": [{}]}}), apply("one", data(a="2")))
seq("update with managed fields without operation", "cm", create("one", data(a="1")), put("two", edits(setter(["metadata", "managedFields", 0, "operation"], None), setter(["data", "b"], "1"))))
seq("update with managed fields of a wrong type", "cm", create("one", data(a="1")), put("two", edits(setter(["metadata", "managedFields", 0, "fieldsType"], "V2"), setter(["data", "b"], "1"))))
seq("update with bad fields", "cm", create("one", data(a="1")), put("two", edits(setter(["metadata", "managedFields", 0, "fieldsV1"], {"x": {}}), setter(["data", "b"], "1"))))
seq("update with unknown fields", "cm", create("one", data(a="1")), put("two", edits(setter(["metadata", "managedFields", 0, "fieldsV1"], {"q:x": {}, "f:data": {"f:a": {".": {}}}}), setter(["data", "b"], "1"))))
seq("update rewrites managers", "cm", create("one", data(a="1", b="1")), put("two", edits(setter(["metadata", "managedFields", 0, "manager"], "zero"), setter(["metadata", "managedFields", 0, "fieldsV1"], {"f:data": {"f:a": {}, "f:metadata": {"f:name": {}}}}))), merge("three", data(b="2")))
seq("update gives a manager of another version", "cm", create("one", data(a="1")), put("two", edits(setter(["metadata", "managedFields", 0, "apiVersion"], "v9"), setter(["data", "b"], "1"))))
seq("patch removes managed fields", "cm", create("one", data(a="1")), merge("two", {"metadata": {"managedFields": None}, "data": {"b": "1"}}))
seq("twelve updaters", "cm", create("m00", data(k00="1")), *[merge(f"m{i:02}", data(**{f"k{i:02}": "1"})) for i in range(1, 13)])
seq("twelve updaters, one second apart", "cm", create("z00", data(k00="1")), *[merge(f"m{20 - i:02}", data(**{f"k{i:02}": "1"})) for i in range(1, 13)], slow=True)
seq("updaters and an applier past the cap", "cm", create("m00", data(k00="1")), apply("app", data(x="1")), *[merge(f"m{i:02}", data(**{f"k{i:02}": "1", "k00": str(i)})) for i in range(1, 13)])

seq("apply creates", "cm", apply("one", data(a="1")))
seq("apply creates with metadata", "cm", apply("one", data(a="1"), meta={"labels": {"l": "1"}, "annotations": {"a": "1"}, "finalizers": ["a.b/c", "a.b/d"]}))
seq("apply nothing", "cm", apply("one"), apply("one"), apply("two", data(a="1")), slow=True)
seq("apply twice", "cm", apply("one", data(a="1")), apply("one", data(a="1")), slow=True)
seq("apply more, less and none", "cm", apply("one", data(a="1")), apply("one", data(a="1", b="1")), apply("one", data(b="1")), apply("one"), slow=True)
seq("apply shares", "cm", apply("one", data(a="1", b="1")), apply("two", data(b="1")), apply("one", data(a="1")), apply("two"), slow=True)
seq("apply conflicts with an updater", "cm", create("one", data(a="1", b="1")), apply("two", data(a="2", b="2")), apply("two", data(a="2"), force=True))
seq("apply conflicts with an applier", "cm", apply("one", data(a="1")), apply("two", data(a="2")), apply("two", data(a="2"), force=True), apply("one", data(a="1")), slow=True)
seq("apply conflicts with three", "cm", apply("one", data(a="1")), apply("two", data(b="1")), merge("three", data(c="1", d="1")), apply("four", data(a="2", b="2", c="2", d="2", e="2")), apply("four", data(a="2", b="2", c="2", d="2"), force=True))
seq("apply over an update of the same manager", "cm", create("one", data(a="1")), apply("one", data(a="2")), apply("one", data(a="2"), force=True), apply("one", data(b="1")))
seq("update of an applied field", "cm", apply("one", data(a="1", b="1")), merge("two", data(a="2")), apply("one", data(a="1", b="1")), apply("one", data(b="1")), slow=True)
seq("update removes an applied field", "cm", apply("one", data(a="1", b="1")), merge("two", data(a=None)), apply("one", data(b="1")))
seq("apply null", "cm", apply("one", {"data": {"a": None}}), apply("one", {"data": None}), apply("one", {"data": {}}))
seq("apply an empty map", "cm", apply("one", {"data": {}}), apply("two", data(a="1")), apply("one", {}), apply("two", {}))
seq("apply null over values", "cm", create("one", data(a="1")), apply("two", {"data": None}), apply("two", {"data": {"a": None}}))
seq("apply labels", "cm", apply("one", meta={"labels": {"a": "1", "b": "1"}}), apply("two", meta={"labels": {"b": "1", "c": "1"}}), apply("one", meta={"labels": {"a": "1"}}), apply("one"), apply("two"))
seq("apply finalizers", "cm", apply("one", meta={"finalizers": ["x.y/b", "x.y/a"]}), apply("two", meta={"finalizers": ["x.y/c", "x.y/b"]}), apply("one", meta={"finalizers": ["x.y/a"]}), apply("two"))
seq("apply the order of finalizers", "cm", apply("one", meta={"finalizers": ["x.y/a", "x.y/b", "x.y/c"]}), apply("two", meta={"finalizers": ["x.y/c", "x.y/d", "x.y/a"]}), apply("three", meta={"finalizers": ["x.y/e", "x.y/b"]}))
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u1"}
seq("apply owner references", "cm", apply("one", meta={"ownerReferences": [OWNER]}), apply("two", meta={"ownerReferences": [dict(OWNER, uid="u2", controller=True)]}), apply("one", meta={"ownerReferences": [dict(OWNER, name="p")]}), apply("one"))
seq("apply duplicate owner references", "cm", apply("one", meta={"ownerReferences": [OWNER, OWNER]}))
seq("apply owner references without uid", "cm", apply("one", meta={"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o"}]}))
seq("apply duplicate finalizers", "cm", apply("one", meta={"finalizers": ["x.y/a", "x.y/a"]}))
seq("apply a null finalizer", "cm", apply("one", meta={"finalizers": [None]}))
seq("apply a map as finalizer", "cm", apply("one", meta={"finalizers": [{}]}))
seq("apply a list as finalizer", "cm", apply("one", meta={"finalizers": [[]]}))
seq("apply a number as data", "cm", apply("one", {"data": {"a": 1}}))
seq("apply several wrong types", "cm", apply("one", {"data": {"a": 1}, "immutable": "yes"}))
seq("apply maps and lists as strings", "cm", apply("one", {"data": {"a": {"b": [1, "x", None, True, 1.5]}}}))
seq("apply a string as a map", "cm", apply("one", {"data": "x"}))
seq("apply a list as a map", "cm", apply("one", {"data": ["x", 1]}))
seq("apply a map as a list", "cm", apply("one", meta={"finalizers": {"a": 1}}))
seq("apply a map as a bool", "cm", apply("one", {"immutable": {"a": "b"}}))
seq("apply an unknown field", "cm", apply("one", {"spec": {"a": 1}}))
seq("apply an unknown metadata field", "cm", apply("one", data(a="1"), meta={"foo": 1}))
seq("apply managed fields", "cm", apply("one", data(a="1"), meta={"managedFields": []}))
seq("apply null managed fields", "cm", apply("one", data(a="1"), meta={"managedFields": None}))
seq("apply another kind", "cm", apply("one", raw={"apiVersion": "v1", "kind": "Secret"}))
seq("apply another version", "cm", apply("one", raw={"apiVersion": "apps/v1", "kind": "ConfigMap"}))
seq("apply a creation timestamp", "cm", apply("one", data(a="1"), meta={"creationTimestamp": None}))
LAST = '{"apiVersion":"v1","data":{"a":"1","b":"1"},"kind":"ConfigMap","metadata":{"annotations":{}}}\n'
def last(body, **kw):
    return {"annotations": dict({"kubectl.kubernetes.io/last-applied-configuration": json.dumps(body)}, **kw)}
CSA = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"annotations": {}}, "data": {"a": "1", "b": "1"}}
seq("kubectl takes over from client-side apply", "cm", create("kubectl-client-side-apply", data(a="1", b="1"), meta=last(CSA)), apply("kubectl", data(a="2")), apply("kubectl", data(a="2", c="<&>")))
seq("kubectl takes over but another changed a field", "cm", create("kubectl-client-side-apply", data(a="1", b="1"), meta=last(CSA)), merge("other", data(b="2")), apply("kubectl", data(a="2", b="3")), apply("kubectl", data(a="2", b="2")))
seq("kubectl takes over with a bad annotation", "cm", create("kubectl-client-side-apply", data(a="1"), meta={"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{"}}), apply("kubectl", data(a="2")))
seq("another manager does not take over", "cm", create("kubectl-client-side-apply", data(a="1", b="1"), meta=last(CSA)), apply("other", data(a="2")), apply("other", data(a="2"), force=True))
seq("kubectl applies the annotation itself", "cm", create("kubectl-client-side-apply", data(a="1", b="1"), meta=last(CSA)), apply("kubectl", data(a="1"), meta=last(CSA, x="y")))

# --- Namespaces
seq("namespace", "ns", create("one"), merge("two", {"metadata": {"labels": {"a": "1"}}}), apply("three", meta={"labels": {"b": "1"}}))
seq("namespace applied", "ns", apply("one", meta={"labels": {"a": "1"}}), apply("one", {"spec": {}}), apply("two", {"spec": {"finalizers": ["kubernetes"]}}))
seq("namespace status is not set by the object", "ns", apply("one", {"status": {"phase": "Terminating"}}), apply("one", {"status": {"conditions": [{"type": "A", "status": "True"}]}}, sub="status"), merge("two", {"status": {"conditions": [{"type": "B", "status": "True"}]}}, sub="status"), slow=True)
seq("namespace status applied", "ns", create("one"), apply("two", {"status": {"conditions": [{"type": "A", "status": "True"}]}, "spec": {"finalizers": ["x/y"]}}, sub="status"), apply("three", {"status": {"conditions": [{"type": "A", "status": "False"}]}}, sub="status"), apply("two", {"status": {}}, sub="status"))
seq("namespace spec finalizers", "ns", apply("one", {"spec": {"finalizers": ["kubernetes"]}}), apply("one", {}))

# --- Service accounts
seq("service account", "sa", create("one", {"secrets": [{"name": "a"}, {"name": "b"}], "imagePullSecrets": [{"name": "x"}]}), apply("two", {"secrets": [{"name": "c"}, {"name": "a"}]}), apply("two", {"secrets": [{"name": "c"}]}), apply("two"))
seq("service account without names", "sa", apply("one", {"secrets": [{"namespace": "x"}]}))
seq("service account pull secrets", "sa", apply("one", {"imagePullSecrets": [{"name": "a"}]}), apply("two", {"imagePullSecrets": [{"name": "b"}]}), apply("two", {"imagePullSecrets": [{"name": "b"}]}, force=True), apply("two"))
seq("service account duplicates", "sa", create("one", {"secrets": [{"name": "a"}, {"name": "a", "kind": "X"}]}), apply("two", {"secrets": [{"name": "b"}]}), apply("two", {"secrets": [{"name": "a"}]}), put("three", setter(["secrets"], [{"name": "a"}])), put("three", setter(["secrets"], [{"name": "a"}, {"name": "a"}])))
seq("service account bool", "sa", apply("one", {"automountServiceAccountToken": False}), apply("two", {"automountServiceAccountToken": True}), apply("one", {}))
seq("service account nested in list", "sa", apply("one", {"secrets": [{"name": "a", "namespace": "n"}]}), apply("two", {"secrets": [{"name": "a", "kind": "k"}]}), apply("one", {"secrets": [{"name": "a"}]}), apply("one", {}), apply("two", {}))

# --- RBAC
RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
seq("role", "role", apply("one", {"rules": [RULE]}), apply("two", {"rules": [dict(RULE, verbs=["list"])]}), apply("two", {"rules": [RULE]}), apply("one", {}), apply("two", {}))
seq("role created and updated", "role", create("one", {"rules": [RULE]}), put("two", setter(["rules"], [])), put("two", setter(["rules"], [RULE])))
seq("role without rules", "role", create("one"), apply("two", {"rules": []}), apply("two", {"rules": None}))
seq("cluster role", "crole", apply("one", {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}), apply("two", {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "c"}}]}}), apply("one", {"rules": [RULE]}))
REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
SUBJECT = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "u"}
seq("role binding", "binding", apply("one", {"roleRef": REF, "subjects": [SUBJECT]}), apply("two", {"roleRef": REF, "subjects": [SUBJECT, dict(SUBJECT, name="v")]}), apply("two", {"roleRef": REF}), apply("one", {"roleRef": REF}))
seq("role binding created", "binding", create("one", {"roleRef": REF}), apply("two", {"roleRef": dict(REF, name="s")}), put("three", setter(["subjects"], [SUBJECT])))

# --- Webhooks
def hook(name, **kw):
    return dict({"name": name, "clientConfig": {"url": "https://x.example"}, "admissionReviewVersions": ["v1"], "sideEffects": "None"}, **kw)
OP = {"operations": ["CREATE"], "apiGroups": ["none.test"], "apiVersions": ["v1"], "resources": ["nones"], "scope": "*"}
FULL = dict(failurePolicy="Ignore", matchPolicy="Exact", timeoutSeconds=5, namespaceSelector={}, objectSelector={}, rules=[OP])
seq("webhooks", "vwc", apply("one", {"webhooks": [hook("a.x.test"), hook("b.x.test", failurePolicy="Ignore")]}), apply("two", {"webhooks": [{"name": "a.x.test", "timeoutSeconds": 3}]}), apply("one", {"webhooks": [hook("b.x.test")]}), apply("one", {"webhooks": [hook("c.x.test"), hook("b.x.test")]}))
seq("webhooks created and applied", "vwc", create("one", {"webhooks": [hook("a.x.test", **FULL)]}), apply("two", {"webhooks": [{"name": "a.x.test", "rules": [dict(OP, operations=["UPDATE"])]}]}), apply("two", {"webhooks": [{"name": "a.x.test", "rules": [dict(OP, operations=["UPDATE"])], "namespaceSelector": {"matchLabels": {"a": "b"}}}]}, force=True), apply("two", {"webhooks": [hook("b.x.test", **FULL)]}))
seq("webhooks with selectors", "vwc", apply("one", {"webhooks": [hook("a.x.test", namespaceSelector={"matchLabels": {"a": "b"}})]}), apply("two", {"webhooks": [{"name": "a.x.test", "namespaceSelector": {"matchLabels": {"a": "c"}}}]}), apply("one", {"webhooks": [hook("a.x.test")]}))
seq("webhooks updated", "vwc", create("one", {"webhooks": [hook("a.x.test", **FULL), hook("b.x.test", **FULL)]}), put("two", setter(["webhooks", 0, "timeoutSeconds"], 9)), put("three", lambda o: o["webhooks"].reverse()), put("three", lambda o: o["webhooks"].pop()))
seq("webhooks without names", "vwc", apply("one", {"webhooks": [{"clientConfig": {"url": 1}}]}))
seq("webhooks twice", "vwc", apply("one", {"webhooks": [hook("a.x.test"), hook("a.x.test")]}))
seq("webhook match conditions", "vwc", apply("one", {"webhooks": [hook("a.x.test", matchConditions=[{"name": "c", "expression": "true"}])]}), apply("two", {"webhooks": [{"name": "a.x.test", "matchConditions": [{"name": "d", "expression": "true"}]}]}), apply("one", {"webhooks": [hook("a.x.test")]}))

# --- Custom resources
def spec(**kw):
    return {"spec": kw}
P80, P81, U80 = {"port": 80}, {"port": 81, "name": "x"}, {"port": 80, "protocol": "UDP"}
seq("widget created", "widget", create("one", spec(replicas=1, ports=[P80, U80], tags=["b", "a"], labels={"a": "1"}, plain=[{"a": "x"}], free={"x": {"y": [1]}})))
seq("widget applied", "widget", apply("one", spec(replicas=1, ports=[P80, U80], tags=["b", "a"], labels={"a": "1"}, plain=[{"a": "x"}], free={"x": {"y": [1]}, "known": {"a": "1"}}, target="http", selector={"a": "b"}, nested={"one": {"two": "x"}}, embedded={"apiVersion": "v1", "kind": "X", "metadata": {"labels": {"a": "b"}, "finalizers": ["x"]}, "z": 1})))
seq("widget ports by number", "widget", apply("one", spec(ports=[{"port": 443}, {"port": 80}, {"port": 1234567}])), apply("two", spec(ports=[{"port": 1234567, "name": "a"}, {"port": 80, "name": "b"}])), apply("three", spec(ports=[{"port": 1234567, "name": "c"}, {"port": 80, "protocol": "TCP", "name": "d"}])))
seq("widget default key", "widget", apply("one", spec(ports=[{"port": 80, "protocol": "TCP", "name": "a"}])), apply("two", spec(ports=[{"port": 80, "limits": {"rate": 1}}])), apply("one", spec(ports=[{"port": 80}])), apply("one", spec()), apply("two", spec()))
seq("widget duplicate ports", "widget", apply("one", spec(ports=[{"port": 80}, {"port": 80, "protocol": "TCP"}])))
seq("widget duplicate large port", "widget", apply("one", spec(ports=[{"port": 1234567}, {"port": 1234567}])))
seq("widget ports without keys", "widget", apply("one", {"spec": {"ports": [{"name": "a"}]}}), apply("one", {"spec": {"rules": [{"hosts": ["a"]}]}}), apply("one", {"spec": {"rules": ["a"]}}), apply("one", {"spec": {"rules": [None]}}))
seq("widget set", "widget", apply("one", spec(tags=["a", "b"])), apply("two", spec(tags=["c", "b"])), apply("one", spec(tags=["a"])), apply("one", spec(tags=[])), apply("two", spec()))
seq("widget numbers", "widget", apply("one", spec(numbers=[1, 2.5, 10, 1000000])), apply("two", spec(numbers=[10, 3])), apply("one", spec(numbers=[1, 1000000])), apply("two", spec(numbers=[1000000])))
seq("widget strings that need escapes", "widget", apply("one", spec(tags=["<&>", "a\"b", "a\\b", "ü\n", "a b"], labels={"a.b/c d": "1", "<": "x"})), apply("two", spec(tags=["<&>", "a\"b"])))
seq("widget duplicate tags", "widget", apply("one", spec(tags=["a", "a"])))
seq("widget bad set", "widget", apply("one", {"spec": {"tags": [{"a": 1}]}}), apply("one", {"spec": {"tags": [["a"]]}}), apply("one", {"spec": {"tags": [1]}}))
seq("widget undeclared", "widget", apply("one", {"spec": {"nope": 1}}), apply("one", {"spec": {"nested": {"one": {"nope": 1}}}}), apply("one", {"spec": {"ports": [{"port": 1, "nope": 1}]}}), apply("one", {"nope": {}}))
seq("widget wrong types", "widget", apply("one", {"spec": {"replicas": "x"}}), apply("one", {"spec": {"on": 1}}), apply("one", {"spec": {"text": 1.5}}), apply("one", {"spec": {"ports": {"a": 1}}}), apply("one", {"spec": {"nested": []}}), apply("one", {"spec": {"when": {}}}), apply("one", {"spec": {"text": ["a", {"b": None}]}}), apply("one", {"spec": {"replicas": {}}}))
seq("widget atomic map", "widget", apply("one", spec(selector={"a": "1"})), apply("two", spec(selector={"b": "1"})), apply("two", spec(selector={"b": "1"}), force=True), apply("two", spec()))
seq("widget atomic list", "widget", apply("one", spec(plain=[{"a": "1", "b": 1}])), apply("two", spec(plain=[])), apply("two", spec(plain=[]), force=True), apply("two", spec()))
seq("widget map of structs", "widget", apply("one", spec(groups={"x": {"a": "1"}, "y": {"a": "1"}})), apply("two", spec(groups={"x": {"b": "1"}})), apply("one", spec(groups={"y": {"a": "1"}})), apply("two", spec(groups={})), apply("one", spec()))
seq("widget nested", "widget", apply("one", spec(nested={"one": {"two": "x", "three": 1}})), apply("two", spec(nested={"one": {"three": 1}})), apply("one", spec(nested={"one": {}})), apply("one", spec(nested={})), apply("two", spec()))
seq("widget free form", "widget", apply("one", spec(free={"a": {"b": 1, "c": [1, 2]}, "s": "x"})), apply("two", spec(free={"a": {"c": [1, 2], "d": {}}})), apply("one", spec(free={"a": "text"})), apply("one", spec(free={"a": "text"}), force=True), apply("two", spec(free={"a": {"e": None}}), force=True))
seq("widget free form updated", "widget", create("one", spec(free={"a": {"b": 1}, "l": [1]})), merge("two", spec(free={"a": "text"})), merge("three", spec(free={"a": {"c": {}}, "l": None})), merge("four", spec(free={"a": [1]})), merge("five", spec(free={"a": None})))
seq("widget int or string", "widget", apply("one", spec(target=80)), apply("two", spec(target="80")), apply("two", spec(target="80"), force=True), merge("three", spec(target=81)))
seq("widget embedded", "widget", apply("one", spec(embedded={"apiVersion": "v1", "kind": "X", "metadata": {"name": "n", "finalizers": ["a"]}, "data": {"a": 1}})), apply("two", spec(embedded={"apiVersion": "v1", "kind": "X", "metadata": {"finalizers": ["b"]}, "data": {"b": 1}})), apply("one", spec(embedded={"apiVersion": "v1", "kind": "X"})))
seq("widget embedded wrong", "widget", apply("one", spec(embedded={"apiVersion": 1, "kind": "X"})))
seq("widget rules", "widget", apply("one", spec(rules=[{"name": "a", "hosts": ["h"], "paths": [{"path": "/", "to": "x"}]}, {"name": "b"}])), apply("two", spec(rules=[{"name": "a", "hosts": ["i"], "paths": [{"path": "/b", "to": "y"}]}])), apply("one", spec(rules=[{"name": "b"}])), apply("two", spec(rules=[{"name": "a"}])), apply("two", spec()))
seq("widget order of lists", "widget", apply("one", spec(rules=[{"name": n} for n in "abcde"])), apply("two", spec(rules=[{"name": n} for n in "xcyaz"])), apply("three", spec(rules=[{"name": n} for n in "edcb"])), apply("one", spec(rules=[{"name": n} for n in "qe"])))
seq("widget live entries with unowned fields", "widget", apply("one", spec(rules=[{"name": "a", "hosts": ["h"]}])), merge("two", spec(rules=[{"name": "a", "hosts": ["h", "i"]}, {"name": "z"}])), apply("one", spec(rules=[])), apply("one", spec()))
seq("widget updated lists", "widget", create("one", spec(ports=[P80, P81], tags=["a", "b"])), put("two", setter(["spec", "ports", 0, "name"], "n")), put("three", setter(["spec", "tags"], ["b", "c"])), put("three", setter(["spec", "ports"], [dict(P81, limits={"rate": 1, "burst": 2})])), put("two", setter(["spec"], None)), slow=True)
seq("widget updated to empty", "widget", create("one", spec(labels={"a": "1"}, ports=[P80], plain=[{"a": "1"}])), put("two", setter(["spec", "labels"], {})), put("two", setter(["spec", "ports"], [])), put("three", setter(["spec", "plain"], [])), put("three", setter(["spec", "labels"], {"b": "1"})), put("three", setter(["spec", "ports"], [P81])))
seq("widget nulls", "widget", apply("one", spec(labels=None, ports=None, replicas=None, text="x")), apply("one", spec(labels={"a": None}, text=None)), apply("one", {"spec": None}))
seq("widget status", "widget", create("one", dict(spec(replicas=1), status={"phase": "x"})), apply("two", {"status": {"phase": "up", "conditions": [{"type": "A", "status": "True"}]}, "spec": {"replicas": 5}}, sub="status", meta={"labels": {"x": "y"}}), apply("three", {"status": {"conditions": [{"type": "A", "reason": "r"}, {"type": "B"}]}}, sub="status"), put("four", setter(["status", "phase"], "down"), sub="status"), apply("two", {"status": {"phase": "up"}}, sub="status"), apply("two", {"status": {"phase": "up"}}, sub="status", force=True), slow=True)
seq("widget status is not set by the object", "widget", apply("one", dict(spec(replicas=1), status={"phase": "x"})), apply("two", {"status": {"phase": "a"}}, sub="status"), put("three", edits(setter(["status", "phase"], "b"), setter(["spec", "replicas"], 2))), apply("one", dict(spec(replicas=2), status={"phase": "z"})))
seq("widget status takes managers of the live object", "widget", create("one", spec(replicas=1)), put("two", edits(setter(["metadata", "managedFields"], []), setter(["status"], {"phase": "a"})), sub="status"))
seq("widget versions", "widget", apply("one", spec(replicas=1, text="a")), apply("two", spec(text="b"), version="v2"), apply("two", spec(on=True), version="v2"), apply("one", spec(replicas=2), version="v2"), merge("three", spec(replicas=3), version="v2"), apply("one", spec(replicas=4)), slow=True)
seq("widget versions of updates", "widget", create("one", spec(replicas=1, text="a")), merge("one", spec(replicas=2), version="v2"), merge("one", spec(text="c")), apply("two", spec(replicas=5)), apply("two", spec(replicas=5), force=True), apply("two", spec(), version="v2"))
seq("widget of a version that is gone", "widget", create("one", spec(replicas=1)), put("two", edits(setter(["metadata", "managedFields", 0, "apiVersion"], GROUP + "/v7"), setter(["spec", "replicas"], 2))))
seq("widget time as text", "widget", apply("one", spec(when="2020-01-01T00:00:00Z", size=1.5, on=True)), apply("two", spec(when="2020-01-01T00:00:00Z", size=1.50)), apply("two", spec(when="2021-01-01T00:00:00Z", size=2)))
seq("widget size as integer", "widget", apply("one", spec(size=1)), apply("two", spec(size=1.0)), merge("three", spec(size=1)), merge("three", spec(size=2)))
seq("widget before first apply", "widget", create("one", spec(replicas=1, ports=[P80])), put("two", setter(["metadata", "managedFields"], [])), apply("three", spec(replicas=2)), apply("three", spec(replicas=1, text="x")), slow=True)
seq("widget forgets its managers", "widget", create("one", spec(replicas=1, ports=[P80])), put("two", setter(["metadata", "managedFields"], [{}])), merge("two", spec(text="y")), apply("three", spec(replicas=2)), apply("three", spec(replicas=1, text="x")), slow=True)
seq("widget key field changed by an update", "widget", create("one", spec(rules=[{"name": "a", "hosts": ["h"]}])), put("two", setter(["spec", "rules", 0, "name"], "b")), apply("three", spec(rules=[{"name": "a"}, {"name": "b"}])))
seq("widget removed and put back", "widget", apply("one", spec(nested={"one": {"two": "x"}}, labels={"a": "1"})), merge("two", {"spec": None}), apply("one", spec(nested={"one": {"two": "x"}})), slow=True)
seq("widget defaults belong to who creates", "widget", create("one", spec(text="x")), apply("two", spec(mode="auto")), apply("two", spec(mode="manual")))
seq("widget defaults of an applied object", "widget", apply("one", spec(text="x")), apply("two", spec(mode="manual")), apply("two", spec()))

seq("blob created", "blob", create("one", {"a": {"b": {"c": 1}}, "l": [{"x": 1}]}), merge("two", {"a": {"b": {"d": 1}}}), merge("three", {"l": [{"x": 2}]}))
seq("blob applied", "blob", apply("one", {"a": {"b": {"c": 1}}, "l": [{"x": 1}], "e": {}}), apply("two", {"a": {"b": {"d": 1}}, "l": [{"x": 1}]}), apply("one", {"a": {}}), apply("one", {}), apply("two", {"l": []}))
seq("blob metadata is typed", "blob", apply("one", {"x": 1}, meta={"labels": {"a": 1}}), apply("one", {"x": 1}, meta={"finalizers": ["a/b"]}), apply("two", meta={"finalizers": ["a/c"]}))
seq("blob of all kinds", "blob", apply("one", {"t": "x", "n": 1, "f": 1.5, "b": True, "z": None, "m": {"k": "v"}}), apply("two", {"t": {"x": 1}, "n": [1], "m": "x"}, force=True), apply("one", {"t": "x"}), apply("one", {"t": "x"}, force=True))


# --- Random ones
def some(rng, options, most=3):
    return rng.sample(options, rng.randint(0, min(most, len(options))))


def random_spec(rng):
    out = {}
    if rng.random() < .5:
        out["replicas"] = rng.randint(1, 2)
    if rng.random() < .6:
        out["ports"] = [dict({"port": port}, **({"protocol": proto} if proto else {}), **({"name": rng.choice("ab")} if rng.random() < .4 else {}),
                             **({"limits": {"rate": rng.randint(1, 2)}} if rng.random() < .3 else {}))
                        for port, proto in some(rng, [(80, None), (443, "TCP"), (443, "UDP"), (8080, "TCP")])]
    if rng.random() < .6:
        out["rules"] = [dict({"name": name}, **({"hosts": some(rng, list("hij"))} if rng.random() < .5 else {}),
                             **({"paths": [{"path": p, "to": rng.choice("xy")} for p in some(rng, ["/", "/a"])]} if rng.random() < .5 else {}))
                        for name in some(rng, list("abcd"), 4)]
    if rng.random() < .6:
        out["tags"] = some(rng, list("pqrst"), 4)
    if rng.random() < .4:
        out["labels"] = {k: rng.choice("12") for k in some(rng, list("abc"))}
    if rng.random() < .4:
        out["groups"] = {k: {f: rng.choice("12") for f in some(rng, list("ab"))} for k in some(rng, list("xy"))}
    if rng.random() < .3:
        out["selector"] = {k: "1" for k in some(rng, list("ab"))}
    if rng.random() < .3:
        out["nested"] = {"one": rng.choice([{}, {"two": "x"}, {"three": 1}, {"two": "y", "three": 2}])}
    if rng.random() < .4:
        out["free"] = rng.choice([{}, {"a": 1}, {"a": {"b": 1}}, {"a": {"b": 2, "c": [1]}, "known": {"a": "1"}}, {"a": [1]}, {"known": {}}])
    return {"spec": out} if rng.random() < .95 else {}


def random_sequence(number):
    rng = random.Random(number)
    steps = []
    for i in range(rng.randint(3, 6)):
        manager = rng.choice(["one", "two", "three"])
        kind = rng.random()
        if i == 0 and kind < .4:
            steps.append(create(manager, random_spec(rng)))
        elif i > 0 and kind < .25:
            new = random_spec(rng).get("spec", {})
            steps.append(put(manager, setter(["spec"], new)))
        elif i > 0 and kind < .35:
            steps.append(merge(manager, random_spec(rng)))
        else:
            steps.append(apply(manager, random_spec(rng), force=rng.random() < .6))
    seq(f"random {number}", "widget", *steps)


for number in range(80):
    random_sequence(number)


def run(indexed):
    index, sequence = indexed
    kind = KINDS[sequence["kind"]]
    name = f"s{index:03}-{RUN}"
    live, recorded = None, []
    for step in sequence["steps"]:
        if sequence["slow"] and recorded:
            time.sleep(1.1)
        version = step.get("version")
        api = kind["api"] if version is None else GROUP + "/" + version
        path = kind["path"].format(ns=NS)
        if version is not None:
            path = path.replace("/v1/", f"/{version}/")
        url = path + "/" + name + ("/" + step["sub"] if step["sub"] else "")
        query = "?" + "&".join(filter(None, [f"fieldManager={step['manager']}" if step["manager"] else "", "force=true" if step.get("force") else ""]))
        head = {"apiVersion": api, "kind": kind["kind"], "metadata": dict({"name": name}, **({"namespace": NS} if kind["namespaced"] else {}), **(step.get("meta") or {}))}
        if step["op"] == "apply":
            body = dict(head, **step["body"], **({}))
            if step["raw"]:
                body.update(step["raw"])
            code, answer = call("PATCH", url + query, body, "application/apply-patch+yaml")
        elif step["op"] == "create":
            body = dict(head, **step["body"])
            code, answer = call("POST", path + query, body, agent=step["agent"])
        elif step["op"] == "put":
            body = copy.deepcopy(live)
            body["apiVersion"] = api
            step["edit"](body)
            code, answer = call("PUT", url + query, body)
        else:
            body = step["body"]
            code, answer = call("PATCH", url + query, body, "application/merge-patch+json")
        record = dict(op=step["op"], manager=step["manager"], apiVersion=api, subresource=step["sub"], force=bool(step.get("force")), body=body, code=code, answer=answer)
        if step.get("agent"):
            record["agent"] = step["agent"]
        recorded.append(record)
        if code < 300:
            live = answer
        elif live is None and step["op"] != "apply":
            sys.exit(f"{sequence['name']}: {code} {answer}")
    return dict(name=sequence["name"], kind=sequence["kind"], steps=recorded)


def main():
    install()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(run, enumerate(SEQUENCES)))
    kinds = {name: {k: v for k, v in kind.items() if k not in ("path",)} for name, kind in KINDS.items()}
    text = ",\n".join(json.dumps(r, separators=(",", ":"), sort_keys=True, ensure_ascii=False) for r in results)
    print('{"kinds":' + json.dumps(kinds, separators=(",", ":"), sort_keys=True) + ',\n"sequences":[\n' + text + "\n]}")
    for kind in KINDS.values():
        if "schema" in kind:
            call("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + kind["kind"].lower() + "s." + GROUP)


main()
