//! Keeps the aggregator equal to the stored APIServices, and writes what it finds out about them.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};

use bailiwick_aggregation::{Aggregator, Change, Condition, StatusWriter};
use bailiwick_server::cache::Event;
use bailiwick_server::{ApiServer, Connection};
use bailiwick_store as store;
use http_body_util::Full;
use serde_json::{Value, json};

use crate::bootstrap::{own_user, send};

const COLLECTION: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
/// The name these writes go by in managedFields, as upstream.
const AGENT: &str = "kube-apiserver";
/// Attempts at a write that others get in the way of.
const WRITES_MAX: usize = 3;

/// Tells `aggregator` of every APIService there is and of every change from now on: a change counts for the next request.
pub(crate) async fn connect(server: &Arc<ApiServer>, aggregator: &Arc<Aggregator>) -> store::Result<()> {
    let Some(cache) = server.root().cache_of("apiregistration.k8s.io", "apiservices").await? else { return Ok(()) };
    cache.mark_decisive();
    // The server holds both the aggregator and the cache that holds this subscriber.
    let aggregator = Arc::downgrade(aggregator);
    cache.subscribe(Box::new(move |event| apply(&aggregator, event)));
    Ok(())
}

fn apply(aggregator: &Weak<Aggregator>, event: &Event) {
    let Some(aggregator) = aggregator.upgrade() else { return };
    match event.deleted {
        true => aggregator.apply(Change::Deleted { name: event.object.name() }),
        false => aggregator.apply(Change::Stored(event.object.stored_json())),
    }
}

/// Writes conditions through the API.
pub(crate) struct Conditions {
    server: Weak<ApiServer>,
    connection: Arc<Connection>,
}

impl Conditions {
    pub fn new(server: &Arc<ApiServer>) -> Self {
        Self { server: Arc::downgrade(server), connection: Arc::new(Connection::in_process(own_user())) }
    }

    async fn set(&self, name: &str, condition: &Condition) -> Result<(), String> {
        for _ in 0..WRITES_MAX {
            let Some(server) = self.server.upgrade() else { return Ok(()) };
            let get = http::Request::get(format!("{COLLECTION}/{name}")).body(Full::default());
            let live: Value = match send(&server, &self.connection, get).await? {
                (200, text) => serde_json::from_str(&text).map_err(|error| error.to_string())?,
                (404, _) => return Ok(()),
                (status, text) => return Err(format!("{name}: {status} {text}")),
            };
            let Some(conditions) = changed(&live["status"]["conditions"], condition) else { return Ok(()) };
            let version = &live["metadata"]["resourceVersion"];
            let patch = json!({"metadata": {"resourceVersion": version}, "status": {"conditions": conditions}});
            let patch = http::Request::patch(format!("{COLLECTION}/{name}/status"))
                .header("user-agent", AGENT)
                .header("content-type", "application/merge-patch+json")
                .body(Full::from(patch.to_string()));
            match send(&server, &self.connection, patch).await? {
                (200, _) | (404, _) => return Ok(()),
                (409, _) => {}
                (status, text) => return Err(format!("{name}: {status} {text}")),
            }
        }
        Err(format!("{name}: others keep changing it"))
    }
}

impl StatusWriter for Conditions {
    fn write<'a>(
        &'a self,
        name: &'a str,
        condition: &'a Condition,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>> {
        Box::pin(self.set(name, condition))
    }
}

/// The conditions with this one; `None` if they say so already. The time of transition is that of the status.
fn changed(conditions: &Value, condition: &Condition) -> Option<Vec<Value>> {
    let mut conditions: Vec<Value> = conditions.as_array().cloned().unwrap_or_default();
    let known = conditions.iter_mut().find(|known| known["type"] == "Available");
    let status = condition.status.as_str();
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let since = match &known {
        Some(known) if known["status"] == status => known["lastTransitionTime"].clone(),
        _ => now.into(),
    };
    let wanted = json!({
        "type": "Available", "status": status, "lastTransitionTime": since,
        "reason": condition.reason, "message": condition.message,
    });
    match known {
        Some(known) if *known == wanted => return None,
        Some(known) => *known = wanted,
        None => conditions.push(wanted),
    }
    Some(conditions)
}

#[cfg(test)]
mod tests {
    use bailiwick_aggregation::ConditionStatus;

    use super::*;

    #[test]
    fn the_time_of_transition_stays_while_the_status_does() {
        let before = json!([
            {"type": "Other", "status": "True"},
            {"type": "Available", "status": "False", "lastTransitionTime": "then", "reason": "A", "message": "a"},
        ]);
        let mut condition = Condition { status: ConditionStatus::False, reason: "B".into(), message: "b".to_owned() };
        let after = changed(&before, &condition).expect("a change");
        assert_eq!(after.len(), 2);
        assert_eq!((&after[1]["reason"], &after[1]["lastTransitionTime"]), (&json!("B"), &json!("then")));
        condition.status = ConditionStatus::True;
        let after = changed(&Value::from(after), &condition).expect("a change");
        assert_ne!(after[1]["lastTransitionTime"], "then");
        assert_eq!(changed(&Value::from(after), &condition), None);
    }
}
