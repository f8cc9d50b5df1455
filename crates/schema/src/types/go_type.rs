//! Go's names for types, which upstream's error messages show.

use std::fmt;

use super::FieldType;

/// A Go type's name for error messages; knows the names of its elements.
#[derive(Clone, Copy)]
pub struct GoType {
    named: &'static str,
    ty: FieldType,
}

impl GoType {
    pub(crate) fn of(ty: FieldType) -> Self {
        Self { named: "", ty }
    }

    pub(super) fn named(named: &'static str, ty: FieldType) -> Self {
        Self { named, ty }
    }

    /// The type of list elements or map values.
    pub(crate) fn element(self) -> Self {
        let (FieldType::List(ty) | FieldType::WrappedList(ty) | FieldType::Map(ty)) = self.ty else { return self };
        let named = match self.named.strip_prefix("[]") {
            Some(rest) => rest,
            None if self.named.starts_with("map[") => self.named.split_once(']').map_or("", |(_, rest)| rest),
            None => "",
        };
        Self { named, ty: *ty }
    }
}

impl fmt::Display for GoType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.named.is_empty() {
            return f.write_str(self.named);
        }
        match self.ty {
            FieldType::String => f.write_str("string"),
            FieldType::Bool => f.write_str("bool"),
            FieldType::Int32 => f.write_str("int32"),
            FieldType::Int64 => f.write_str("int64"),
            FieldType::Double => f.write_str("float64"),
            FieldType::Bytes => f.write_str("[]uint8"),
            FieldType::Time => f.write_str("v1.Time"),
            FieldType::MicroTime => f.write_str("v1.MicroTime"),
            FieldType::Quantity => f.write_str("resource.Quantity"),
            FieldType::RawExtension => f.write_str("runtime.RawExtension"),
            FieldType::FieldsV1 => f.write_str("v1.FieldsV1"),
            FieldType::Json => f.write_str("v1.JSON"),
            FieldType::Any => f.write_str("interface {}"),
            FieldType::SchemaOrBool => f.write_str("v1.JSONSchemaPropsOrBool"),
            FieldType::SchemaOrArray => f.write_str("v1.JSONSchemaPropsOrArray"),
            FieldType::SchemaOrStringArray => f.write_str("v1.JSONSchemaPropsOrStringArray"),
            FieldType::Struct(ty) => f.write_str(ty.go_name),
            FieldType::List(_) | FieldType::WrappedList(_) => write!(f, "[]{}", self.element()),
            FieldType::Map(_) => write!(f, "map[string]{}", self.element()),
        }
    }
}
