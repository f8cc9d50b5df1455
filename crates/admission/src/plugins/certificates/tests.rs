//! Who may approve and sign.

use bailiwick_machinery::UserInfo;
use serde_json::{Value, json};

use super::*;
use crate::testing::{World, request, resource};

async fn checked(plugin: &dyn Plugin, subresource: &str, old: Value, mut new: Value) -> Result<(), String> {
    let requests = resource("certificates.k8s.io", "CertificateSigningRequest", "certificatesigningrequests");
    let user = UserInfo::default();
    let mut attributes = request(Operation::Update, &requests, &user, "a", Some(&mut new));
    attributes.subresource = subresource;
    attributes.old_object = Some(&old);
    assert!(plugin.concerns(&attributes));
    plugin.validate(&attributes, &World::default(), &mut Effects::default()).await.map_err(|error| error.message)
}

fn csr(signer: &str) -> Value {
    json!({"metadata": {"name": "a"}, "spec": {"signerName": signer}})
}

#[tokio::test]
async fn approving_takes_the_right_to_approve_for_the_signer() {
    assert_eq!(checked(&CertificateApproval, "approval", csr("x.io/good"), csr("forbidden.io/y")).await, Ok(()));
    let refused = checked(&CertificateApproval, "approval", csr("forbidden.io/x"), csr("x.io/good")).await;
    assert_eq!(
        refused.unwrap_err(),
        "certificatesigningrequests.certificates.k8s.io \"a\" is forbidden: user not permitted to approve requests with \
         signerName \"forbidden.io/x\""
    );
}

#[tokio::test]
async fn signing_is_checked_only_where_something_is_signed() {
    let forbidden = || csr("forbidden.io/x");
    assert_eq!(checked(&CertificateSigning, "status", forbidden(), forbidden()).await, Ok(()));
    let mut signed = forbidden();
    signed["status"] = json!({"certificate": "x"});
    let refused = checked(&CertificateSigning, "status", forbidden(), signed).await.unwrap_err();
    assert!(refused.ends_with("user not permitted to sign requests with signerName \"forbidden.io/x\""), "{refused}");
}
