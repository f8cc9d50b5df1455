//! From the verified claims of a token to a user, as the configuration maps them.

use std::collections::BTreeMap;

use bailiwick_cel::Value;
use bailiwick_machinery::UserInfo;
use serde_json::{Map as JsonMap, Value as Json};

use super::config::JwtAuthenticator;
use super::expressions::user_json;
use super::validation::{Compiled, Rule};
use crate::authn::CREDENTIAL_ID_KEY;
use crate::service_account::credential_id;

type Claims = JsonMap<String, Json>;

/// The user the claims stand for, if every rule allows it.
pub(super) fn user(config: &JwtAuthenticator, compiled: &Compiled, claims: &Claims) -> Result<UserInfo, String> {
    refuse_distributed(config, claims)?;
    let user = UserInfo {
        name: username(config, compiled, claims)?,
        groups: groups(config, compiled, claims)?,
        uid: uid(config, compiled, claims)?,
        extra: extra(compiled, claims)?,
    };
    for rule in config.claim_validation_rules.iter().filter(|rule| !rule.claim.is_empty()) {
        let (name, wanted) = (&rule.claim, &rule.required_value);
        let found = match claims.get(name) {
            None => return Err(format!("oidc: required claim {name} not present in ID token")),
            // As in Go, null is the empty string.
            Some(Json::Null) => "",
            Some(Json::String(text)) => text,
            Some(other) => return Err(format!("oidc: parse claim {name}: {}", not_a_string(other))),
        };
        if found != wanted {
            return Err(format!("oidc: required claim {name} value does not match. Got = {found}, want = {wanted}"));
        }
    }
    check(&compiled.claim_rules, |rule| rule.expression.of_claims(claims, verdict))
        .map_err(|error| format!("oidc: error evaluating claim validation expression: {error}"))?;
    if !compiled.user_rules.is_empty() {
        let seen = user_json(&user);
        check(&compiled.user_rules, |rule| rule.expression.of_user(&seen, verdict))
            .map_err(|error| format!("oidc: error evaluating user info validation rule: {error}"))?;
    }
    Ok(user)
}

/// Groups that must be fetched from elsewhere are not supported; leaving them out would make another user of this one.
fn refuse_distributed(config: &JwtAuthenticator, claims: &Claims) -> Result<(), String> {
    let claim = config.claim_mappings.groups.claim.as_str();
    let elsewhere = claims.get("_claim_names").and_then(|names| names.get(claim)).is_some();
    if !claim.is_empty() && elsewhere && !claims.contains_key(claim) {
        return Err("oidc: could not expand distributed claims: distributed claims are not supported".into());
    }
    Ok(())
}

fn verdict(value: &Value<'_>) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        _ => None,
    }
}

fn check(rules: &[Rule], run: impl Fn(&Rule) -> Result<Option<bool>, String>) -> Result<(), String> {
    // All run before any is judged, as upstream: an error in a later one is reported before a refusal by an earlier.
    let verdicts: Vec<Option<bool>> = rules.iter().map(run).collect::<Result<_, _>>()?;
    for (rule, verdict) in rules.iter().zip(verdicts) {
        match verdict {
            Some(true) => {}
            Some(false) => {
                return Err(format!("validation expression '{}' failed: {}", rule.expression.text, rule.message));
            }
            None => return Err("validation expression must return a boolean".into()),
        }
    }
    Ok(())
}

fn username(config: &JwtAuthenticator, compiled: &Compiled, claims: &Claims) -> Result<String, String> {
    if let Some(expression) = &compiled.username {
        let failed = |error: String| format!("oidc: error evaluating username claim expression: {error}");
        let name = expression.of_claims(claims, |value| value.as_str().map(str::to_owned)).map_err(failed)?;
        let name = name.ok_or_else(|| failed("username claim expression must return a string".into()))?;
        if name.is_empty() {
            return Err("oidc: empty username via CEL expression is not allowed".into());
        }
        return Ok(name);
    }
    let mapping = &config.claim_mappings.username;
    let name = string_claim(claims, &mapping.claim)
        .map_err(|error| format!("oidc: parse username claims {:?}: {error}", mapping.claim))?;
    if mapping.claim == "email" {
        match claims.get("email_verified") {
            None | Some(Json::Bool(true)) => {}
            Some(Json::Bool(false) | Json::Null) => return Err("oidc: email not verified".into()),
            Some(other) => {
                let found = kind(other);
                return Err(format!(
                    "oidc: parse 'email_verified' claim: json: cannot unmarshal {found} into Go value of type bool"
                ));
            }
        }
    }
    Ok(format!("{}{name}", mapping.prefix.as_deref().unwrap_or_default()))
}

fn groups(config: &JwtAuthenticator, compiled: &Compiled, claims: &Claims) -> Result<Vec<String>, String> {
    let mapping = &config.claim_mappings.groups;
    if !mapping.claim.is_empty()
        && let Some(found) = claims.get(&mapping.claim)
    {
        let prefix = mapping.prefix.as_deref().unwrap_or_default();
        let one = |group: &str| format!("{prefix}{group}");
        return match found {
            Json::Null => Ok(Vec::new()),
            // Some providers give a single role.
            Json::String(group) => Ok(vec![one(group)]),
            Json::Array(items) => items
                .iter()
                .map(|item| item.as_str().map(one))
                .collect::<Option<_>>()
                .ok_or_else(|| format!("oidc: parse groups claim {:?}: {}", mapping.claim, not_a_string(found))),
            other => Err(format!("oidc: parse groups claim {:?}: {}", mapping.claim, not_a_string(other))),
        };
    }
    let Some(expression) = &compiled.groups else { return Ok(Vec::new()) };
    expression
        .of_claims(claims, string_list)
        .and_then(|list| list)
        .map_err(|error| format!("oidc: error evaluating group claim expression: {error}"))
}

fn uid(config: &JwtAuthenticator, compiled: &Compiled, claims: &Claims) -> Result<String, String> {
    let claim = &config.claim_mappings.uid.claim;
    if !claim.is_empty() {
        return string_claim(claims, claim).map_err(|error| format!("oidc: parse uid claim {claim:?}: {error}"));
    }
    let Some(expression) = &compiled.uid else { return Ok(String::new()) };
    let failed = |error: String| format!("oidc: error evaluating uid claim expression: {error}");
    let uid = expression.of_claims(claims, |value| value.as_str().map(str::to_owned)).map_err(failed)?;
    uid.ok_or_else(|| failed("uid claim expression must return a string".into()))
}

fn extra(compiled: &Compiled, claims: &Claims) -> Result<BTreeMap<String, Vec<String>>, String> {
    let mut extra = BTreeMap::new();
    if let Some(jti) = claims.get("jti").and_then(Json::as_str) {
        extra.insert(CREDENTIAL_ID_KEY.to_owned(), vec![credential_id(jti)]);
    }
    for (key, expression) in &compiled.extra {
        let values = expression
            .of_claims(claims, string_list)?
            .map_err(|error| format!("oidc: error evaluating extra claim expression: {}: {error}", expression.text))?;
        if !values.is_empty() {
            extra.insert(key.clone(), values);
        }
    }
    Ok(extra)
}

/// A string or a list of strings; what is empty counts as absent.
fn string_list(value: &Value<'_>) -> Result<Vec<String>, String> {
    let wrong = || "expression must return a string or a list of strings".to_owned();
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(_) => Ok(value.as_str().filter(|text| !text.is_empty()).map(str::to_owned).into_iter().collect()),
        Value::List(list) => {
            let mut out = Vec::with_capacity(list.len());
            for item in list.iter() {
                let item = item.map_err(|error| error.to_string())?;
                let text = item.as_str().ok_or_else(wrong)?;
                if !text.is_empty() {
                    out.push(text.to_owned());
                }
            }
            Ok(out)
        }
        _ => Err(wrong()),
    }
}

fn string_claim(claims: &Claims, name: &str) -> Result<String, String> {
    match claims.get(name) {
        None => Err("claim not present".into()),
        Some(Json::Null) => Ok(String::new()),
        Some(Json::String(text)) => Ok(text.clone()),
        Some(other) => Err(not_a_string(other)),
    }
}

fn not_a_string(value: &Json) -> String {
    format!("json: cannot unmarshal {} into Go value of type string", kind(value))
}

fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "bool",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}
