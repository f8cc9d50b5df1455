//! Keeps stored definitions away from types that are compiled in: deleting such a definition would delete objects that
//! are not its own.

use std::collections::HashSet;

use async_trait::async_trait;
use bailiwick_admission::{Attributes, Effects, Lookup, Operation, Phase, Plugin, forbidden};
use bailiwick_machinery::resource::Resource;
use bailiwick_machinery::status::ApiResult;

/// Refuses definitions of what is compiled in.
pub struct CompiledTypes {
    /// As definitions of them would be called.
    names: HashSet<String>,
}

impl CompiledTypes {
    pub fn of(resources: &[Resource]) -> Self {
        // What has no schema of this kind is in groups that need approval to be defined in.
        let compiled = resources.iter().filter(|resource| resource.custom.is_some());
        Self { names: compiled.map(|resource| format!("{}.{}", resource.plural, resource.group)).collect() }
    }
}

#[async_trait]
impl Plugin for CompiledTypes {
    fn name(&self) -> &'static str {
        "CompiledTypes"
    }

    fn handles(&self, operation: Operation, phase: Phase) -> bool {
        operation == Operation::Create && phase == Phase::Validate
    }

    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is_kind("apiextensions.k8s.io", "CustomResourceDefinition") && self.names.contains(attributes.name)
    }

    async fn validate(&self, attributes: &Attributes<'_>, _: &dyn Lookup, _: &mut Effects) -> ApiResult<()> {
        Err(forbidden(attributes, "the type is compiled into the server"))
    }
}
