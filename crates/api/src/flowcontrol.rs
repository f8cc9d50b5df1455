//! `flowcontrol.apiserver.k8s.io/v1`: which requests wait for which (flow schemas) and how much of the server each
//! class of requests gets (priority levels), and the objects every server starts with.

mod bootstrap;
mod flow_schema;
mod priority_level;

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::object::metadata_mut;
use bailiwick_machinery::strategy::{Context, Generation, NameValidator, Strategy};
use bailiwick_machinery::validation::names::name_is_dns_subdomain;
use bailiwick_machinery::{Resource, Scope};
use serde_json::{Map, Value};

use crate::columns::Printer;
use crate::descriptor::{Named, STATUS_VERBS, subresource};
use crate::fields::{carry_over, list, present, put, text};

pub use bootstrap::{bootstrap_objects, mandatory_objects, suggested_objects};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// The descriptors of the group.
pub fn resources() -> Vec<Resource> {
    let mut schemas = Named { group: GROUP, version: "v1", kind: "FlowSchema", plural: "flowschemas" }.stored(
        Scope::Cluster,
        FlowControl::FlowSchema,
        Printer::new(flow_schema::head, flow_schema::row),
    );
    schemas.subresources.push(subresource("status", STATUS_VERBS, Status(FlowControl::FlowSchema)));
    let mut levels = Named {
        group: GROUP,
        version: "v1",
        kind: "PriorityLevelConfiguration",
        plural: "prioritylevelconfigurations",
    }
    .stored(Scope::Cluster, FlowControl::PriorityLevel, Printer::new(priority_level::head, priority_level::row));
    levels.subresources.push(subresource("status", STATUS_VERBS, Status(FlowControl::PriorityLevel)));
    vec![schemas, levels]
}

/// The two types of the group, which differ only in what their spec says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlowControl {
    FlowSchema,
    PriorityLevel,
}

impl Strategy for FlowControl {
    fn reset_fields(&self) -> &'static [&'static [&'static str]] {
        &[&["status"]]
    }

    fn default(&self, object: &mut Value) {
        match self {
            Self::FlowSchema => flow_schema::default(object),
            Self::PriorityLevel => priority_level::default(object),
        }
    }

    fn prepare_for_create(&self, _cx: &Context<'_>, object: &mut Value) {
        put(object, "status", Value::Object(Map::new()));
    }

    fn validate(&self, _cx: &Context<'_>, object: &Value) -> ErrorList {
        let mut errors = match self {
            Self::FlowSchema => flow_schema::validate(object),
            Self::PriorityLevel => priority_level::validate(object),
        };
        errors.extend(validate_status(object));
        errors
    }

    fn prepare_for_update(&self, _cx: &Context<'_>, object: &mut Value, old: &Value) {
        carry_over(object, old, "status");
    }

    fn name_validator(&self) -> NameValidator {
        name_is_dns_subdomain
    }

    fn generation(&self) -> Generation {
        Generation::Spec
    }
}

fn validate_status(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let Some(status) = present(object, "status") else { return errors };
    let conditions = list(status, "conditions");
    for (index, condition) in conditions.iter().enumerate() {
        let path = Path::new("status").child("conditions").index(index).child("type");
        let kind = text(condition, "type");
        if conditions[..index].iter().any(|earlier| text(earlier, "type") == kind) {
            errors.push(Error::duplicate(&path, kind));
        }
        if kind.is_empty() {
            errors.push(Error::required(&path, ""));
        }
    }
    errors
}

/// The rules of the status subresources: nothing but status and managed fields changes.
#[derive(Debug)]
struct Status(FlowControl);

impl Strategy for Status {
    fn reset_fields(&self) -> &'static [&'static [&'static str]] {
        &[&["metadata"], &["spec"]]
    }

    fn default(&self, object: &mut Value) {
        self.0.default(object);
    }

    fn prepare_for_update(&self, _cx: &Context<'_>, object: &mut Value, old: &Value) {
        carry_over(object, old, "spec");
        let managed = metadata_mut(object).and_then(|metadata| metadata.remove("managedFields"));
        carry_over(object, old, "metadata");
        if let Some(metadata) = metadata_mut(object) {
            match managed {
                Some(managed) => metadata.insert("managedFields".to_owned(), managed),
                None => metadata.remove("managedFields"),
            };
        }
    }

    fn validate_update(&self, _cx: &Context<'_>, object: &Value, _old: &Value) -> ErrorList {
        validate_status(object)
    }

    fn name_validator(&self) -> NameValidator {
        name_is_dns_subdomain
    }
}

#[cfg(test)]
mod tests;
