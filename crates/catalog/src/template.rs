//! Templates: short descriptions that become catalogs. `semver` makes channels from versions, `basic` replaces bundle
//! images by their rendering, `substitutes` puts patched bundles in the place of others.

mod basic;
mod convert;
mod semver;
mod substitutes;

pub use convert::convert_to_template;

use serde_json::Value;

use crate::fbc::{Catalog, DocumentReader, Fields, Form, Meta, Object, parse_lenient, parse_tolerant};
use crate::go::{Field, Omit, Shape, Struct, check, quote};

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
        let First { document, .. } =
            first_document(text).map_err(|error| format!("decoding template input: {error}"))?;
        let schema = match Fields::of(&document).get("schema") {
            Value::String(schema) => schema.clone(),
            Value::Null => String::new(),
            _ => return Err("unmarshalling template schema: the schema is not a text".to_owned()),
        };
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
    let mut rendered = match kind {
        TemplateKind::Basic => basic::render(text, bundles).map(unwarned),
        TemplateKind::Semver => semver::render(text, bundles),
        TemplateKind::Substitutes => {
            substitutes::render(text, bundles).map(unwarned).map_err(|error| format!("render: {error}"))
        }
    }?;
    rendered.warnings.splice(0..0, tolerated(text));
    Ok(rendered)
}

/// The text of a template; bytes that are no text are refused with their line.
pub fn text_of(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| {
        let before = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        format!("line {}: the text is not UTF-8", 1 + memchr::memchr_iter(b'\n', before).count())
    })
}

/// What opm reads without a word although it can hardly be meant.
pub fn tolerated(text: &str) -> Option<String> {
    let document = DocumentReader::new(text.as_bytes()).next_document().ok()??;
    let warning = parse_tolerant(&document).warning?;
    Some(format!("line {}: {}", warning.line, warning.message))
}

fn unwarned(catalog: Catalog) -> Rendered {
    Rendered { catalog, warnings: Vec::new() }
}

/// The first document of a text.
struct First {
    /// With one key of those that differ only in case.
    document: Value,
    /// With all of them: each must be of its type, whichever counts.
    whole: Value,
    form: Form,
}

fn first_document(text: &str) -> Result<First, String> {
    let document = DocumentReader::new(text.as_bytes()).next_document().map_err(|error| error.to_string())?;
    let document = document.ok_or("EOF")?;
    let form = document.form;
    let whole = parse_lenient(&document)?;
    let mut document = whole.clone();
    keep_last_of_case(&mut document);
    Ok(First { document, whole, form })
}

/// Of keys that differ only in case Go's decoder takes the last one, in the order of the sorted keys.
fn keep_last_of_case(value: &mut Value) {
    let Some(fields) = value.as_object_mut() else { return };
    let mut keys: Vec<String> = fields.keys().cloned().collect();
    keys.sort_unstable();
    let is_equal = |a: &String, b: &String| a.to_lowercase() == b.to_lowercase();
    for (at, key) in keys.iter().enumerate() {
        let later = keys
            .iter()
            .skip(at + 1)
            .any(|other| is_equal(key, other) && fields.get(other).is_some_and(|it| !it.is_null()));
        if later {
            fields.remove(key);
        }
    }
}

static ENTRY: Shape = Shape::Opaque("*declcfg.Meta");
static SUBSTITUTE: Shape = Shape::Struct(&Struct {
    name: "substitutes.Substitute",
    fields: &[field("name", Shape::TEXT), field("base", Shape::TEXT)],
});
static BASIC: Struct = Struct {
    name: "basic.BasicTemplateData",
    fields: &[field("schema", Shape::TEXT), field("entries", Shape::List(&ENTRY))],
};
static SUBSTITUTES: Struct = Struct {
    name: "substitutes.SubstitutesTemplateData",
    fields: &[
        field("schema", Shape::TEXT),
        field("entries", Shape::List(&ENTRY)),
        field("substitutions", Shape::List(&SUBSTITUTE)),
    ],
};

const fn field(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, omit: Omit::Never }
}

/// The entries of a basic or substitutes template, and the template itself.
fn entries(text: &str, kind: TemplateKind, shape: &'static Struct) -> Result<(Value, Result<Catalog, String>), String> {
    let first = first_document(text).map_err(|error| format!("decoding template schema: {error}"))?;
    let First { document, whole, form } = first;
    let fields = Fields::of(&document);
    // Entries come first in the order of keys, and so do their errors.
    let metas = fields.list("entries").iter().map(|entry| Meta::of(entry.clone(), form));
    let metas = metas.collect::<Result<Vec<_>, _>>();
    let metas = metas.and_then(|metas| check(&whole, Shape::Struct(shape)).map(|()| metas));
    let metas = metas.map_err(|error| format!("unmarshalling template: {error}"))?;
    let schema = fields.text("schema");
    if schema != kind.schema() {
        return Err(format!("template has unknown schema ({}), should be {}", quote(&schema), quote(kind.schema())));
    }
    let catalog = metas.into_iter().map(Object::new).collect::<Result<Catalog, _>>();
    Ok((document, catalog))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As opm has it: `json.Unmarshal` sets a field again for every key that fits.
    #[test]
    fn of_keys_that_differ_in_case_the_last_one_counts() {
        let mut value = json!({"Stable": 1, "stable": 2, "STABLE": 3, "fast": null, "Fast": 4, "x": 5});
        keep_last_of_case(&mut value);
        assert_eq!(value, json!({"stable": 2, "fast": null, "Fast": 4, "x": 5}));
    }

    /// As opm has it: each is decoded before the next one takes its place.
    #[test]
    fn keys_that_do_not_count_must_be_of_their_type_too() {
        let text = "SCHEMA: {a: b}\nschema: olm.template.basic\nentries: []\n";
        let error = entries(text, TemplateKind::Basic, &BASIC).map(|_| ()).unwrap_err();
        let expected = "cannot unmarshal object into Go struct field BasicTemplateData.schema of type string";
        assert!(error.contains(expected), "{error}");
    }
}
