//! The way back: a catalog becomes a basic template, whose bundles are only their images, or a substitutes template
//! without substitutions.

use super::TemplateKind;
use crate::fbc::{Bundle, Fields, LoadError, Meta, Output, bundle_json, metas_of_text, schema};
use crate::go::pretty_json;

/// Makes a template of a stream of catalog objects; `None` for a kind that cannot be told from a catalog.
pub fn convert_to_template(kind: TemplateKind, text: &str, output: Output) -> Option<Result<String, LoadError>> {
    let bundles_are_images = match kind {
        TemplateKind::Basic => true,
        TemplateKind::Substitutes => false,
        TemplateKind::Semver => return None,
    };
    Some(metas_of_text(text).map(|metas| {
        let entries: Vec<String> = metas
            .iter()
            .map(|meta| match meta.schema.as_str() {
                schema::BUNDLE if bundles_are_images => only_its_image(meta),
                _ => meta.blob().trim_end().to_owned(),
            })
            .collect();
        write(kind, &entries, output)
    }))
}

fn only_its_image(meta: &Meta) -> String {
    let image = Fields::of(&meta.body).text("image");
    bundle_json(&Bundle { image, ..Bundle::default() })
}

fn write(kind: TemplateKind, entries: &[String], output: Output) -> String {
    // Go writes a list that never got an element as null.
    let list = if entries.is_empty() { "null".to_owned() } else { format!("[{}]", entries.join(",")) };
    let substitutions = if kind == TemplateKind::Substitutes { ",\"substitutions\":[]" } else { "" };
    let json = format!("{{\"schema\":\"{}\",\"entries\":{list}{substitutions}}}", kind.schema());
    match output {
        // The encoder of templates escapes HTML, which stands only inside of texts.
        Output::Json => {
            let escaped = json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
            format!("{}\n", pretty_json(&escaped, 4))
        }
        Output::Yaml => {
            let value: serde_json::Value = serde_json::from_str(&json).unwrap_or_default();
            format!("---\n{}\n", bailiwick_machinery::yaml::encode(&value))
        }
    }
}
