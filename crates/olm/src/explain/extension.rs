//! The story of a ClusterExtension, and of those that it waits for.

use kube::ResourceExt;
use kube::api::DynamicObject;

use super::{Explanation, Standing, said};
use crate::object::{annotation, is_deleting, text};

/// How many extensions that wait for one another are told of; more would be going in circles.
const CHAIN_MAX: usize = 8;

/// `None` if there is no such extension.
pub(super) fn explain(name: &str, all: &[DynamicObject], catalogs: &[DynamicObject]) -> Option<Explanation> {
    let object = all.iter().find(|it| it.name_any() == name)?;
    let what = format!("ClusterExtension {name}");
    let installed = text(&object.data, "/status/install/bundle/name");
    if is_deleting(object) {
        return Some(Explanation::new(Standing::UnderWay, format!("{what} is being removed, with what it installed")));
    }
    if object.data.pointer("/status/conditions").is_none() {
        let headline = format!("{what} has not been looked at yet");
        return Some(Explanation::new(Standing::UnderWay, headline).because(
            "it was made just now, or nothing looks after ClusterExtensions there (`bailiwick serve --with olm`)",
        ));
    }
    let fault = said(object, "Progressing", "True").filter(|it| *it != "Desired state reached");
    let fault = fault.or_else(|| said(object, "Progressing", "False"));
    let Some(fault) = fault else {
        let headline = format!("{what} has installed {installed}, as it should");
        return Some(match said(object, "Available", "False") {
            None => Explanation::new(Standing::Done, headline),
            Some(message) => Explanation::new(
                Standing::Stuck,
                format!("{what} has installed {installed}, which nothing runs"),
            )
            .because(message)
            .hint(
                "name a cluster that runs it: put its kubeconfig into a Secret of spec.namespace and annotate the \
                       extension with bailiwick.dev/target-kubeconfig=<secret>",
            ),
        });
    };
    let headline = match installed {
        "" => format!("{what} is not installed"),
        installed => format!("{what} stays at {installed}"),
    };
    let mut told = Explanation::new(Standing::Stuck, headline).refused(fault);
    let mut waiting = object;
    for _ in 0..CHAIN_MAX {
        let next = all.iter().find(|it| {
            annotation(it, "bailiwick.dev/required-by") == Some(waiting.name_any().as_str())
                && said(it, "Progressing", "True").is_some_and(|message| message != "Desired state reached")
        });
        let Some(next) = next else { break };
        told = told.because(format!("ClusterExtension {}, which was made for it, is not there yet", next.name_any()));
        told = told.refused(said(next, "Progressing", "True").unwrap_or_default());
        waiting = next;
    }
    for catalog in catalogs {
        if let Some(message) = said(catalog, "Serving", "False") {
            let progress = said(catalog, "Progressing", "True").unwrap_or_default();
            told = told.because(format!("ClusterCatalog {} is not served: {message} {progress}", catalog.name_any()));
        }
    }
    if catalogs.is_empty() {
        told = told.because("there is no ClusterCatalog").hint("make a ClusterCatalog with the image of a catalog");
    }
    if fault.contains("put back") {
        told =
            told.hint("it is tried again every few seconds: mend what refuses the object, or ask for another version");
    }
    Some(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn extension(name: &str, annotations: Value, status: Value) -> DynamicObject {
        serde_json::from_value(json!({"metadata": {"name": name, "annotations": annotations}, "status": status}))
            .unwrap()
    }

    fn progressing(message: &str) -> Value {
        json!({"conditions": [{"type": "Progressing", "status": "True", "message": message}]})
    }

    #[test]
    fn the_chain_goes_through_what_was_made_for_it() {
        let all = [
            extension("app", json!({}), progressing("waits for base.v1 of package base, which it requires")),
            extension(
                "base",
                json!({"bailiwick.dev/required-by": "app"}),
                progressing("bundle base.v1: no such image"),
            ),
        ];
        let told = explain("app", &all, &[]).unwrap();
        assert_eq!(told.standing, Standing::Stuck);
        assert_eq!(told.headline, "ClusterExtension app is not installed");
        let reasons = told.reasons.join("\n");
        assert!(
            reasons.contains("ClusterExtension base, which was made for it") && reasons.contains("no such image"),
            "{reasons}"
        );
        assert!(explain("none", &all, &[]).is_none());
    }

    #[test]
    fn what_is_installed_is_done_unless_nothing_runs_it() {
        let mut status = progressing("Desired state reached");
        status["install"] = json!({"bundle": {"name": "app.v1"}});
        assert_eq!(
            explain("app", &[extension("app", json!({}), status.clone())], &[]).unwrap().standing,
            Standing::Done
        );
        let nobody = json!({"type": "Available", "status": "False", "message": "nothing runs the operator"});
        status["conditions"].as_array_mut().unwrap().push(nobody);
        let told = explain("app", &[extension("app", json!({}), status)], &[]).unwrap();
        assert_eq!((told.standing, told.hints.len()), (Standing::Stuck, 1));
    }
}
