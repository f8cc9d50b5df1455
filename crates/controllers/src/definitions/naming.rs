//! Who may be called what: within a group, plurals, singulars and short names are one space, kinds and list kinds
//! another, and the first definition to have a name keeps it.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::conditions::Condition;

/// `spec.names` and `status.acceptedNames`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    plural: String,
    singular: String,
    short_names: Vec<String>,
    kind: String,
    list_kind: String,
    categories: Vec<String>,
}

impl Names {
    pub fn of(value: &Value) -> Self {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let texts = |field: &str| {
            let list = value[field].as_array().into_iter().flatten();
            list.filter_map(|item| item.as_str().map(str::to_owned)).collect()
        };
        Self {
            plural: text("plural"),
            singular: text("singular"),
            short_names: texts("shortNames"),
            kind: text("kind"),
            list_kind: text("listKind"),
            categories: texts("categories"),
        }
    }

    pub fn to_json(&self) -> Value {
        let mut json = json!({"plural": self.plural, "kind": self.kind});
        for (field, value) in [("singular", &self.singular), ("listKind", &self.list_kind)] {
            if !value.is_empty() {
                json[field] = value.as_str().into();
            }
        }
        for (field, values) in [("shortNames", &self.short_names), ("categories", &self.categories)] {
            if !values.is_empty() {
                json[field] = values.clone().into();
            }
        }
        json
    }

    fn resources(&self) -> impl Iterator<Item = &String> {
        [&self.plural, &self.singular].into_iter().chain(&self.short_names).filter(|name| !name.is_empty())
    }

    fn kinds(&self) -> impl Iterator<Item = &String> {
        [&self.kind, &self.list_kind].into_iter().filter(|name| !name.is_empty())
    }
}

/// What a definition may be called.
#[derive(Debug, PartialEq)]
pub(super) struct Decision {
    pub names: Names,
    pub condition: Condition,
}

/// The names of all definitions.
#[derive(Default)]
pub(super) struct UsedNames {
    groups: HashMap<String, Group>,
    /// By definition: its group and the names it holds.
    held: HashMap<String, (String, Names)>,
}

#[derive(Default)]
struct Group {
    resources: HashMap<String, String>,
    kinds: HashMap<String, String>,
}

impl UsedNames {
    /// Says which names a definition holds now.
    pub fn set(&mut self, group: &str, owner: &str, names: &Names) {
        if self.held.get(owner).is_some_and(|(_, held)| held == names) {
            return;
        }
        self.remove(owner);
        let space = self.groups.entry(group.to_owned()).or_default();
        for name in names.resources() {
            space.resources.entry(name.clone()).or_insert_with(|| owner.to_owned());
        }
        for name in names.kinds() {
            space.kinds.entry(name.clone()).or_insert_with(|| owner.to_owned());
        }
        self.held.insert(owner.to_owned(), (group.to_owned(), names.clone()));
    }

    /// Forgets a definition; tells its group.
    pub fn remove(&mut self, owner: &str) -> Option<String> {
        let (group, names) = self.held.remove(owner)?;
        if let Some(space) = self.groups.get_mut(&group) {
            for name in names.resources() {
                if space.resources.get(name).is_some_and(|holder| holder == owner) {
                    space.resources.remove(name);
                }
            }
            for name in names.kinds() {
                if space.kinds.get(name).is_some_and(|holder| holder == owner) {
                    space.kinds.remove(name);
                }
            }
            if space.resources.is_empty() && space.kinds.is_empty() {
                self.groups.remove(&group);
            }
        }
        Some(group)
    }

    /// Definitions known besides these.
    pub fn owners_besides(&self, listed: &[String]) -> Vec<String> {
        let listed: std::collections::HashSet<&String> = listed.iter().collect();
        self.held.keys().filter(|owner| !listed.contains(owner)).cloned().collect()
    }

    /// What `owner` may be called that wants `wanted` and is called `accepted`. The last conflict found is reported.
    pub fn decide(&self, group: &str, owner: &str, wanted: &Names, accepted: &Names) -> Decision {
        let space = self.groups.get(group);
        let taken = |of: fn(&Group) -> &HashMap<String, String>, name: &str| {
            space.and_then(|space| of(space).get(name)).is_some_and(|holder| holder != owner)
        };
        let resource_taken = |name: &str| taken(|group| &group.resources, name);
        let kind_taken = |name: &str| taken(|group| &group.kinds, name);
        let in_use = |name: &str| format!("{name:?} is already in use");
        let mut names = accepted.clone();
        let mut conflict = None;
        match wanted.plural != accepted.plural && resource_taken(&wanted.plural) {
            true => conflict = Some(("PluralConflict", in_use(&wanted.plural))),
            false => names.plural = wanted.plural.clone(),
        }
        match wanted.singular != accepted.singular && resource_taken(&wanted.singular) {
            true => conflict = Some(("SingularConflict", in_use(&wanted.singular))),
            false => names.singular = wanted.singular.clone(),
        }
        let taken_short: Vec<String> = wanted
            .short_names
            .iter()
            .filter(|name| !accepted.short_names.contains(name) && resource_taken(name))
            .map(|name| in_use(name))
            .collect();
        match taken_short.as_slice() {
            [] => names.short_names = wanted.short_names.clone(),
            [one] => conflict = Some(("ShortNamesConflict", one.clone())),
            many => conflict = Some(("ShortNamesConflict", format!("[{}]", many.join(", ")))),
        }
        match wanted.kind != accepted.kind && kind_taken(&wanted.kind) {
            true => conflict = Some(("KindConflict", in_use(&wanted.kind))),
            false => names.kind = wanted.kind.clone(),
        }
        match wanted.list_kind != accepted.list_kind && kind_taken(&wanted.list_kind) {
            true => conflict = Some(("ListKindConflict", in_use(&wanted.list_kind))),
            false => names.list_kind = wanted.list_kind.clone(),
        }
        names.categories = wanted.categories.clone();
        let condition = match conflict {
            Some((reason, message)) => Condition::no("NamesAccepted", reason, &message),
            None => Condition::yes("NamesAccepted", "NoConflicts", "no conflicts found"),
        };
        Decision { names, condition }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(plural: &str, kind: &str, short: &[&str]) -> Names {
        Names::of(&json!({"plural": plural, "singular": kind.to_lowercase(), "kind": kind,
                          "listKind": format!("{kind}List"), "shortNames": short}))
    }

    #[test]
    fn free_names_are_accepted() {
        let wanted = names("things", "Thing", &["th"]);
        let decision = UsedNames::default().decide("g", "things.g", &wanted, &Names::default());
        assert_eq!(decision.names, wanted);
        assert_eq!(decision.condition, Condition::yes("NamesAccepted", "NoConflicts", "no conflicts found"));
    }

    #[test]
    fn a_taken_name_is_refused_and_the_others_accepted() {
        let mut used = UsedNames::default();
        used.set("g", "things.g", &names("things", "Thing", &["th"]));
        let wanted = names("others", "Other", &["th"]);
        let decision = used.decide("g", "others.g", &wanted, &Names::default());
        assert_eq!(decision.names, names("others", "Other", &[]));
        let refusal = Condition::no("NamesAccepted", "ShortNamesConflict", "\"th\" is already in use");
        assert_eq!(decision.condition, refusal);
        // Another group is another world.
        assert_eq!(used.decide("h", "others.h", &wanted, &Names::default()).names, wanted);
    }

    #[test]
    fn a_name_let_go_is_free() {
        let mut used = UsedNames::default();
        used.set("g", "things.g", &names("things", "Thing", &["th"]));
        assert_eq!(used.remove("things.g"), Some("g".to_owned()));
        let wanted = names("others", "Thing", &["th"]);
        assert_eq!(used.decide("g", "others.g", &wanted, &Names::default()).names, wanted);
    }
}
