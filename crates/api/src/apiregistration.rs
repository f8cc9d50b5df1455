//! `apiregistration.k8s.io/v1`: APIServices, which say who serves a group and version: this server or a service.

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::object;
use bailiwick_machinery::strategy::{Context, NameKind, Strategy, any_path_segment_name};
use bailiwick_machinery::table::Column;
use bailiwick_machinery::validation::names::{dns1035_label, dns1123_subdomain};
use bailiwick_machinery::{Resource, Scope};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::columns::{Printer, age, age_column, name_column};
use crate::conditions::timestamp;
use crate::descriptor::{Named, STATUS_VERBS, subresource};
use crate::field_errors::invalid_each;
use crate::fields::{carry_over, flag, integer, list, present, present_mut, put, text};
use crate::webhook_client::{default_service_port, validate_port};

const MAX_GROUP_PRIORITY: i64 = 20_000;
const MAX_VERSION_PRIORITY: i64 = 1000;

const CONDITION_STATUSES: &[&str] = &["True", "False", "Unknown"];

/// The descriptors of the group.
pub fn resources() -> Vec<Resource> {
    let mut services =
        Named { group: "apiregistration.k8s.io", version: "v1", kind: "APIService", plural: "apiservices" }.stored(
            Scope::Cluster,
            ApiService,
            Printer::new(head, row),
        );
    services.categories = vec!["api-extensions".to_owned()];
    services.subresources.push(subresource("status", STATUS_VERBS, ApiServiceStatus));
    vec![services]
}

#[derive(Debug)]
struct ApiService;

impl Strategy for ApiService {
    fn reset_fields(&self) -> &'static [&'static [&'static str]] {
        &[&["status"]]
    }

    fn default(&self, object: &mut Value) {
        if let Some(spec) = present_mut(object, "spec") {
            default_service_port(spec);
        }
    }

    /// What the server serves itself is available at once; the rest when somebody has looked.
    fn prepare_for_create(&self, cx: &Context<'_>, object: &mut Value) {
        let remote = present(object, "spec").is_some_and(|spec| present(spec, "service").is_some());
        let status = if remote {
            Value::Object(Map::new())
        } else {
            json!({"conditions": [{
                "type": "Available",
                "status": "True",
                "lastTransitionTime": timestamp(cx.now),
                "reason": "Local",
                "message": "Local APIServices are always available",
            }]})
        };
        put(object, "status", status);
    }

    fn validate(&self, _cx: &Context<'_>, object: &Value) -> ErrorList {
        validate(object)
    }

    fn prepare_for_update(&self, _cx: &Context<'_>, object: &mut Value, old: &Value) {
        carry_over(object, old, "status");
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

fn validate(object: &Value) -> ErrorList {
    let nothing = Value::Null;
    let spec = present(object, "spec").unwrap_or(&nothing);
    let path = Path::new("spec");
    let (group, version) = (text(spec, "group"), text(spec, "version"));
    let mut errors = validate_name(object::name(object), &format!("{version}.{group}"));
    if group.is_empty() && version != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        errors.push(Error::required(&path.child("group"), detail));
    }
    if !group.is_empty() {
        errors.extend(invalid_each(&path.child("group"), group, dns1123_subdomain(group)));
    }
    errors.extend(invalid_each(&path.child("version"), version, dns1035_label(version)));
    for (name, max) in [("groupPriorityMinimum", MAX_GROUP_PRIORITY), ("versionPriority", MAX_VERSION_PRIORITY)] {
        let priority = integer(spec, name);
        if !(1..=max).contains(&priority) {
            let detail = format!("must be positive and less than {max}");
            errors.push(Error::invalid(&path.child(name), priority, detail));
        }
    }
    let insecure = flag(spec, "insecureSkipTLSVerify");
    let insecure_path = path.child("insecureSkipTLSVerify");
    let bundle = text(spec, "caBundle");
    let Some(service) = present(spec, "service") else {
        if !bundle.is_empty() {
            let shown = format!("{} bytes", base64_decoded_len(bundle));
            let detail = "local APIServices may not have a caBundle";
            errors.push(Error::invalid(&path.child("caBundle"), shown, detail));
        }
        if insecure {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(Error::invalid(&insecure_path, true, detail));
        }
        return errors;
    };
    let service_path = path.child("service");
    for name in ["namespace", "name"] {
        if text(service, name).is_empty() {
            errors.push(Error::required(&service_path.child(name), ""));
        }
    }
    errors.extend(validate_port(integer(service, "port"), &service_path.child("port")));
    if insecure && !bundle.is_empty() {
        errors.push(Error::invalid(&insecure_path, true, "may not be true if caBundle is present"));
    }
    errors
}

/// The name must be `version.group`. Names that cannot stand in a path are reported with the metadata already.
fn validate_name(name: &str, required: &str) -> ErrorList {
    if name.is_empty() || name == required || !any_path_segment_name(name, NameKind::Full).is_empty() {
        return ErrorList::new();
    }
    let detail = format!("must be `spec.version+\".\"+spec.group`: {required:?}");
    vec![Error::invalid(&Path::new("metadata").child("name"), name, detail)]
}

fn base64_decoded_len(encoded: &str) -> usize {
    encoded.trim_end_matches('=').len() * 3 / 4
}

#[derive(Debug)]
struct ApiServiceStatus;

impl Strategy for ApiServiceStatus {
    fn reset_fields(&self) -> &'static [&'static [&'static str]] {
        &[&["spec"], &["metadata"]]
    }

    fn default(&self, object: &mut Value) {
        ApiService.default(object);
    }

    fn prepare_for_update(&self, _cx: &Context<'_>, object: &mut Value, old: &Value) {
        carry_over(object, old, "spec");
        let nothing = Value::Null;
        let old_metadata = old.get("metadata").unwrap_or(&nothing);
        if let Some(metadata) = present_mut(object, "metadata") {
            for name in ["labels", "annotations", "finalizers", "ownerReferences"] {
                carry_over(metadata, old_metadata, name);
            }
        }
    }

    fn validate_update(&self, _cx: &Context<'_>, object: &Value, _old: &Value) -> ErrorList {
        let Some(status) = present(object, "status") else { return ErrorList::new() };
        let path = Path::new("status").child("conditions");
        let conditions = list(status, "conditions").iter().enumerate();
        conditions
            .map(|(index, condition)| (index, text(condition, "status")))
            .filter(|(_, status)| !CONDITION_STATUSES.contains(status))
            .map(|(index, status)| Error::not_supported(&path.index(index).child("status"), status, CONDITION_STATUSES))
            .collect()
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

fn head() -> Vec<Column> {
    vec![
        name_column(),
        Column::new("Service", "string", "service that serves this API, or Local"),
        Column::new("Available", "string", "whether the service can be reached"),
        age_column(),
    ]
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let service = match present(&object["spec"], "service") {
        Some(service) => format!("{}/{}", text(service, "namespace"), text(service, "name")),
        None => "Local".to_owned(),
    };
    let available = list(&object["status"], "conditions").iter().find(|c| text(c, "type") == "Available");
    let available = match available.map(|condition| (text(condition, "status"), text(condition, "reason"))) {
        None => "Unknown".to_owned(),
        Some((status, reason)) if status != "True" && !reason.is_empty() => format!("{status} ({reason})"),
        Some((status, _)) => status.to_owned(),
    };
    vec![json!(object::name(object)), json!(service), json!(available), age(object, now)]
}

#[cfg(test)]
mod tests;
