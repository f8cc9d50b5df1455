//! Questions to the resolver, and its answers sorted by whom they concern. What one Subscription asks for in vain does not
//! keep the others waiting.

use std::collections::{BTreeMap, BTreeSet};

use bailiwick_catalog::resolve::{Because, Request, Resolution, Source, SourceKey, Step, resolve};

use crate::catalogs::{Catalog, CatalogKey};

/// What the resolver says.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub resolution: Resolution,
    /// Why wants cannot be met, by their names.
    pub refused: BTreeMap<String, String>,
    /// Wants that were left out, with the bundle that each was left out because of.
    pub left_out: BTreeMap<String, String>,
}

/// Asks; wants that cannot be met are left out until the rest can.
pub(crate) async fn ask(request: Request) -> Result<Answer, crate::error::Error> {
    let solving = tokio::task::spawn_blocking(move || {
        let mut request = request;
        let mut answer = Answer::default();
        // Each round leaves out one want at least.
        for _ in 0..=request.wants.len() {
            if request.wants.is_empty() {
                break;
            }
            match resolve(&request) {
                Ok(resolution) => {
                    answer.resolution = resolution;
                    break;
                }
                Err(refusal) => {
                    let text = refusal.sentence();
                    let named: Vec<String> = match refusal.wants.is_empty() {
                        true => request.wants.iter().map(|want| want.name.clone()).collect(),
                        false => refusal.wants.clone(),
                    };
                    request = request.without(&named);
                    answer.refused.extend(named.into_iter().map(|name| (name, text.clone())));
                }
            }
        }
        answer
    });
    solving.await.map_err(|error| crate::error::Error::Other(format!("resolution ended early: {error}")))
}

/// As [`ask`], but leaves out what would install bundles that have failed before: nothing about them has changed, and the
/// others need not fail with them.
pub(crate) async fn ask_without(request: Request, failed: &BTreeSet<String>) -> Result<Answer, crate::error::Error> {
    let mut request = request;
    let (mut refused, mut left_out) = (BTreeMap::new(), BTreeMap::new());
    loop {
        let mut answer = ask(request.clone()).await?;
        let steps = &answer.resolution.steps;
        let doomed: BTreeMap<String, String> = steps
            .iter()
            .filter(|step| failed.contains(&step.bundle))
            .filter_map(|step| Some((root(step, steps)?, step.bundle.clone())))
            .collect();
        answer.refused.append(&mut refused);
        if doomed.is_empty() {
            answer.left_out = left_out;
            return Ok(answer);
        }
        refused = answer.refused;
        request = request.without(&doomed.keys().cloned().collect::<Vec<_>>());
        left_out.extend(doomed);
    }
}

/// The want that led to a step.
fn root(step: &Step, steps: &[Step]) -> Option<String> {
    let mut current = step;
    // A chain is no longer than the list.
    for _ in 0..=steps.len() {
        match &current.because {
            Because::Wanted(name) => return Some(name.clone()),
            Because::Required { by, .. } => current = steps.iter().find(|step| step.bundle == *by)?,
        }
    }
    None
}

/// A catalog as the resolver knows it.
pub(crate) fn source(catalog: &Catalog) -> Source {
    Source { key: source_key(&catalog.key), priority: catalog.priority, snapshot: catalog.snapshot.clone() }
}

pub(crate) fn source_key(key: &CatalogKey) -> SourceKey {
    match key {
        CatalogKey::Source { namespace, name } => SourceKey::new(namespace, name),
        CatalogKey::Cluster { name } => SourceKey::new("", name),
    }
}

pub(crate) fn catalog_key(key: &SourceKey) -> CatalogKey {
    match key.namespace.is_empty() {
        true => CatalogKey::Cluster { name: key.name.clone() },
        false => CatalogKey::Source { namespace: key.namespace.clone(), name: key.name.clone() },
    }
}
