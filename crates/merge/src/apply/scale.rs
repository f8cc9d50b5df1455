//! The `scale` subresource: one field of an object under another name, whose managers are translated both ways.

use std::borrow::Cow;

use serde_json::Value;

use super::conflict::ManagerId;
use super::entries::{self, Entry, Origin};
use super::path::Path;
use super::set::FieldSet;

/// The version the `Scale` of every object is in.
const SCALE_VERSION: &str = "autoscaling/v1";

/// Where each version of an object has its replicas; `None` for a version that cannot be scaled.
pub type ReplicasPaths<'a> = &'a [(&'a str, Option<Path<'static>>)];

fn path_of<'a>(paths: ReplicasPaths<'a>, api_version: &str) -> Option<Option<&'a Path<'static>>> {
    paths.iter().find(|(version, _)| *version == api_version).map(|(_, path)| path.as_ref())
}

fn replicas_of_scale() -> FieldSet<'static> {
    FieldSet::of([Path::fields(&["spec", "replicas"])])
}

/// The `managedFields` of the `Scale` of an object: who owns its replicas.
pub fn entries_of_scale(parent: Option<&Value>, paths: ReplicasPaths<'_>) -> Result<Option<Value>, String> {
    let mut out = Vec::new();
    for mut entry in entries::decode(parent, Origin::Store)? {
        let Some(Some(path)) = path_of(paths, &entry.id.api_version) else { continue };
        if entry.set()?.has(path) {
            let id = ManagerId { api_version: Cow::Borrowed(SCALE_VERSION), ..entry.id };
            out.push(Entry::new(id, entry.time, replicas_of_scale()));
        }
    }
    Ok(entries::encode(out))
}

/// The `managedFields` of an object after its `Scale` was written: whoever owns the replicas there owns them here.
/// Managers that are new have no time, as with upstream.
pub fn entries_of_scaled_object(
    parent: Option<&Value>,
    scale: Option<&Value>,
    api_version: &str,
    paths: ReplicasPaths<'_>,
) -> Result<Option<Value>, String> {
    let parents = entries::decode(parent, Origin::Store)?;
    let mut scales = entries::decode(scale, Origin::Client)?;
    let times: Vec<_> = parents.iter().map(|entry| (entry.id.clone(), entry.time.clone())).collect();
    let mut out = Vec::new();
    for mut entry in parents {
        let Some(path) = path_of(paths, &entry.id.api_version) else { continue };
        let owns_replicas = match path {
            Some(path) => entry.set()?.has(path),
            None => false,
        };
        if let (true, Some(path)) = (owns_replicas, path) {
            let still_owns = scales.iter().position(|scale| scale.id == entry.id);
            match still_owns {
                Some(at) => {
                    scales.remove(at);
                }
                None => entry.change(|set| set.subtract(&FieldSet::of([path.clone()])))?,
            }
            if entry.set()?.is_empty() {
                continue;
            }
        }
        out.push(entry);
    }
    let Some(Some(replicas)) = path_of(paths, api_version) else { return Ok(entries::encode(out)) };
    for mut entry in scales {
        if !entry.set()?.has(&Path::fields(&["spec", "replicas"])) {
            continue;
        }
        let time = times.iter().find(|(id, _)| *id == entry.id).and_then(|(_, time)| time.clone());
        let id = ManagerId { api_version: Cow::Owned(api_version.to_owned()), ..entry.id };
        out.push(Entry::new(id, time, FieldSet::of([replicas.clone()])));
    }
    Ok(entries::encode(out))
}
