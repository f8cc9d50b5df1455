//! How lists and watches choose objects: by labels and by fields.

pub mod fields;
mod label_object;
pub mod labels;

pub use fields::FieldSelector;
pub use label_object::validate_label_selector;
pub use labels::LabelSelector;
