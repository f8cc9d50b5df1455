//! Replays what a kube-apiserver was seen to do (`testdata/record_apply.py`): each step starts from the object the real
//! server answered with, and must end with the same managers, the same times, and the same errors.

use std::collections::BTreeMap;
use std::sync::Arc;

use bailiwick_merge::apply::{
    ApplyError, FieldManager, Force, ResetFields, TypeRef, VersionConverter, manager_of_user_agent,
    revert_managed_times,
};
use bailiwick_merge::merge_patch;
use bailiwick_schema::decode::decode_value;
use bailiwick_schema::structural::{self, Schema};
use bailiwick_schema::time::{Instant, Precision, parse};
use bailiwick_schema::types::{Type, Types};
use serde_json::{Value, json};

const RECORDED: &str = include_str!("../../testdata/apply.recorded.json");

/// Fields to look at besides `managedFields`; others the server sets itself.
const METADATA: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];

struct Kind {
    native: Option<&'static Type>,
    schema: Option<Arc<Schema>>,
    compares_objects: bool,
    recorded: Value,
}

impl Kind {
    fn types(&self) -> TypeRef<'_> {
        match (&self.native, &self.schema) {
            (Some(ty), _) => TypeRef::native(ty),
            (_, Some(schema)) => TypeRef::custom(schema),
            _ => TypeRef::deduced(),
        }
    }

    /// The object as the server holds it once it has read a request.
    fn decoded(&self, object: &Value) -> Value {
        let forgets_managers = object["metadata"]["managedFields"].as_array().is_some_and(Vec::is_empty);
        let mut decoded = match (self.native, &self.schema) {
            (Some(ty), _) => decode_value(ty, object).expect("recorded bodies decode").value,
            (_, Some(schema)) => {
                let mut object = object.clone();
                structural::default(&mut object, schema);
                object
            }
            _ => object.clone(),
        };
        // Typed decoding leaves out empty lists, custom resources lose them on the way through typed metadata; but a native
        // object that comes with an empty list of managers says that they are to be forgotten.
        if forgets_managers && self.native.is_some() {
            decoded["metadata"]["managedFields"] = json!([]);
        } else if forgets_managers && let Some(metadata) = decoded["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        // The one default of the native kinds recorded here.
        if decoded["kind"] == "Namespace" {
            let name = decoded["metadata"]["name"].clone();
            decoded["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
        }
        decoded
    }

    fn reset(&self, api_version: &str, subresource: &str) -> ResetFields {
        let paths: Vec<Vec<&str>> = self.recorded["reset"][subresource]
            .as_array()
            .map(|paths| paths.iter().map(strings).collect())
            .unwrap_or_default();
        let paths: Vec<&[&str]> = paths.iter().map(Vec::as_slice).collect();
        ResetFields::of(api_version, &paths)
    }
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().map(|list| list.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

struct Versions<'a>(&'a Kind);

impl VersionConverter for Versions<'_> {
    fn types(&self, api_version: &str) -> Option<TypeRef<'_>> {
        // Only custom resources have versions here, and for them an unknown one is an error, not a version that is gone.
        self.0.schema.is_some().then(|| {
            let _ = api_version;
            self.0.types()
        })
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let version = api_version.rsplit('/').next().unwrap_or_default();
        if !strings(&self.0.recorded["versions"]).contains(&version) {
            return Err(format!("request to convert CR to an invalid group/version: {api_version}"));
        }
        let mut object = object.clone();
        object["apiVersion"] = json!(api_version);
        Ok(object)
    }
}

fn kinds(recorded: &Value) -> BTreeMap<String, Kind> {
    let kinds = recorded["kinds"].as_object().expect("kinds");
    let kind = |(name, kind): (&String, &Value)| {
        let (api_version, kind_name) = (kind["api"].as_str().expect("api"), kind["kind"].as_str().expect("kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let schema = kind.get("schema").map(|schema| structural::compile(schema).expect("a structural schema"));
        let kind = Kind {
            native: Types::native().by_gvk(group, version, kind_name),
            schema,
            compares_objects: kind.get("compare_object").and_then(Value::as_bool).unwrap_or(true),
            recorded: kind.clone(),
        };
        (name.clone(), kind)
    };
    kinds.iter().map(kind).collect()
}

/// A time that stands out if it is used where it should not be.
const FAR_AWAY: Instant = Instant { unix_seconds: 4_000_000_000, nanoseconds: 0 };

/// The time the server must have seen: the newest in its answer, if that is newer than all it had before.
fn time_of(answer: &Value, live: Option<&Value>) -> Instant {
    let newest = |object: &Value| {
        let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let times = entries.iter().filter_map(|entry| parse(entry["time"].as_str()?, Precision::Seconds).ok());
        times.max()
    };
    match (newest(answer), live.and_then(newest)) {
        (Some(now), before) if before.is_none_or(|before| now >= before) => now,
        _ => FAR_AWAY,
    }
}

#[test]
fn every_recorded_write_ends_as_the_reference_did() {
    let recorded: Value = serde_json::from_str(RECORDED).expect("the recording is JSON");
    let kinds = kinds(&recorded);
    let sequences = recorded["sequences"].as_array().expect("sequences");
    assert!(sequences.len() >= 120, "only {} sequences", sequences.len());
    let mut failures = Vec::new();
    for sequence in sequences {
        let kind = &kinds[sequence["kind"].as_str().expect("kind")];
        let mut live: Option<Value> = None;
        for (i, step) in sequence["steps"].as_array().expect("steps").iter().enumerate() {
            if let Err(difference) = replay(kind, step, live.as_ref()) {
                failures.push(format!("{} step {i}: {difference}", sequence["name"]));
            }
            if step["code"].as_u64().is_some_and(|code| code < 300) {
                live = Some(step["answer"].clone());
            }
        }
    }
    assert!(failures.is_empty(), "{} differences:\n{}", failures.len(), failures.join("\n"));
}

fn replay(kind: &Kind, step: &Value, live: Option<&Value>) -> Result<(), String> {
    let text = |name: &str| step[name].as_str().unwrap_or_default();
    let (api_version, subresource) = (text("apiVersion"), text("subresource"));
    let code = step["code"].as_u64().expect("code");
    if code >= 300 && text("op") != "apply" {
        return Ok(());
    }
    let answer = &step["answer"];
    let live = live.map(|live| {
        let mut live = live.clone();
        live["apiVersion"] = json!(api_version);
        live
    });
    let agent = step.get("agent").and_then(Value::as_str).unwrap_or("Python-urllib/3");
    let manager = step["manager"].as_str().map_or_else(|| manager_of_user_agent(agent), str::to_owned);
    let reset = kind.reset(api_version, subresource);
    let fields = FieldManager {
        types: kind.types(),
        api_version,
        kind: kind.recorded["kind"].as_str().expect("kind"),
        subresource,
        reset: &reset,
        converter: &Versions(kind),
    };
    let now = time_of(answer, live.as_ref());
    let body = &step["body"];
    let mut new = match text("op") {
        "create" => {
            let mut new = kind.decoded(body);
            let _ = fields.create(&mut new, &manager, now);
            new
        }
        "put" | "merge" => {
            let live = live.as_ref().expect("an object to update");
            let mut new = if text("op") == "put" { body.clone() } else { merged(live, body) };
            new = kind.decoded(&new);
            let _ = fields.update(live, &mut new, &manager, now);
            new
        }
        _ => {
            let force = if step["force"] == json!(true) { Force::Yes } else { Force::No };
            match (fields.apply(live.as_ref(), body, &manager, force, now), code) {
                (Ok(_), 422) => return Ok(()), // Validation comes later.
                (Ok(applied), 200 | 201) => kind.decoded(&applied.object),
                (Ok(_), _) => return Err(format!("applied, but the reference answered {code}: {}", answer["message"])),
                (Err(error), _) => return same_error(&error, code, answer),
            }
        }
    };
    if let Some(live) = &live {
        revert_managed_times(&mut new, live);
    }
    let (ours, theirs) = (&new["metadata"]["managedFields"], &answer["metadata"]["managedFields"]);
    if ours != theirs {
        return Err(format!("managers differ\n   ours: {ours}\n theirs: {theirs}"));
    }
    if text("op") == "apply" && kind.compares_objects {
        same_object(kind, &new, answer, subresource)?;
    }
    Ok(())
}

fn merged(live: &Value, patch: &Value) -> Value {
    let mut object = live.clone();
    merge_patch(&mut object, patch.clone()).expect("recorded patches apply");
    object
}

fn same_object(kind: &Kind, ours: &Value, theirs: &Value, subresource: &str) -> Result<(), String> {
    let skipped = |name: &str| {
        let resets = kind.recorded["reset"][subresource].as_array().cloned().unwrap_or_default();
        resets.iter().any(|path| path[0] == name) || ["metadata", "apiVersion"].contains(&name)
    };
    let names = ours.as_object().into_iter().chain(theirs.as_object()).flatten().map(|(name, _)| name.as_str());
    for name in names.filter(|name| !skipped(name)) {
        // The server sets these when a namespace is created.
        let set_by_server = theirs["kind"] == "Namespace";
        if ours.get(name) != theirs.get(name) && !set_by_server {
            return Err(format!("{name} differs\n   ours: {}\n theirs: {}", ours[name], theirs[name]));
        }
    }
    for name in METADATA {
        if skipped("metadata") && !subresource.is_empty() {
            continue;
        }
        let set_by_server = theirs["kind"] == "Namespace";
        let (ours, theirs) = (&ours["metadata"][name], &theirs["metadata"][name]);
        if ours != theirs && !set_by_server {
            return Err(format!("metadata.{name} differs\n   ours: {ours}\n theirs: {theirs}"));
        }
    }
    Ok(())
}

fn same_error(error: &ApplyError, code: u64, answer: &Value) -> Result<(), String> {
    let message = answer["message"].as_str().unwrap_or_default();
    let our_code = match error {
        ApplyError::Conflict(conflicts) => {
            let mut ours: Vec<_> =
                conflicts.0.iter().map(|conflict| (conflict.message(), conflict.path.clone())).collect();
            let causes = answer["details"]["causes"].as_array().cloned().unwrap_or_default();
            let text = |cause: &Value, name: &str| cause[name].as_str().unwrap_or_default().to_owned();
            let mut theirs: Vec<_> =
                causes.iter().map(|cause| (text(cause, "message"), text(cause, "field"))).collect();
            ours.sort();
            theirs.sort();
            if ours != theirs {
                return Err(format!("conflicts differ\n   ours: {ours:?}\n theirs: {theirs:?}"));
            }
            409
        }
        ApplyError::BadRequest(_) => 400,
        ApplyError::Unforeseen(_) => 500,
    };
    // Go walks maps in any order, and so lists errors.
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    if our_code != code || sorted(&error.to_string()) != sorted(message) {
        return Err(format!("errors differ\n   ours: {our_code} {error}\n theirs: {code} {message}"));
    }
    Ok(())
}
