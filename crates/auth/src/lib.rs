//! Who somebody is and what they may do: certificates and tokens, authenticators, authorizers, and the review APIs
//! that expose both.
//!
//! Entry types: [`pki::Pki`] (first-start keys and certificates), [`authn::RequestAuthenticator`] (credentials to user),
//! [`authz::Authorizers`] (user and request to decision), [`service_account::TokenIssuer`]. Knows nothing of HTTP
//! handlers or the store: objects it must look up come through small traits that the server implements.

pub mod authn;
pub mod authz;
mod der;
mod go_format;
pub mod impersonation;
pub mod jwt;
pub mod keys;
pub mod oidc_discovery;
pub mod pki;
pub mod reviews;
pub mod service_account;
pub mod tls;
pub mod token_request;

pub use authn::{AuthError, AuthRequest, Authentication, Authenticator, PeerCertificates, RequestAuthenticator};
pub use authz::{Attributes, Authorizer, Authorizers, Decision};
