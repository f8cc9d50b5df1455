//! Why a Subscription or a ClusterExtension is where it is, for whoever made it: read from the API, told from what was
//! asked for to where it ends, with what would help. Nothing is changed.

mod extension;
mod subscription;

use std::fmt;

use kube::Client;
use kube::api::DynamicObject;

use crate::error::{Error, is_not_found};
use crate::kinds::{
    CATALOG_SOURCE, CLUSTER_CATALOG, CLUSTER_EXTENSION, CSV, INSTALL_PLAN, Kind, OPERATOR_GROUP, SUBSCRIPTION,
};
use crate::object::{list, text};

/// Where OLM's package server shows what catalogs offer.
const PACKAGE_MANIFEST: Kind =
    Kind { group: "packages.operators.coreos.com", version: "v1", kind: "PackageManifest", plural: "packagemanifests" };

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is what it should be.
    Done,
    /// It goes on by itself.
    UnderWay,
    /// Somebody has to do something.
    Stuck,
}

/// An answer, in the form of the resolver's refusals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub standing: Standing,
    /// What is the matter, in a line.
    pub headline: String,
    /// The chain.
    pub reasons: Vec<String>,
    /// What would help, the simplest first.
    pub hints: Vec<String>,
}

impl Explanation {
    fn new(standing: Standing, headline: impl Into<String>) -> Self {
        Self { standing, headline: headline.into(), reasons: Vec::new(), hints: Vec::new() }
    }

    fn because(mut self, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        if !reason.is_empty() && !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
        self
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// With a refusal of the resolver, as conditions have it.
    fn refused(mut self, message: &str) -> Self {
        let (reasons, hints) = message.split_once(". To fix it: ").unwrap_or((message, ""));
        self.reasons.extend(reasons.split("; ").map(str::to_owned));
        self.hints.extend(hints.split("; or ").filter(|hint| !hint.is_empty()).map(str::to_owned));
        self
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.headline)?;
        for (at, reason) in self.reasons.iter().enumerate() {
            writeln!(f, "{}{reason}", if at == 0 { "  because " } else { "  and     " })?;
        }
        for (at, hint) in self.hints.iter().enumerate() {
            writeln!(f, "{}{hint}", if at == 0 { "  to fix: " } else { "  or:     " })?;
        }
        Ok(())
    }
}

/// The message of a condition that has a status.
fn said<'o>(object: &'o DynamicObject, kind: &str, status: &str) -> Option<&'o str> {
    let conditions = list(&object.data, "/status/conditions").iter();
    let mut matching = conditions.filter(|it| it["type"] == kind && it["status"] == status);
    matching.next().map(|it| text(it, "/message"))
}

/// Looks at a Subscription and everything around it.
pub async fn subscription(client: &Client, namespace: &str, name: &str) -> Result<Explanation, Error> {
    let Some(object) = get(client, SUBSCRIPTION, Some(namespace), name).await? else {
        let others = names(&all(client, SUBSCRIPTION, Some(namespace)).await?);
        return Ok(missing(&format!("Subscription {name} in namespace {namespace}"), &others));
    };
    let source = (text(&object.data, "/spec/source"), text(&object.data, "/spec/sourceNamespace"));
    let manifest = get(client, PACKAGE_MANIFEST, Some(namespace), text(&object.data, "/spec/name")).await?;
    let facts = subscription::Facts {
        catalog: get(client, CATALOG_SOURCE, Some(source.1), source.0).await?,
        groups: all(client, OPERATOR_GROUP, Some(namespace)).await?,
        plans: all(client, INSTALL_PLAN, Some(namespace)).await?,
        versions: all(client, CSV, Some(namespace)).await?,
        manifest: manifest.filter(|it| text(&it.data, "/status/catalogSource") == source.0),
        object,
    };
    Ok(facts.explain())
}

/// Looks at a ClusterExtension and everything around it.
pub async fn extension(client: &Client, name: &str) -> Result<Explanation, Error> {
    let all_extensions = all(client, CLUSTER_EXTENSION, None).await?;
    let catalogs = all(client, CLUSTER_CATALOG, None).await?;
    Ok(match extension::explain(name, &all_extensions, &catalogs) {
        Some(explanation) => explanation,
        None => missing(&format!("ClusterExtension {name}"), &names(&all_extensions)),
    })
}

fn missing(what: &str, others: &[String]) -> Explanation {
    let missing = Explanation::new(Standing::Stuck, format!("there is no {what}"));
    match others {
        [] => missing.hint("there is none at all: look in another namespace, or make one"),
        others => missing.hint(format!("there is {}", others.join(", "))),
    }
}

fn names(objects: &[DynamicObject]) -> Vec<String> {
    objects.iter().map(kube::ResourceExt::name_any).collect()
}

async fn get(client: &Client, kind: Kind, namespace: Option<&str>, name: &str) -> Result<Option<DynamicObject>, Error> {
    if name.is_empty() || namespace.is_some_and(str::is_empty) {
        return Ok(None);
    }
    match api(client, kind, namespace).get(name).await {
        Err(error) if is_not_found(&error) => Ok(None),
        other => Ok(Some(other?)),
    }
}

async fn all(client: &Client, kind: Kind, namespace: Option<&str>) -> Result<Vec<DynamicObject>, Error> {
    match api(client, kind, namespace).list(&Default::default()).await {
        Err(error) if is_not_found(&error) => Err(Error::Other(format!(
            "{} of {} are not served there: the server runs without `--with olm`, and nothing does the same beside it",
            kind.plural, kind.group
        ))),
        other => Ok(other?.items),
    }
}

fn api(client: &Client, kind: Kind, namespace: Option<&str>) -> kube::Api<DynamicObject> {
    namespace.map_or_else(|| kind.all(client), |namespace| kind.within(client, namespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_line_by_line() {
        let refusal = "a asks for b; b requires c, which no catalog offers. To fix it: add c; or choose another b";
        let told = Explanation::new(Standing::Stuck, "a does not progress").refused(refusal).to_string();
        let expected = "a does not progress\n  because a asks for b\n  and     b requires c, which no catalog offers\n  \
                        to fix: add c\n  or:     choose another b\n";
        assert_eq!(told, expected);
    }
}
