//! Custom resources in two versions with a real conversion webhook over TLS: reads, lists, writes and watches in either
//! version, what happens when the webhook misbehaves, and the migration of what is stored.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bailiwick::{ControlPlane, Running};
use bailiwick_machinery::user::UserInfo;
use bailiwick_testkit::Webhook;
use futures::StreamExt;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::ApiResource;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

/// Far more than anything here takes; only a bug runs into it.
const DEADLINE: Duration = Duration::from_secs(60);

/// A webhook that knows v1 (`spec.size`) and v2 (`spec.dimensions.size`).
struct Converter {
    webhook: Webhook,
    calls: Arc<AtomicUsize>,
    broken: Arc<AtomicBool>,
    /// Whether it answers several objects from last to first.
    backwards: Arc<AtomicBool>,
}

impl Converter {
    fn start() -> Self {
        let (calls, broken) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let backwards = Arc::new(AtomicBool::new(false));
        let (counted, is_broken, is_backwards) = (calls.clone(), broken.clone(), backwards.clone());
        let webhook = Webhook::start(move |asked| {
            counted.fetch_add(1, Ordering::SeqCst);
            let mut answer = convert(&asked.body, is_broken.load(Ordering::SeqCst));
            if is_backwards.load(Ordering::SeqCst) {
                answer["response"]["convertedObjects"].as_array_mut().unwrap().reverse();
            }
            async move { answer.into() }
        });
        Self { webhook: webhook.unwrap(), calls, broken, backwards }
    }
}

fn convert(review: &Value, broken: bool) -> Value {
    let to = review["request"]["desiredAPIVersion"].as_str().unwrap();
    let convert = |object: &Value| {
        let mut object = object.clone();
        object["apiVersion"] = to.into();
        let spec = object["spec"].clone();
        object["spec"] = match to {
            "conv.example.com/v1" => json!({"size": spec["dimensions"]["size"]}),
            _ => json!({"dimensions": {"size": spec["size"]}}),
        };
        object
    };
    let objects: Vec<Value> = review["request"]["objects"].as_array().unwrap().iter().map(convert).collect();
    let result = match broken {
        true => json!({"status": "Failure", "message": "out of order"}),
        false => json!({"status": "Success"}),
    };
    json!({
        "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
        "response": {"uid": review["request"]["uid"], "result": result, "convertedObjects": objects},
    })
}

fn resource(version: &str) -> ApiResource {
    ApiResource {
        group: "conv.example.com".into(),
        version: version.into(),
        api_version: format!("conv.example.com/{version}"),
        kind: "Box".into(),
        plural: "boxes".into(),
    }
}

fn definition(converter: &Converter, storage: &str) -> Value {
    let version = |name: &str, selectable: &str, spec: Value| {
        json!({"name": name, "served": true, "storage": name == storage, "selectableFields": [{"jsonPath": selectable}],
               "schema": {"openAPIV3Schema": {
                   "type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}}})
    };
    let dimensions = json!({"dimensions": {"type": "object", "properties": {"size": {"type": "integer"}}}});
    let client = json!({"url": converter.webhook.url("/convert"), "caBundle": converter.webhook.ca_bundle()});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boxes.conv.example.com"},
        "spec": {
            "group": "conv.example.com", "scope": "Namespaced", "names": {"plural": "boxes", "kind": "Box"},
            "versions": [
                version("v1", ".spec.size", json!({"size": {"type": "integer"}})),
                version("v2", ".spec.dimensions.size", dimensions),
            ],
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"], "clientConfig": client}},
        },
    })
}

struct Plane {
    running: Running,
    client: Client,
    converter: Converter,
    _dir: tempfile::TempDir,
}

impl Plane {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let running = ControlPlane::builder(dir.path()).controllers(&[]).start().await.unwrap();
        let user = UserInfo {
            name: "tester".to_owned(),
            groups: vec![UserInfo::MASTERS.to_owned(), UserInfo::AUTHENTICATED.to_owned()],
            ..UserInfo::default()
        };
        let client = Client::new(running.local_service(user), "default");
        let plane = Self { running, client, converter: Converter::start(), _dir: dir };
        let crd: DynamicObject = serde_json::from_value(definition(&plane.converter, "v1")).unwrap();
        plane.definitions().create(&PostParams::default(), &crd).await.unwrap();
        plane.established().await;
        plane
    }

    fn definitions(&self) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: "apiextensions.k8s.io".into(),
            version: "v1".into(),
            api_version: "apiextensions.k8s.io/v1".into(),
            kind: "CustomResourceDefinition".into(),
            plural: "customresourcedefinitions".into(),
        };
        Api::all_with(self.client.clone(), &resource)
    }

    async fn established(&self) {
        let api = self.definitions();
        let mut events = api.watch(&WatchParams::default(), "0").await.unwrap().boxed();
        while let Some(event) = within(events.next()).await {
            if let WatchEvent::Added(crd) | WatchEvent::Modified(crd) = event.unwrap() {
                let conditions = crd.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
                if conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True") {
                    return;
                }
            }
        }
    }

    /// Stores objects in v2 from now on.
    async fn store_v2(&self) {
        let mut crd = self.definitions().get("boxes.conv.example.com").await.unwrap();
        crd.data["spec"] = definition(&self.converter, "v2")["spec"].clone();
        self.definitions().replace("boxes.conv.example.com", &PostParams::default(), &crd).await.unwrap();
    }

    fn calls(&self) -> usize {
        self.converter.calls.load(Ordering::SeqCst)
    }

    fn boxes(&self, version: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), "default", &resource(version))
    }

    async fn create(&self, version: &str, name: &str, spec: Value) -> DynamicObject {
        let object = json!({
            "apiVersion": format!("conv.example.com/{version}"), "kind": "Box", "metadata": {"name": name}, "spec": spec,
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.boxes(version).create(&PostParams::default(), &object).await.unwrap()
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("the deadline passed")
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_read_and_written_in_either_version() {
    let plane = Plane::start().await;
    let created = plane.create("v2", "a", json!({"dimensions": {"size": 3}})).await;
    assert_eq!(created.data["spec"], json!({"dimensions": {"size": 3}}), "the answer is in the version that was sent");
    assert_eq!(plane.boxes("v1").get("a").await.unwrap().data["spec"], json!({"size": 3}));
    assert_eq!(plane.boxes("v2").get("a").await.unwrap().data["spec"], json!({"dimensions": {"size": 3}}));

    let patch = json!({"spec": {"dimensions": {"size": 4}}});
    let patched = plane.boxes("v2").patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!(patched.data["spec"], json!({"dimensions": {"size": 4}}));
    assert_eq!(plane.boxes("v1").get("a").await.unwrap().data["spec"], json!({"size": 4}));
    plane.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_converted_in_one_call() {
    let plane = Plane::start().await;
    for n in 0..5 {
        plane.create("v1", &format!("b{n}"), json!({"size": n})).await;
    }
    let before = plane.converter.calls.load(Ordering::SeqCst);
    let listed = plane.boxes("v2").list(&ListParams::default()).await.unwrap();
    let sizes: Vec<Value> = listed.items.iter().map(|item| item.data["spec"]["dimensions"]["size"].clone()).collect();
    assert_eq!(sizes, [0, 1, 2, 3, 4].map(Value::from));
    assert_eq!(plane.converter.calls.load(Ordering::SeqCst) - before, 1);
    plane.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_lists_and_the_beginnings_of_watches_are_converted_in_batches() {
    /// What one call converts, and one more.
    const LEN: usize = 501;
    let plane = Plane::start().await;
    let create = |n: usize| {
        let plane = &plane;
        async move { plane.create("v1", &format!("b{n:03}"), json!({"size": n})).await }
    };
    futures::stream::iter(0..LEN).map(create).buffer_unordered(16).collect::<Vec<_>>().await;

    let before = plane.calls();
    let listed = plane.boxes("v2").list(&ListParams::default()).await.unwrap();
    let sizes: Vec<Option<u64>> =
        listed.items.iter().map(|item| item.data["spec"]["dimensions"]["size"].as_u64()).collect();
    assert_eq!(sizes, (0..LEN as u64).map(Some).collect::<Vec<_>>());
    assert_eq!(plane.calls() - before, 2);

    let before = plane.calls();
    let mut events = plane.boxes("v2").watch(&WatchParams::default().disable_bookmarks(), "0").await.unwrap().boxed();
    for n in 0..LEN {
        match within(events.next()).await.expect("an event").unwrap() {
            WatchEvent::Added(object) => assert_eq!(object.data["spec"], json!({"dimensions": {"size": n}})),
            other => panic!("unexpected {other:?}"),
        }
    }
    assert_eq!(plane.calls() - before, 2);
    drop(events);
    plane.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_are_selected_by_as_the_version_asked_for_shows_them() {
    const SELECTOR: &str = "spec.dimensions.size=2";
    let plane = Plane::start().await;
    for n in 0..4 {
        plane.create("v1", &format!("b{n}"), json!({"size": n})).await;
    }
    let selected = ListParams::default().fields(SELECTOR);
    let names = |listed: kube::core::ObjectList<DynamicObject>| {
        listed.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
    };
    assert_eq!(names(plane.boxes("v2").list(&selected).await.unwrap()), ["b2"]);
    let others = ListParams::default().fields("spec.dimensions.size!=2");
    assert_eq!(names(plane.boxes("v2").list(&others).await.unwrap()), ["b0", "b1", "b3"]);
    let stored = ListParams::default().fields("spec.size=2");
    assert_eq!(names(plane.boxes("v1").list(&stored).await.unwrap()), ["b2"]);

    let watched = WatchParams::default().fields(SELECTOR).disable_bookmarks();
    let mut events = plane.boxes("v2").watch(&watched, "0").await.unwrap().boxed();
    let resize = async |name: &str, size: u64| {
        let patch = json!({"spec": {"size": size}});
        plane.boxes("v1").patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    };
    let seen = |event: WatchEvent<DynamicObject>| match event {
        WatchEvent::Added(object) => format!("+{}", object.name_any()),
        WatchEvent::Deleted(object) => format!("-{}", object.name_any()),
        other => panic!("unexpected {other:?}"),
    };
    assert_eq!(seen(within(events.next()).await.expect("an event").unwrap()), "+b2");
    resize("b3", 4).await;
    resize("b3", 2).await;
    resize("b2", 1).await;
    assert_eq!(seen(within(events.next()).await.expect("an event").unwrap()), "+b3");
    assert_eq!(seen(within(events.next()).await.expect("an event").unwrap()), "-b2");
    drop(events);

    plane.boxes("v2").delete_collection(&DeleteParams::default(), &selected).await.unwrap();
    assert_eq!(names(plane.boxes("v1").list(&ListParams::default()).await.unwrap()), ["b0", "b1", "b2"]);
    plane.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_are_selected_by_with_defaults_of_later() {
    let plane = Plane::start().await;
    plane.create("v1", "old", json!({})).await;
    let mut crd = plane.definitions().get("boxes.conv.example.com").await.unwrap();
    let schema = &mut crd.data["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]["properties"]["size"]["default"] = 7.into();
    plane.definitions().replace("boxes.conv.example.com", &PostParams::default(), &crd).await.unwrap();
    let shown = plane.boxes("v1").get("old").await.unwrap();
    assert_eq!(shown.data["spec"], json!({"size": 7}));
    let selected = ListParams::default().fields("spec.size=7");
    for params in [selected.clone(), selected.limit(10)] {
        let listed = plane.boxes("v1").list(&params).await.unwrap();
        assert_eq!(listed.items.len(), 1, "{params:?}");
    }
    let watched = WatchParams::default().fields("spec.size=7").disable_bookmarks();
    let mut events = plane.boxes("v1").watch(&watched, "0").await.unwrap().boxed();
    assert!(matches!(within(events.next()).await, Some(Ok(WatchEvent::Added(_)))));
    drop(events);
    assert!(plane.boxes("v1").list(&ListParams::default().fields("spec.size=")).await.unwrap().items.is_empty());
    plane.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_goes_with_what_is_stored_though_its_webhook_has_gone() {
    let plane = Plane::start().await;
    plane.store_v2().await;
    plane.create("v2", "a", json!({"dimensions": {"size": 1}})).await;
    plane.converter.broken.store(true, Ordering::SeqCst);
    let resource_version = plane.definitions().get("boxes.conv.example.com").await.unwrap().resource_version().unwrap();
    let definitions = plane.definitions();
    let mut events = definitions.watch(&WatchParams::default(), &resource_version).await.unwrap().boxed();
    definitions.delete("boxes.conv.example.com", &DeleteParams::default()).await.unwrap();
    while !matches!(within(events.next()).await.expect("an event").unwrap(), WatchEvent::Deleted(_)) {}
    drop(events);
    plane.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_sees_its_own_version() {
    let plane = Plane::start().await;
    plane.create("v1", "first", json!({"size": 1})).await;
    let mut events = plane.boxes("v2").watch(&WatchParams::default().disable_bookmarks(), "0").await.unwrap().boxed();
    plane.create("v1", "second", json!({"size": 2})).await;
    for (name, size) in [("first", 1), ("second", 2)] {
        match within(events.next()).await.expect("an event").unwrap() {
            WatchEvent::Added(object) => {
                assert_eq!(object.name_any(), name);
                assert_eq!(object.data["spec"], json!({"dimensions": {"size": size}}));
            }
            other => panic!("unexpected {other:?}"),
        }
    }
    drop(events);
    plane.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_webhook_fails_the_request_and_loses_nothing() {
    let plane = Plane::start().await;
    plane.create("v1", "a", json!({"size": 1})).await;
    plane.converter.broken.store(true, Ordering::SeqCst);
    let error = plane.boxes("v2").get("a").await.unwrap_err().to_string();
    assert!(error.contains("conversion webhook for conv.example.com/v1, Kind=Box failed: out of order"), "{error}");
    assert_eq!(plane.boxes("v1").get("a").await.unwrap().data["spec"], json!({"size": 1}), "v1 needs no webhook");
    plane.converter.broken.store(false, Ordering::SeqCst);
    assert_eq!(plane.boxes("v2").get("a").await.unwrap().data["spec"], json!({"dimensions": {"size": 1}}));
    plane.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_confuses_several_objects_is_asked_for_each() {
    let plane = Plane::start().await;
    for (name, size) in [("a", 1), ("b", 2), ("c", 3)] {
        plane.create("v1", name, json!({"size": size})).await;
    }
    plane.converter.backwards.store(true, Ordering::SeqCst);
    let listed = plane.boxes("v2").list(&ListParams::default()).await.unwrap();
    let sizes: Vec<&Value> = listed.items.iter().map(|item| &item.data["spec"]["dimensions"]["size"]).collect();
    assert_eq!(sizes, [1, 2, 3]);
    plane.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_stores_everything_in_the_storage_version() {
    let plane = Plane::start().await;
    for n in 0..3 {
        plane.create("v1", &format!("b{n}"), json!({"size": n})).await;
    }
    plane.store_v2().await;
    let kubeconfig = plane.running.kubeconfig.clone();
    let migrate = tokio::task::spawn_blocking(move || {
        Command::new(env!("CARGO_BIN_EXE_bailiwick"))
            .args(["crd", "migrate", "boxes.conv.example.com", "--kubeconfig"])
            .arg(kubeconfig)
            .output()
            .unwrap()
    });
    let output = within(migrate).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let crd = plane.definitions().get("boxes.conv.example.com").await.unwrap();
    assert_eq!(crd.data["status"]["storedVersions"], json!(["v2"]));
    // Now v2 is what is stored: reading it asks nobody.
    let before = plane.converter.calls.load(Ordering::SeqCst);
    let listed = plane.boxes("v2").list(&ListParams::default()).await.unwrap();
    assert_eq!(listed.items.len(), 3);
    assert_eq!(plane.converter.calls.load(Ordering::SeqCst), before);
    plane.running.stop().await;
}
