//! Cells of tables that the caller computes.

use std::sync::Arc;

use bailiwick_machinery::table::{Column, TableConvertor};
use jiff::Timestamp;
use serde_json::Value;

use super::Hookable;

/// A column and the function that fills it.
pub struct ComputedColumn<T> {
    head: Column,
    cell: Box<dyn Fn(&T) -> Value + Send + Sync>,
}

impl<T> ComputedColumn<T> {
    pub fn new(name: &str, kind: &str, description: &str, cell: impl Fn(&T) -> Value + Send + Sync + 'static) -> Self {
        Self { head: Column::new(name, kind, description), cell: Box::new(cell) }
    }
}

/// A table and computed columns after its own.
pub struct WithComputed<T> {
    table: Arc<dyn TableConvertor>,
    columns: Arc<[ComputedColumn<T>]>,
}

impl<T> WithComputed<T> {
    pub fn new(table: Arc<dyn TableConvertor>, columns: Arc<[ComputedColumn<T>]>) -> Self {
        Self { table, columns }
    }
}

impl<T: Hookable> TableConvertor for WithComputed<T> {
    fn columns(&self) -> Vec<Column> {
        let mut columns = self.table.columns();
        columns.extend(self.columns.iter().map(|column| column.head.clone()));
        columns
    }

    fn no_rows(&self) -> &'static [u8] {
        self.table.no_rows()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let mut cells = self.table.cells(object, now);
        let typed = T::deserialize(object).ok();
        let cell = |column: &ComputedColumn<T>| typed.as_ref().map_or(Value::Null, |typed| (column.cell)(typed));
        cells.extend(self.columns.iter().map(cell));
        cells
    }
}
