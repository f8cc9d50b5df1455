//! PartialObjectMetadata: objects cut to their metadata, which is all that garbage collectors and many informers want.

use bailiwick_machinery::media::MetaVersion;
use serde_json::{Value, json};

use crate::cache::Object;

/// Copies the metadata out of the stored bytes; nothing is parsed.
pub fn write_object_json(object: &Object, version: MetaVersion, out: &mut Vec<u8>) {
    let head: &[u8] = match version {
        MetaVersion::V1 => b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":",
        MetaVersion::V1beta1 => {
            b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1beta1\",\"metadata\":"
        }
    };
    out.extend_from_slice(head);
    object.write_metadata(out);
    out.push(b'}');
}

pub fn object_json(object: &Object, version: MetaVersion) -> Vec<u8> {
    let mut out = Vec::new();
    write_object_json(object, version, &mut out);
    out
}

pub fn of_value(mut value: Value, version: MetaVersion) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": version.api_version(), "metadata": value["metadata"].take(),
    })
}
