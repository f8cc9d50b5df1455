//! Who gets in, from outside: real tokens of a real OpenID provider, a token webhook, a front proxy, service accounts and
//! signed certificates against the real program, mostly with the real kubectl.

mod certificates;
mod front_proxy;
mod login;
mod oidc;
mod provider;
mod service_accounts;
mod token_webhook;
