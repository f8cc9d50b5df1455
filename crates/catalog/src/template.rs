//! Templates: short descriptions that become catalogs. `semver` makes channels from versions, `basic` replaces bundle
//! images by their rendering, `substitutes` puts patched bundles in the place of others.

mod basic;
mod semver;
mod substitutes;

use serde_json::Value;

use crate::fbc::{Catalog, DocumentReader, Fields, Meta, Object, parse_lenient};
use crate::go::quote;

/// Renders a bundle image into a catalog that holds it.
pub type RenderBundle<'r> = dyn FnMut(&str) -> Result<Catalog, String> + 'r;

/// The kinds of templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateKind {
    Basic,
    Semver,
    Substitutes,
}

impl TemplateKind {
    pub const ALL: [TemplateKind; 3] = [TemplateKind::Basic, TemplateKind::Semver, TemplateKind::Substitutes];

    /// As commands have it.
    pub fn name(self) -> &'static str {
        match self {
            TemplateKind::Basic => "basic",
            TemplateKind::Semver => "semver",
            TemplateKind::Substitutes => "substitutes",
        }
    }

    fn schema(self) -> &'static str {
        match self {
            TemplateKind::Basic => "olm.template.basic",
            TemplateKind::Semver => "olm.semver",
            TemplateKind::Substitutes => "olm.template.substitutes",
        }
    }

    /// By the name that commands have.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// By the schema that a template says.
    pub fn detect(text: &str) -> Result<Self, String> {
        let document = first_document(text).map_err(|error| format!("decoding template input: {error}"))?;
        let schema = Fields::of(&document).text("schema");
        if schema.is_empty() {
            return Err("template input missing required 'schema' field".to_owned());
        }
        match schema.as_str() {
            "olm.composite" | "olm.template.composite" => {
                return Err(
                    "composite templates were removed from OLM in 2024: render each contribution with its own \
                    basic or semver template"
                        .to_owned(),
                );
            }
            _ => {}
        }
        let found = Self::ALL.into_iter().find(|kind| kind.schema() == schema);
        found.ok_or_else(|| format!("unknown template schema: {schema}"))
    }
}

/// What a template became, with what its author should know.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rendered {
    pub catalog: Catalog,
    pub warnings: Vec<String>,
}

/// Renders a template.
pub fn render_template(kind: TemplateKind, text: &str, bundles: &mut RenderBundle) -> Result<Rendered, String> {
    match kind {
        TemplateKind::Basic => basic::render(text, bundles).map(unwarned),
        TemplateKind::Semver => semver::render(text, bundles),
        TemplateKind::Substitutes => {
            substitutes::render(text, bundles).map(unwarned).map_err(|error| format!("render: {error}"))
        }
    }
}

fn unwarned(catalog: Catalog) -> Rendered {
    Rendered { catalog, warnings: Vec::new() }
}

fn first_document(text: &str) -> Result<Value, String> {
    let document = DocumentReader::new(text.as_bytes()).next_document().map_err(|error| error.to_string())?;
    document.map_or(Err("EOF".to_owned()), |document| parse_lenient(&document))
}

/// The entries of a basic or substitutes template, and the template itself.
fn entries(text: &str, kind: TemplateKind) -> Result<(Value, Result<Catalog, String>), String> {
    let document = first_document(text).map_err(|error| format!("decoding template schema: {error}"))?;
    let fields = Fields::of(&document);
    let metas = fields.list("entries").iter().map(|entry| Meta::new(entry.clone())).collect::<Result<Vec<_>, _>>();
    let metas = metas.map_err(|error| format!("unmarshalling template: {error}"))?;
    let schema = fields.text("schema");
    if schema != kind.schema() {
        return Err(format!("template has unknown schema ({}), should be {}", quote(&schema), quote(kind.schema())));
    }
    let catalog = metas.into_iter().map(Object::new).collect::<Result<Catalog, _>>();
    Ok((document, catalog))
}
