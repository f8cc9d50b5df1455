//! Objects as table rows (`meta.k8s.io/v1` Table): what `kubectl get` prints.

use jiff::Timestamp;
use serde_json::{Value, json};

/// The head of one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// `name` for the column that holds the object's name, else empty.
    pub format: String,
    pub description: String,
    /// 0 is always shown; larger ones only by `-o wide`.
    pub priority: i32,
}

impl Column {
    pub fn new(name: &str, kind: &str, description: &str) -> Self {
        Self {
            name: name.into(),
            kind: kind.into(),
            format: String::new(),
            description: description.into(),
            priority: 0,
        }
    }

    pub fn format(mut self, format: &str) -> Self {
        self.format = format.into();
        self
    }

    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name, "type": self.kind, "format": self.format,
            "description": self.description, "priority": self.priority,
        })
    }
}

/// Turns objects of one resource into rows.
pub trait TableConvertor: Send + Sync {
    fn columns(&self) -> Vec<Column>;

    /// What stands for the rows of a table without any. Upstream's generic table has null there.
    fn no_rows(&self) -> &'static [u8] {
        b"[]"
    }

    /// One cell per column. `now` is for ages.
    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value>;
}
