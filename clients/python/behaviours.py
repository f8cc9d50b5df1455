"""What people do with the Python client, once each: typed and dynamic clients, paging, patches, watches, errors.

Usage: behaviours.py KUBECONFIG
"""

import sys
import uuid

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError


def equal(got, wanted, what):
    if got != wanted:
        raise AssertionError(f"{what}: expected {wanted!r}, got {got!r}")


def config_map(name, **data):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"name": name, "test": "yes"}), data=data)


def typed_client_pages_through_a_list(api, namespace):
    for n in range(5):
        api.create_namespaced_config_map(namespace, config_map(f"page-{n}", n=str(n)))
    names, token, pages = [], None, 0
    while True:
        page = api.list_namespaced_config_map(namespace, label_selector="test=yes", limit=2, _continue=token)
        names += [item.metadata.name for item in page.items]
        token, pages = page.metadata._continue, pages + 1
        if not token:
            break
    equal(names, [f"page-{n}" for n in range(5)], "names of all pages")
    equal(pages, 3, "pages")


def typed_client_patches_in_every_form(api, namespace):
    api.create_namespaced_config_map(namespace, config_map("patched", a="1"))

    def patch(body, content_type):
        return api.patch_namespaced_config_map("patched", namespace, body, _content_type=content_type).data

    equal(patch({"data": {"b": "2"}}, "application/strategic-merge-patch+json"), {"a": "1", "b": "2"}, "strategic")
    equal(patch({"data": {"a": None}}, "application/merge-patch+json"), {"b": "2"}, "merge")
    operations = [{"op": "test", "path": "/data/b", "value": "2"}, {"op": "replace", "path": "/data/b", "value": "3"}]
    equal(patch(operations, "application/json-patch+json"), {"b": "3"}, "JSON patch")


def typed_client_replaces_and_conflicts(api, namespace):
    first = api.create_namespaced_config_map(namespace, config_map("replaced", a="1"))
    first.data = {"a": "2"}
    second = api.replace_namespaced_config_map("replaced", namespace, first)
    equal(second.data, {"a": "2"}, "the replaced data")
    try:
        api.replace_namespaced_config_map("replaced", namespace, first)
    except ApiException as error:
        equal((error.status, error.reason), (409, "Conflict"), "replacing an old version")
    else:
        raise AssertionError("an old version was replaced")


def typed_client_reads_errors(api, namespace):
    for call, status in [
        (lambda: api.read_namespaced_config_map("absent", namespace), 404),
        (lambda: api.create_namespaced_config_map(namespace, config_map("Bad_Name")), 422),
        (lambda: api.create_namespaced_config_map("absent", config_map("x")), 404),
    ]:
        try:
            call()
        except ApiException as error:
            equal(error.status, status, "status")
            assert '"kind":"Status"' in error.body, error.body
        else:
            raise AssertionError(f"no error {status}")


def watch_reports_what_happens_and_ends_in_time(api, namespace):
    version = api.list_namespaced_config_map(namespace).metadata.resource_version
    api.create_namespaced_config_map(namespace, config_map("watched", a="1"))
    api.patch_namespaced_config_map("watched", namespace, {"data": {"a": "2"}})
    api.delete_namespaced_config_map("watched", namespace)
    events = watch.Watch().stream(
        api.list_namespaced_config_map, namespace, resource_version=version, label_selector="name=watched", timeout_seconds=1
    )
    seen = [(event["type"], event["object"].data["a"]) for event in events]
    equal(seen, [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")], "events")


def dynamic_client_does_every_verb(api_client, namespace):
    api = dynamic.DynamicClient(api_client)
    leases = api.resources.get(api_version="coordination.k8s.io/v1", kind="Lease")
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    created = leases.create(body=body, namespace=namespace)
    equal(created.spec.holderIdentity, "me", "the created lease")
    try:
        leases.create(body=body, namespace=namespace)
    except ConflictError:
        pass
    else:
        raise AssertionError("a lease was created twice")
    patched = leases.patch(
        body={"spec": {"holderIdentity": "you"}}, name="l", namespace=namespace, content_type="application/merge-patch+json"
    )
    equal(patched.spec.holderIdentity, "you", "the patched lease")
    body["metadata"]["resourceVersion"] = patched.metadata.resourceVersion
    equal(leases.replace(body=body, namespace=namespace).spec.holderIdentity, "me", "the replaced lease")
    equal([item.metadata.name for item in leases.get(namespace=namespace).items], ["l"], "the listed leases")
    seen = []
    for event in leases.watch(namespace=namespace, timeout=1):
        seen.append((event["type"], event["object"].metadata.name))
    equal(seen, [("ADDED", "l")], "watched leases")
    leases.delete(name="l", namespace=namespace)
    try:
        leases.get(name="l", namespace=namespace)
    except NotFoundError:
        pass
    else:
        raise AssertionError("the lease is still there")


def dynamic_client_discovers_the_native_types(api_client):
    api = dynamic.DynamicClient(api_client)
    for version, kind in [
        ("v1", "Namespace"),
        ("v1", "Secret"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("certificates.k8s.io/v1", "CertificateSigningRequest"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ]:
        equal(api.resources.get(api_version=version, kind=kind).kind, kind, "discovered kind")


def main():
    config.load_kube_config(sys.argv[1])
    api_client = client.ApiClient()
    api = client.CoreV1Api(api_client)
    checks = [
        typed_client_pages_through_a_list,
        typed_client_patches_in_every_form,
        typed_client_replaces_and_conflicts,
        typed_client_reads_errors,
        watch_reports_what_happens_and_ends_in_time,
    ]
    for check in checks:
        namespace = f"python-{uuid.uuid4()}"
        api.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=namespace)))
        check(api, namespace)
        print("ok", check.__name__)
    namespace = f"python-{uuid.uuid4()}"
    api.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=namespace)))
    dynamic_client_does_every_verb(api_client, namespace)
    print("ok", dynamic_client_does_every_verb.__name__)
    dynamic_client_discovers_the_native_types(api_client)
    print("ok", dynamic_client_discovers_the_native_types.__name__)
    equal(client.VersionApi(api_client).get_code().minor, "36", "the server's minor version")
    print("ok version")


main()
