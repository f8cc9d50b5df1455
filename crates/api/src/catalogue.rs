//! The list of all native resources, in the order discovery shows their groups.

use bailiwick_machinery::Resource;

use crate::{
    admissionregistration, apiextensions, apiregistration, certificates, configmap, event, flowcontrol, lease,
    namespace, rbac, resourcequota, review, secret, serviceaccount,
};

/// Descriptors of every built-in resource.
pub fn native_resources() -> Vec<Resource> {
    [
        configmap::resources(),
        event::resources(),
        namespace::resources(),
        resourcequota::resources(),
        secret::resources(),
        serviceaccount::resources(),
        review::resources(),
        lease::resources(),
        rbac::resources(),
        admissionregistration::resources(),
        apiextensions::resources(),
        apiregistration::resources(),
        certificates::resources(),
        flowcontrol::resources(),
    ]
    .concat()
}
