//! OperatorGroups: which namespaces the operators of a namespace watch, and whether an operator can.

use std::collections::BTreeMap;

use bailiwick_machinery::selector::LabelSelector;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::Error;
use crate::kinds::OPERATOR_GROUP;
use crate::object::{Condition, list, now, remove_condition, set_condition, status, text, texts, write_status};
use crate::permissions::Watched;

/// What the OperatorGroups of a namespace say.
pub(crate) enum Group {
    None,
    /// The namespaces it selects; `None` when it selects none that exist.
    One(Box<DynamicObject>, Option<Watched>),
    TooMany(usize),
}

impl Group {
    /// Whether a version that failed is passed over by the next, instead of the one before it coming back.
    pub fn fails_forward(&self) -> bool {
        matches!(self, Group::One(group, _) if fails_forward(group))
    }

    /// Why nothing can be installed, in OLM's words.
    pub fn fault(&self) -> Option<String> {
        match self {
            Group::None => Some("no operator group found that is managing this namespace".to_owned()),
            Group::TooMany(count) => {
                Some(format!("more than one operator group(s) are managing this namespace count={count}"))
            }
            Group::One(..) => None,
        }
    }
}

/// The same of one OperatorGroup.
pub(crate) fn fails_forward(group: &DynamicObject) -> bool {
    text(&group.data, "/spec/upgradeStrategy") == "TechPreviewUnsafeFailForward"
}

/// Reads the OperatorGroups of a namespace and keeps their statuses.
pub(crate) async fn reconcile(context: &Context, namespace: &str) -> Result<Group, Error> {
    let api = OPERATOR_GROUP.within(&context.client, namespace);
    let mut groups = api.list(&Default::default()).await?.items;
    groups.retain(|group| group.metadata.deletion_timestamp.is_none());
    if groups.is_empty() {
        return Ok(Group::None);
    }
    let namespaces = crate::target::namespaces(&context.client).await?;
    let count = groups.len();
    let mut only = None;
    for mut group in groups {
        let watched = watched(&group, &namespaces)?;
        let mut status = status(&group).clone();
        if !status.is_object() {
            status = json!({});
        }
        let names = watched.as_ref().map(Watched::names).unwrap_or_default();
        if status["namespaces"] != json!(names) || status["lastUpdated"].is_null() {
            status["namespaces"] = json!(names);
            status["lastUpdated"] = now().into();
        }
        let mut conditions = list(&status, "/conditions").to_vec();
        remove_condition(&mut conditions, "MultipleOperatorGroup");
        if count > 1 {
            conditions = list(&status, "/conditions").to_vec();
            let message = "Multiple OperatorGroup found in the same namespace";
            let condition = Condition::new("MultipleOperatorGroup", "True", "MultipleOperatorGroupsFound", message);
            set_condition(&mut conditions, &condition, group.metadata.generation);
        }
        match conditions.is_empty() {
            true => drop(status.as_object_mut().map(|fields| fields.remove("conditions"))),
            false => status["conditions"] = conditions.into(),
        }
        write_status(&api, &mut group, status).await?;
        only = Some((group, watched));
    }
    Ok(match (count, only) {
        (1, Some((group, watched))) => Group::One(Box::new(group), watched),
        (0, _) | (_, None) => Group::None,
        _ => Group::TooMany(count),
    })
}

/// The namespaces that a group selects.
fn watched(group: &DynamicObject, namespaces: &[DynamicObject]) -> Result<Option<Watched>, Error> {
    let named = texts(&group.data, "/spec/targetNamespaces");
    if !named.is_empty() {
        let mut named: Vec<String> = named;
        named.sort();
        named.dedup();
        return Ok(match named.iter().any(String::is_empty) {
            true => Some(Watched::All),
            false => Some(Watched::Namespaces(named)),
        });
    }
    let selector = LabelSelector::from_object(group.data.pointer("/spec/selector"));
    let selector = selector.map_err(|error| Error::Other(format!("spec.selector: {error}")))?;
    Ok(match selector.filter(|selector| !selector.is_empty()) {
        None => Some(Watched::All),
        Some(selector) => {
            let matches =
                |labels: &BTreeMap<String, String>| selector.matches(|key| labels.get(key).map(String::as_str));
            let selected: Vec<String> =
                namespaces.iter().filter(|it| matches(it.labels())).map(ResourceExt::name_any).collect();
            (!selected.is_empty()).then_some(Watched::Namespaces(selected))
        }
    })
}

/// Whether a ClusterServiceVersion can watch these namespaces; if not, why, in OLM's words.
pub(crate) fn supports(csv: &Value, own: &str, watched: &Watched) -> Result<(), String> {
    let modes = list(csv, "/spec/installModes");
    let can = |mode: &str| modes.iter().any(|known| text(known, "/type") == mode && known["supported"] == true);
    let refused = |mode: &str, what: String| {
        Err(format!("{mode} InstallModeType not supported, cannot configure to watch {what}"))
    };
    match watched {
        Watched::All if !can("AllNamespaces") => refused("AllNamespaces", "all namespaces".to_owned()),
        Watched::All => Ok(()),
        Watched::Namespaces(names) => match names.as_slice() {
            [] => {
                Err("operatorgroup has invalid selected namespaces, cannot configure to watch zero namespaces"
                    .to_owned())
            }
            [only] if only == own && !can("OwnNamespace") => refused("OwnNamespace", "own namespace".to_owned()),
            [only] if only != own && !can("SingleNamespace") => refused("SingleNamespace", "one namespace".to_owned()),
            [_] => Ok(()),
            many if !can("MultiNamespace") => refused("MultiNamespace", format!("{} namespaces", many.len())),
            many if many.iter().any(|it| it == own) && !can("OwnNamespace") => {
                refused("OwnNamespace", "own namespace".to_owned())
            }
            _ => Ok(()),
        },
    }
}

/// Install modes that are named twice, as upstream refuses them.
pub(crate) fn invalid_modes(csv: &Value) -> Option<String> {
    let modes = list(csv, "/spec/installModes");
    let twice = modes
        .iter()
        .enumerate()
        .find(|(at, mode)| modes.iter().take(*at).any(|earlier| earlier["type"] == mode["type"]));
    twice.map(|(_, mode)| format!("InstallMode list contains duplicates, cannot make set: {}", text(mode, "/type")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(modes: &[&str]) -> Value {
        let modes: Vec<Value> = modes.iter().map(|mode| json!({"type": mode, "supported": true})).collect();
        json!({"spec": {"installModes": modes}})
    }

    fn some(names: &[&str]) -> Watched {
        Watched::Namespaces(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn modes_decide_what_can_be_watched() {
        let refused = |modes: &[&str], watched: Watched| supports(&csv(modes), "own", &watched).unwrap_err();
        assert_eq!(
            refused(&["OwnNamespace"], Watched::All),
            "AllNamespaces InstallModeType not supported, cannot configure to watch all namespaces"
        );
        assert_eq!(
            refused(&["AllNamespaces"], some(&["own"])),
            "OwnNamespace InstallModeType not supported, cannot configure to watch own namespace"
        );
        assert_eq!(
            refused(&["OwnNamespace"], some(&["other"])),
            "SingleNamespace InstallModeType not supported, cannot configure to watch one namespace"
        );
        assert_eq!(
            refused(&["OwnNamespace"], some(&["a", "b"])),
            "MultiNamespace InstallModeType not supported, cannot configure to watch 2 namespaces"
        );
        assert_eq!(supports(&csv(&["MultiNamespace", "OwnNamespace"]), "own", &some(&["a", "own"])), Ok(()));
        assert_eq!(supports(&csv(&["AllNamespaces"]), "own", &Watched::All), Ok(()));
    }
}
