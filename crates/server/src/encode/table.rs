//! Table answers: the rows and columns that `kubectl get` prints.

use bailiwick_api::columns::{name_column, since};
use bailiwick_machinery::object;
use bailiwick_machinery::table::Column;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Encoder, ListMeta, partial, write_value};

/// What of each object a table row carries besides its cells (`?includeObject=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl Encoder {
    pub(super) fn columns(&self) -> Value {
        self.served.resource.table.columns().iter().map(|column| column.to_json()).collect()
    }

    /// One row; `object` is in the served version. Ages count from now: a watch may have begun long ago.
    pub(super) fn row(&self, object: &Value) -> Value {
        self.row_of(object, self.served.resource.table.cells(object, Timestamp::now()))
    }

    fn row_of(&self, object: &Value, cells: Vec<Value>) -> Value {
        let included = match self.include {
            IncludeObject::None => return json!({"cells": cells, "object": null}),
            IncludeObject::Metadata => partial::of_value(json!({"metadata": object["metadata"]}), self.meta),
            IncludeObject::Object => object.clone(),
        };
        json!({"cells": cells, "object": included})
    }

    pub(super) fn table_of(&self, meta: &ListMeta, objects: &[Value]) -> Value {
        json!({
            "kind": "Table", "apiVersion": self.meta.api_version(), "metadata": meta.to_value(),
            "columnDefinitions": self.columns(),
            "rows": objects.iter().map(|object| self.row(object)).collect::<Vec<_>>(),
        })
    }

    /// A Scale has columns of its own, whatever it scales.
    pub(super) fn scale_table(&self, scale: &Value) -> Value {
        let columns = [
            name_column(),
            Column::new("Desired", "integer", "Number of desired replicas"),
            Column::new("Available", "integer", "Number of replicas that are there"),
            Column::new("Age", "date", "Time since the object was created"),
        ];
        let replicas = |of: &str| scale[of]["replicas"].as_i64().unwrap_or_default();
        let age = since(scale["metadata"].get("creationTimestamp"), Timestamp::now());
        let cells = vec![object::name(scale).into(), replicas("spec").into(), replicas("status").into(), age.into()];
        json!({
            "kind": "Table", "apiVersion": self.meta.api_version(),
            "metadata": {"resourceVersion": scale["metadata"]["resourceVersion"]},
            "columnDefinitions": columns.iter().map(|column| column.to_json()).collect::<Vec<_>>(),
            "rows": [self.row_of(scale, cells)],
        })
    }

    pub(super) fn write_table_head(&self, meta: &ListMeta, out: &mut Vec<u8>) {
        let head = format!("{{\"kind\":\"Table\",\"apiVersion\":\"{}\",\"metadata\":", self.meta.api_version());
        out.extend_from_slice(head.as_bytes());
        write_value(&meta.to_value(), out);
        out.extend_from_slice(b",\"columnDefinitions\":");
        write_value(&self.columns(), out);
        out.extend_from_slice(b",\"rows\":");
    }
}
