//! Who gets in, from outside: real tokens of a real OpenID provider, a token webhook, a front proxy, service accounts and
//! signed certificates against the real program, mostly with the real kubectl.

mod bootstrap_tokens;
mod certificates;
mod explain;
mod front_proxy;
mod login;
mod oidc;
mod provider;
mod refusals;
mod refused_tokens;
mod service_accounts;
mod token_webhook;
