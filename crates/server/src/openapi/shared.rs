//! What a document writes once and refers to wherever it is used. A thousand kinds have the same parameters, and clients
//! that read the whole document pay for every byte of it.

use std::collections::BTreeMap;

use bailiwick_schema::openapi::Form;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::parameters::Parameter;

/// Members of one section by the name they get.
pub(super) type Members = BTreeMap<String, Value>;

/// The sections of what is shared. Version 2 has parameters only, bodies among them.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared {
    pub parameters: Members,
    pub responses: Members,
    pub request_bodies: Members,
}

impl Shared {
    /// Refers to a parameter. In version 3 its name is enough, as all that have it mean the same by it.
    pub(super) fn parameter(&mut self, form: Form, parameter: &Parameter) -> Value {
        let value = parameter.render(form);
        match form {
            Form::V2 => self.parameter_v2(parameter.name, value),
            Form::V3 => refer("#/components/parameters/", parameter.name.to_owned(), value, &mut self.parameters),
        }
    }

    /// Refers to a parameter of version 2 of this content.
    pub(super) fn parameter_v2(&mut self, name: &str, value: Value) -> Value {
        refer("#/parameters/", hashed(name, &value), value, &mut self.parameters)
    }

    /// Refers to a response.
    pub(super) fn response(&mut self, name: &str, value: Value) -> Value {
        refer("#/components/responses/", hashed(name, &value), value, &mut self.responses)
    }

    /// Refers to a request body.
    pub(super) fn request_body(&mut self, name: &str, value: Value) -> Value {
        refer("#/components/requestBodies/", hashed(name, &value), value, &mut self.request_bodies)
    }

    /// With what another part of the document shares.
    pub(super) fn extend(&mut self, other: &Self) {
        let copy = |members: &Members| members.clone().into_iter();
        self.parameters.extend(copy(&other.parameters));
        self.responses.extend(copy(&other.responses));
        self.request_bodies.extend(copy(&other.request_bodies));
    }

    /// Everything in it, for digests.
    pub(super) fn values(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.parameters.iter().chain(&self.responses).chain(&self.request_bodies)
    }
}

/// A name of a word and the content, so that what differs does not meet.
fn hashed(word: &str, value: &Value) -> String {
    let hash = URL_SAFE_NO_PAD.encode(&Sha256::digest(value.to_string().as_bytes())[..6]);
    format!("{word}-{hash}")
}

fn refer(place: &str, name: String, value: Value, members: &mut Members) -> Value {
    let reference = json!({"$ref": format!("{place}{name}")});
    members.insert(name, value);
    reference
}
