//! Is the catalog what its templates make of the images as they are now? The template of an operator is rendered again
//! and compared.

use std::path::Path;

use super::document::Operator;
use super::report::Verdict;
use super::subject::Subject;
use crate::bundle::Migration;
use crate::diff::{Kind, diff};
use crate::fbc::Catalog;
use crate::property;
use crate::template::{TemplateKind, render_template, text_of, tolerated};

/// More would hide the others.
const TOLD: usize = 10;

/// The check `template` of an operator.
pub(super) fn check(subject: &mut Subject, operator: &Operator) -> Verdict {
    let Some(root) = &subject.directory else {
        return Verdict::Skipped("the catalog is an image: its templates are elsewhere".to_owned());
    };
    let path = root.join(&operator.package).join("veneer.yaml");
    match std::fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Verdict::Skipped(format!("there is no {}", path.display()))
        }
        Err(error) => Verdict::Failed(vec![format!("{}: {error}", path.display())]),
        Ok(bytes) => match text_of(bytes).and_then(|text| findings(subject, operator, &path, &text)) {
            Ok(findings) => Verdict::of(findings),
            Err(error) => Verdict::Failed(vec![format!("{}: {error}", path.display())]),
        },
    }
}

/// What differs; an error says why the template cannot be rendered.
fn findings(subject: &mut Subject, operator: &Operator, path: &Path, text: &str) -> Result<Vec<String>, String> {
    if let Some(fault) = tolerated(text) {
        return Err(fault);
    }
    let kind = TemplateKind::detect(text)?;
    let package = operator.package.as_str();
    let ours = of_package(&subject.catalog, package);
    let carries_manifests =
        ours.bundles.iter().any(|it| it.properties.iter().any(|it| it.kind == property::BUNDLE_OBJECT));
    let migration = if carries_manifests { Migration::None } else { Migration::BundleObjectToCsvMetadata };
    let manifests = &mut subject.manifests;
    let mut bundles = |image: &str| {
        let known = ours.bundles.iter().find(|bundle| bundle.image == image);
        manifests.render(image, known, migration)
    };
    let rendered = render_template(kind, text, &mut bundles)?.catalog;
    let changes = diff(&ours, &of_package(&rendered, package));
    let mut findings: Vec<String> = changes
        .iter()
        .take(TOLD)
        .map(|change| {
            let which = match change.kind {
                Kind::Added => "only the template has",
                Kind::Removed => "only the catalog has",
                Kind::Changed => "the template renders to another",
            };
            format!("{which} {}", change.text)
        })
        .collect();
    if changes.len() > TOLD {
        findings.push(format!("and {} more", changes.len() - TOLD));
    }
    if !findings.is_empty() {
        let hint = format!("bailiwick catalog update --force {package}");
        findings.push(format!("{} and the catalog disagree: run `{hint}`", path.display()));
    }
    Ok(findings)
}

fn of_package(catalog: &Catalog, package: &str) -> Catalog {
    Catalog {
        packages: catalog.packages.iter().filter(|it| it.name == package).cloned().collect(),
        channels: catalog.channels.iter().filter(|it| it.package == package).cloned().collect(),
        bundles: catalog.bundles.iter().filter(|it| it.package == package).cloned().collect(),
        deprecations: catalog.deprecations.iter().filter(|it| it.package == package).cloned().collect(),
        others: catalog.others.iter().filter(|it| it.package == package).cloned().collect(),
    }
}
