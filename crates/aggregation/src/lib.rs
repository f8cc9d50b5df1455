//! Aggregation: APIServices route a group version to another server, which then looks like a part of this one.
//!
//! An [`Aggregator`] is fed with the stored APIServices and answers two questions: where does a request go
//! ([`Aggregator::route`]), and what do those servers add to discovery and OpenAPI ([`Aggregator::table`],
//! [`Aggregator::documents`]). One task per remote APIService checks whether it is available and keeps its documents
//! current. The crate knows neither the API server's pipeline nor its store; it writes conditions through a
//! [`StatusWriter`].

mod aggregator;
mod api_service;
mod availability;
mod call;
mod discovery;
mod documents;
pub mod headers;
mod keeper;
mod metrics;
pub mod openapi;
pub mod order;
mod route;
mod table;

pub use aggregator::{Aggregator, Change};
pub use api_service::ApiService;
pub use availability::{Condition, ConditionStatus};
pub use discovery::{ApiResourceDiscovery, ApiSubresourceDiscovery, ApiVersionDiscovery};
pub use documents::{Documents, Freshness};
pub use keeper::StatusWriter;
pub use route::{Route, Target, Unreachable};
pub use table::Table;

/// Where an APIService may say itself which server its service is, like an ExternalName: `https://host:port`.
pub const SERVICE_URL_ANNOTATION: &str = "bailiwick.dev/service-url";

/// The group of APIServices, which this server always serves itself.
pub const API_REGISTRATION_GROUP: &str = "apiregistration.k8s.io";
