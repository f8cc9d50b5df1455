//! Which projects' CustomResourceDefinitions and sample objects the suite sends, and where it reads them. Nothing of them is
//! kept in this repository: they come from the published Go modules, and from data beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::go_module;
use crate::tools::repository_root;

/// More samples of one kind say little more, and the suite has to stay short.
const MAX_SAMPLES: usize = 6;
/// Bundles of the Operator Lifecycle Manager: `<package>/<version>/manifests`.
const BUNDLES: &str = "../shared/data/olm/bundles";

/// A project whose definitions are in a Go module.
struct Project {
    name: &'static str,
    module: &'static str,
    version: &'static str,
    /// Files and directories; a `*` at the end stands for every file that begins so.
    definitions: &'static [&'static str],
    samples: &'static [&'static str],
}

/// Versions are ones that the Go checksum database vouches for.
const PROJECTS: &[Project] = &[
    Project {
        name: "gateway-api-standard",
        module: "sigs.k8s.io/gateway-api",
        version: "1.4.0",
        definitions: &["config/crd/standard"],
        samples: &["examples/standard", "site-src"],
    },
    Project {
        name: "gateway-api-experimental",
        module: "sigs.k8s.io/gateway-api",
        version: "1.4.0",
        definitions: &["config/crd/experimental"],
        samples: &["examples/experimental", "examples/standard"],
    },
    Project {
        name: "cert-manager",
        module: "github.com/cert-manager/cert-manager",
        version: "1.18.2",
        definitions: &["deploy/crds"],
        samples: &["test/fixtures", "make/config", "design", "docs"],
    },
    Project {
        name: "crossplane",
        module: "github.com/crossplane/crossplane/v2",
        version: "2.0.2",
        definitions: &["cluster/crds"],
        samples: &["test/e2e/manifests", "design", "contributing"],
    },
    Project {
        name: "provider-aws",
        module: "github.com/upbound/provider-aws",
        version: "0.47.0",
        definitions: &[
            "package/crds/ec2.aws.upbound.io_*",
            "package/crds/rds.aws.upbound.io_*",
            "package/crds/s3.aws.upbound.io_*",
        ],
        samples: &["examples/ec2", "examples/rds", "examples/s3"],
    },
    Project {
        name: "argo-cd",
        module: "github.com/argoproj/argo-cd/v3",
        version: "3.1.0",
        definitions: &["manifests/crds"],
        samples: &["docs/operator-manual", "docs/user-guide", "applicationset/examples", "test/e2e/testdata"],
    },
    Project {
        name: "prometheus-operator",
        module: "github.com/prometheus-operator/prometheus-operator",
        version: "0.85.0",
        definitions: &["example/prometheus-operator-crd"],
        samples: &["example", "Documentation"],
    },
    Project {
        name: "percona-xtradb-cluster-operator",
        module: "github.com/percona/percona-xtradb-cluster-operator",
        version: "1.15.0",
        definitions: &["deploy/crd.yaml"],
        samples: &["deploy/cr.yaml", "deploy/cr-minimal.yaml", "deploy/backup"],
    },
    Project {
        name: "percona-server-mongodb-operator",
        module: "github.com/percona/percona-server-mongodb-operator",
        version: "1.22.0",
        definitions: &["deploy/crd.yaml"],
        samples: &["deploy/cr.yaml", "deploy/cr-minimal.yaml", "deploy/backup"],
    },
    // Strimzi publishes no Go module; this project carries its definitions as they are.
    Project {
        name: "strimzi",
        module: "github.com/RedHatInsights/clowder",
        version: "0.100.0",
        definitions: &["config/crd/static/kafka*"],
        samples: &["tests/kuttl", "docs"],
    },
];

/// One definition of one project, with the samples of its kind.
pub struct Revision {
    /// Project and file, which names it in reports and in the recording.
    pub title: String,
    /// The definition as it is sent.
    pub definition: Value,
    /// Objects of its kind, each with where it was found.
    pub samples: Vec<(String, Value)>,
}

/// What there is to send.
#[derive(Default)]
pub struct Collection {
    /// By the name of the definition: two revisions of one definition cannot be there at the same time.
    pub by_name: BTreeMap<String, Vec<Revision>>,
    /// Projects that are not at hand, with the reason.
    pub skipped: Vec<(String, String)>,
}

/// Reads everything that is at hand, downloading modules that are not.
pub fn collect(filter: &str) -> Result<Collection> {
    let mut collection = Collection::default();
    for project in PROJECTS {
        match go_module::directory(project.module, project.version) {
            Ok(root) => {
                let definitions = files(&root, project.definitions);
                let samples = files(&root, project.samples);
                collection.add(project.name, &root, &definitions, &samples, filter)?;
            }
            Err(error) => collection.skipped.push((project.name.to_owned(), format!("{error:#}"))),
        }
    }
    let bundles = repository_root().join(BUNDLES);
    if !bundles.is_dir() {
        collection.skipped.push(("olm".to_owned(), format!("{} is absent", bundles.display())));
    }
    for package in children(&bundles) {
        for version in children(&package) {
            let files = files(&version, &["manifests"]);
            let name = version.strip_prefix(&bundles).unwrap_or(&version).display().to_string();
            collection.add(&format!("olm/{name}"), &version, &files, &files, filter)?;
        }
    }
    Ok(collection)
}

impl Collection {
    fn add(
        &mut self,
        name: &str,
        root: &Path,
        definitions: &[PathBuf],
        samples: &[PathBuf],
        filter: &str,
    ) -> Result<()> {
        let mut revisions = Vec::new();
        for file in definitions {
            let relative = file.strip_prefix(root).unwrap_or(file).display().to_string();
            let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
            let is_definition = |document: &&str| has_line(document, "kind:", is_definition_kind);
            let is_served = |document: &&str| has_line(document, "apiVersion:", |value| value.ends_with("k8s.io/v1"));
            for document in documents(&text).into_iter().filter(is_definition).filter(is_served) {
                // The parser is stricter than upstream's about the indentation of quoted text.
                let mut definition: Value = match serde_saphyr::from_str(document) {
                    Ok(definition) => definition,
                    Err(error) => {
                        let why = error.to_string().lines().next().unwrap_or_default().to_owned();
                        self.skipped.push((format!("{name}: {relative}"), why));
                        continue;
                    }
                };
                leave_out_templates(&mut definition);
                let title = format!("{name}: {} ({relative})", text_at(&definition, "/metadata/name"));
                if title.contains(filter) {
                    revisions.push(Revision { title, definition, samples: vec![] });
                }
            }
        }
        let groups: BTreeSet<String> = revisions.iter().map(|revision| revision.group().to_owned()).collect();
        for file in samples.iter().filter(|_| !groups.is_empty()) {
            let relative = file.strip_prefix(root).unwrap_or(file).display().to_string();
            let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
            for (index, sample) in objects(&text, &groups).into_iter().enumerate() {
                let revision = revisions.iter_mut().find(|revision| revision.is_kind_of(&sample));
                if let Some(revision) = revision.filter(|revision| revision.samples.len() < MAX_SAMPLES) {
                    revision.samples.push((format!("{relative}#{index}"), sample));
                }
            }
        }
        for revision in revisions {
            let name = text_at(&revision.definition, "/metadata/name").to_owned();
            self.by_name.entry(name).or_default().push(revision);
        }
        Ok(())
    }
}

impl Revision {
    /// The API group of the objects.
    pub fn group(&self) -> &str {
        text_at(&self.definition, "/spec/group")
    }

    fn is_kind_of(&self, object: &Value) -> bool {
        let group = text_at(object, "/apiVersion").split('/').next().unwrap_or_default();
        group == self.group() && text_at(object, "/kind") == text_at(&self.definition, "/spec/names/kind")
    }
}

/// The text at `pointer`; empty when there is none.
pub fn text_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Labels that a chart fills in are not part of what is applied.
fn leave_out_templates(definition: &mut Value) {
    if let Some(labels) = definition.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.retain(|_, value| !value.as_str().is_some_and(|text| text.contains("{{")));
    }
}

fn is_definition_kind(value: &str) -> bool {
    value.trim_matches('"') == "CustomResourceDefinition"
}

/// Whether a line at the margin begins with `key` and the rest is accepted. Spares parsing what is not wanted.
fn has_line(document: &str, key: &str, accepts: impl Fn(&str) -> bool) -> bool {
    document.lines().filter_map(|line| line.strip_prefix(key)).any(|value| accepts(value.trim()))
}

/// The objects of `groups` in a YAML file, in the fenced blocks of a Markdown file, or in the examples of a bundle.
fn objects(text: &str, groups: &BTreeSet<String>) -> Vec<Value> {
    let mut found = Vec::new();
    let is_wanted = |value: &str| value.split('/').next().is_some_and(|group| groups.contains(group.trim_matches('"')));
    for document in documents(text) {
        if has_line(document, "apiVersion:", is_wanted) {
            // Samples with placeholders are often no YAML.
            found.extend(serde_saphyr::from_str::<Value>(document).ok().filter(Value::is_object));
        } else if has_line(document, "kind:", |kind| kind == "ClusterServiceVersion") {
            let bundle: Value = serde_saphyr::from_str(document).unwrap_or_default();
            let examples = text_at(&bundle, "/metadata/annotations/alm-examples");
            found.extend(serde_json::from_str::<Vec<Value>>(examples).unwrap_or_default());
        }
    }
    found
}

/// The pieces of a file that may be YAML documents.
fn documents(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut start, mut position) = (0, 0);
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_end();
        if trimmed == "---" || trimmed.starts_with("--- ") || trimmed.starts_with("```") {
            pieces.extend(text.get(start..position));
            start = position + line.len();
        }
        position += line.len();
    }
    pieces.extend(text.get(start..));
    pieces
}

/// The YAML and Markdown files that `paths` stand for, sorted.
fn files(root: &Path, paths: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in paths {
        match path.strip_suffix('*').and_then(|prefix| prefix.rsplit_once('/')) {
            Some((directory, prefix)) => {
                let begins = |file: &PathBuf| {
                    file.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(prefix))
                };
                found.extend(children(&root.join(directory)).into_iter().filter(begins));
            }
            None => walk(&root.join(path), &mut found),
        }
    }
    found
}

fn walk(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        children(path).iter().for_each(|child| walk(child, found));
    } else if path.extension().is_some_and(|extension| ["yaml", "yml", "md"].iter().any(|known| extension == *known)) {
        found.push(path.to_owned());
    }
}

fn children(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn samples_are_found_in_yaml_in_markdown_and_in_bundles() {
        let groups = BTreeSet::from(["example.com".to_owned()]);
        let yaml = "apiVersion: v1\nkind: Secret\n---\napiVersion: example.com/v1\nkind: A\n";
        assert_eq!(objects(yaml, &groups), [json!({"apiVersion": "example.com/v1", "kind": "A"})]);
        let markdown = "Prose.\n```yaml\napiVersion: example.com/v1\nkind: B\n```\nMore.\n";
        assert_eq!(objects(markdown, &groups), [json!({"apiVersion": "example.com/v1", "kind": "B"})]);
        let bundle =
            "kind: ClusterServiceVersion\nmetadata:\n  annotations:\n    alm-examples: '[{\"kind\": \"C\"}]'\n";
        assert_eq!(objects(bundle, &groups), [json!({"kind": "C"})]);
    }

    #[test]
    fn labels_of_a_chart_are_left_out_and_others_stay() {
        let mut definition = json!({"metadata": {"labels": {"a": "{{ .Release.Name }}", "b": "c"}}});
        leave_out_templates(&mut definition);
        assert_eq!(definition, json!({"metadata": {"labels": {"b": "c"}}}));
    }
}
