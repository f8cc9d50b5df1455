//! A namespace with operators: its OperatorGroup, ClusterServiceVersions, InstallPlans and Subscriptions are looked at
//! together, in this order, from what is stored. Whatever changes leads to another look, so each step does what can be
//! done now and no more.

use bailiwick_controllers::work_queue::Outcome;

use crate::context::{Context, Key};
use crate::error::Error;
use crate::kinds::{INSTALL_PLAN, NAMESPACE, SUBSCRIPTION};
use crate::object::is_deleting;
use crate::operator_group::Group;
use crate::{copied_csv, csv, install_plan, old_plans, operator_group, subscription};

/// Looks at a namespace.
pub(crate) async fn reconcile(context: &Context, namespace: &str) -> Result<Outcome, Error> {
    let Some(object) = NAMESPACE.all(&context.client).get_opt(namespace).await? else {
        context.forget(&Key::Namespace(namespace.to_owned()));
        return Ok(Outcome::Done);
    };
    if is_deleting(&object) {
        return csv::let_go(context, namespace).await;
    }
    let group = operator_group::reconcile(context, namespace).await?;
    let lists = Default::default();
    let subscriptions = SUBSCRIPTION.within(&context.client, namespace).list(&lists).await?.items;
    let is_used = !matches!(group, Group::None) || !subscriptions.is_empty();
    match is_used {
        true => context.note(&Key::Namespace(namespace.to_owned())),
        false => context.forget(&Key::Namespace(namespace.to_owned())),
    }
    let of_versions = csv::reconcile_all(context, namespace, &group, &subscriptions).await?;
    copied_csv::reconcile(context, namespace, &group).await?;
    let plans = INSTALL_PLAN.within(&context.client, namespace).list(&lists).await?.items;
    old_plans::remove(context, namespace, &plans, &subscriptions).await?;
    let of_plans = install_plan::carry_out_all(context, namespace, &group, plans).await?;
    let of_subscriptions = subscription::reconcile_all(context, namespace, &group, subscriptions).await?;
    Ok([of_versions, of_plans, of_subscriptions].into_iter().fold(Outcome::Done, sooner))
}

fn sooner(a: Outcome, b: Outcome) -> Outcome {
    match (a, b) {
        (Outcome::Done, other) | (other, Outcome::Done) => other,
        (Outcome::After(a), Outcome::After(b)) => Outcome::After(a.min(b)),
        (Outcome::After(delay), Outcome::Backoff) | (Outcome::Backoff, Outcome::After(delay)) => Outcome::After(delay),
        (Outcome::Backoff, Outcome::Backoff) => Outcome::Backoff,
    }
}
