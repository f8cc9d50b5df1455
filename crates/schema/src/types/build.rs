//! Const builders that the generated table is written in, so that a field is one readable line and costs nothing at
//! run time.

use super::{Field, FieldType, Meta, Type, flag};

static NO_META: Meta = Meta::NONE;

/// A field with its JSON name, protobuf number (0 when protobuf leaves it out) and type.
pub(super) const fn f(name: &'static str, number: u32, ty: FieldType) -> Field {
    Field { name, go_type: "", ty, number, flags: 0, meta: &NO_META }
}

/// A Go struct embedded without a JSON name: its fields belong to the outer object.
pub(super) const fn inline(name: &'static str, number: u32, ty: &'static Type) -> Field {
    Field { name, go_type: "", ty: FieldType::Struct(ty), number, flags: flag::INLINE, meta: &NO_META }
}

impl Field {
    const fn with(self, flag: u8) -> Self {
        Self { flags: self.flags | flag, ..self }
    }

    pub(super) const fn go(self, go_type: &'static str) -> Self {
        Self { go_type, ..self }
    }

    pub(super) const fn pointer(self) -> Self {
        self.with(flag::POINTER)
    }

    pub(super) const fn omit_empty(self) -> Self {
        self.with(flag::OMIT_EMPTY)
    }

    pub(super) const fn omit_zero(self) -> Self {
        self.with(flag::OMIT_ZERO)
    }

    pub(super) const fn required(self) -> Self {
        self.with(flag::REQUIRED)
    }

    pub(super) const fn zero_default(self) -> Self {
        self.with(flag::ZERO_DEFAULT)
    }

    pub(super) const fn meta(self, meta: &'static Meta) -> Self {
        Self { meta, ..self }
    }
}
