//! Label selectors as API objects write them: `matchLabels` and `matchExpressions`.

use serde_json::Value;

use super::labels::{LabelSelector, Operator, Requirement, aggregate};
use crate::field::{Error, ErrorList, Path};
use crate::validation::metadata::{validate_label_name, validate_labels};
use crate::validation::names;

/// What is wrong with a LabelSelector object; absent and null are fine.
pub fn validate_label_selector(selector: Option<&Value>, path: &Path) -> ErrorList {
    let Some(selector) = selector.filter(|s| !s.is_null()) else { return ErrorList::new() };
    let mut errors = validate_labels(selector.get("matchLabels"), &path.child("matchLabels"));
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    for (i, expression) in expressions.into_iter().flatten().enumerate() {
        errors.extend(validate_expression(expression, &path.child("matchExpressions").index(i)));
    }
    errors
}

fn validate_expression(expression: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let values = values_of(expression);
    let operator = str_of(expression, "operator");
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            errors.push(Error::required(&path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'"))
        }
        "In" | "NotIn" => {}
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(Error::forbidden(
            &path.child("values"),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        "Exists" | "DoesNotExist" => {}
        other => errors.push(Error::invalid(&path.child("operator"), other, "not a valid selector operator")),
    }
    errors.extend(validate_label_name(str_of(expression, "key"), &path.child("key")));
    for (i, value) in values.iter().enumerate() {
        let at = path.child("values").index(i);
        errors.extend(names::label_value(value).into_iter().map(|t| Error::invalid(&at, *value, t)));
    }
    errors
}

impl LabelSelector {
    /// From a LabelSelector object. Absent or null selects nothing and gives `None`; an empty object selects
    /// everything.
    pub fn from_object(selector: Option<&Value>) -> Result<Option<Self>, String> {
        let Some(selector) = selector.filter(|s| !s.is_null()) else { return Ok(None) };
        let mut requirements = Vec::new();
        let mut add = |key: &str, operator, values| {
            Requirement::new(key, operator, values).map(|r| requirements.push(r)).map_err(|e| aggregate(&e))
        };
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            add(key, Operator::Equals, vec![value.as_str().unwrap_or_default().to_owned()])?;
        }
        for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let operator = match str_of(expression, "operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(format!("{other:?} is not a valid label selector operator")),
            };
            let values = values_of(expression).into_iter().map(str::to_owned).collect();
            add(str_of(expression, "key"), operator, values)?;
        }
        Ok(Some(Self::new(requirements)))
    }
}

fn str_of<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn values_of(expression: &Value) -> Vec<&str> {
    let values = expression.get("values").and_then(Value::as_array);
    values.into_iter().flatten().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absent_selects_nothing_and_empty_everything() {
        assert_eq!(LabelSelector::from_object(None), Ok(None));
        assert_eq!(LabelSelector::from_object(Some(&Value::Null)), Ok(None));
        assert_eq!(LabelSelector::from_object(Some(&json!({}))), Ok(Some(LabelSelector::everything())));
    }

    #[test]
    fn labels_and_expressions_combine() {
        let object = json!({"matchLabels": {"b": "1"}, "matchExpressions": [
            {"key": "a", "operator": "NotIn", "values": ["y", "x"]}, {"key": "c", "operator": "Exists"}]});
        let selector = LabelSelector::from_object(Some(&object)).unwrap().unwrap();
        assert_eq!(selector.to_string(), "a notin (x,y),b=1,c");
        let bad = json!({"matchExpressions": [{"key": "a", "operator": "Foo"}]});
        assert_eq!(
            LabelSelector::from_object(Some(&bad)),
            Err("\"Foo\" is not a valid label selector operator".to_owned())
        );
    }

    #[test]
    fn validation_names_each_fault() {
        let object = json!({"matchExpressions": [
            {"key": "a", "operator": "In"}, {"key": "", "operator": "Exists", "values": ["-"]}, {"key": "a", "operator": "x"}]});
        let errors = validate_label_selector(Some(&object), &Path::new("spec").child("selector"));
        let fields: Vec<&str> = errors.iter().map(|e| e.field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "spec.selector.matchExpressions[0].values",
                "spec.selector.matchExpressions[1].values",
                "spec.selector.matchExpressions[1].key",
                "spec.selector.matchExpressions[1].key",
                "spec.selector.matchExpressions[1].values[0]",
                "spec.selector.matchExpressions[2].operator",
            ]
        );
    }
}
