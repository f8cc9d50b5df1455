//! ServiceAccounts and the `token` subresource that issues their tokens (served elsewhere).

use bailiwick_machinery::field::ErrorList;
use bailiwick_machinery::resource::GroupVersionKind;
use bailiwick_machinery::strategy::NameValidator;
use bailiwick_machinery::validation::{names, validate_core_finalizers};
use bailiwick_machinery::{Context, Resource, Scope, Strategy, Subresource, object};
use serde_json::{Value, json};

use crate::columns::{Printer, age, age_column, name_column};
use crate::descriptor::{Named, subresource};
use crate::fields::{each_mut, text};
use crate::review::TokenRequest;

/// An annotation upstream deprecates.
const ENFORCE_MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

/// `serviceaccounts` with `token`.
pub fn resources() -> Vec<Resource> {
    let named = Named { group: "", version: "v1", kind: "ServiceAccount", plural: "serviceaccounts" };
    let token_request = GroupVersionKind {
        group: "authentication.k8s.io".to_owned(),
        version: "v1".to_owned(),
        kind: "TokenRequest".to_owned(),
    };
    let printer = Printer::new(
        || vec![name_column(), age_column()],
        |object, now| vec![json!(object::name(object)), age(object, now)],
    );
    vec![Resource {
        short_names: vec!["sa".to_owned()],
        subresources: vec![Subresource {
            kind: Some(token_request),
            ..subresource("token", &["create"], TokenRequest)
        }],
        ..named.stored(Scope::Namespaced, ServiceAccount, printer)
    }]
}

struct ServiceAccount;

impl Strategy for ServiceAccount {
    fn prepare_for_create(&self, _cx: &Context<'_>, object: &mut Value) {
        keep_only_secret_names(object);
    }

    fn validate(&self, _cx: &Context<'_>, object: &Value) -> ErrorList {
        validate_core_finalizers(object)
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        if has_deprecated_annotation(object) { vec![deprecation()] } else { Vec::new() }
    }

    fn prepare_for_update(&self, _cx: &Context<'_>, object: &mut Value, _old: &Value) {
        keep_only_secret_names(object);
    }

    fn warnings_on_update(&self, object: &Value, old: &Value) -> Vec<String> {
        if has_deprecated_annotation(old) { Vec::new() } else { self.warnings_on_create(object) }
    }

    fn name_validator(&self) -> NameValidator {
        names::name_is_dns_subdomain
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

/// References to secrets cannot leave the namespace: all but the name is dropped.
fn keep_only_secret_names(object: &mut Value) {
    for secret in each_mut(object, "secrets") {
        *secret = match text(secret, "name") {
            "" => json!({}),
            name => json!({"name": name}),
        };
    }
}

fn has_deprecated_annotation(object: &Value) -> bool {
    object::at(object, &["metadata", "annotations", ENFORCE_MOUNTABLE_SECRETS]).is_some()
}

fn deprecation() -> String {
    format!(
        "metadata.annotations[{ENFORCE_MOUNTABLE_SECRETS}]: deprecated in v1.32+; \
         prefer separate namespaces to isolate access to mounted secrets"
    )
}

#[cfg(test)]
mod tests;
