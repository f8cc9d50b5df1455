//! Leases: who holds a lock and until when. Written often and without ceremony, so PUT may create them, but never
//! blindly overwrites.

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::strategy::NameValidator;
use bailiwick_machinery::table::Column;
use bailiwick_machinery::validation::names;
use bailiwick_machinery::{Context, Resource, Scope, Strategy, object};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1 as coordination;
use serde_json::{Value, json};

use crate::columns::{Printer, age, age_column, description, name_column};
use crate::descriptor::Named;
use crate::fields::{optional_integer, present, set_default};

/// Fields of coordinated leader election, which is off: they are dropped, and so need no validation.
const GATED_FIELDS: [&str; 2] = ["strategy", "preferredHolder"];

/// `leases`.
pub fn resources() -> Vec<Resource> {
    let named = Named { group: "coordination.k8s.io", version: "v1", kind: "Lease", plural: "leases" };
    vec![named.stored(Scope::Namespaced, Lease, Printer::new(columns, cells))]
}

struct Lease;

impl Strategy for Lease {
    fn default(&self, object: &mut Value) {
        set_default(object, "spec", || json!({}));
    }

    fn prepare_for_create(&self, _cx: &Context<'_>, object: &mut Value) {
        drop_gated_fields(object);
    }

    fn validate(&self, _cx: &Context<'_>, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let Some(spec) = present(object, "spec") else { return errors };
        let path = Path::new("spec");
        if let Some(seconds @ ..=0) = optional_integer(spec, "leaseDurationSeconds") {
            errors.push(Error::invalid(&path.child("leaseDurationSeconds"), seconds, "must be greater than 0"));
        }
        if let Some(count @ ..=-1) = optional_integer(spec, "leaseTransitions") {
            errors.push(Error::invalid(&path.child("leaseTransitions"), count, "must be greater than or equal to 0"));
        }
        errors
    }

    fn prepare_for_update(&self, _cx: &Context<'_>, object: &mut Value, _old: &Value) {
        drop_gated_fields(object);
    }

    fn name_validator(&self) -> NameValidator {
        names::name_is_dns_subdomain
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

fn drop_gated_fields(object: &mut Value) {
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        for field in GATED_FIELDS {
            spec.remove(field);
        }
    }
}

fn columns() -> Vec<Column> {
    let holder = description::<coordination::LeaseSpec>("holderIdentity");
    vec![name_column(), Column::new("Holder", "string", &holder), age_column()]
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let holder = object::str_at(object, &["spec", "holderIdentity"]);
    vec![json!(object::name(object)), json!(holder), age(object, now)]
}

#[cfg(test)]
mod tests;
