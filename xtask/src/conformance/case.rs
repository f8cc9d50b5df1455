//! The case files under `conformance/cases`: what they may say, and how one becomes a list of cases. A misspelt key is an
//! error, so that a case never silently tests less than it says.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{definition, template, webhooks};

/// One file of cases about one subject.
#[derive(Debug)]
pub struct Suite {
    /// The file's stem, e.g. `patch-strategic`.
    pub subject: String,
    /// What the file covers, in a sentence.
    pub about: String,
    /// Whether the servers run their controllers.
    pub controllers: Controllers,
    /// The cases in file order, with `each` already expanded.
    pub cases: Vec<Case>,
}

/// What a file's cases say about `metadata.managedFields`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ManagedFields {
    /// They are compared, all but their times.
    #[default]
    Compare,
    /// They are left out of the comparison: the server writes to these objects whenever it likes.
    Drop,
}

/// Whether the cases of a file need what controllers do: ours with the server, upstream's in kube-controller-manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Controllers {
    /// Nothing happens but what the requests cause.
    #[default]
    Off,
    /// They run.
    Run,
}

/// A short script of requests in its own namespace.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Unique within its subject.
    pub name: String,
    /// Why our answer is not upstream's, when that is intended. Checked to still be so.
    #[serde(default)]
    pub differs: Option<String>,
    /// Requests whose answers are not compared.
    #[serde(default)]
    pub setup: Vec<Value>,
    /// Requests whose answers are compared.
    pub steps: Vec<Value>,
    /// What the file's head says.
    #[serde(skip)]
    pub managed_fields: ManagedFields,
}

/// One request, after templates were filled in.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// `METHOD /path?query`.
    pub request: String,
    /// Who asks.
    #[serde(default, rename = "as")]
    pub user: User,
    /// The `Accept` header.
    #[serde(default)]
    pub accept: Option<String>,
    /// The `Content-Type` header; `application/json` when there is a body and nothing is said.
    #[serde(default, rename = "type")]
    pub content_type: Option<String>,
    /// Other headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A body written as YAML here and sent as JSON.
    #[serde(default)]
    pub json: Option<Value>,
    /// A body sent as it stands.
    #[serde(default)]
    pub text: Option<String>,
    /// A protobuf message as `[[field, value], …]`, sent in the Kubernetes envelope.
    #[serde(default)]
    pub proto: Option<Value>,
    /// Send the body of the answer saved under this name.
    #[serde(default)]
    pub body_of: Option<String>,
    /// Remember the answer under this name for later `{{name.path}}`.
    #[serde(default)]
    pub save: Option<String>,
    /// Send the request again and again until the answer has these values at these pointers; `@status` is the code. For
    /// what a server does by itself after it has answered.
    #[serde(default)]
    pub until: BTreeMap<String, Value>,
    /// Send the request this many times, with `{{n}}` counting from 0; the last answer counts.
    #[serde(default)]
    pub repeat: Option<u32>,
    /// What to compare; everything when nothing is said.
    #[serde(default = "Part::all")]
    pub compare: Vec<Part>,
    /// Further response headers to compare.
    #[serde(default)]
    pub compare_headers: Vec<String>,
    /// Sections of an OpenAPI document's components that are put where it refers to them: sharing is the server's choice.
    #[serde(default)]
    pub inline: Vec<String>,
    /// Lists of which only some elements are compared.
    #[serde(default)]
    pub only: Vec<Only>,
    /// Lists whose order is upstream's chance (it walks Go maps) and so is not compared.
    #[serde(default)]
    pub sort: Vec<String>,
    /// Paths in the answer that are not compared.
    #[serde(default)]
    pub drop: Vec<String>,
    /// JSON pointers: only what they point at is compared.
    #[serde(default)]
    pub pick: Vec<String>,
}

/// A part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// The status code.
    Status,
    /// The `Content-Type` header.
    Type,
    /// The `Warning` headers.
    Warning,
    /// The body.
    Body,
}

impl Part {
    fn all() -> Vec<Self> {
        vec![Self::Status, Self::Type, Self::Warning, Self::Body]
    }
}

/// Whose credentials a request carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum User {
    /// In `system:masters`.
    #[default]
    Admin,
    /// Known, without any right.
    Alice,
    /// No credentials.
    Anonymous,
    /// A bearer token nobody has.
    Stranger,
}

/// Keeps the elements of the lists at `at` whose `key` has one of `values`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Only {
    /// A JSON pointer in which `*` stands for every element.
    pub at: String,
    /// The member that is looked at, or a pointer to it; the element itself when absent.
    #[serde(default)]
    pub key: Option<String>,
    /// The values that are kept.
    pub values: Vec<String>,
}

/// Reads every `*.yaml` in `dir`, in name order.
pub fn load(dir: &Path) -> Result<Vec<Suite>> {
    let mut paths: Vec<_> = std::fs::read_dir(dir)
        .with_context(|| format!("reading {}", dir.display()))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let subject = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            let text = std::fs::read_to_string(path)?;
            parse(&subject, &text).with_context(|| format!("in {}", path.display()))
        })
        .collect()
}

/// Parses the text of one case file.
pub fn parse(subject: &str, text: &str) -> Result<Suite> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        about: String,
        #[serde(default)]
        managed_fields: ManagedFields,
        #[serde(default)]
        controllers: Controllers,
        cases: Vec<Map<String, Value>>,
    }
    // YAML 1.2: `y` and `n` are letters.
    let options = serde_saphyr::options! { strict_booleans: true };
    let file: File = serde_saphyr::from_str_with_options(text, options)?;
    let mut cases: Vec<Case> = Vec::new();
    for raw in file.cases {
        for expanded in expand_each(raw)? {
            let name = expanded.get("name").and_then(Value::as_str).unwrap_or("?").to_owned();
            let mut case = case_from(expanded).with_context(|| format!("case {name:?}"))?;
            case.managed_fields = file.managed_fields;
            if cases.iter().any(|other| other.name == case.name) {
                bail!("two cases are named {:?}", case.name);
            }
            cases.push(case);
        }
    }
    Ok(Suite { subject: subject.to_owned(), about: file.about, controllers: file.controllers, cases })
}

/// `each: [a, b]` makes one case per element, with `{{each}}` (or `{{each.member}}`) filled in. An element
/// may be marked as differing by its own `differs`.
fn expand_each(mut raw: Map<String, Value>) -> Result<Vec<Map<String, Value>>> {
    let Some(each) = raw.remove("each") else { return Ok(vec![raw]) };
    let Value::Array(elements) = each else { bail!("each must be a list") };
    let whole = Value::Object(raw);
    elements
        .iter()
        .map(|element| {
            let lookup = |name: &str| {
                let path = name.strip_prefix("each")?;
                if path.is_empty() { Some(element.clone()) } else { template::member(element, path.strip_prefix('.')?) }
            };
            match template::fill(&whole, &lookup, template::Unknown::Keep)? {
                Value::Object(mut filled) => {
                    if let Some(reason) = element.get("differs") {
                        filled.insert("differs".to_owned(), reason.clone());
                    }
                    Ok(filled)
                }
                other => bail!("not a case: {other}"),
            }
        })
        .collect()
}

/// A case with a single request may have the request's keys beside its name.
fn case_from(mut raw: Map<String, Value>) -> Result<Case> {
    let definition = raw.remove("crd").map(definition::steps).transpose()?;
    let webhooks = raw.remove("webhooks").map(webhooks::steps).transpose()?;
    if raw.contains_key("request") {
        let mut step = Map::new();
        let own: Vec<String> =
            raw.keys().filter(|key| !["name", "differs", "setup"].contains(&key.as_str())).cloned().collect();
        for key in own {
            if let Some(value) = raw.remove(&key) {
                step.insert(key, value);
            }
        }
        raw.insert("steps".to_owned(), Value::Array(vec![Value::Object(step)]));
    }
    let mut case: Case = serde_json::from_value(Value::Object(raw))?;
    case.setup.extend(webhooks.into_iter().flatten());
    case.setup.splice(0..0, definition.into_iter().flatten());
    for step in case.setup.iter_mut().chain(case.steps.iter_mut()) {
        if let Value::String(request) = step {
            *step = serde_json::json!({ "request": request });
        }
        // Checks the keys now; the values may still hold templates.
        serde_json::from_value::<Step>(step.clone()).with_context(|| format!("step {step}"))?;
    }
    Ok(case)
}

/// A name for the case's namespace and cluster-scoped objects: the same in every run, and unlike any other case's.
pub fn identity(subject: &str, name: &str) -> String {
    // FNV-1a: stable across Rust versions, unlike the standard library's hasher.
    let mut hash: u32 = 0x811c_9dc5;
    for byte in subject.bytes().chain([b'/']).chain(name.bytes()) {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    format!("c{hash:08x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_makes_one_case_per_element() {
        let suite = parse(
            "s",
            "about: x\ncases:\n- name: get {{each.path}}\n  each: [{path: /a}, {path: /b}]\n  request: GET {{each.path}}?x={{ns}}\n",
        )
        .unwrap();
        let names: Vec<&str> = suite.cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["get /a", "get /b"]);
        assert_eq!(suite.cases[1].steps[0]["request"], "GET /b?x={{ns}}");
    }

    #[test]
    fn a_misspelt_key_is_refused() {
        let error = parse("s", "about: x\ncases:\n- name: a\n  request: GET /\n  acept: text/plain\n").unwrap_err();
        assert!(format!("{error:#}").contains("acept"), "{error:#}");
    }

    #[test]
    fn a_name_used_twice_is_refused() {
        let text = "about: x\ncases:\n- {name: a, request: GET /}\n- {name: a, request: GET /b}\n";
        assert!(parse("s", text).is_err());
    }

    #[test]
    fn identities_are_stable_and_distinct() {
        assert_eq!(identity("a", "b"), identity("a", "b"));
        assert_ne!(identity("a", "b"), identity("a", "c"));
    }
}
