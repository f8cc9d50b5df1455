//! `additionalPrinterColumns`: the cells of custom resources in tables.

use std::sync::OnceLock;

use bailiwick_api::columns::{description, name_column, since};
use bailiwick_machinery::object;
use bailiwick_machinery::table::{Column, TableConvertor};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::jsonpath::{JsonPath, print};

/// A column as the definition declares it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PrinterColumn {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub format: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub priority: i32,
    pub json_path: String,
}

/// The columns of one version: the name, then those declared, or the age if none is.
pub struct Columns {
    declared: Vec<PrinterColumn>,
    /// Parsed when a table is first asked for; `None` for paths that do not parse, whose cells stay empty.
    paths: OnceLock<Vec<Option<JsonPath>>>,
}

impl Columns {
    pub fn new(mut declared: Vec<PrinterColumn>) -> Self {
        if declared.is_empty() {
            declared.push(PrinterColumn {
                name: "Age".into(),
                kind: "date".into(),
                format: String::new(),
                description: description::<ObjectMeta>("creationTimestamp"),
                priority: 0,
                json_path: ".metadata.creationTimestamp".into(),
            });
        }
        Self { declared, paths: OnceLock::new() }
    }

    fn paths(&self) -> &[Option<JsonPath>] {
        self.paths.get_or_init(|| self.declared.iter().map(|column| JsonPath::parse(&column.json_path).ok()).collect())
    }
}

impl TableConvertor for Columns {
    fn columns(&self) -> Vec<Column> {
        let declared = self.declared.iter().map(|column| {
            let text = match column.description.as_str() {
                "" => format!("Custom resource definition column (in JSONPath format): {}", column.json_path),
                given => given.to_owned(),
            };
            Column::new(&column.name, &column.kind, &text).format(&column.format).priority(column.priority)
        });
        std::iter::once(name_column()).chain(declared).collect()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let declared = self.declared.iter().zip(self.paths()).map(|(column, path)| {
            let found = path.as_ref().and_then(|path| path.first(object));
            found.map_or(Value::Null, |value| cell(&column.kind, value, now))
        });
        std::iter::once(json!(object::name(object))).chain(declared).collect()
    }
}

/// A value as a cell of the column's type; null when it is of another type.
fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("string", Value::Null) => "<no value>".into(),
        ("string", value) => print(value).into(),
        ("integer", Value::Number(number)) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.as_f64().map_or(Value::Null, |float| (float as i64).into()),
        },
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => match text.parse::<Timestamp>() {
            Ok(_) => since(Some(value), now).into(),
            Err(_) => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(kind: &str, path: &str) -> PrinterColumn {
        let column = json!({"name": "C", "type": kind, "jsonPath": path});
        serde_json::from_value(column).expect("a column")
    }

    #[test]
    fn cells_have_the_type_of_their_column() {
        let object = json!({
            "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"n": 3, "f": 2.5, "s": "x", "b": true, "list": [1, "a"], "at": "never"},
        });
        let now: Timestamp = "2026-01-01T00:05:00Z".parse().expect("a time");
        let cell = |kind: &str, path: &str| Columns::new(vec![column(kind, path)]).cells(&object, now)[1].clone();
        assert_eq!(cell("integer", ".spec.n"), json!(3));
        assert_eq!(cell("integer", ".spec.f"), json!(2));
        assert_eq!(cell("number", ".spec.n"), json!(3));
        assert_eq!(cell("integer", ".spec.s"), Value::Null);
        assert_eq!(cell("string", ".spec.n"), json!("3"));
        assert_eq!(cell("string", ".spec.list"), json!("[1,\"a\"]"));
        assert_eq!(cell("boolean", ".spec.b"), json!(true));
        assert_eq!(cell("date", ".metadata.creationTimestamp"), json!("5m"));
        assert_eq!(cell("date", ".spec.at"), json!("<invalid>"));
        assert_eq!(cell("string", ".spec.absent"), Value::Null);
    }

    #[test]
    fn without_columns_there_is_the_age() {
        let columns = Columns::new(Vec::new());
        let names: Vec<String> = columns.columns().into_iter().map(|column| column.name).collect();
        assert_eq!(names, ["Name", "Age"]);
    }
}
