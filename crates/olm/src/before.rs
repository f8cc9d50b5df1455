//! What was there before a plan or an extension is applied, kept in a Secret: until it is, and for an upgrade by a plan until
//! the new version is up, so that it can be put back when that fails, by another process too. What cannot go back without losing
//! something stays, and is told.

use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::bundles::is_definition;
use crate::context::Context;
use crate::crd_safety;
use crate::crds::dynamic;
use crate::error::{Error, is_not_found, is_passing, plain};
use crate::install_plan::objects_of;
use crate::installing::{label_value, restore};
use crate::kinds::{CRD, SECRET};
use crate::object::{annotation, list, text};
use crate::target::{Target, decode_base64};

/// The type of the Secrets; bundles may hold secrets, and so may what they replace.
const SECRET_TYPE: &str = "bailiwick.dev/before-upgrade";
const KEY: &str = "objects.json.gz";
/// On such a Secret and on a ClusterServiceVersion: the plan, or the extension, that it was written for.
pub(crate) const PLAN_ANNOTATION: &str = "bailiwick.dev/install-plan-uid";
/// What a Secret may unpack to; one holds a mebibyte, and definitions pack well.
const UNPACKED_MAX: u64 = 64 << 20;

/// Where what was there before is kept.
pub(crate) struct Keeping<'k> {
    context: &'k Context,
    namespace: &'k str,
    name: String,
    /// Where objects go that name no namespace.
    objects_in: &'k str,
}

/// For whom it is kept, and goes with.
pub(crate) struct Holder {
    pub uid: String,
    pub owner: Value,
}

/// Whether a plan begins, or goes on where another process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    Now,
    Earlier,
}

impl<'k> Keeping<'k> {
    /// For a version of a namespace.
    pub fn of_version(context: &'k Context, namespace: &'k str, csv: &str) -> Self {
        Self { context, namespace, name: format!("before-{}", label_value(csv)), objects_in: namespace }
    }

    /// For a ClusterExtension, whose own namespace need not be here.
    pub fn of_extension(context: &'k Context, extension: &str, objects_in: &'k str) -> Self {
        let name = format!("before-extension-{}", label_value(extension));
        Self { context, namespace: &context.global_namespace, name, objects_in }
    }

    /// Keeps what stands where objects are to be written. When the same holder has begun before, what was found then
    /// counts.
    pub async fn remember(&self, holder: &Holder, target: &Target, objects: &[Value]) -> Result<Begun, Error> {
        let api = SECRET.within(&self.context.client, self.namespace);
        if let Some(known) = api.get_opt(&self.name).await? {
            if annotation(&known, PLAN_ANNOTATION) == Some(holder.uid.as_str()) {
                return Ok(Begun::Earlier);
            }
            self.forget().await?;
        }
        let mut entries = Vec::new();
        for object in objects {
            // In the name in which it is applied: nobody learns by this what he may not read.
            let Some(api) = target.api_of(object, self.objects_in).await? else { continue };
            let before = match api.get_opt(text(object, "/metadata/name")).await {
                Err(error) if !is_passing(&error) => continue,
                other => other?,
            };
            entries.push(json!({
                "apiVersion": text(object, "/apiVersion"), "kind": text(object, "/kind"),
                "metadata": {"name": text(object, "/metadata/name"), "namespace": text(object, "/metadata/namespace")},
                "before": before,
            }));
        }
        let secret = dynamic(json!({
            "apiVersion": SECRET.api_version(), "kind": SECRET.kind,
            "metadata": {
                "name": self.name, "namespace": self.namespace, "annotations": {PLAN_ANNOTATION: holder.uid},
                "ownerReferences": [holder.owner],
            },
            "type": SECRET_TYPE, "data": {KEY: STANDARD.encode(pack(&entries)?)},
        }))?;
        match api.create(&PostParams::default(), &secret).await {
            // Too much to be kept, or not allowed: the plan need not fail for that.
            Err(error) if !is_passing(&error) => {
                tracing::warn!(error = plain(&error), secret = self.name, "what was there before could not be kept");
                Ok(Begun::Now)
            }
            other => other.map(|_| Begun::Now).map_err(Error::from),
        }
    }

    /// What was kept is not needed any more.
    pub async fn forget(&self) -> Result<(), Error> {
        match SECRET.within(&self.context.client, self.namespace).delete(&self.name, &DeleteParams::default()).await {
            Err(error) if !is_not_found(&error) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Puts back what was there before, last first, and says what stays as it is. What was brought beside definitions is not
    /// meant: that is found by its labels. It may be called again.
    pub async fn put_back(&self, target: &Target) -> Result<Vec<String>, Error> {
        let Some(secret) = SECRET.within(&self.context.client, self.namespace).get_opt(&self.name).await? else {
            return Ok(vec![format!("what was there before is not known any more (Secret {})", self.name)]);
        };
        let Some(entries) = decode_base64(text(&secret.data, &format!("/data/{KEY}"))).and_then(|it| unpack(&it))
        else {
            return Ok(vec![format!("what was there before cannot be read any more (Secret {})", self.name)]);
        };
        let mut stays = Vec::new();
        for entry in entries.iter().rev() {
            let result = match is_definition(entry) {
                true => put_definition_back(target, entry).await,
                false => put_object_back(target, self.objects_in, entry).await,
            };
            let reason = match result {
                Ok(None) => continue,
                Ok(Some(reason)) => reason,
                Err(Error::Request(error)) if !is_passing(&error) => plain(&error),
                Err(error) => return Err(error),
            };
            stays.push(format!("{} {}: {reason}", text(entry, "/kind"), text(entry, "/metadata/name")));
        }
        Ok(stays)
    }
}

fn before_of(entry: &Value) -> Option<Value> {
    entry.get("before").filter(|before| before.is_object()).cloned()
}

async fn put_object_back(target: &Target, namespace: &str, entry: &Value) -> Result<Option<String>, Error> {
    let Some(before) = before_of(entry) else { return Ok(None) };
    let Some(api) = target.own_api_of(entry, namespace).await? else { return Ok(None) };
    restore(&api, dynamic(before)?).await?;
    Ok(None)
}

/// A definition goes back unless objects would be lost, or something of them.
async fn put_definition_back(target: &Target, entry: &Value) -> Result<Option<String>, Error> {
    let api = CRD.all(&target.own);
    let name = text(entry, "/metadata/name");
    let Some(now) = api.get_opt(name).await? else { return Ok(None) };
    let now = serde_json::to_value(&now).unwrap_or_default();
    let Some(before) = before_of(entry) else {
        let served = list(&now, "/spec/versions").iter().find(|version| version["served"] == true);
        let objects = match served {
            Some(version) => objects_of(target, &now, text(version, "/name")).await?,
            None => Vec::new(),
        };
        if !objects.is_empty() {
            return Ok(Some(format!("it stays, since there are {} objects of it", objects.len())));
        }
        return match api.delete(name, &DeleteParams::background()).await {
            Err(error) if !is_not_found(&error) => Err(error.into()),
            _ => Ok(None),
        };
    };
    if now["spec"] == before["spec"] {
        return Ok(None);
    }
    if let Err(reason) = crd_safety::check_versions(&now, &before) {
        return Ok(Some(format!("the newer one stays: {reason}")));
    }
    for version in list(&now, "/spec/versions").iter().filter(|version| version["served"] == true) {
        let version = text(version, "/name");
        let objects = objects_of(target, &now, version).await?;
        let checked = crd_safety::check_objects(&before, version, &objects)
            .and_then(|()| crd_safety::check_fields(&before, version, &objects));
        if let Err(reason) = checked {
            return Ok(Some(format!("the newer one stays: {reason}")));
        }
    }
    restore(&api, dynamic(before)?).await?;
    Ok(None)
}

fn pack(entries: &[Value]) -> Result<Vec<u8>, Error> {
    let failed = |error: std::io::Error| Error::Io { what: "packing what was there before".to_owned(), error };
    let text = serde_json::to_vec(entries).map_err(|error| Error::Other(error.to_string()))?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&text).map_err(failed)?;
    encoder.finish().map_err(failed)
}

fn unpack(packed: &[u8]) -> Option<Vec<Value>> {
    let mut text = Vec::new();
    GzDecoder::new(packed).take(UNPACKED_MAX).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_can_be_unpacked_and_what_is_broken_cannot() {
        let entries = vec![json!({"kind": "ConfigMap", "before": null}), json!({"kind": "Secret", "before": {"a": 1}})];
        let packed = pack(&entries).unwrap();
        assert_eq!(unpack(&packed), Some(entries));
        assert_eq!(unpack(&packed[..packed.len() / 2]), None);
        assert_eq!(unpack(b"no gzip"), None);
    }
}
