//! Bailiwick as a library: compose a control plane from its parts and run it in your own process.
//!
//! [`ControlPlane::builder`] chooses the store, what is served and who gets in; [`Running`] is the result. The binary is
//! a thin command line around it.

mod authentication_trust;
mod background;
mod bootstrap;
mod control_plane;
mod controllers;
mod definitions;
mod flow_objects;
mod policy_feed;
mod rbac_feed;
mod webhook_feed;

pub use bailiwick_controllers::Controller;
pub use control_plane::audit;
pub use control_plane::{
    AdmissionError, AdmissionOptions, AuthenticationOptions, AuthorizationError, AuthorizationMode,
    AuthorizationOptions, AuthorizerOptions, Builder, ControlPlane, CustomSigner, DialOptions, EncryptionOptions,
    Error, Fairness, FlowControlOptions, FrontProxyOptions, OidcOptions, Reload, Running, ServiceAccountOptions,
    StoreOptions, TlsOptions, TokenWebhookOptions, WebhookOptions,
};
