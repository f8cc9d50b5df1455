use bailiwick_machinery::field::{Error, Path};
use serde::Deserialize;

use super::*;

#[derive(Serialize, Deserialize)]
struct Shelf {
    metadata: Value,
    spec: Spec,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    boards: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<String>,
}

fn shelves() -> NativeType<Shelf> {
    NativeType::new("library.example.com", "v1", "Shelf")
        .plural("shelves")
        .schema(json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "boards": {"type": "integer"}, "label": {"type": "string"}, "room": {"type": "string"}}},
            "status": {"type": "object", "properties": {"full": {"type": "boolean"}}},
        }}))
        .with_status()
        .typed::<Shelf>()
}

fn served(mut declared: NativeType<Shelf>) -> Resource {
    declared.resources(0).expect("a valid declaration").remove(0)
}

fn cx() -> (Timestamp, UserInfo) {
    (Timestamp::UNIX_EPOCH, UserInfo::default())
}

#[test]
fn a_declaration_becomes_a_descriptor() {
    let resource = served(shelves());
    assert_eq!((resource.plural.as_str(), resource.list_kind.as_str()), ("shelves", "ShelfList"));
    assert!(resource.subresource("status").is_some());
    assert_eq!(resource.custom.as_ref().map(|custom| custom.declaration), Some(Declaration::Compiled));
}

#[test]
fn a_declaration_with_faults_is_refused_with_their_paths() {
    let wrong = NativeType::new("library.example.com", "v1", "Shelf").schema(json!({"type": "nothing"}));
    let mut wrong = wrong.plural("Shelves");
    let text = wrong.resources(0).unwrap_err().to_string();
    assert!(text.starts_with("native type Shelves.library.example.com: "), "{text}");
    assert!(text.contains("spec.names.plural"), "{text}");
}

#[test]
fn hooks_change_what_they_know_and_leave_the_rest() {
    let resource = served(shelves().default(|shelf| {
        shelf.spec.boards = 5;
        shelf.spec.label = None;
        shelf.metadata["labels"] = json!({"checked": "yes"});
        shelf.metadata["name"] = "other".into();
    }));
    let mut object = json!({"apiVersion": "library.example.com/v1", "kind": "Shelf", "metadata": {"name": "a"},
        "spec": {"boards": 2, "label": "x", "room": "attic"}, "status": {"full": true}});
    resource.strategy.default(&mut object);
    assert_eq!(
        object,
        json!({"apiVersion": "library.example.com/v1", "kind": "Shelf",
            "metadata": {"name": "a", "labels": {"checked": "yes"}},
            "spec": {"boards": 5, "room": "attic"}, "status": {"full": true}})
    );
}

#[test]
fn the_callers_rules_come_after_those_of_the_schema() {
    let resource = served(shelves().validate(|_, shelf| {
        let boards = Path::new("spec").child("boards");
        if shelf.spec.boards > 9 { vec![Error::invalid(&boards, shelf.spec.boards, "too high")] } else { Vec::new() }
    }));
    let (now, user) = cx();
    let cx = Context { now, user: &user, warnings: None };
    let errors = |spec: Value| {
        let object = json!({"metadata": {"name": "a"}, "spec": spec});
        resource.strategy.validate(&cx, &object).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(errors(json!({"boards": 3})), [""; 0]);
    assert_eq!(errors(json!({"boards": 10})), ["spec.boards: Invalid value: 10: too high"]);
    assert!(errors(json!({"boards": "many"}))[0].contains("must be of type integer"));
}

#[test]
fn status_has_rules_of_its_own() {
    let refuse = |text: &'static str| move || vec![Error::forbidden(&Path::new("status"), text)];
    let (on_object, on_status) = (refuse("object"), refuse("status"));
    let resource = served(shelves().validate(move |_, _| on_object()).validate_status(move |_, _, _| on_status()));
    let (now, user) = cx();
    let cx = Context { now, user: &user, warnings: None };
    let object = json!({"metadata": {"name": "a"}, "spec": {"boards": 1}});
    let status = &resource.subresource("status").expect("a status").strategy;
    let details = |errors: ErrorList| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("");
    assert!(details(resource.strategy.validate_update(&cx, &object, &object)).ends_with("object"));
    assert!(details(status.validate_update(&cx, &object, &object)).ends_with("status"));
}

#[test]
fn computed_columns_come_last() {
    let resource = served(shelves().column("Boards", "integer", ".spec.boards").computed_column(
        "Size",
        "string",
        "How large it is",
        |shelf| if shelf.spec.boards > 3 { "large".into() } else { "small".into() },
    ));
    let names: Vec<String> = resource.table.columns().into_iter().map(|column| column.name).collect();
    assert_eq!(names, ["Name", "Boards", "Size"]);
    let object = json!({"metadata": {"name": "a"}, "spec": {"boards": 4}});
    assert_eq!(resource.table.cells(&object, Timestamp::UNIX_EPOCH), [json!("a"), json!(4), json!("large")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_of_what_is_compiled_in_is_refused() {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use kube::api::{DynamicObject, PostParams};

    let dir = tempfile::tempdir().unwrap();
    let running = crate::ControlPlane::builder(dir.path()).native_type(shelves()).start().await.unwrap();
    let client = kube::Client::new(running.local_service(crate::bootstrap::own_user()), "default");
    let definitions: kube::Api<CustomResourceDefinition> = kube::Api::all(client.clone());
    let definition = |plural: &str, kind: &str| {
        let definition = json!({"metadata": {"name": format!("{plural}.library.example.com")}, "spec": {
            "group": "library.example.com", "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}],
        }});
        serde_json::from_value::<CustomResourceDefinition>(definition).unwrap()
    };
    let refused = definitions.create(&PostParams::default(), &definition("shelves", "Shelf")).await.unwrap_err();
    assert!(refused.to_string().contains("the type is compiled into the server"), "{refused}");
    definitions.create(&PostParams::default(), &definition("tables", "Table")).await.unwrap();
    let kind = kube::core::GroupVersionKind::gvk("library.example.com", "v1", "Shelf");
    let resource = kube::core::ApiResource::from_gvk_with_plural(&kind, "shelves");
    let api: kube::Api<DynamicObject> = kube::Api::namespaced_with(client, "default", &resource);
    let shelf = json!({"apiVersion": "library.example.com/v1", "kind": "Shelf", "metadata": {"name": "oak"},
        "spec": {"boards": 3, "wheels": 4}});
    let kept = api.create(&PostParams::default(), &serde_json::from_value(shelf).unwrap()).await.unwrap();
    assert_eq!(kept.data["spec"], json!({"boards": 3}), "its schema has no wheels");
    running.stop().await;
}
