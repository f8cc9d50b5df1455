//! Changes to documents in the places that rules look at, and the ways in which a catalog can be written down.

use std::path::Path;

use rand::Rng as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};

/// What a text may become.
const TEXTS: [&str; 34] = [
    "",
    " ",
    "foo",
    "bar",
    "a",
    "b",
    "foo.v1.0.0",
    "foo.v1.1.0",
    "foo.v1.2.0",
    "bar.v0.1.0",
    "1.0.0",
    "1.1.0",
    "v1.1.0",
    "01.0.0",
    "1.0",
    "1.0.0-rc.1",
    "1.0.0-rc.01",
    "1.0.0+build.5",
    "1.0.0+b_",
    "99999999999999999999.0.0",
    ">=1.0.0 <",
    ">=1.0.0 <2.0.0",
    "<1.0.0 || >2.0.0",
    "!1.0.0 1.x",
    "olm.package",
    "olm.channel",
    "olm.bundle",
    "olm.gvk",
    "Foo_Bar",
    "dotted.name",
    "quay.io/x y",
    "quay.io/test/foo@sha256:00",
    "localhost:5000/a/b:c@sha256:0000000000000000000000000000000000000000000000000000000000000000",
    "ü\u{2028}\"<&>\\\u{7}",
];

/// What anything may become.
fn odd_value(rng: &mut StdRng) -> Value {
    match rng.random_range(0..14) {
        0 => json!(5),
        1 => json!(-1.5),
        2 => json!(1e21),
        3 => json!(0.00001),
        4 => json!(9007199254740993i64),
        5 => json!(true),
        6 => Value::Null,
        7 => json!({}),
        8 => json!([]),
        9 => json!(["a", 1]),
        10 => json!({"name": "foo.v1.0.0"}),
        11 => json!([{"name": "foo.v1.0.0"}]),
        12 => json!({"schema": "olm.bundle", "name": "foo.v1.0.0"}),
        _ => json!([null]),
    }
}

fn any<'t>(texts: &[&'t str], rng: &mut StdRng) -> &'t str {
    texts[rng.random_range(0..texts.len())]
}

/// All places in a document.
fn places(value: &Value, path: String, out: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
            out.push(path.clone());
            places(value, path, out);
        }),
        Value::Array(items) => items.iter().enumerate().for_each(|(i, value)| {
            out.push(format!("{path}/{i}"));
            places(value, format!("{path}/{i}"), out);
        }),
        _ => {}
    }
}

fn in_another_case(key: &str, rng: &mut StdRng) -> String {
    match rng.random_range(0..3) {
        0 => key.to_uppercase(),
        1 => key.chars().take(1).flat_map(char::to_uppercase).chain(key.chars().skip(1)).collect(),
        _ => key.to_lowercase(),
    }
}

/// Changes one place of a document.
pub fn change(document: &mut Value, rng: &mut StdRng) {
    let mut found = Vec::new();
    places(document, String::new(), &mut found);
    if found.is_empty() {
        return;
    }
    let place = found[rng.random_range(0..found.len())].clone();
    let copied = document.pointer(&found[rng.random_range(0..found.len())]).cloned().unwrap();
    let (parent, key) = place.rsplit_once('/').unwrap();
    let choice = rng.random_range(0..20);
    let Some(parent) = document.pointer_mut(parent) else { return };
    match parent {
        Value::Object(fields) => match choice {
            0..=2 => {
                fields.remove(key);
            }
            3 => {
                let value = fields.remove(key).unwrap_or_default();
                fields.insert(in_another_case(key, rng), value);
            }
            4 => {
                fields.insert(in_another_case(key, rng), copied);
            }
            5 => {
                fields.insert("unknown".to_owned(), copied);
            }
            6..=7 => {
                fields.insert(key.to_owned(), odd_value(rng));
            }
            8 => {
                fields.insert(key.to_owned(), copied);
            }
            _ => change_text(fields.get_mut(key), rng),
        },
        Value::Array(items) => {
            let at: usize = key.parse().unwrap();
            match choice {
                0..=2 => {
                    items.remove(at);
                }
                3..=5 => {
                    let copy = items[at].clone();
                    items.push(copy);
                }
                6 => items[at] = odd_value(rng),
                7 => items[at] = copied,
                8 => items.reverse(),
                _ => change_text(items.get_mut(at), rng),
            }
        }
        _ => {}
    }
}

fn change_text(slot: Option<&mut Value>, rng: &mut StdRng) {
    if let Some(slot) = slot
        && (slot.is_string() || rng.random_bool(0.2))
    {
        *slot = json!(any(&TEXTS, rng));
    }
}

/// Documents that do not belong there.
fn odd_document(rng: &mut StdRng) -> Value {
    match rng.random_range(0..9) {
        0 => json!({"schema": ""}),
        1 => json!({"name": "x", "package": "foo"}),
        2 => json!({"schema": "custom.schema", "package": "foo", "name": "x", "anything": [1, {"b": null}]}),
        3 => json!({"schema": 5, "name": "x"}),
        4 => json!({"Schema": "olm.package", "Name": "baz", "DefaultChannel": "a"}),
        5 => json!({"schema": "olm.channel", "package": "nobody", "name": "a", "entries": []}),
        6 => json!({"schema": "olm.package", "name": "p".repeat(64)}),
        7 => json!({"schema": "olm.deprecations", "package": "foo", "entries": [
            {"reference": {"schema": "olm.channel", "name": "b"}, "message": "gone"},
            {"reference": {"schema": "olm.package"}, "message": ""},
        ]}),
        _ => json!({"schema": "custom", "package": {"a": 1e21}}),
    }
}

/// Changes one document, or the list of them.
pub fn mutate(documents: &mut Vec<Value>, rng: &mut StdRng) {
    if documents.is_empty() {
        return;
    }
    let at = rng.random_range(0..documents.len());
    match rng.random_range(0..24) {
        0 => {
            documents.remove(at);
        }
        1 => {
            let copy = documents[at].clone();
            documents.push(copy);
        }
        2 => documents.insert(at, odd_document(rng)),
        3 => documents.reverse(),
        _ => change(&mut documents[at], rng),
    }
}

fn bundle(package: &str, version: &str) -> Value {
    json!({
        "schema": "olm.bundle", "package": package, "name": format!("{package}.v{version}"),
        "image": format!("quay.io/test/{package}:v{version}"),
        "properties": [
            {"type": "olm.package", "value": {"packageName": package, "version": version}},
            {"type": "olm.gvk", "value": {"group": "g", "version": "v1", "kind": "K"}},
        ],
        "relatedImages": [{"name": "op", "image": "quay.io/test/op:v1"}],
    })
}

/// A catalog of one package.
pub fn valid() -> Vec<Value> {
    vec![
        json!({"schema": "olm.package", "name": "foo", "defaultChannel": "a"}),
        json!({"schema": "olm.channel", "package": "foo", "name": "a", "entries": [
            {"name": "foo.v1.0.0"},
            {"name": "foo.v1.1.0", "replaces": "foo.v1.0.0", "skips": ["foo.v1.0.5"], "skipRange": "<1.1.0"},
            {"name": "foo.v1.2.0", "replaces": "foo.v1.1.0"},
        ]}),
        json!({"schema": "olm.channel", "package": "foo", "name": "b", "entries": [{"name": "foo.v1.2.0"}]}),
        bundle("foo", "1.0.0"),
        bundle("foo", "1.1.0"),
        bundle("foo", "1.2.0"),
        json!({"schema": "olm.deprecations", "package": "foo", "entries": [
            {"reference": {"schema": "olm.bundle", "name": "foo.v1.0.0"}, "message": "old"},
        ]}),
    ]
}

/// A second package with everything that the first does not have.
fn second() -> Vec<Value> {
    let mut with_manifests = bundle("bar", "0.1.0");
    with_manifests["image"] = json!("");
    // `kind: ClusterServiceVersion`, `spec: {displayName: Bar}`; and a ConfigMap as JSON.
    with_manifests["properties"].as_array_mut().unwrap().extend([
        json!({"type": "olm.bundle.object", "value": {"data":
            "a2luZDogQ2x1c3RlclNlcnZpY2VWZXJzaW9uCnNwZWM6IHtkaXNwbGF5TmFtZTogQmFyfQo="}}),
        json!({"type": "olm.bundle.object", "value": {"data": "eyJraW5kIjoiQ29uZmlnTWFwIn0="}}),
        json!({"type": "olm.package.required", "value": {"packageName": "foo", "versionRange": ">=1.0.0"}}),
        json!({"type": "olm.gvk.required", "value": {"group": "g", "version": "v1", "kind": "K"}}),
        json!({"type": "custom", "value": {"a": [1, 2.5, null]}}),
    ]);
    let mut with_release = bundle("bar", "0.2.0");
    with_release["name"] = json!("bar-v0.2.0-1");
    with_release["properties"][0]["value"]["release"] = json!("1");
    with_release["properties"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "olm.csv.metadata", "value": {"displayName": "Bar", "minKubeVersion": "1.20.0",
            "annotations": {"a": "b"}, "provider": {"name": "p"}, "maintainers": [{"name": "m", "email": "e"}]}}));
    vec![
        json!({"schema": "olm.package", "name": "bar", "defaultChannel": "stable", "description": "all of bar",
            "icon": {"base64data": "PHN2Zy8+", "mediatype": "image/svg+xml"},
            "properties": [{"type": "x", "value": "y"}]}),
        json!({"schema": "olm.channel", "package": "bar", "name": "stable", "entries": [
            {"name": "bar-v0.2.0-1", "replaces": "bar.v0.1.0"}, {"name": "bar.v0.1.0", "replaces": "bar.v0.0.9"},
        ], "properties": [{"type": "x", "value": {}}]}),
        with_manifests,
        with_release,
        json!({"schema": "custom.schema", "package": "bar", "name": "x", "any": {"thing": [1, true]}}),
    ]
}

/// A valid catalog with some changes, most of the time few.
pub fn mutated_catalog(rng: &mut StdRng) -> Vec<Value> {
    let mut documents = valid();
    if rng.random_bool(0.4) {
        documents.extend(second());
    }
    let changes = [0, 1, 1, 1, 1, 2, 2, 3][rng.random_range(0..8)];
    for _ in 0..changes {
        mutate(&mut documents, rng);
    }
    documents
}

/// A document in one of the forms that people write.
pub fn written(document: &Value, rng: &mut StdRng) -> String {
    match rng.random_range(0..3) {
        0 => format!("{document}\n"),
        1 => format!("{}\n", serde_json::to_string_pretty(document).unwrap()),
        _ => bailiwick_machinery::yaml::encode(document),
    }
}

/// Writes a catalog into a directory: one stream of JSON or YAML, or a file for each document. Returns its text.
pub fn write(documents: &[Value], root: &Path, rng: &mut StdRng) -> String {
    let form = rng.random_range(0..4);
    let mut files: Vec<(String, String)> = Vec::new();
    match form {
        0 => files.push(("catalog.json".to_owned(), documents.iter().map(|it| format!("{it}\n")).collect())),
        1 => {
            let texts = documents.iter().map(|it| format!("---\n{}", bailiwick_machinery::yaml::encode(it)));
            files.push(("catalog.yaml".to_owned(), texts.collect()));
        }
        2 => {
            let pretty = documents.iter().map(|it| serde_json::to_string_pretty(it).unwrap());
            files.push(("catalog".to_owned(), pretty.collect()));
        }
        _ => {
            for (i, document) in documents.iter().enumerate() {
                let folder = ["", "sub/", "sub/deep/", "other/"][rng.random_range(0..4)];
                let end = ["json", "yaml", "yml", "txt"][rng.random_range(0..4)];
                files.push((format!("{folder}{i}.{end}"), written(document, rng)));
            }
            match rng.random_range(0..6) {
                0 => files.push((".indexignore".to_owned(), "sub\n!sub/deep\n*.txt\n".to_owned())),
                1 => files.push(("sub/.indexignore".to_owned(), "/1.*\n**/deep/*.yaml\n".to_owned())),
                2 => files.push(("empty.yaml".to_owned(), "# nothing\n---\n".to_owned())),
                _ => {}
            }
        }
    }
    let mut all = String::new();
    for (name, text) in files {
        let path = root.join(&name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, &text).unwrap();
        all.push_str(&format!("# {name}\n{text}\n"));
    }
    all
}
