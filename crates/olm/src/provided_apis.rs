//! Which APIs the operators of an OperatorGroup provide, noted at the group as OLM notes it. Groups that watch a namespace
//! in common may not provide the same API: two operators would work on the same objects.

use std::collections::BTreeSet;

use kube::ResourceExt;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::json;

use crate::context::Context;
use crate::copied_csv::is_copied;
use crate::csv::is_rolled_back;
use crate::error::Error;
use crate::kinds::OPERATOR_GROUP;
use crate::object::{annotation, is_deleting, list, text, texts};
use crate::permissions::Watched;

/// On an OperatorGroup: `Kind.version.group`, with commas between them.
const ANNOTATION: &str = "olm.providedAPIs";

/// What the APIs of a version mean for its group.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nobody else in sight provides them; they are noted.
    Free,
    /// Another group that watches the same namespaces does.
    Conflict,
    /// The group says itself what it provides, and that is something else.
    Static,
}

/// Looks for other groups that provide what a version provides, and notes what this one does.
pub(crate) async fn reconcile(
    context: &Context,
    csv: &DynamicObject,
    group: &DynamicObject,
    watched: &Watched,
    groups: &[DynamicObject],
) -> Result<Verdict, Error> {
    let own = of_csv(csv);
    if own.is_empty() {
        return Ok(Verdict::Free);
    }
    let noted = noted(group);
    let is_noted = own.is_subset(&noted);
    if group.data.pointer("/spec/staticProvidedAPIs").is_some_and(|it| it == true) {
        return Ok(if is_noted { Verdict::Free } else { Verdict::Static });
    }
    let others = groups.iter().filter(|it| it.uid() != group.uid() && !is_deleting(it));
    let taken = others.filter(|it| overlap(&names(it), &watched.names())).flat_map(self::noted);
    let conflicts = taken.into_iter().any(|api| own.contains(&api));
    let mut wanted: BTreeSet<String> = noted.clone();
    match conflicts {
        // Whoever comes second leaves them to the first.
        true => wanted.retain(|api| !own.contains(api)),
        false => wanted.extend(own),
    }
    if wanted != noted {
        note(context, group, &wanted).await?;
    }
    Ok(if conflicts { Verdict::Conflict } else { Verdict::Free })
}

/// Lets go of the APIs that no version of a group's namespace provides any more.
pub(crate) async fn prune(context: &Context, group: &DynamicObject, all: &[DynamicObject]) -> Result<(), Error> {
    let noted = noted(group);
    if noted.is_empty() || group.data.pointer("/spec/staticProvidedAPIs").is_some_and(|it| it == true) {
        return Ok(());
    }
    let present: BTreeSet<String> =
        all.iter().filter(|it| !is_deleting(it) && !is_copied(it) && !is_rolled_back(it)).flat_map(of_csv).collect();
    let kept: BTreeSet<String> = noted.intersection(&present).cloned().collect();
    if kept != noted { note(context, group, &kept).await } else { Ok(()) }
}

async fn note(context: &Context, group: &DynamicObject, apis: &BTreeSet<String>) -> Result<(), Error> {
    let text = apis.iter().cloned().collect::<Vec<_>>().join(",");
    let patch = json!({"metadata": {"annotations": {ANNOTATION: text}}});
    let api = OPERATOR_GROUP.within(&context.client, &group.namespace().unwrap_or_default());
    api.patch(&group.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

fn noted(group: &DynamicObject) -> BTreeSet<String> {
    let apis = annotation(group, ANNOTATION).unwrap_or_default().split(',');
    apis.map(str::trim).filter(|api| !api.is_empty()).map(str::to_owned).collect()
}

/// The namespaces that a group watches, as its status has them.
fn names(group: &DynamicObject) -> Vec<String> {
    texts(&group.data, "/status/namespaces")
}

/// Whether two lists have a namespace in common; an empty name stands for all.
fn overlap(a: &[String], b: &[String]) -> bool {
    let is_all = |names: &[String]| names.iter().any(String::is_empty);
    if a.is_empty() || b.is_empty() {
        return false;
    }
    is_all(a) || is_all(b) || a.iter().any(|name| b.contains(name))
}

/// What a version owns.
fn of_csv(csv: &DynamicObject) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for it in list(&csv.data, "/spec/customresourcedefinitions/owned") {
        if let Some((_, group)) = text(it, "/name").split_once('.') {
            found.insert(format!("{}.{}.{group}", text(it, "/kind"), text(it, "/version")));
        }
    }
    for it in list(&csv.data, "/spec/apiservicedefinitions/owned") {
        found.insert(format!("{}.{}.{}", text(it, "/kind"), text(it, "/version"), text(it, "/group")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_overlap_where_they_watch_the_same() {
        let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        assert!(overlap(&names(&["a", "b"]), &names(&["b"])));
        assert!(!overlap(&names(&["a"]), &names(&["b"])));
        assert!(overlap(&names(&[""]), &names(&["b"])));
        assert!(!overlap(&names(&[""]), &names(&[])));
    }
}
