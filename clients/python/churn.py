"""Holds watches of the Python client to what writers were told: every acknowledged write is seen exactly once and in order,
and what a watcher knows at the end equals a fresh list.

Each writer owns its objects, so that it knows the exact sequence of their changes. Watches are short and resume from the last
resourceVersion, with typed and dynamic clients.

Usage: churn.py KUBECONFIG SECONDS
"""

import random
import sys
import threading
import time
import uuid

import kubernetes
from kubernetes import client, dynamic, watch

WRITERS = 3
NAMES_PER_WRITER = 4
# Watches end after this time and are resumed, so that even a short run resumes some.
WATCH_SECONDS = 2
# How long watchers may take to see the last write.
CATCH_UP_SECONDS = 60
# Controllers put objects of their own into a namespace.
LABELS = {"writer": "churn"}
SELECTOR = "writer=churn"


def config_map(name, value):
    metadata = {"name": name, "labels": LABELS}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}}


class Writer(threading.Thread):
    """Creates, changes and deletes its own objects, and keeps what the server answered."""

    def __init__(self, number, api, resource, namespace, until):
        super().__init__(name=f"writer-{number}", daemon=True)
        self.number, self.api, self.resource, self.namespace, self.until = number, api, resource, namespace, until
        self.random = random.Random(number)
        self.history = {}  # name: [(type, resourceVersion or None)]
        self.alive = set()
        self.error = None

    def run(self):
        try:
            count = 0
            while time.monotonic() < self.until:
                self.step(f"w{self.number}-{self.random.randrange(NAMES_PER_WRITER)}", str(count))
                count += 1
        except Exception as error:  # reported by the main thread
            self.error = error

    def step(self, name, value):
        events = self.history.setdefault(name, [])
        if name not in self.alive:
            created = self.api.create_namespaced_config_map(self.namespace, config_map(name, value))
            events.append(("ADDED", created.metadata.resource_version))
            self.alive.add(name)
            return
        choice = self.random.randrange(4)
        if choice == 0:
            self.api.delete_namespaced_config_map(name, self.namespace)
            events.append(("DELETED", None))
            self.alive.remove(name)
            return
        if choice == 1:
            replaced = self.api.replace_namespaced_config_map(name, self.namespace, config_map(name, value))
            version = replaced.metadata.resource_version
        elif choice == 2:
            patched = self.api.patch_namespaced_config_map(name, self.namespace, {"data": {"value": value}})
            version = patched.metadata.resource_version
        else:
            patched = self.resource.patch(
                body={"metadata": {"annotations": {"value": value}}},
                name=name,
                namespace=self.namespace,
                content_type="application/merge-patch+json",
            )
            version = patched.metadata.resourceVersion
        events.append(("MODIFIED", version))


class Watcher(threading.Thread):
    """Watches from the given resourceVersion until it is stopped, and keeps every event."""

    def __init__(self, form, api, resource, namespace, version):
        super().__init__(name=f"{form} watcher", daemon=True)
        self.form, self.api, self.resource, self.namespace, self.version = form, api, resource, namespace, version
        self.lock = threading.Lock()
        self.events = {}
        self.known = {}
        self.resumed = 0
        self.error = None
        self.stopped = threading.Event()

    def stream(self):
        if self.form == "dynamic":
            events = self.resource.watch(
                namespace=self.namespace,
                label_selector=SELECTOR,
                resource_version=self.version,
                timeout=WATCH_SECONDS,
                watcher=watch.Watch(),
            )
        else:
            events = watch.Watch().stream(
                self.api.list_namespaced_config_map,
                self.namespace,
                label_selector=SELECTOR,
                resource_version=self.version,
                timeout_seconds=WATCH_SECONDS,
                allow_watch_bookmarks=True,
            )
        for event in events:
            yield event["type"], event["raw_object"]

    def run(self):
        try:
            while not self.stopped.is_set():
                for kind, item in self.stream():
                    self.version = item["metadata"]["resourceVersion"]
                    if kind != "BOOKMARK":
                        self.record(kind, item)
                self.resumed += 1
        except Exception as error:
            self.error = error

    def record(self, kind, item):
        name = item["metadata"]["name"]
        with self.lock:
            self.events.setdefault(name, []).append((kind, item["metadata"]["resourceVersion"]))
            if kind == "DELETED":
                self.known.pop(name, None)
            else:
                self.known[name] = without_type(item)

    def problems(self, history, fresh):
        with self.lock:
            found = []
            for name in sorted(set(history) | set(self.events)):
                seen, expected = self.events.get(name, []), history.get(name, [])
                same = len(seen) == len(expected) and all(
                    s[0] == e[0] and e[1] in (None, s[1]) for s, e in zip(seen, expected)
                )
                if not same:
                    found.append(f"{self.name}: {name}:\n  seen     {seen}\n  expected {expected}")
                versions = [int(version) for _, version in seen]
                if versions != sorted(set(versions)):
                    found.append(f"{self.name}: {name}: versions do not increase: {versions}")
            if self.known != fresh:
                found.append(f"{self.name}: knows {sorted(self.known)}, listed {sorted(fresh)}")
            return found


def api_client(kubeconfig):
    # Each thread its own: the client's connection pool has room for as many connections as there are processors.
    return kubernetes.config.new_client_from_config(kubeconfig)


def without_type(item):
    """Lists say apiVersion and kind once for all items, watches in every event."""
    return {key: value for key, value in item.items() if key not in ("apiVersion", "kind")}


def listed(resource, namespace):
    items = resource.get(namespace=namespace, label_selector=SELECTOR).to_dict()["items"]
    return {item["metadata"]["name"]: without_type(item) for item in items}


def main():
    kubeconfig, seconds = sys.argv[1], float(sys.argv[2])
    main_client = api_client(kubeconfig)
    api = client.CoreV1Api(main_client)
    resource = dynamic.DynamicClient(main_client).resources.get(api_version="v1", kind="ConfigMap")
    namespace = f"python-churn-{uuid.uuid4()}"
    api.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=namespace)))
    version = api.list_namespaced_config_map(namespace).metadata.resource_version

    def clients():
        one = api_client(kubeconfig)
        return client.CoreV1Api(one), dynamic.DynamicClient(one).resources.get(api_version="v1", kind="ConfigMap")

    watchers = [Watcher(form, *clients(), namespace, version) for form in ("typed", "dynamic")]
    parts = [clients() for _ in range(WRITERS)]
    until = time.monotonic() + seconds
    writers = [Writer(number, *part, namespace, until) for number, part in enumerate(parts)]
    for thread in watchers + writers:
        thread.start()
    history = {}
    for writer in writers:
        writer.join()
        if writer.error:
            raise writer.error
        history.update(writer.history)
    fresh = listed(resource, namespace)

    deadline = time.monotonic() + CATCH_UP_SECONDS
    while True:
        problems = []
        for watcher in watchers:
            if watcher.error:
                raise watcher.error
            problems += watcher.problems(history, fresh)
        if not problems:
            break
        if time.monotonic() > deadline:
            sys.exit("\n".join(problems))
        time.sleep(0.1)
    for watcher in watchers:
        watcher.stopped.set()
    writes = sum(len(events) for events in history.values())
    print(f"{writes} writes, seen by {len(watchers)} watchers that resumed {[w.resumed for w in watchers]} times, no difference")


main()
