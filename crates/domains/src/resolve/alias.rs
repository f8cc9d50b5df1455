//! CNAME and DNAME: names that stand for other names.

use serde::Serialize;

use crate::wire::{Name, RData, Record, RecordType, dname_target, label_count};

/// How a name is an alias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum AliasKind {
    /// The name itself has a CNAME record.
    Cname,
    /// A name above it has a DNAME record.
    Dname,
}

/// One link of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// How.
    pub kind: AliasKind,
    /// The name that is an alias.
    pub name: Name,
    /// The owner of the record: `name`, or a name above it.
    pub owner: Name,
    /// What it stands for.
    pub target: Name,
    /// The record's time to live.
    pub ttl: u32,
    /// The zone whose servers said so; set by the resolution.
    pub zone: Name,
}

/// The alias that these records make of `name`; `Err` with the DNAME's owner when the new name is too long.
pub(super) fn of(records: &[Record], name: &Name) -> Option<Result<Alias, Name>> {
    // A DNAME comes with a CNAME that the server made from it; the DNAME is the truth.
    let dname = records.iter().filter(|record| record.record_type() == RecordType::DNAME);
    for record in dname {
        if record.name != *name
            && record.name.zone_of(name)
            && let Some(target) = dname_target(record)
        {
            return Some(match substitute(name, &record.name, &target) {
                Some(new) => Ok(link(AliasKind::Dname, name, record, new)),
                None => Err(record.name.clone()),
            });
        }
    }
    records.iter().find_map(|record| match &record.data {
        RData::CNAME(target) if record.name == *name => {
            Some(Ok(link(AliasKind::Cname, name, record, target.0.to_lowercase())))
        }
        _ => None,
    })
}

fn link(kind: AliasKind, name: &Name, record: &Record, target: Name) -> Alias {
    let owner = record.name.to_lowercase();
    Alias { kind, name: name.to_lowercase(), owner, target, ttl: record.ttl, zone: Name::root() }
}

/// `name` with its ending `owner` replaced by `target` (RFC 6672 §2.2); nothing when that is too long.
fn substitute(name: &Name, owner: &Name, target: &Name) -> Option<Name> {
    let kept = label_count(name).checked_sub(label_count(owner))?;
    let mut prefix = Name::from_labels(name.iter().take(kept)).ok()?;
    prefix.set_fqdn(false);
    let mut new = prefix.append_domain(target).ok()?;
    new.set_fqdn(true);
    Some(new.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::parse_name;

    fn name(text: &str) -> Name {
        parse_name(text).expect("a name")
    }

    #[test]
    fn a_dname_replaces_the_ending() {
        let made = substitute(&name("a.b.old.example"), &name("old.example"), &name("new.test"));
        assert_eq!(made, Some(name("a.b.new.test")));
        assert_eq!(substitute(&name("a.old.example"), &name("old.example"), &Name::root()), Some(name("a")));
    }

    #[test]
    fn a_dname_that_makes_a_name_too_long_is_told() {
        let long = name(&format!("{0}.{0}.{0}.old.example", "x".repeat(60)));
        let target = name(&format!("{}.{}.test", "y".repeat(63), "y".repeat(20)));
        assert_eq!(substitute(&long, &name("old.example"), &target), None);
    }
}
