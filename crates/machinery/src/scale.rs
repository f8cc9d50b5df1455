//! The `scale` subresource: an `autoscaling/v1` Scale read from and written into a custom resource.

use bailiwick_schema::field::{Error, ErrorList, Path};
use serde_json::{Map, Value, json};

use crate::custom::{CustomType, ScalePaths};
use crate::object;

/// What is wrong with the replicas a custom resource asks for.
pub fn validate_spec(custom: &CustomType, object: &Value) -> Option<Error> {
    let scale = custom.scale.as_ref()?;
    replicas_error(object, &scale.spec_replicas)
}

/// What is wrong with the replicas and the selector a custom resource reports.
pub fn validate_status(custom: &CustomType, object: &Value) -> ErrorList {
    let Some(scale) = &custom.scale else { return ErrorList::new() };
    let mut errors: ErrorList = replicas_error(object, &scale.status_replicas).into_iter().collect();
    if let Err(error) = text_at(object, &scale.label_selector) {
        errors.push(Error::invalid(&Path::new(&scale.label_selector), "", error));
    }
    errors
}

fn replicas_error(object: &Value, path: &str) -> Option<Error> {
    let at = Path::new(path);
    match integer_at(object, path) {
        Err(error) => Some(Error::invalid(&at, 0, error)),
        Ok(Some(n)) if n < 0 => Some(Error::invalid(&at, n, "should be a non-negative integer")),
        Ok(Some(n)) if n > i64::from(i32::MAX) => {
            Some(Error::invalid(&at, n, format!("should be less than or equal to {}", i32::MAX)))
        }
        Ok(_) => None,
    }
}

/// The Scale of a custom resource, and whether the object says how many replicas it wants.
pub fn scale_of(object: &Value, paths: &ScalePaths) -> Result<(Value, bool), String> {
    let wanted = integer_at(object, &paths.spec_replicas)?;
    let reported = integer_at(object, &paths.status_replicas)?;
    let selector = text_at(object, &paths.label_selector)?;
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object::metadata(object).and_then(|metadata| metadata.get(field)) {
            metadata.insert(field.into(), value.clone());
        }
    }
    // As a conversion of Go's between integer types.
    let cut = |n: Option<i64>| n.unwrap_or(0) as i32;
    let mut spec = Map::new();
    if cut(wanted) != 0 {
        spec.insert("replicas".into(), cut(wanted).into());
    }
    let mut status = json!({"replicas": cut(reported)});
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    let scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status,
    });
    Ok((scale, wanted.is_some()))
}

/// Writes the replicas a Scale asks for into a custom resource.
pub fn set_replicas(object: &mut Value, paths: &ScalePaths, replicas: i64) -> Result<(), String> {
    let mut fields: Vec<&str> = ScalePaths::fields(&paths.spec_replicas).collect();
    let last = fields.pop().unwrap_or_default();
    let mut at = object;
    let mut walked = String::new();
    for field in fields {
        walked = format!("{walked}.{field}");
        let Some(map) = at.as_object_mut() else { return Err(not_a_map(&walked)) };
        at = map.entry(field).or_insert_with(|| Value::Object(Map::new()));
    }
    match at.as_object_mut() {
        Some(map) => map.insert(last.into(), replicas.into()),
        None => return Err(not_a_map(&walked)),
    };
    Ok(())
}

fn not_a_map(path: &str) -> String {
    format!("value cannot be set because {path} is not a map[string]interface{{}}")
}

fn integer_at(object: &Value, path: &str) -> Result<Option<i64>, String> {
    match value_at(object, path)? {
        None => Ok(None),
        Some(value) => match value.as_i64() {
            Some(whole) => Ok(Some(whole)),
            None => Err(wrong_type(path, value, "int64")),
        },
    }
}

fn text_at<'a>(object: &'a Value, path: &str) -> Result<&'a str, String> {
    match if path.is_empty() { None } else { value_at(object, path)? } {
        None => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(wrong_type(path, other, "string")),
    }
}

/// The value at a path; an error when something on the way is no map.
fn value_at<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let mut at = object;
    let mut walked = String::new();
    for field in ScalePaths::fields(path) {
        match at {
            Value::Object(map) => match map.get(field) {
                Some(value) => at = value,
                None => return Ok(None),
            },
            Value::Null => return Ok(None),
            other => return Err(wrong_type(&walked, other, "map[string]interface{}")),
        }
        walked = format!("{walked}.{field}");
    }
    Ok(Some(at))
}

fn wrong_type(path: &str, value: &Value, expected: &str) -> String {
    let (shown, found) = match value {
        Value::Null => ("<nil>".to_owned(), "<nil>"),
        Value::Bool(flag) => (flag.to_string(), "bool"),
        Value::Number(n) if n.is_f64() => (n.to_string(), "float64"),
        Value::Number(n) => (n.to_string(), "int64"),
        Value::String(text) => (text.clone(), "string"),
        Value::Array(_) => (bailiwick_merge::go_format::go_format(value), "[]interface {}"),
        Value::Object(_) => (bailiwick_merge::go_format::go_format(value), "map[string]interface {}"),
    };
    let path = if path.starts_with('.') { path.to_owned() } else { format!(".{path}") };
    format!("{path} accessor error: {shown} is of the type {found}, expected {expected}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths() -> ScalePaths {
        ScalePaths {
            spec_replicas: ".spec.size".into(),
            status_replicas: ".status.size".into(),
            label_selector: ".status.selector".into(),
        }
    }

    #[test]
    fn a_scale_is_read_from_the_paths() {
        let object = json!({
            "metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"size": 3}, "status": {"size": 2, "selector": "a=b"},
        });
        let (scale, found) = scale_of(&object, &paths()).expect("a scale");
        assert!(found);
        assert_eq!(scale["spec"], json!({"replicas": 3}));
        assert_eq!(scale["status"], json!({"replicas": 2, "selector": "a=b"}));
        assert_eq!(scale["metadata"], json!({"name": "a"}));
    }

    #[test]
    fn replicas_of_another_type_are_an_error() {
        let error = scale_of(&json!({"spec": {"size": "x"}}), &paths()).expect_err("not a number");
        assert_eq!(error, ".spec.size accessor error: x is of the type string, expected int64");
    }

    #[test]
    fn replicas_are_written_where_the_path_says() {
        let mut object = json!({"metadata": {}});
        set_replicas(&mut object, &paths(), 5).expect("written");
        assert_eq!(object["spec"]["size"], 5);
    }
}
