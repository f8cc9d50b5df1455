//! InstallPlans that nobody needs any more: a namespace keeps the newest, as OLM does it.

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::context::Context;
use crate::error::{Error, is_not_found};
use crate::kinds::INSTALL_PLAN;
use crate::object::{is_deleting, text};

/// How many plans a namespace keeps, as upstream; those that are not complete are kept besides.
const PLANS_MAX: usize = 5;

/// Removes the oldest plans that are complete when there are too many. Those that Subscriptions refer to stay, and those
/// that failed: they are why the same is not tried again.
pub(crate) async fn remove(
    context: &Context,
    namespace: &str,
    plans: &[DynamicObject],
    subscriptions: &[DynamicObject],
) -> Result<(), Error> {
    let api = INSTALL_PLAN.within(&context.client, namespace);
    for name in surplus(plans, subscriptions) {
        match api.delete(&name, &Default::default()).await {
            Err(error) if !is_not_found(&error) => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

fn surplus(plans: &[DynamicObject], subscriptions: &[DynamicObject]) -> Vec<String> {
    let is_referred_to = |plan: &&DynamicObject| {
        subscriptions.iter().any(|it| text(&it.data, "/status/installPlanRef/name") == plan.name_any())
    };
    let generation = |plan: &&DynamicObject| plan.data.pointer("/spec/generation").and_then(Value::as_i64);
    let is_complete = |plan: &&DynamicObject| text(&plan.data, "/status/phase") == "Complete";
    let mut complete: Vec<&DynamicObject> =
        plans.iter().filter(|plan| is_complete(plan) && !is_referred_to(plan) && !is_deleting(plan)).collect();
    complete.sort_by_key(|plan| (generation(plan), plan.creation_timestamp().map(|time| time.0)));
    let surplus = plans.len().saturating_sub(PLANS_MAX);
    complete.into_iter().take(surplus).map(ResourceExt::name_any).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_oldest_complete_plans_go_when_there_are_too_many() {
        let object = |value: Value| serde_json::from_value::<DynamicObject>(value).unwrap();
        let plan = |generation: i64, phase: &str| {
            object(json!({"metadata": {"name": format!("install-{generation}")}, "spec": {"generation": generation},
                "status": {"phase": phase}}))
        };
        let mut plans: Vec<DynamicObject> = (3..=9).rev().map(|generation| plan(generation, "Complete")).collect();
        plans.push(plan(1, "Failed"));
        plans.push(plan(2, "RequiresApproval"));
        let referring = object(json!({"metadata": {"name": "a"}, "status": {"installPlanRef": {"name": "install-4"}}}));
        assert_eq!(surplus(&plans, &[referring]), ["install-3", "install-5", "install-6", "install-7"]);
        assert!(surplus(&plans[..PLANS_MAX], &[]).is_empty());
    }
}
