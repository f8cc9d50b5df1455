//! `certificates.k8s.io/v1`: certificate signing requests. What is asked for is fixed on creation together with who
//! asked; approval and status then have subresources, and rules, of their own.

mod pem;
mod validation;
mod x509;

use bailiwick_machinery::field::ErrorList;
use bailiwick_machinery::resource::SelectableField;
use bailiwick_machinery::strategy::{Context, Strategy};
use bailiwick_machinery::table::Column;
use bailiwick_machinery::{Resource, Scope, object};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::{CertificateSigningRequestSpec, CertificateSigningRequestStatus};
use serde_json::{Map, Value, json};

use crate::columns::{Printer, age, age_column, description, human_duration, name_column};
use crate::conditions::timestamp;
use crate::descriptor::{Named, STATUS_VERBS, subresource};
use crate::fields::{carry_over, each_mut, list, optional_integer, present_mut, put, set_default, text};
use validation::Via;

/// The organizations that a request (`spec.request`) asks for: groups of the certificate's holder.
pub fn requested_organizations(request: &str) -> Result<Vec<String>, String> {
    x509::organizations(request)
}

/// The descriptors of the group.
pub fn resources() -> Vec<Resource> {
    let mut requests = Named {
        group: "certificates.k8s.io",
        version: "v1",
        kind: "CertificateSigningRequest",
        plural: "certificatesigningrequests",
    }
    .stored(Scope::Cluster, SigningRequest(Via::Main), Printer::new(head, row));
    requests.short_names = vec!["csr".to_owned()];
    requests.selectable_fields = vec![SelectableField::at("spec.signerName")];
    requests.subresources = vec![
        subresource("approval", STATUS_VERBS, SigningRequest(Via::Approval)),
        subresource("status", STATUS_VERBS, SigningRequest(Via::Status)),
    ];
    vec![requests]
}

#[derive(Debug)]
struct SigningRequest(Via);

impl Strategy for SigningRequest {
    fn reset_fields(&self) -> &'static [&'static [&'static str]] {
        match self.0 {
            Via::Main => &[&["spec"], &["status"]],
            Via::Status => &[&["spec"], &["status", "conditions"]],
            Via::Approval => &[&["spec"], &["status", "certificate"]],
        }
    }

    /// The server, not the client, says who asks.
    fn prepare_for_create(&self, cx: &Context<'_>, object: &mut Value) {
        if let Some(spec) = present_mut(object, "spec").and_then(Value::as_object_mut) {
            for name in ["username", "uid", "groups", "extra"] {
                spec.remove(name);
            }
            let mut put = |name: &str, value: Value, absent: bool| {
                if !absent {
                    spec.insert(name.to_owned(), value);
                }
            };
            let user = cx.user;
            put("username", json!(user.name), user.name.is_empty());
            put("uid", json!(user.uid), user.uid.is_empty());
            put("groups", json!(user.groups), user.groups.is_empty());
            put("extra", json!(user.extra), user.extra.is_empty());
        }
        put(object, "status", Value::Object(Map::new()));
    }

    fn validate(&self, _cx: &Context<'_>, object: &Value) -> ErrorList {
        validation::validate_create(object)
    }

    fn prepare_for_update(&self, cx: &Context<'_>, object: &mut Value, old: &Value) {
        carry_over(object, old, "spec");
        match self.0 {
            Via::Main => carry_over(object, old, "status"),
            Via::Approval => {
                fill_timestamps(object, old, cx.now);
                let conditions = object["status"].get("conditions").cloned();
                carry_over(object, old, "status");
                set_default(object, "status", || Value::Object(Map::new()));
                let status = present_mut(object, "status").and_then(Value::as_object_mut);
                match (status, conditions) {
                    (Some(status), Some(conditions)) => {
                        status.insert("conditions".to_owned(), conditions);
                    }
                    (Some(status), None) => {
                        status.remove("conditions");
                    }
                    (None, _) => {}
                }
            }
            Via::Status => {
                preserve_conditions(object, old, "Approved");
                preserve_conditions(object, old, "Denied");
                fill_timestamps(object, old, cx.now);
            }
        }
    }

    fn validate_update(&self, _cx: &Context<'_>, object: &Value, old: &Value) -> ErrorList {
        validation::validate_update(object, old, self.0)
    }
}

/// Status updates do not touch conditions of this type: the old ones take the place of the new. When their number
/// differs nothing is done, and validation complains.
fn preserve_conditions(object: &mut Value, old: &Value, kind: &str) {
    let old: Vec<&Value> = list(&old["status"], "conditions").iter().filter(|c| text(c, "type") == kind).collect();
    let Some(status) = present_mut(object, "status") else { return };
    let mut new: Vec<&mut Value> = each_mut(status, "conditions").filter(|c| text(c, "type") == kind).collect();
    if new.len() == old.len() {
        for (new, old) in new.iter_mut().zip(old) {
            **new = old.clone();
        }
    }
}

/// Says when conditions were updated and when they became what they are.
fn fill_timestamps(object: &mut Value, old: &Value, now: Timestamp) {
    let now = timestamp(now);
    let Some(status) = present_mut(object, "status") else { return };
    for condition in each_mut(status, "conditions") {
        set_default(condition, "lastUpdateTime", || now.as_str().into());
        let same = |earlier: &&Value| {
            text(earlier, "type") == text(condition, "type")
                && text(earlier, "status") == text(condition, "status")
                && !text(earlier, "lastTransitionTime").is_empty()
        };
        let since = list(&old["status"], "conditions").iter().find(same);
        let since = since.map_or(now.as_str(), |earlier| text(earlier, "lastTransitionTime"));
        set_default(condition, "lastTransitionTime", || since.into());
    }
}

fn head() -> Vec<Column> {
    vec![
        name_column(),
        age_column(),
        Column::new("SignerName", "string", &description::<CertificateSigningRequestSpec>("signerName")),
        Column::new("Requestor", "string", "user who created the request"),
        Column::new("RequestedDuration", "string", &description::<CertificateSigningRequestSpec>("expirationSeconds")),
        Column::new("Condition", "string", &description::<CertificateSigningRequestStatus>("conditions")),
    ]
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let signer = Some(text(spec, "signerName")).filter(|name| !name.is_empty()).unwrap_or("<none>");
    let duration = match optional_integer(spec, "expirationSeconds") {
        Some(seconds) => human_duration(SignedDuration::from_secs(seconds)),
        None => "<none>".to_owned(),
    };
    vec![
        json!(object::name(object)),
        age(object, now),
        json!(signer),
        json!(text(spec, "username")),
        json!(duration),
        json!(condition_cell(&object["status"])),
    ]
}

fn condition_cell(status: &Value) -> String {
    let has = |kind: &str| list(status, "conditions").iter().any(|condition| text(condition, "type") == kind);
    let mut cell = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if has("Failed") {
        cell.push_str(",Failed");
    }
    if !text(status, "certificate").is_empty() {
        cell.push_str(",Issued");
    }
    cell
}

#[cfg(test)]
mod tests;
