//! The API server: TLS and HTTP, the request pipeline, one generic handler for every resource, discovery and health.
//!
//! [`ApiServer`] is the whole of it without a socket, which is how in-process clients reach it; [`http::Listener`] puts
//! it on the network. It reads through [`cache`] and writes through the store's transactions, and knows resources only by
//! their descriptors.

mod across;
mod aggregation;
pub mod cache;
mod diagnostics;
mod discovery;
mod encode;
mod encryption;
mod handlers;
mod health;
pub mod http;
mod local;
mod lookup;
mod metrics;
mod openapi;
mod present;
mod project_path;
mod registry;
mod request_info;
mod server;
mod tenant;
mod tenants;
mod waiting;
mod wake;

pub use diagnostics::{Diagnostics, DiagnosticsError, DiagnosticsListener, Readiness};
pub use discovery::{KUBERNETES_VERSION, Priority};
pub use encryption::StorageEncryption;
pub use local::LocalService;
pub use lookup::StoredObjects;
pub use registry::{Registry, Served, TenantId, Visibility};
pub use request_info::RequestInfo;
pub use server::{
    ApiServer, Config, Connection, FlowLimits, MetricsSource, PROJECT_ADMINS, PathRoute, Planes, project_issuer,
};
pub use tenant::{Project, SharedOpenApi, Tenant, TenantParts};
pub use tenants::{ProjectIdentity, TenantSource, Tenants};
