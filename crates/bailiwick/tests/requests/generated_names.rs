//! Names made from `generateName`, with a rival who takes them the moment they are made.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use bailiwick_admission::{Attributes, Effects, Lookup, Operation, Phase, Plugin};
use bailiwick_machinery::object;
use bailiwick_machinery::status::ApiResult;
use bailiwick_store::{Expect, Op, Store};
use serde_json::{Value, json};

use crate::{Answer, JSON, MAPS, Plane};

/// How often upstream tries (`maxNameGenerationCreateAttempts`).
const ATTEMPTS: usize = 8;

/// Stores objects under names that are about to be given, so many times.
#[derive(Default)]
struct Rival {
    store: OnceLock<Arc<dyn Store>>,
    to_take: AtomicUsize,
    taken: Mutex<Vec<String>>,
}

#[async_trait]
impl Plugin for Rival {
    fn name(&self) -> &'static str {
        "Rival"
    }

    fn handles(&self, operation: Operation, phase: Phase) -> bool {
        (operation, phase) == (Operation::Create, Phase::Validate)
    }

    async fn validate(&self, attributes: &Attributes<'_>, _: &dyn Lookup, _: &mut Effects) -> ApiResult<()> {
        let one_less = |left: usize| left.checked_sub(1);
        let Some(object) = attributes.object.as_deref().filter(|_| attributes.is_kind("", "ConfigMap")) else {
            return Ok(());
        };
        if self.to_take.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
            let name = object::name(object).to_owned();
            let value = json!({"metadata": {"name": name, "namespace": "default", "uid": "rival"}}).to_string();
            let key = format!("root/core/configmaps/default/{name}").into();
            let put = Op::Put { key, value: value.into(), expect: Expect::Absent, ttl: None };
            self.store.get().unwrap().txn(vec![put]).await.unwrap();
            self.taken.lock().unwrap().push(name);
        }
        Ok(())
    }
}

async fn start() -> (Plane, Arc<Rival>) {
    let rival = Arc::new(Rival::default());
    let plugin: Arc<dyn Plugin> = rival.clone();
    let plane = Plane::start(|builder| builder.admission_plugin(Box::new(plugin))).await;
    assert!(rival.store.set(plane.running.store().clone()).is_ok());
    (plane, rival)
}

async fn create(plane: &Plane, metadata: Value) -> Answer {
    plane.send("POST", MAPS, JSON, json!({"metadata": metadata})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_name_is_made_anew() {
    let (plane, rival) = start().await;
    rival.to_take.store(ATTEMPTS - 1, Ordering::SeqCst);
    let created = create(&plane, json!({"generateName": "x-"})).await;
    assert_eq!(created.status, 201, "{:?}", created.body);
    let created = created.json();
    let name = object::name(&created);
    let taken = rival.taken.lock().unwrap().clone();
    assert_eq!(taken.len(), ATTEMPTS - 1);
    assert!(name.starts_with("x-") && !taken.iter().any(|other| other == name), "{name} {taken:?}");
    assert_ne!(created["metadata"]["uid"], "rival");
    plane.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_last_attempt_the_client_is_told_to_try_again() {
    let (plane, rival) = start().await;
    rival.to_take.store(ATTEMPTS, Ordering::SeqCst);
    let refused = create(&plane, json!({"generateName": "x-"})).await;
    let taken = rival.taken.lock().unwrap().clone();
    assert_eq!(taken.len(), ATTEMPTS);
    let name = taken.last().unwrap();
    assert_eq!(refused.status, 409);
    let status = refused.json();
    assert_eq!(status["reason"], "AlreadyExists");
    assert_eq!(
        status["message"],
        format!(
            "configmaps \"{name}\" already exists, the server was not able to generate a unique name for the object"
        )
    );
    assert_eq!(status["details"], json!({"name": name, "kind": "configmaps", "retryAfterSeconds": 1}));

    rival.to_take.store(1, Ordering::SeqCst);
    let refused = create(&plane, json!({"name": "given"})).await.json();
    assert_eq!(refused["message"], "configmaps \"given\" already exists", "a name that was given is not made anew");
    plane.running.stop().await;
}
