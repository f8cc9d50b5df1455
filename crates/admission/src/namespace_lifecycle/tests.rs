//! Texts and codes are those kube-apiserver 1.36.4 answered.

use bailiwick_machinery::{ApiError, UserInfo};
use serde_json::json;

use crate::testing::{World, request, resource};
use crate::{Chain, NamespaceState, Operation};

async fn admit(
    operation: Operation,
    kind: (&str, &str, &str),
    name: &str,
    namespace: NamespaceState,
) -> Result<(), ApiError> {
    let (resource, user) = (resource(kind.0, kind.1, kind.2), UserInfo::default());
    let mut object = json!({});
    let object = (operation != Operation::Delete).then_some(&mut object);
    let mut attributes = request(operation, &resource, &user, name, object);
    Chain::default().mutate(&mut attributes, &World { namespace, ..World::default() }).await
}

const CONFIG_MAP: (&str, &str, &str) = ("", "ConfigMap", "configmaps");
const NAMESPACE: (&str, &str, &str) = ("", "Namespace", "namespaces");

#[tokio::test]
async fn a_missing_namespace_is_not_found() {
    let error = admit(Operation::Create, CONFIG_MAP, "c", NamespaceState::Missing).await.expect_err("refused");
    assert_eq!((error.code, error.message.as_str()), (404, "namespaces \"ns\" not found"));
    admit(Operation::Update, CONFIG_MAP, "c", NamespaceState::Missing).await.expect_err("updates too");
    admit(Operation::Delete, CONFIG_MAP, "c", NamespaceState::Missing).await.expect("deletes may clean up");
}

#[tokio::test]
async fn a_terminating_namespace_takes_nothing_new() {
    let error = admit(Operation::Create, CONFIG_MAP, "b", NamespaceState::Terminating).await.expect_err("refused");
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "configmaps \"b\" is forbidden: unable to create new content in namespace ns because it is being terminated",
        "reason": "Forbidden", "code": 403,
        "details": {"name": "b", "kind": "configmaps", "causes": [{
            "reason": "NamespaceTerminating", "message": "namespace ns is being terminated", "field": "metadata.namespace",
        }]},
    });
    assert_eq!(error.to_status(), expected);
    admit(Operation::Update, CONFIG_MAP, "b", NamespaceState::Terminating).await.expect("finalizers must be removable");
}

#[tokio::test]
async fn immortal_namespaces_stay() {
    for name in ["default", "kube-system", "kube-public"] {
        let error = admit(Operation::Delete, NAMESPACE, name, NamespaceState::Active).await.expect_err("refused");
        assert_eq!(error.message, format!("namespaces {name:?} is forbidden: this namespace may not be deleted"));
    }
    for name in ["kube-node-lease", "other"] {
        admit(Operation::Delete, NAMESPACE, name, NamespaceState::Active).await.expect("deletable");
    }
    admit(Operation::Update, NAMESPACE, "default", NamespaceState::Active).await.expect("updatable");
}

#[tokio::test]
async fn access_reviews_do_not_tell_which_namespaces_exist() {
    let review = ("authorization.k8s.io", "LocalSubjectAccessReview", "localsubjectaccessreviews");
    admit(Operation::Create, review, "", NamespaceState::Missing).await.expect("admitted");
}
