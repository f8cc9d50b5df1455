//! Printer columns: what the cells of many resources share, above all ages written the way `kubectl get` shows them.
//!
//! Column descriptions that upstream takes from its API documentation are taken from the OpenAPI descriptions in
//! k8s-openapi at run time.

use std::sync::OnceLock;

use bailiwick_machinery::object;
use bailiwick_machinery::table::{Column, TableConvertor};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

/// A table made of two functions: one for the head, built once, and one for each row.
pub struct Printer {
    head: fn() -> Vec<Column>,
    built: OnceLock<Vec<Column>>,
    row: fn(&Value, Timestamp) -> Vec<Value>,
    no_rows: &'static [u8],
}

impl Printer {
    pub const fn new(head: fn() -> Vec<Column>, row: fn(&Value, Timestamp) -> Vec<Value>) -> Self {
        Self { head, built: OnceLock::new(), row, no_rows: b"[]" }
    }

    /// With null for the rows of an empty table, as upstream's generic table has it.
    pub const fn with_null_rows(mut self) -> Self {
        self.no_rows = b"null";
        self
    }
}

impl TableConvertor for Printer {
    fn columns(&self) -> Vec<Column> {
        self.built.get_or_init(self.head).clone()
    }

    fn no_rows(&self) -> &'static [u8] {
        self.no_rows
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        (self.row)(object, now)
    }
}

/// The table of types that have no columns of their own: name and moment of creation.
pub fn default_table() -> Printer {
    Printer::new(
        || vec![name_column(), Column::new("Created At", "date", &description::<ObjectMeta>("creationTimestamp"))],
        |object, _now| {
            let created = match object::meta_str(object, "creationTimestamp") {
                "" => "0001-01-01T00:00:00Z",
                created => created,
            };
            vec![json!(object::name(object)), json!(created)]
        },
    )
}

/// The column that holds the object's name.
pub fn name_column() -> Column {
    Column::new("Name", "string", &description::<ObjectMeta>("name")).format("name")
}

/// The column that holds the object's age.
pub fn age_column() -> Column {
    Column::new("Age", "string", &description::<ObjectMeta>("creationTimestamp"))
}

/// The cell for [`age_column`].
pub fn age(object: &Value, now: Timestamp) -> Value {
    let created = object::metadata(object).and_then(|m| m.get("creationTimestamp"));
    Value::String(since(created, now))
}

/// The API documentation of a field, as k8s-openapi carries it; empty when it has none.
pub fn description<T: JsonSchema>(field: &str) -> String {
    let schema = T::json_schema(&mut SchemaGenerator::default());
    schema
        .get("properties")
        .and_then(|properties| properties.get(field)?.get("description")?.as_str())
        .unwrap_or_default()
        .to_owned()
}

/// How long ago a timestamp of an object was; `<unknown>` when it is absent.
pub fn since(timestamp: Option<&Value>, now: Timestamp) -> String {
    match timestamp.and_then(Value::as_str).and_then(|text| text.parse::<Timestamp>().ok()) {
        Some(then) => human_duration(now.duration_since(then)),
        None => "<unknown>".to_owned(),
    }
}

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// A duration in two or three significant figures: `95s`, `3m12s`, `7h5m`, `2d3h`, `400d`, `3y20d`.
///
/// Clocks of different machines differ a little, so up to two seconds into the future still count as now.
pub fn human_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two_units(s / MINUTE, "m", s % MINUTE, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two_units(s / HOUR, "h", s % HOUR / MINUTE, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two_units(s / DAY, "d", s % DAY / HOUR, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two_units(s / YEAR, "y", s % YEAR / DAY, "d"),
        s => format!("{}y", s / YEAR),
    }
}

fn two_units(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 { format!("{large}{large_unit}") } else { format!("{large}{large_unit}{small}{small_unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_like_upstreams() {
        for (seconds, expected) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (192, "3m12s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (25_500, "7h5m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (183_600, "2d3h"),
            (691_200, "8d"),
            (63_071_999, "729d"),
            (63_072_000, "2y"),
            (96_336_000, "3y20d"),
            (252_288_000, "8y"),
        ] {
            assert_eq!(human_duration(SignedDuration::from_secs(seconds)), expected, "{seconds}");
        }
    }

    #[test]
    fn descriptions_come_from_the_api_documentation() {
        assert!(description::<ObjectMeta>("name").starts_with("Name must be unique within a namespace."));
        assert_eq!(description::<ObjectMeta>("nothing"), "");
    }

    #[test]
    fn types_without_columns_show_name_and_creation() {
        let table = default_table();
        let object = json!({"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}});
        assert_eq!(table.cells(&object, Timestamp::UNIX_EPOCH), [json!("a"), json!("2026-01-01T00:00:00Z")]);
        assert_eq!(table.columns()[1].kind, "date");
    }
}
