//! Bailiwick as a library: compose a control plane from its parts and run it in your own process.
//!
//! [`ControlPlane::builder`] chooses the store, what is served and who gets in; [`Running`] is the result. The binary is
//! a thin command line around it.

mod api_services;
mod authentication_trust;
mod background;
mod bootstrap;
mod control_plane;
mod controllers;
mod definitions;
mod flow_objects;
mod native_type;
mod policy_feed;
mod projects;
mod rbac_feed;
mod service_endpoints;
mod services;
mod webhook_feed;

pub use bailiwick_controllers::Controller;
pub use bailiwick_webhook::services::ServiceEndpoint;
pub use control_plane::audit;
pub use control_plane::{
    AdmissionError, AdmissionOptions, Aggregation, AggregationOptions, AuthenticationOptions, AuthorizationError,
    AuthorizationMode, AuthorizationOptions, AuthorizerOptions, BootstrapTokenAuth, Builder, ControlPlane,
    CustomSigner, Definitions, DialOptions, EncryptionOptions, Error, Fairness, Feature, FlowControlOptions,
    FrontProxyOptions, OidcOptions, OlmOptions, Reload, Running, ServiceAccountOptions, StoreOptions, TlsOptions,
    TokenWebhookOptions, TracingError, TracingOptions, UnknownFeature, WebhookOptions, stop_signal,
};
pub use native_type::{Hookable, NativeType, NativeTypeError};
pub use services::{Service, ServiceContext, ServiceError, Shutdown};

pub use projects::Projects;
/// The crates whose types appear above, so that a program needs to name only this one.
pub use {
    bailiwick_admission as admission, bailiwick_auth as auth, bailiwick_machinery as machinery,
    bailiwick_store as store, kube,
};
