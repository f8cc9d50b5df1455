//! The compiled schema: what one node of a custom resource may hold. Texts for people (title, description, examples) are
//! not kept; OpenAPI is published from the definition itself.

use std::sync::Arc;

use serde_json::{Number, Value};

use super::enumeration::Members;
use super::format::Format;
use super::pattern::Pattern;

/// The `type` of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// One node of a structural schema. Shared: equal nodes of all definitions are the same allocation.
#[derive(Debug, Default, PartialEq)]
pub struct Schema {
    /// `None` where any type may stand: int-or-string, preserved unknown fields, junctors.
    pub kind: Option<Kind>,
    pub nullable: bool,
    /// `x-kubernetes-int-or-string`
    pub int_or_string: bool,
    /// `x-kubernetes-preserve-unknown-fields`
    pub preserve_unknown_fields: bool,
    /// `x-kubernetes-embedded-resource`
    pub embedded_resource: bool,
    pub default: Option<Value>,
    /// Sorted by name; find with [`Schema::property`].
    pub properties: Box<[(Box<str>, Arc<Schema>)]>,
    pub additional_properties: Additional,
    pub items: Option<Arc<Schema>>,
    /// `x-kubernetes-list-type`; absent means atomic.
    pub list_type: Option<ListType>,
    /// `x-kubernetes-map-type`; absent means granular.
    pub map_type: Option<MapType>,
    /// `None` when nothing is asked of values beyond their type.
    pub validation: Option<Box<ValueValidation>>,
    /// `x-kubernetes-validations`
    pub rules: Box<[Rule]>,
    /// What this node or one below it has, so that walks stop where there is nothing for them.
    pub below: Below,
}

/// Summary of a subtree, filled in by compiling. Junctors do not count: they carry none of this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Below {
    /// A property, item or additional property has a default.
    pub defaults: bool,
    /// This node or one below is an embedded resource.
    pub embedded_resources: bool,
    /// This node or one below is a list of type set or map.
    pub keyed_lists: bool,
    /// This node or one below has CEL rules.
    pub rules: bool,
}

/// `additionalProperties`.
#[derive(Debug, Default, PartialEq)]
pub enum Additional {
    #[default]
    Absent,
    Allowed(bool),
    Schema(Arc<Schema>),
}

/// `x-kubernetes-list-type`, with `x-kubernetes-list-map-keys`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListType {
    Atomic,
    Set,
    Map(Box<[Box<str>]>),
}

/// `x-kubernetes-map-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    Granular,
    Atomic,
}

/// What is asked of values besides their type.
#[derive(Debug, Default, PartialEq)]
pub struct ValueValidation {
    pub format: Box<str>,
    pub maximum: Option<Number>,
    pub exclusive_maximum: bool,
    pub minimum: Option<Number>,
    pub exclusive_minimum: bool,
    pub max_length: Option<i64>,
    pub min_length: Option<i64>,
    pub pattern: Box<str>,
    /// `pattern`, compiled when first needed.
    pub matcher: Pattern,
    /// What `format` asks for; `None` where the reference does not check it.
    pub checked_format: Option<Format>,
    pub max_items: Option<i64>,
    pub min_items: Option<i64>,
    pub unique_items: bool,
    pub multiple_of: Option<Number>,
    pub enumeration: Box<[Value]>,
    /// `enumeration`, indexed when first needed.
    pub members: Members,
    pub max_properties: Option<i64>,
    pub min_properties: Option<i64>,
    pub required: Box<[Box<str>]>,
    pub junctors: Option<Box<Junctors>>,
}

/// Logical junctors. The schemas inside only restrict; they carry no defaults and no pruning.
#[derive(Debug, Default, PartialEq)]
pub struct Junctors {
    pub all_of: Box<[Arc<Schema>]>,
    pub any_of: Box<[Arc<Schema>]>,
    pub one_of: Box<[Arc<Schema>]>,
    pub not: Option<Arc<Schema>>,
}

/// One entry of `x-kubernetes-validations`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    pub rule: Box<str>,
    pub message: Box<str>,
    pub message_expression: Box<str>,
    /// `FieldValueInvalid` and so on; empty when not given.
    pub reason: Box<str>,
    pub field_path: Box<str>,
    pub optional_old_self: Option<bool>,
}

impl Schema {
    /// The schema of a declared property.
    pub fn property(&self, name: &str) -> Option<&Arc<Schema>> {
        let at = self.properties.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        self.properties.get(at).map(|(_, schema)| schema)
    }

    /// The schema of all properties that are not declared.
    pub fn additional(&self) -> Option<&Arc<Schema>> {
        match &self.additional_properties {
            Additional::Schema(schema) => Some(schema),
            Additional::Absent | Additional::Allowed(_) => None,
        }
    }
}
