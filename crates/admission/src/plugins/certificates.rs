//! CertificateApproval, CertificateSigning and CertificateSubjectRestriction: who may approve and sign which requests, and
//! that nobody becomes a member of `system:masters` by one.

use async_trait::async_trait;
use bailiwick_auth::authz::{Attributes as Access, ResourceTarget, Target};
use bailiwick_machinery::object::{at, str_at};
use bailiwick_machinery::status::ApiResult;

use crate::attributes::{Attributes, Operation, forbidden};
use crate::chain::{Effects, Lookup, Phase, Plugin};

/// Signs certificates for clients of the API server.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

fn is_request(attributes: &Attributes<'_>) -> bool {
    let resource = attributes.resource;
    resource.group == "certificates.k8s.io" && resource.plural == "certificatesigningrequests"
}

/// Whether the user may `verb` for the signer, or for all signers of its domain.
async fn may(attributes: &Attributes<'_>, verb: &str, signer: &str) -> bool {
    let domain = format!("{}/*", signer.split('/').next().unwrap_or_default());
    for name in [signer, &domain] {
        let target = Target::Resource(ResourceTarget {
            group: "certificates.k8s.io",
            version: "*",
            resource: "signers",
            name,
            ..ResourceTarget::default()
        });
        if attributes.host.authorize(&Access { user: attributes.user, verb, target }).await.is_allowed() {
            return true;
        }
    }
    false
}

/// Approving takes the right to approve for the signer.
pub struct CertificateApproval;

#[async_trait]
impl Plugin for CertificateApproval {
    fn name(&self) -> &'static str {
        "CertificateApproval"
    }

    fn handles(&self, operation: Operation, phase: Phase) -> bool {
        phase == Phase::Validate && operation == Operation::Update
    }

    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        attributes.subresource == "approval" && is_request(attributes)
    }

    async fn validate(&self, attributes: &Attributes<'_>, _: &dyn Lookup, _: &mut Effects) -> ApiResult<()> {
        // What it was decides: the signer cannot be changed here.
        let signer = attributes.old_object.map(|old| str_at(old, &["spec", "signerName"])).unwrap_or_default();
        if may(attributes, "approve", signer).await {
            return Ok(());
        }
        Err(forbidden(attributes, &format!("user not permitted to approve requests with signerName {signer:?}")))
    }
}

/// Writing the certificate or the conditions of a request takes the right to sign for the signer.
pub struct CertificateSigning;

#[async_trait]
impl Plugin for CertificateSigning {
    fn name(&self) -> &'static str {
        "CertificateSigning"
    }

    fn handles(&self, operation: Operation, phase: Phase) -> bool {
        phase == Phase::Validate && operation == Operation::Update
    }

    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        attributes.subresource == "status" && is_request(attributes)
    }

    async fn validate(&self, attributes: &Attributes<'_>, _: &dyn Lookup, _: &mut Effects) -> ApiResult<()> {
        let (Some(new), Some(old)) = (attributes.object.as_deref(), attributes.old_object) else { return Ok(()) };
        let same = |field: &str| at(new, &["status", field]) == at(old, &["status", field]);
        if same("certificate") && same("conditions") {
            return Ok(());
        }
        let signer = str_at(old, &["spec", "signerName"]);
        if may(attributes, "sign", signer).await {
            return Ok(());
        }
        Err(forbidden(attributes, &format!("user not permitted to sign requests with signerName {signer:?}")))
    }
}

/// No certificate makes its holder a member of `system:masters`.
pub struct CertificateSubjectRestriction;

#[async_trait]
impl Plugin for CertificateSubjectRestriction {
    fn name(&self) -> &'static str {
        "CertificateSubjectRestriction"
    }

    fn handles(&self, operation: Operation, phase: Phase) -> bool {
        phase == Phase::Validate && operation == Operation::Create
    }

    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        attributes.subresource.is_empty() && is_request(attributes)
    }

    async fn validate(&self, attributes: &Attributes<'_>, _: &dyn Lookup, _: &mut Effects) -> ApiResult<()> {
        let Some(request) = attributes.object.as_deref() else { return Ok(()) };
        if str_at(request, &["spec", "signerName"]) != CLIENT_SIGNER {
            return Ok(());
        }
        let organizations = bailiwick_api::certificates::requested_organizations(str_at(request, &["spec", "request"]))
            .map_err(|error| forbidden(attributes, &format!("failed to parse CSR: {error}")))?;
        if organizations.iter().any(|organization| organization == bailiwick_machinery::UserInfo::MASTERS) {
            let text = format!("use of {CLIENT_SIGNER} signer with system:masters group is not allowed");
            return Err(forbidden(attributes, &text));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
