//! What the generated scripts write: members of a custom resource with every type of list and map, and of some native types.
//! Values come from a small stock, so that managers agree and disagree about equally often.

use serde_json::{Map, Value, json};

use super::random::Random;

/// The group of the custom resources.
pub const GROUP: &str = "generated.example.com";

/// A type that scripts write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A custom resource with every type of list and map.
    Thing,
    /// A ConfigMap.
    ConfigMap,
    /// A ServiceAccount, which has a list with keys and an atomic one.
    ServiceAccount,
    /// A ValidatingWebhookConfiguration, which has lists with keys inside one another, and defaults.
    Webhooks,
}

/// Where objects of a type are.
pub struct Resource {
    /// The kind.
    pub kind: &'static str,
    /// The name of the one object that a script writes.
    pub name: &'static str,
    /// The collection, once for each served version.
    pub paths: Vec<Collection>,
}

/// A collection in one version.
#[derive(Clone, Copy)]
pub struct Collection {
    /// The version.
    pub api_version: &'static str,
    /// The path.
    pub collection: &'static str,
}

impl Content {
    /// Every type; the one with the most to go wrong comes most often.
    pub const ALL: [Self; 6] =
        [Self::Thing, Self::Thing, Self::Thing, Self::ConfigMap, Self::ServiceAccount, Self::Webhooks];

    /// Where its objects are.
    pub fn resource(self) -> Resource {
        let at = |api_version, collection| Collection { api_version, collection };
        match self {
            Self::Thing => Resource {
                kind: "Thing",
                name: "a",
                paths: vec![
                    at("generated.example.com/v1", "/apis/generated.example.com/v1/namespaces/{{ns}}/things"),
                    at("generated.example.com/v2", "/apis/generated.example.com/v2/namespaces/{{ns}}/things"),
                ],
            },
            Self::ConfigMap => {
                Resource { kind: "ConfigMap", name: "a", paths: vec![at("v1", "/api/v1/namespaces/{{ns}}/configmaps")] }
            }
            Self::ServiceAccount => Resource {
                kind: "ServiceAccount",
                name: "a",
                paths: vec![at("v1", "/api/v1/namespaces/{{ns}}/serviceaccounts")],
            },
            Self::Webhooks => Resource {
                kind: "ValidatingWebhookConfiguration",
                name: "{{id}}",
                paths: vec![at(
                    "admissionregistration.k8s.io/v1",
                    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
                )],
            },
        }
    }

    /// Whether it is part of the program, so that its lists have keys to merge by in strategic merge patches.
    pub fn is_native(self) -> bool {
        self != Self::Thing
    }

    /// Some members of an object, and directives of strategic merge patches among them.
    pub fn strategic_patch(self, random: &mut Random) -> Value {
        let mut patch = self.members(random);
        let mut metadata = Map::new();
        for (name, make) in random.some(&STRATEGIC_METADATA, 2) {
            metadata.insert(name.to_owned(), make(random));
        }
        if let Some(members) = patch["metadata"].as_object_mut() {
            members.append(&mut metadata);
        }
        let gone = |key: &str, name: &str| json!({key: name, "$patch": "delete"});
        match self {
            Self::Thing => {}
            Self::ConfigMap if random.chance(3) => patch["data"] = random_directive(random),
            Self::ConfigMap if random.chance(3) => patch["$retainKeys"] = json!(random.some(&["data", "metadata"], 2)),
            Self::ConfigMap => {}
            Self::ServiceAccount => {
                let name = random.pick(&["x", "y", "z"]);
                for list in random.some(&["secrets", "imagePullSecrets"], 2) {
                    match (random.below(3), patch[list].as_array_mut()) {
                        (0, Some(elements)) => {
                            elements.retain(|element| element["name"] != name);
                            elements.push(gone("name", name));
                        }
                        (1, Some(elements)) => elements.push(json!({"$patch": "replace"})),
                        (_, None) => patch[list] = json!([gone("name", name)]),
                        _ => {
                            let order: Vec<Value> = ["z", "y", "x"].iter().map(|name| json!({"name": name})).collect();
                            patch[format!("$setElementOrder/{list}")] = json!(order);
                        }
                    }
                }
            }
            Self::Webhooks => {
                let name = random.pick(&["a.example.com", "b.example.com"]);
                if let (true, Some(elements)) = (random.chance(2), patch["webhooks"].as_array_mut()) {
                    elements.retain(|element| element["name"] != name);
                    elements.push(gone("name", name));
                }
            }
        }
        patch
    }

    /// Some members of an object, `metadata` among them.
    pub fn members(self, random: &mut Random) -> Value {
        let mut object = match self {
            Self::Thing => json!({"spec": some_of(&SPEC, 4, random)}),
            Self::ConfigMap => some_of(&CONFIG_MAP, 3, random),
            Self::ServiceAccount => some_of(&SERVICE_ACCOUNT, 3, random),
            Self::Webhooks => json!({"webhooks": webhooks(random)}),
        };
        object["metadata"] = some_of(&METADATA, 1, random);
        object
    }
}

type Maker = fn(&mut Random) -> Value;

const METADATA: [(&str, Maker); 4] =
    [("labels", text_map), ("annotations", text_map), ("finalizers", finalizers), ("ownerReferences", owners)];

const STRATEGIC_METADATA: [(&str, Maker); 4] = [
    ("$deleteFromPrimitiveList/finalizers", finalizers),
    ("$setElementOrder/finalizers", |_| json!(["example.com/c", "example.com/b", "example.com/a"])),
    ("labels", random_directive),
    ("annotations", |random| json!({random.pick(&["k", "l"]): null})),
];

const CONFIG_MAP: [(&str, Maker); 2] = [("data", text_map), ("binaryData", |_| json!({"b": "aGV5"}))];

const SERVICE_ACCOUNT: [(&str, Maker); 3] = [
    ("secrets", |random| keyed(random, &["name"], &["namespace"])),
    ("imagePullSecrets", |random| keyed(random, &["name"], &[])),
    ("automountServiceAccountToken", |random| json!(random.chance(2))),
];

const SPEC: [(&str, Maker); 19] = [
    ("str", text),
    ("num", number),
    ("any", |random| if random.chance(2) { number(random) } else { text(random) }),
    ("maybe", |random| if random.chance(2) { Value::Null } else { text(random) }),
    ("withDefault", text),
    ("nested", |random| some_of(&[("a", text as Maker), ("b", |random| some_of(&LEAVES, 2, random))], 2, random)),
    ("atomicMap", text_map),
    ("atomicStruct", |random| some_of(&LEAVES, 2, random)),
    ("labels", text_map),
    ("deepMap", |random| some_of(&[("x", leaves as Maker), ("y", leaves)], 2, random)),
    ("plainList", set),
    ("set", set),
    ("numSet", |random| json!(random.some(&[1, 2, 3, 10], 3))),
    ("oneKey", |random| keyed(random, &["name"], &["a", "b"])),
    ("twoKeys", two_keys),
    ("free", |random| some_of(&[("x", leaves as Maker), ("y", set), ("z", number)], 2, random)),
    ("partlyFree", |random| some_of(&[("known", text as Maker), ("list", set), ("other", leaves)], 2, random)),
    ("embedded", |random| {
        let data = text_map(random);
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "e", "labels": text_map(random)}, "data": data})
    }),
    ("freeMap", |random| some_of(&[("x", leaves as Maker), ("y", number), ("z", set)], 2, random)),
];

const LEAVES: [(&str, Maker); 2] = [("a", text), ("b", text)];

fn leaves(random: &mut Random) -> Value {
    some_of(&LEAVES, 2, random)
}

fn text(random: &mut Random) -> Value {
    json!(random.pick(&["p", "q"]))
}

fn number(random: &mut Random) -> Value {
    json!(random.pick(&[1, 2]))
}

fn text_map(random: &mut Random) -> Value {
    some_of(&[("k", text as Maker), ("l", text), ("m", text)], 2, random)
}

/// A map that says what is to become of the one that is there.
fn random_directive(random: &mut Random) -> Value {
    let mut map = text_map(random);
    match random.below(3) {
        0 => map["$patch"] = json!("replace"),
        1 => map["$patch"] = json!("delete"),
        _ => map[random.pick(&["k", "l"])] = Value::Null,
    }
    map
}

fn set(random: &mut Random) -> Value {
    json!(random.some(&["a", "b", "c", "d"], 3))
}

fn finalizers(random: &mut Random) -> Value {
    json!(random.some(&["example.com/a", "example.com/b", "example.com/c"], 2))
}

fn owners(random: &mut Random) -> Value {
    let uids = random.some(&["u1", "u2", "u3"], 2);
    let owner = |uid| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": random.pick(&["o", "p"]), "uid": uid});
    Value::Array(uids.into_iter().map(owner).collect())
}

/// Elements with different keys, each with some of the other members.
fn keyed(random: &mut Random, keys: &[&str], others: &[&str]) -> Value {
    let names = random.some(&["x", "y", "z"], 3);
    let element = |name: &str| {
        let mut element = Map::new();
        keys.iter().for_each(|key| drop(element.insert((*key).to_owned(), json!(name))));
        for member in random.some(others, others.len()) {
            element.insert(member.to_owned(), text(random));
        }
        Value::Object(element)
    };
    Value::Array(names.into_iter().map(element).collect())
}

/// Elements whose second key is left to its default at times.
fn two_keys(random: &mut Random) -> Value {
    let pairs = random.some(&[(80, None), (80, Some("UDP")), (443, Some("TCP")), (443, Some("UDP"))], 3);
    let element = |(port, protocol): (i32, Option<&str>)| {
        let mut element = leaves(random);
        element["port"] = json!(port);
        if let Some(protocol) = protocol {
            element["protocol"] = json!(protocol);
        }
        element
    };
    Value::Array(pairs.into_iter().map(element).collect())
}

/// Nothing here is empty: upstream counts an empty list that was none before as a new generation.
fn webhooks(random: &mut Random) -> Value {
    let mut names = random.some(&["a.example.com", "b.example.com", "c.example.com"], 3);
    if names.is_empty() {
        names.push("a.example.com");
    }
    let webhook = |name: &str| {
        let mut webhook = json!({
            "name": name, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://example.com/"},
        });
        if random.chance(2) {
            webhook["timeoutSeconds"] = json!(random.pick(&[5, 10]));
        }
        if random.chance(2) {
            let conditions = random.pick(&[&["c"][..], &["d"], &["c", "d"], &["d", "c"]]);
            let expression = random.pick(&["true", "false"]);
            webhook["matchConditions"] =
                conditions.iter().map(|name| json!({"name": name, "expression": expression})).collect();
        }
        if random.chance(3) {
            webhook["namespaceSelector"] = json!({"matchLabels": {random.pick(&["k", "l"]): text(random)}});
        }
        webhook
    };
    Value::Array(names.into_iter().map(webhook).collect())
}

fn some_of(makers: &[(&str, Maker)], at_most: usize, random: &mut Random) -> Value {
    let mut members = Map::new();
    for (name, make) in random.some(makers, at_most) {
        members.insert(name.to_owned(), make(random));
    }
    Value::Object(members)
}

/// The definition of [`Content::Thing`], in two versions that are alike.
pub fn definition() -> Value {
    let text = json!({"type": "string"});
    let leaves = json!({"a": text, "b": text});
    let texts = json!({"type": "array", "items": text});
    let with = |base: &Value, name: &str, value: Value| {
        let mut changed = base.clone();
        changed[name] = value;
        changed
    };
    let set = with(&texts, "x-kubernetes-list-type", json!("set"));
    let text_map = json!({"type": "object", "additionalProperties": text});
    let object = json!({"type": "object", "properties": leaves});
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let list_map = |keys: Value, required: &str, properties: Value| {
        json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
            "items": {"type": "object", "required": [required], "properties": properties}})
    };
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "str": text, "num": {"type": "integer"}, "any": {"x-kubernetes-int-or-string": true},
        "maybe": {"type": "string", "nullable": true}, "withDefault": {"type": "string", "default": "p"},
        "nested": {"type": "object", "properties": {"a": text, "b": object}},
        "atomicMap": with(&text_map, "x-kubernetes-map-type", json!("atomic")),
        "atomicStruct": with(&object, "x-kubernetes-map-type", json!("atomic")),
        "labels": text_map, "deepMap": {"type": "object", "additionalProperties": object},
        "plainList": texts, "set": set,
        "numSet": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
        "oneKey": list_map(json!(["name"]), "name", json!({"name": text, "a": text, "b": text})),
        "twoKeys": list_map(json!(["port", "protocol"]), "port", json!({
            "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "a": text, "b": text})),
        "free": free, "partlyFree": with(&free, "properties", json!({"known": text, "list": set})),
        "embedded": with(&free, "x-kubernetes-embedded-resource", json!(true)),
        "freeMap": {"type": "object", "additionalProperties": {"x-kubernetes-preserve-unknown-fields": true}},
    }}}});
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}});
    json!({"metadata": {"name": format!("things.{GROUP}")}, "spec": {
        "group": GROUP, "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
        "versions": [version("v1", true), version("v2", false)]}})
}
