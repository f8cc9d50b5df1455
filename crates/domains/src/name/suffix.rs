//! Which part of a name somebody registered, by the public suffix list. Its two divisions are kept apart: below a suffix
//! of the ICANN division names are registered with a registry, below one of the PRIVATE division a company hands them out.

use serde::Serialize;

use super::{DomainName, NameError, host_of};

/// Where the public suffix of a name comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SuffixKind {
    /// A registry's, such as `com` or `co.uk`.
    Icann,
    /// A company's that gives names to its customers, such as `github.io`.
    Private,
    /// Not on the list: the last label is taken for one.
    Unlisted,
}

/// A name somebody asks about, taken apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// What was asked about.
    pub name: DomainName,
    /// The same as people read it.
    pub unicode: String,
    /// The name that was registered with a registry: whose RDAP answers.
    pub registered: DomainName,
    /// The name that one customer controls: the same, or a name below a private suffix.
    pub controlled: DomainName,
    /// The public suffix of `controlled`.
    pub suffix: DomainName,
    pub suffix_kind: SuffixKind,
    /// Letters that are made to be mistaken for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lookalike: Option<super::Lookalike>,
}

impl Subject {
    /// Takes whatever was pasted.
    pub fn parse(input: &str) -> Result<Self, NameError> {
        Self::of(host_of(input)?)
    }

    /// Takes a name apart. A public suffix itself is refused: nobody owns it.
    pub fn of(name: DomainName) -> Result<Self, NameError> {
        if name.label_count() < 2 {
            return Err(NameError::SingleLabel(name));
        }
        let (suffix, suffix_kind) = public_suffix(name.as_str());
        let registry_suffix = match suffix_kind {
            SuffixKind::Private => registry_suffix(suffix),
            SuffixKind::Icann | SuffixKind::Unlisted => suffix,
        };
        let Some(controlled) = below(name.as_str(), suffix) else {
            return Err(NameError::PublicSuffix(name));
        };
        let registered = below(name.as_str(), registry_suffix).unwrap_or(controlled);
        Ok(Self {
            unicode: name.unicode(),
            registered: DomainName::known(registered),
            controlled: DomainName::known(controlled),
            suffix: DomainName::known(suffix),
            suffix_kind,
            lookalike: name.lookalike(),
            name,
        })
    }
}

/// Whether a name is a registry's: the last label, or a suffix of the ICANN division.
pub(crate) fn is_registry_suffix(name: &str) -> bool {
    !name.contains('.') || matches!(public_suffix(name), (suffix, SuffixKind::Icann) if suffix == name)
}

fn public_suffix(name: &str) -> (&str, SuffixKind) {
    match psl::suffix(name.as_bytes()) {
        Some(found) => {
            let kind = match found.typ() {
                Some(psl::Type::Icann) => SuffixKind::Icann,
                Some(psl::Type::Private) => SuffixKind::Private,
                None => SuffixKind::Unlisted,
            };
            // The suffix is the end of the name; the list's own answer is bytes.
            (last_bytes(name, found.as_bytes().len()), kind)
        }
        None => (name.rsplit_once('.').map_or(name, |(_, last)| last), SuffixKind::Unlisted),
    }
}

fn last_bytes(name: &str, count: usize) -> &str {
    name.len().checked_sub(count).and_then(|at| name.get(at..)).unwrap_or(name)
}

/// The registry's suffix that a private one stands under: `io` for `github.io`.
fn registry_suffix(private: &str) -> &str {
    let mut candidate = private;
    while let Some((_, parent)) = candidate.split_once('.') {
        match public_suffix(parent) {
            (suffix, SuffixKind::Icann | SuffixKind::Unlisted) => return suffix,
            (_, SuffixKind::Private) => candidate = parent,
        }
    }
    candidate
}

/// The part of `name` that is one label longer than `suffix`.
fn below<'a>(name: &'a str, suffix: &str) -> Option<&'a str> {
    let front = name.strip_suffix(suffix)?.strip_suffix('.')?;
    let label_start = front.rfind('.').map_or(0, |dot| dot + 1);
    name.get(label_start..)
}
