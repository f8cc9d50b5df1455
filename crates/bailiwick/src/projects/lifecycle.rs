//! From the creation of a project to its end: says that it is ready, and removes everything of one that is deleted.
//!
//! A project is ready as soon as it exists, since its control plane is made of what is there already; the condition says so
//! to those who wait for it. A deletion closes the control plane on every server, so that its watches end, removes its keys
//! from the store and then lets the Project go. Nobody waits for a deletion that has to settle.

mod settling;

use std::sync::{Arc, Weak};
use std::time::Duration;

use bailiwick_controllers::work_queue::{Failure, Outcome, WorkQueue};
use bailiwick_machinery::object;
use bailiwick_server::cache::Event;
use bailiwick_server::{ApiServer, Connection, ProjectIdentity, TenantId};
use bailiwick_store as store;
use http_body_util::Full;
use serde_json::{Value, json};

use self::settling::Settling;
use super::{FINALIZER, GROUP, VERSION};
use crate::background::Background;
use crate::bootstrap::{own_user, send};

/// Projects and organizations worked on at the same time.
const WORKERS: usize = 16;
/// How often idle control planes are looked for.
const IDLE_SCAN: Duration = Duration::from_secs(3);
/// How long nobody must have used a control plane before it is dropped. Opening it again takes about a millisecond.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// How many control planes stay open while others are wanted: at about 150 KiB each, what all projects together may take.
const OPEN_MAX: usize = 1_000;

/// An object to look at: its plural and its name.
type Key = (&'static str, String);

/// Why an object could not be looked after. All of it is tried again; the text goes to the log.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the server did not answer: {0}")]
    Unanswered(String),
    #[error("{status} {text}")]
    Refused { status: u16, text: String },
    #[error("unreadable: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("the control plane was not removed: {0}")]
    NotErased(#[from] store::Error),
}

impl Failure for Error {
    fn is_routine(&self) -> bool {
        // Somebody else wrote to it; the next try sees what.
        matches!(self, Error::Refused { status: 409, .. })
    }
}

/// Follows projects until dropped.
pub(crate) struct Lifecycle {
    _tasks: [Background; 2],
}

/// Starts to follow projects. `settle` is how long other servers may let requests into a project that is being deleted.
pub(crate) async fn start(server: &Arc<ApiServer>, settle: Duration) -> store::Result<Lifecycle> {
    let queue = Arc::new(WorkQueue::new());
    for plural in ["projects", "organizations"] {
        let Some(cache) = server.root().cache_of(GROUP, plural).await? else { continue };
        // Whoever created a project finds it in the very next request.
        cache.mark_decisive();
        let (queue, server) = (queue.clone(), Arc::downgrade(server));
        cache.subscribe(Box::new(move |event| observe(plural, event, &queue, &server)));
    }
    let idle = Arc::downgrade(server);
    let scanning = Background::spawn(async move {
        loop {
            tokio::time::sleep(IDLE_SCAN).await;
            let Some(server) = idle.upgrade() else { return };
            let dropped = server.drop_idle_tenants(IDLE_MAX, OPEN_MAX);
            if dropped > 0 {
                tracing::debug!(dropped, "idle project control planes dropped");
            }
        }
    });
    let working = Background::spawn(work(Arc::downgrade(server), queue, settle));
    Ok(Lifecycle { _tasks: [scanning, working] })
}

fn observe(plural: &'static str, event: &Event, queue: &WorkQueue<Key>, server: &Weak<ApiServer>) {
    let name = event.object.name();
    let Ok(value) = event.object.to_value() else { return };
    if let Some(tenants) =
        server.upgrade().as_ref().filter(|_| plural == "projects").and_then(|server| server.tenants())
    {
        let uid = object::uid(&value);
        if event.deleted {
            tenants.gone(uid);
        } else {
            let organization = object::str_at(&value, &["spec", "ownerRef", "name"]).into();
            tenants.seen(uid, ProjectIdentity { name: name.into(), organization });
        }
    }
    if plural == "projects" && (event.deleted || event.object.deleting) {
        // A task of its own: a subscriber must not change the caches it is called from.
        let (server, name, uid) = (server.clone(), name.to_owned(), object::uid(&value).to_owned());
        tokio::spawn(async move {
            if let Some(server) = server.upgrade() {
                server.close_tenant(&name, &uid);
            }
        });
    }
    let waits = event.object.deleting && object::finalizers(&value).contains(&FINALIZER);
    if !event.deleted && (waits || !event.object.deleting && !is_ready(&value)) {
        queue.add((plural, name.to_owned()));
    }
}

fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|found| found["type"] == "Ready" && found["status"] == "True"))
}

async fn work(server: Weak<ApiServer>, queue: Arc<WorkQueue<Key>>, settle: Duration) {
    let connection = Arc::new(Connection::in_process(own_user()));
    let settling = Settling::new(settle);
    let look = |key: Key| {
        let (server, connection, settling) = (&server, &connection, &settling);
        async move {
            let Some(server) = server.upgrade() else { return Ok(Outcome::Done) };
            look_after(&server, connection, &key, settling).await
        }
    };
    queue.work("project-lifecycle", WORKERS, look).await;
}

async fn look_after(
    server: &Arc<ApiServer>,
    connection: &Arc<Connection>,
    (plural, name): &Key,
    settling: &Settling,
) -> Result<Outcome, Error> {
    let path = format!("/apis/{GROUP}/{VERSION}/{plural}/{name}");
    let request = http::Request::get(&path).body(Full::default());
    let (status, text) = send(server, connection, request).await.map_err(Error::Unanswered)?;
    let found: Value = match status {
        200 => serde_json::from_str(&text)?,
        404 => {
            settling.ended(&path);
            return Ok(Outcome::Done);
        }
        _ => return Err(Error::Refused { status, text }),
    };
    if !object::is_deleting(&found) {
        if !is_ready(&found) {
            say_ready(server, connection, plural, &path, &found).await?;
        }
        return Ok(Outcome::Done);
    }
    if !object::finalizers(&found).contains(&FINALIZER) {
        settling.ended(&path);
        return Ok(Outcome::Done);
    }
    server.close_tenant(name, object::uid(&found));
    // Requests that were let in before everybody knew of the deletion may still write.
    let left = settling.left(&path, object::uid(&found));
    if !left.is_zero() {
        return Ok(Outcome::After(left));
    }
    remove(server, connection, &path, &found).await?;
    settling.ended(&path);
    Ok(Outcome::Done)
}

async fn say_ready(
    server: &Arc<ApiServer>,
    connection: &Arc<Connection>,
    plural: &str,
    path: &str,
    found: &Value,
) -> Result<(), Error> {
    let message = match plural {
        "projects" => "The control plane serves.",
        _ => "The organization can own projects.",
    };
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "Ready", "message": message,
        "observedGeneration": found["metadata"]["generation"],
        "lastTransitionTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    });
    let mut conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.retain(|other| other["type"] != "Ready");
    conditions.push(condition);
    let patch = json!({
        "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
        "status": {"conditions": conditions, "observedGeneration": found["metadata"]["generation"]},
    });
    patch_object(server, connection, &format!("{path}/status"), &patch).await
}

/// Removes the control plane of a project, and then the project.
async fn remove(
    server: &Arc<ApiServer>,
    connection: &Arc<Connection>,
    path: &str,
    project: &Value,
) -> Result<(), Error> {
    let (name, uid) = (object::name(project), object::uid(project));
    let erased = server.erase_tenant(&TenantId::project(uid)).await?;
    server.close_tenant(name, uid);
    let kept: Vec<&str> = object::finalizers(project).into_iter().filter(|other| *other != FINALIZER).collect();
    let patch = json!({
        "metadata": {"resourceVersion": project["metadata"]["resourceVersion"], "finalizers": kept},
    });
    patch_object(server, connection, path, &patch).await?;
    tracing::info!(project = name, uid, objects = erased, "project control plane removed");
    Ok(())
}

async fn patch_object(
    server: &Arc<ApiServer>,
    connection: &Arc<Connection>,
    path: &str,
    patch: &Value,
) -> Result<(), Error> {
    let request = http::Request::patch(path)
        .header("content-type", "application/merge-patch+json")
        .body(Full::from(patch.to_string()));
    match send(server, connection, request).await.map_err(Error::Unanswered)? {
        (200 | 404, _) => Ok(()),
        (status, text) => Err(Error::Refused { status, text }),
    }
}
