//! Where a resource comes from; some texts and media types depend on it.

/// Built in, or defined by a CustomResourceDefinition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Native,
    Custom,
}
