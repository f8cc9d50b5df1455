//! In which order clients see groups and versions: what clients call a thing is decided by who comes first.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use bailiwick_machinery::versions::compare_versions;

use crate::API_REGISTRATION_GROUP;

/// A group version with its rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub group_priority: i64,
    pub version_priority: i64,
}

/// Groups with their versions as `/apis` lists them: groups by the highest priority any of their records asks for, then
/// by the first of their records' names, which begin with the version; versions by priority, then newest first. The
/// group of the records themselves is first, the core group is left out.
pub fn by_records<'a>(records: impl IntoIterator<Item = Ranked<'a>>) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut records: Vec<Ranked<'a>> = records.into_iter().filter(|record| !record.group.is_empty()).collect();
    records.sort_by(|a, b| {
        let own = |record: &Ranked<'_>| record.group != API_REGISTRATION_GROUP;
        own(a).cmp(&own(b)).then(b.group_priority.cmp(&a.group_priority)).then_with(|| by_name(a, b))
    });
    let mut groups: Vec<(&str, Vec<Ranked<'a>>)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for record in records {
        let place = *places.entry(record.group).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, versions)) => versions.push(record),
            None => groups.push((record.group, vec![record])),
        }
    }
    groups.into_iter().map(|(group, versions)| (group, sorted_versions(versions))).collect()
}

/// Groups with their versions as aggregated discovery lists them: as above, but groups of one priority by their names.
pub fn by_groups<'a>(served: impl IntoIterator<Item = Ranked<'a>>) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut groups: BTreeMap<&str, (i64, Vec<Ranked<'a>>)> = BTreeMap::new();
    for version in served {
        let group = groups.entry(version.group).or_insert((version.group_priority, Vec::new()));
        group.0 = group.0.max(version.group_priority);
        group.1.push(version);
    }
    let mut ordered: Vec<(&str, (i64, Vec<Ranked<'a>>))> = groups.into_iter().collect();
    ordered.sort_by_key(|(group, (priority, _))| (*group != API_REGISTRATION_GROUP, std::cmp::Reverse(*priority)));
    ordered.into_iter().map(|(group, (_, versions))| (group, sorted_versions(versions))).collect()
}

fn sorted_versions<'a>(mut versions: Vec<Ranked<'a>>) -> Vec<&'a str> {
    versions.sort_by(|a, b| {
        b.version_priority.cmp(&a.version_priority).then_with(|| compare_versions(b.version, a.version))
    });
    versions.into_iter().map(|version| version.version).collect()
}

/// By `version.group`.
fn by_name<'a>(a: &Ranked<'a>, b: &Ranked<'a>) -> Ordering {
    let name = |record: &Ranked<'a>| record.version.bytes().chain([b'.']).chain(record.group.bytes());
    name(a).cmp(name(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(
        group: &'static str,
        version: &'static str,
        group_priority: i64,
        version_priority: i64,
    ) -> Ranked<'static> {
        Ranked { group, version, group_priority, version_priority }
    }

    #[test]
    fn the_highest_priority_of_a_group_counts() {
        let records = [
            ranked("low", "v1", 10, 1),
            ranked("high", "v1", 5, 1),
            ranked("high", "v2", 2000, 1),
            ranked("apiregistration.k8s.io", "v1", 1, 1),
            ranked("", "v1", 18000, 1),
        ];
        let expected = vec![("apiregistration.k8s.io", vec!["v1"]), ("high", vec!["v2", "v1"]), ("low", vec!["v1"])];
        assert_eq!(by_records(records.clone()), expected);
        assert_eq!(by_groups(records[..4].to_vec()), expected);
    }

    #[test]
    fn versions_rank_by_priority_and_then_by_stability() {
        let records = [
            ranked("g", "v1", 1, 15),
            ranked("g", "v2alpha1", 1, 15),
            ranked("g", "v1beta1", 1, 20),
            ranked("g", "v2", 1, 15),
        ];
        assert_eq!(by_records(records), [("g", vec!["v1beta1", "v2", "v1", "v2alpha1"])]);
    }

    #[test]
    fn equal_groups_rank_by_the_names_of_records_or_by_their_own() {
        let records = [ranked("a", "v2", 1, 1), ranked("b", "v1", 1, 1)];
        assert_eq!(by_records(records.clone()).first().map(|(group, _)| *group), Some("b"));
        assert_eq!(by_groups(records).first().map(|(group, _)| *group), Some("a"));
    }
}
