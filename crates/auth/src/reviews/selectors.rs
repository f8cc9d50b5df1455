//! The selectors of an access review: what is wrong with them, and what must be ignored of them.

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::object::str_at;
use bailiwick_machinery::selector::labels::{Operator, Requirement};
use bailiwick_machinery::selector::{FieldSelector, LabelSelector};
use bailiwick_machinery::validation::metadata::validate_label_name;
use bailiwick_machinery::validation::names::label_value;
use serde_json::Value;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Field,
    Label,
}

impl Kind {
    const BOTH: [Self; 2] = [Self::Field, Self::Label];

    fn property(self) -> &'static str {
        match self {
            Self::Field => "fieldSelector",
            Self::Label => "labelSelector",
        }
    }
}

fn requirements(selector: &Value) -> &[Value] {
    selector.get("requirements").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn values(requirement: &Value) -> Vec<String> {
    let items = requirement.get("values").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// What is wrong with the selectors of `resourceAttributes` as an API object. Operators we do not know are fine: a
/// newer client may ask, and ignoring one only makes the question broader.
pub(super) fn validate_selectors(attributes: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    for kind in Kind::BOTH {
        let Some(selector) = attributes.get(kind.property()).filter(|s| !s.is_null()) else { continue };
        let path = path.child(kind.property());
        let raw = str_at(selector, &["rawSelector"]);
        let requirements = requirements(selector);
        if !raw.is_empty() && !requirements.is_empty() {
            let detail = "may not specified at the same time as requirements";
            errors.push(Error::invalid(&path.child("rawSelector"), raw, detail));
        }
        if raw.is_empty() && requirements.is_empty() {
            let detail = format!("when {path} is specified, requirements or rawSelector is required");
            errors.push(Error::required(&path.child("requirements"), detail));
        }
        for (index, requirement) in requirements.iter().enumerate() {
            errors.extend(validate_requirement(requirement, kind, &path.child("requirements").index(index)));
        }
    }
    errors
}

fn validate_requirement(requirement: &Value, kind: Kind, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let values = values(requirement);
    match str_at(requirement, &["operator"]) {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(Error::required(&path.child("values"), detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(Error::forbidden(&path.child("values"), detail));
        }
        _ => {}
    }
    let key = str_at(requirement, &["key"]);
    match kind {
        Kind::Field if key.is_empty() => errors.push(Error::required(&path.child("key"), "must be specified")),
        Kind::Field => {}
        Kind::Label => {
            errors.extend(validate_label_name(key, &path.child("key")));
            for (index, value) in values.iter().enumerate() {
                let path = path.child("values").index(index);
                errors.extend(label_value(value).into_iter().map(|fault| Error::invalid(&path, value.as_str(), fault)));
            }
        }
    }
    errors
}

/// What of the selectors cannot be understood, as `evaluationError` reports it.
pub(super) fn selector_problem(attributes: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for kind in Kind::BOTH {
        let Some(selector) = attributes.get(kind.property()) else { continue };
        let raw = str_at(selector, &["rawSelector"]);
        let raw_is_bad = !raw.is_empty()
            && match kind {
                Kind::Field => FieldSelector::parse(raw).is_err(),
                Kind::Label => LabelSelector::parse(raw).is_err(),
            };
        let all = requirements(selector);
        let understood = all.iter().filter(|requirement| is_understood(requirement, kind)).count();
        let extent = match () {
            () if all.is_empty() && raw_is_bad => "ignored",
            () if understood == all.len() => continue,
            () if understood == 0 => "ignored",
            () => "partially ignored",
        };
        problems.push(format!("spec.resourceAttributes.{} {extent} due to parse error", kind.property()));
    }
    problems
}

fn is_understood(requirement: &Value, kind: Kind) -> bool {
    let (operator, values) = (str_at(requirement, &["operator"]), values(requirement));
    match kind {
        Kind::Field => matches!(operator, "In" | "NotIn") && values.len() == 1,
        Kind::Label => {
            let operator = match operator {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                _ => return false,
            };
            Requirement::new(str_at(requirement, &["key"]), operator, values).is_ok()
        }
    }
}

/// The selectors of the request that is asked about, for fields and for labels, as a request would write them. What cannot be
/// understood is left out.
pub(super) fn selector_texts(attributes: &Value) -> [String; 2] {
    Kind::BOTH.map(|kind| {
        let Some(selector) = attributes.get(kind.property()) else { return String::new() };
        let raw = str_at(selector, &["rawSelector"]);
        if !raw.is_empty() {
            return raw.to_owned();
        }
        let understood = requirements(selector).iter().filter(|requirement| is_understood(requirement, kind));
        understood.map(|requirement| requirement_text(requirement, kind)).collect::<Vec<_>>().join(",")
    })
}

fn requirement_text(requirement: &Value, kind: Kind) -> String {
    let (key, values) = (str_at(requirement, &["key"]), values(requirement));
    let operator = str_at(requirement, &["operator"]);
    match kind {
        Kind::Field => {
            let sign = if operator == "In" { "=" } else { "!=" };
            let value = values.first().map(String::as_str).unwrap_or_default();
            let escaped = value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=");
            format!("{key}{sign}{escaped}")
        }
        Kind::Label => match operator {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_labels_must_be_such() {
        let attributes =
            |kind: &str| json!({kind: {"requirements": [{"key": "a", "operator": "In", "values": ["x", "a b"]}]}});
        let faults = validate_selectors(&attributes("labelSelector"), &Path::new("spec"));
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(faults.len(), 1);
        assert!(
            faults[0].starts_with("spec.labelSelector.requirements[0].values[1]: Invalid value: \"a b\""),
            "{faults:?}"
        );
        assert!(validate_selectors(&attributes("fieldSelector"), &Path::new("spec")).is_empty());
    }

    #[test]
    fn requirements_read_back_as_they_were_meant() {
        let attributes = json!({
            "fieldSelector": {"requirements": [
                {"key": "metadata.name", "operator": "In", "values": [r"a,b=c\\d"]},
                {"key": "x", "operator": "NotIn", "values": ["y"]},
                {"key": "z", "operator": "Near", "values": ["y"]},
            ]},
            "labelSelector": {"requirements": [
                {"key": "a", "operator": "In", "values": ["b", "c"]}, {"key": "d", "operator": "DoesNotExist"},
                {"key": "e", "operator": "Exists"}, {"key": "f", "operator": "NotIn", "values": ["g"]},
            ]},
        });
        let [fields, labels] = selector_texts(&attributes);
        let fields = FieldSelector::parse(&fields).expect("readable");
        assert_eq!(fields.exact_name(), Some(r"a,b=c\\d"));
        assert_eq!(fields.requirements().len(), 2);
        assert_eq!(LabelSelector::parse(&labels).expect("readable").requirements().len(), 4);
        assert_eq!(
            selector_texts(&json!({"labelSelector": {"rawSelector": "a=b"}})),
            [String::new(), "a=b".to_owned()]
        );
    }
}
