//! The story of a Subscription: its catalog, the resolution, the InstallPlan, the ClusterServiceVersion, in this order; the
//! first of them that is not well is what it ends with.

use kube::ResourceExt;
use kube::api::DynamicObject;

use super::{Explanation, Standing, said};
use crate::copied_csv::is_copied;
use crate::csv::{NOT_SERVED, WORKLOADS_ANNOTATION, is_rolled_back};
use crate::install_plan;
use crate::object::{is_deleting, list, text, texts};
use crate::target::TARGET_ANNOTATION;

/// What is known around a Subscription.
pub(super) struct Facts {
    pub object: DynamicObject,
    pub catalog: Option<DynamicObject>,
    pub groups: Vec<DynamicObject>,
    pub plans: Vec<DynamicObject>,
    pub versions: Vec<DynamicObject>,
    pub manifest: Option<DynamicObject>,
}

impl Facts {
    pub fn explain(&self) -> Explanation {
        if is_deleting(&self.object) {
            return self.say(Standing::UnderWay, "is being deleted");
        }
        if self.object.data.pointer("/status/catalogHealth").is_none() {
            return self.say(Standing::UnderWay, "has not been looked at yet").because(
                "it was made just now, or nothing looks after Subscriptions there (`bailiwick serve --with olm`)",
            );
        }
        let stories = [self.catalog(), self.resolution(), self.bundle(), self.plan(), self.version()];
        stories.into_iter().flatten().next().unwrap_or_else(|| self.settled())
    }

    fn namespace(&self) -> String {
        self.object.namespace().unwrap_or_default()
    }

    fn status(&self, field: &str) -> &str {
        text(&self.object.data, &format!("/status/{field}"))
    }

    fn spec(&self, field: &str) -> &str {
        text(&self.object.data, &format!("/spec/{field}"))
    }

    fn say(&self, standing: Standing, what: &str) -> Explanation {
        Explanation::new(standing, format!("Subscription {}/{} {what}", self.namespace(), self.object.name_any()))
    }

    /// It needs somebody.
    fn stuck(&self) -> Explanation {
        match self.status("installedCSV") {
            "" => self.say(Standing::Stuck, "is not installed"),
            installed => self.say(Standing::Stuck, &format!("stays at {installed}")),
        }
    }

    fn catalog(&self) -> Option<Explanation> {
        let message = said(&self.object, "CatalogSourcesUnhealthy", "True")?;
        let place = format!("{} -n {}", self.spec("source"), self.spec("sourceNamespace"));
        let told = self.stuck().because(message);
        let Some(catalog) = &self.catalog else {
            return Some(told.hint("correct spec.source and spec.sourceNamespace, or make that CatalogSource"));
        };
        let state = text(&catalog.data, "/status/connectionState/lastObservedState");
        let told = match state {
            "" => told,
            state => told.because(format!("the connection of CatalogSource {} is {state}", catalog.name_any())),
        };
        let told = told.because(text(&catalog.data, "/status/message"));
        Some(told.hint(format!("mend the CatalogSource: kubectl edit catalogsource {place}")))
    }

    fn resolution(&self) -> Option<Explanation> {
        let message = said(&self.object, "ResolutionFailed", "True")?;
        Some(self.stuck().refused(message))
    }

    fn bundle(&self) -> Option<Explanation> {
        let message = said(&self.object, "BundleUnpackFailed", "True")?;
        let told = self.stuck().because(message);
        Some(told.hint(
            "it is tried again: make the image readable from the server (name, network, spec.secrets of the CatalogSource)",
        ))
    }

    fn plan(&self) -> Option<Explanation> {
        let name = text(&self.object.data, "/status/installPlanRef/name");
        let own = self.plans.iter().find(|plan| plan.name_any() == name);
        let Some(plan) = own.filter(|plan| text(&plan.data, "/status/phase") != "Complete") else {
            let other = self.plans.iter().find(|plan| install_plan::is_under_way(plan))?;
            let told = self.say(Standing::UnderWay, "waits for its turn");
            let told = told.because(format!("InstallPlan {} of this namespace is being carried out", other.name_any()));
            return Some(told.because(install_plan::message(other)));
        };
        let message = install_plan::message(plan);
        let bundles = texts(&plan.data, "/spec/clusterServiceVersionNames").join(", ");
        let remove = format!("kubectl delete installplan {name} -n {}", self.namespace());
        Some(match text(&plan.data, "/status/phase") {
            "RequiresApproval" => {
                let patch = r#"'{"spec":{"approved":true}}'"#;
                let command =
                    format!("kubectl patch installplan {name} -n {} --type merge -p {patch}", self.namespace());
                let told = self.stuck().because(format!("InstallPlan {name} for {bundles} waits for approval"));
                told.hint(format!("approve it: {command}"))
                    .hint("set spec.installPlanApproval: Automatic for the plans to come")
            }
            "Failed" => {
                let told = self.stuck().because(format!("InstallPlan {name} for {bundles} has failed"));
                let told = told.because(message).because("what failed is not tried again by itself");
                let told = told.hint(format!("mend what is refused and try again: {remove}"));
                match self.versions.iter().any(is_rolled_back) {
                    false => told.hint("publish a version that replaces what is installed and is not refused"),
                    true => told.hint(format!(
                        "publish a version that {} can be upgraded to directly (replaces, skips or skipRange)",
                        self.status("installedCSV")
                    )),
                }
            }
            _ if message.is_empty() => {
                self.say(Standing::UnderWay, "is being installed").because(format!("InstallPlan {name} is carried out"))
            }
            _ => {
                let told = self.stuck().because(format!("InstallPlan {name} for {bundles} waits")).because(message);
                match self.groups.len() {
                    0 => told.hint(self.make_a_group()),
                    1 => told.hint("mend what it waits for; it goes on by itself"),
                    _ => told.hint(self.one_group()),
                }
            }
        })
    }

    fn make_a_group(&self) -> String {
        format!("make an OperatorGroup in namespace {} (spec.targetNamespaces: [{0}])", self.namespace())
    }

    fn one_group(&self) -> String {
        let names: Vec<String> = self.groups.iter().map(ResourceExt::name_any).collect();
        format!("delete all OperatorGroups of namespace {} but one: {}", self.namespace(), names.join(", "))
    }

    fn version(&self) -> Option<Explanation> {
        let name = match self.status("currentCSV") {
            "" => self.status("installedCSV"),
            current => current,
        };
        if name.is_empty() {
            let told = self.say(Standing::UnderWay, "is being resolved");
            return Some(
                told.because("nothing was chosen yet; another Subscription of the namespace may be in the way"),
            );
        }
        let Some(csv) = self.versions.iter().find(|csv| csv.name_any() == name && !is_copied(csv)) else {
            let told = self.say(Standing::Stuck, "is not installed any more");
            return Some(
                told.because(format!("ClusterServiceVersion {name} was removed, which uninstalls the operator"))
                    .hint("delete the Subscription, and make it again to install the operator again"),
            );
        };
        let (phase, reason) = (text(&csv.data, "/status/phase"), text(&csv.data, "/status/reason"));
        let what = format!("ClusterServiceVersion {name} is {phase} ({reason})");
        let message = text(&csv.data, "/status/message");
        let under_way = || self.say(Standing::UnderWay, "is being installed").because(what.clone()).because(message);
        let stuck = || {
            let told = self.say(Standing::Stuck, "is not installed").because(what.clone());
            told.because(message)
        };
        Some(match (phase, reason) {
            ("Succeeded", _) => return None,
            ("Installing", NOT_SERVED) => {
                let told = self.say(Standing::Stuck, &format!("has installed {name}, which nothing runs"));
                let annotate = |annotation: &str| {
                    let group = self.groups.first().map(ResourceExt::name_any).unwrap_or_default();
                    format!("kubectl annotate operatorgroup {group} -n {} {annotation}", self.namespace())
                };
                let away = annotate(&format!("{TARGET_ANNOTATION}=<secret>"));
                let elsewhere = annotate(&format!("{WORKLOADS_ANNOTATION}=elsewhere"));
                told.because("this control plane has no pods, and the operator needs them")
                    .hint(format!("name a cluster that runs it, by a Secret with its kubeconfig: {away}"))
                    .hint(format!("if the operator runs somewhere else: {elsewhere}"))
            }
            ("Pending", "RequirementsNotMet") => {
                let missing =
                    list(&csv.data, "/status/requirementStatus").iter().filter(|it| it["status"] != "Present");
                let told = missing.fold(stuck(), |told, it| {
                    let (kind, name) = (text(it, "/kind"), text(it, "/name"));
                    told.because(format!("{kind} {name}: {}", text(it, "/message")))
                });
                told.hint("install what provides it; it goes on by itself")
            }
            ("Pending", "OperatorConditionNotUpgradeable") => stuck().hint(format!(
                "wait until the operator says otherwise, or overrule it: spec.overrides of OperatorCondition {}",
                text(&csv.data, "/spec/replaces")
            )),
            ("Failed", "NoOperatorGroup") => stuck().hint(self.make_a_group()),
            ("Failed", "TooManyOperatorGroups") => stuck().hint(self.one_group()),
            ("Failed", "UnsupportedOperatorGroup") => {
                let modes = list(&csv.data, "/spec/installModes").iter().filter(|it| it["supported"] == true);
                let modes: Vec<&str> = modes.map(|it| text(it, "/type")).collect();
                stuck().hint(format!("let the OperatorGroup select what the operator can watch: {}", modes.join(", ")))
            }
            ("Failed", "InterOperatorGroupOwnerConflict") => stuck().hint(
                "another OperatorGroup watches the same namespaces and has the same operator: remove one of them",
            ),
            ("Failed", _) => stuck().hint(format!("kubectl describe csv {name} -n {}", self.namespace())),
            _ => under_way(),
        })
    }

    /// Everything is well; whether there is something newer that it does not get to.
    fn settled(&self) -> Explanation {
        let installed = self.status("installedCSV");
        let told = self.say(Standing::Done, &format!("has installed {installed}, as it should"));
        let manifest = self.manifest.as_ref();
        let wanted = match self.spec("channel") {
            "" => manifest.map(|it| text(&it.data, "/status/defaultChannel")).unwrap_or_default(),
            channel => channel,
        };
        let channels = manifest.map(|it| list(&it.data, "/status/channels")).unwrap_or_default();
        let head = channels.iter().find(|it| it["name"] == wanted).map(|it| text(it, "/currentCSV"));
        let Some(head) = head.filter(|head| *head != installed && !head.is_empty()) else { return told };
        let image = self.catalog.as_ref().map(|it| text(&it.data, "/spec/image")).filter(|it| !it.is_empty());
        let question = format!(
            "bailiwick catalog explain {} --want {}:{wanted} --installed {installed} --why-not {head}",
            image.unwrap_or("<catalog>"),
            self.spec("name")
        );
        told.because(format!("channel {wanted} ends with {head}, which is not chosen from where it is"))
            .hint(format!("ask why: {question}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    fn facts(status: Value) -> Facts {
        let mut status = status;
        status["catalogHealth"] = json!([]);
        let spec = json!({"name": "gadget", "channel": "stable", "source": "c", "sourceNamespace": "olm"});
        let sub = json!({"metadata": {"name": "gadget", "namespace": "team"}, "spec": spec, "status": status});
        let (groups, plans, versions) = (Vec::new(), Vec::new(), Vec::new());
        Facts { object: object(sub), catalog: None, groups, plans, versions, manifest: None }
    }

    fn version(name: &str, phase: &str, reason: &str) -> DynamicObject {
        object(json!({"metadata": {"name": name}, "spec": {},
            "status": {"phase": phase, "reason": reason, "message": "so it is"}}))
    }

    #[test]
    fn a_plan_that_waits_for_approval_has_the_command() {
        let mut facts = facts(json!({"installPlanRef": {"name": "install-1"}, "currentCSV": "gadget.v1"}));
        facts.plans.push(object(json!({"metadata": {"name": "install-1"},
            "spec": {"clusterServiceVersionNames": ["gadget.v1"]}, "status": {"phase": "RequiresApproval"}})));
        let told = facts.explain();
        assert_eq!(told.standing, Standing::Stuck);
        assert_eq!(told.headline, "Subscription team/gadget is not installed");
        assert!(told.hints[0].contains("kubectl patch installplan install-1 -n team"), "{told}");
    }

    #[test]
    fn the_first_thing_that_is_wrong_is_told() {
        let conditions = json!([
            {"type": "CatalogSourcesUnhealthy", "status": "True", "message": "targeted catalogsource olm/c missing"},
            {"type": "ResolutionFailed", "status": "True", "message": "x"},
        ]);
        let told = facts(json!({"conditions": conditions})).explain();
        assert_eq!(told.reasons, ["targeted catalogsource olm/c missing"]);
        let told = facts(json!({})).explain();
        assert_eq!(told.standing, Standing::UnderWay);
    }

    #[test]
    fn versions_say_what_they_wait_for() {
        let mut facts = facts(json!({"installedCSV": "gadget.v1", "currentCSV": "gadget.v1"}));
        let told = facts.explain();
        assert!(told.reasons[0].contains("was removed"), "{told}");
        let mut waiting = version("gadget.v1", "Pending", "RequirementsNotMet");
        waiting.data["status"]["requirementStatus"] = json!([
            {"kind": "CustomResourceDefinition", "name": "things.example.com", "status": "NotPresent", "message": "CRD is not present"}]);
        facts.versions.push(waiting);
        let told = facts.explain();
        assert!(told.reasons.iter().any(|it| it.contains("things.example.com")), "{told}");
        facts.versions = vec![version("gadget.v1", "Succeeded", "InstallSucceeded")];
        assert_eq!(facts.explain().standing, Standing::Done);
        facts.manifest = Some(object(json!({"metadata": {"name": "gadget"},
            "status": {"channels": [{"name": "stable", "currentCSV": "gadget.v2"}]}})));
        let told = facts.explain();
        assert_eq!(told.standing, Standing::Done);
        assert!(told.hints[0].contains("--installed gadget.v1 --why-not gadget.v2"), "{told}");
    }
}
