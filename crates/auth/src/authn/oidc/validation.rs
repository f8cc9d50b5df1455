//! Whether a configuration makes sense, with upstream's field errors in upstream's order; and its expressions, compiled.

use std::collections::HashSet;

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::validation::names::domain_prefixed_path;
use serde_json::json;

use super::config::{
    AuthenticationConfiguration, ClaimMappings, ClaimValidationRule, Issuer, JwtAuthenticator,
    PrefixedClaimOrExpression, UserValidationRule,
};
use super::expressions::{Expression, Subject, Wanted};
use crate::tls;

/// How many issuers there may be; upstream's limit.
const ISSUERS_MAX: usize = 64;
/// The only policy there is so far.
const MATCH_ANY: &str = "MatchAny";

/// A rule with what to say when it fails.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) expression: Expression,
    pub(super) message: String,
}

/// The expressions of one issuer. What is not set is mapped by claim names or not at all.
#[derive(Debug, Default)]
pub(super) struct Compiled {
    pub(super) username: Option<Expression>,
    pub(super) groups: Option<Expression>,
    pub(super) uid: Option<Expression>,
    pub(super) extra: Vec<(String, Expression)>,
    pub(super) claim_rules: Vec<Rule>,
    pub(super) user_rules: Vec<Rule>,
}

/// The compiled expressions of each issuer, or all that is wrong. `disallowed` are issuers of service-account tokens.
pub(super) fn validate(
    config: &AuthenticationConfiguration,
    disallowed: &[String],
) -> Result<Vec<Compiled>, ErrorList> {
    let root = Path::new("jwt");
    if config.jwt.len() > ISSUERS_MAX {
        return Err(vec![Error::too_many(&root, config.jwt.len(), ISSUERS_MAX)]);
    }
    let mut errors = ErrorList::new();
    let mut compiled = Vec::with_capacity(config.jwt.len());
    let (mut seen_issuers, mut seen_discovery) = (HashSet::new(), HashSet::new());
    for (index, jwt) in config.jwt.iter().enumerate() {
        let path = root.index(index);
        compiled.push(authenticator(jwt, &path, disallowed, &mut errors));
        let issuer = path.child("issuer");
        if !seen_issuers.insert(&jwt.issuer.url) {
            errors.push(Error::duplicate(&issuer.child("url"), jwt.issuer.url.as_str()));
        }
        if let Some(url) = discovery_url(&jwt.issuer)
            && !seen_discovery.insert(url)
        {
            errors.push(Error::duplicate(&issuer.child("discoveryURL"), url));
        }
    }
    if let Some(anonymous) = &config.anonymous
        && !anonymous.enabled
        && !anonymous.conditions.is_empty()
    {
        let conditions: Vec<_> = anonymous.conditions.iter().map(|c| json!({"Path": c.path})).collect();
        let path = Path::new("anonymous").child("conditions");
        errors.push(Error::invalid(&path, conditions, "enabled should be set to true when conditions are defined"));
    }
    if errors.is_empty() { Ok(compiled) } else { Err(errors) }
}

fn discovery_url(issuer: &Issuer) -> Option<&str> {
    issuer.discovery_url.as_deref().filter(|url| !url.is_empty())
}

fn authenticator(jwt: &JwtAuthenticator, path: &Path, disallowed: &[String], errors: &mut ErrorList) -> Compiled {
    let mut compiled = Compiled::default();
    check_issuer(&jwt.issuer, &path.child("issuer"), disallowed, errors);
    claim_rules(&jwt.claim_validation_rules, &path.child("claimValidationRules"), &mut compiled, errors);
    claim_mappings(&jwt.claim_mappings, &path.child("claimMappings"), &mut compiled, errors);
    user_rules(&jwt.user_validation_rules, &path.child("userValidationRules"), &mut compiled, errors);
    compiled
}

fn check_issuer(issuer: &Issuer, path: &Path, disallowed: &[String], errors: &mut ErrorList) {
    let url_path = path.child("url");
    if issuer.url.is_empty() {
        errors.push(Error::required(&url_path, ""));
    } else {
        check_url(&issuer.url, &url_path, disallowed, errors);
    }
    if let Some(discovery) = discovery_url(issuer) {
        let path = path.child("discoveryURL");
        if !issuer.url.is_empty() && issuer.url.trim_end_matches('/') == discovery.trim_end_matches('/') {
            errors.push(Error::invalid(&path, discovery, "discoveryURL must be different from URL"));
        }
        check_url(discovery, &path, &[], errors);
    }
    check_audiences(issuer, path, errors);
    if !issuer.certificate_authority.is_empty() {
        let mut roots = rustls::RootCertStore::empty();
        if let Err(error) = tls::add_roots(&mut roots, "certificateAuthority", &issuer.certificate_authority) {
            let reason = match error {
                tls::TlsError::NoCertificate(_) => "data does not contain any valid RSA or ECDSA certificates".into(),
                other => other.to_string(),
            };
            errors.push(Error::invalid(&path.child("certificateAuthority"), "<omitted>", reason));
        }
    }
    if !issuer.egress_selector_type.is_empty() {
        let path = path.child("egressSelectorType");
        let value = issuer.egress_selector_type.as_str();
        let detail = match value {
            // There is no egress selector here to choose.
            "controlplane" | "cluster" => {
                "egress selector is not supported when StructuredAuthenticationConfigurationEgressSelector feature gate is disabled"
            }
            _ => "egress selector must be either controlplane or cluster",
        };
        errors.push(Error::invalid(&path, value, detail));
    }
}

fn check_url(url: &str, path: &Path, disallowed: &[String], errors: &mut ErrorList) {
    if disallowed.iter().any(|issuer| issuer == url) {
        let mut sorted: Vec<&str> = disallowed.iter().map(String::as_str).collect();
        sorted.sort_unstable();
        sorted.dedup();
        let detail = format!("URL must not overlap with disallowed issuers: [{}]", sorted.join(" "));
        errors.push(Error::invalid(path, url, detail));
    }
    let (before_fragment, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (before_query, query) = before_fragment.split_once('?').unwrap_or((before_fragment, ""));
    let (scheme, rest) = before_query.split_once("://").unwrap_or(("", before_query));
    let authority = rest.split('/').next().unwrap_or_default();
    for (wrong, detail) in [
        (!scheme.eq_ignore_ascii_case("https"), "URL scheme must be https"),
        (!scheme.is_empty() && authority.contains('@'), "URL must not contain a username or password"),
        (!query.is_empty(), "URL must not contain a query"),
        (!fragment.is_empty(), "URL must not contain a fragment"),
    ] {
        if wrong {
            errors.push(Error::invalid(path, url, detail));
        }
    }
}

fn check_audiences(issuer: &Issuer, path: &Path, errors: &mut ErrorList) {
    let (audiences, policy) = (&issuer.audiences, issuer.audience_match_policy.as_str());
    let audiences_path = path.child("audiences");
    if audiences.is_empty() {
        errors.push(Error::required(&audiences_path, format!("at least one {audiences_path} is required")));
        return;
    }
    let mut seen = HashSet::new();
    for (index, audience) in audiences.iter().enumerate() {
        let path = audiences_path.index(index);
        if audience.is_empty() {
            errors.push(Error::required(&path, ""));
        }
        if !seen.insert(audience) {
            errors.push(Error::duplicate(&path, audience.as_str()));
        }
    }
    let policy_path = path.child("audienceMatchPolicy");
    if audiences.len() > 1 && policy != MATCH_ANY {
        let detail = "audienceMatchPolicy must be MatchAny for multiple audiences";
        errors.push(Error::invalid(&policy_path, policy, detail));
    }
    if audiences.len() == 1 && !policy.is_empty() && policy != MATCH_ANY {
        let detail = "audienceMatchPolicy must be empty or MatchAny for single audience";
        errors.push(Error::invalid(&policy_path, policy, detail));
    }
}

/// Compiles, or reports why that fails.
fn compile(text: &str, subject: Subject, wanted: Wanted, path: &Path, errors: &mut ErrorList) -> Option<Expression> {
    Expression::compile(text, subject, wanted).map_err(|detail| errors.push(Error::invalid(path, text, detail))).ok()
}

fn claim_rules(rules: &[ClaimValidationRule], path: &Path, compiled: &mut Compiled, errors: &mut ErrorList) {
    let (mut seen_claims, mut seen_expressions) = (HashSet::new(), HashSet::new());
    for (index, rule) in rules.iter().enumerate() {
        let path = path.index(index);
        match (rule.claim.as_str(), rule.expression.as_str()) {
            ("", "") => errors.push(Error::required(&path, "claim or expression is required")),
            (claim, "") => {
                if !rule.message.is_empty() {
                    let detail = "may not be specified when claim is set";
                    errors.push(Error::invalid(&path.child("message"), rule.message.as_str(), detail));
                }
                if !seen_claims.insert(claim) {
                    errors.push(Error::duplicate(&path.child("claim"), claim));
                }
            }
            ("", expression) => {
                if !rule.required_value.is_empty() {
                    let detail = "may not be specified when expression is set";
                    errors.push(Error::invalid(&path.child("requiredValue"), rule.required_value.as_str(), detail));
                }
                let path = path.child("expression");
                if !seen_expressions.insert(expression) {
                    errors.push(Error::duplicate(&path, expression));
                } else if let Some(expression) = compile(expression, Subject::Claims, Wanted::Bool, &path, errors) {
                    compiled.claim_rules.push(Rule { expression, message: rule.message.clone() });
                }
            }
            (claim, _) => errors.push(Error::invalid(&path, claim, "claim and expression can't both be set")),
        }
    }
}

fn prefixed(
    mapping: &PrefixedClaimOrExpression,
    path: &Path,
    required: bool,
    errors: &mut ErrorList,
) -> Option<Expression> {
    match (mapping.claim.as_str(), mapping.expression.as_str()) {
        ("", "") => {
            if required {
                errors.push(Error::required(path, "claim or expression is required"));
            }
            None
        }
        (_, "") => {
            if mapping.prefix.is_none() {
                let detail =
                    "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
                errors.push(Error::required(&path.child("prefix"), detail));
            }
            None
        }
        ("", expression) => {
            if let Some(prefix) = &mapping.prefix {
                let detail = "may not be specified when expression is set";
                errors.push(Error::invalid(&path.child("prefix"), prefix.as_str(), detail));
            }
            compile(expression, Subject::Claims, Wanted::Any, &path.child("expression"), errors)
        }
        _ => {
            errors.push(Error::invalid(path, "", "claim and expression can't both be set"));
            None
        }
    }
}

fn claim_mappings(mappings: &ClaimMappings, path: &Path, compiled: &mut Compiled, errors: &mut ErrorList) {
    compiled.username = prefixed(&mappings.username, &path.child("username"), true, errors);
    compiled.groups = prefixed(&mappings.groups, &path.child("groups"), false, errors);
    let uid_path = path.child("uid");
    match (mappings.uid.claim.as_str(), mappings.uid.expression.as_str()) {
        (_, "") => {}
        ("", expression) => {
            let path = uid_path.child("expression");
            compiled.uid = compile(expression, Subject::Claims, Wanted::Any, &path, errors);
        }
        _ => errors.push(Error::invalid(&uid_path, "", "claim and expression can't both be set")),
    }
    extra_mappings(mappings, &path.child("extra"), compiled, errors);
    let reads_email = compiled.username.as_ref().is_some_and(|e| e.reads_claim("email"));
    let rules = compiled.claim_rules.iter().map(|rule| &rule.expression);
    let mut expressions =
        compiled.username.iter().chain(compiled.extra.iter().map(|(_, expression)| expression)).chain(rules);
    if reads_email && !expressions.any(|expression| expression.reads_claim("email_verified")) {
        let detail = "claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression";
        let path = path.child("username").child("expression");
        errors.push(Error::invalid(&path, mappings.username.expression.as_str(), detail));
    }
}

fn extra_mappings(mappings: &ClaimMappings, path: &Path, compiled: &mut Compiled, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for (index, mapping) in mappings.extra.iter().enumerate() {
        let path = path.index(index);
        let (key, key_path) = (mapping.key.as_str(), path.child("key"));
        if key.is_empty() {
            errors.push(Error::required(&key_path, ""));
        } else {
            let wrong = domain_prefixed_path(key);
            errors.extend(wrong.into_iter().map(|(value, detail)| Error::invalid(&key_path, value, detail)));
        }
        if key != key.to_lowercase() {
            errors.push(Error::invalid(&key_path, key, "must be lowercase"));
        }
        if is_reserved(key) {
            let detail = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use";
            errors.push(Error::invalid(&key_path, key, detail));
        }
        if !seen.insert(key) {
            errors.push(Error::duplicate(&key_path, key));
            continue;
        }
        let path = path.child("valueExpression");
        if mapping.value_expression.is_empty() {
            errors.push(Error::required(&path, ""));
            continue;
        }
        if let Some(expression) = compile(&mapping.value_expression, Subject::Claims, Wanted::Any, &path, errors) {
            compiled.extra.push((key.to_owned(), expression));
        }
    }
}

fn is_reserved(key: &str) -> bool {
    let domain = key.split_once('/').map(|(domain, _)| domain).unwrap_or_default();
    ["kubernetes.io", "k8s.io"]
        .iter()
        .any(|reserved| domain.strip_suffix(reserved).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

fn user_rules(rules: &[UserValidationRule], path: &Path, compiled: &mut Compiled, errors: &mut ErrorList) {
    let mut seen = HashSet::new();
    for (index, rule) in rules.iter().enumerate() {
        let path = path.index(index).child("expression");
        if rule.expression.is_empty() {
            errors.push(Error::required(&path, ""));
        } else if !seen.insert(rule.expression.as_str()) {
            errors.push(Error::duplicate(&path, rule.expression.as_str()));
        } else if let Some(expression) = compile(&rule.expression, Subject::User, Wanted::Bool, &path, errors) {
            compiled.user_rules.push(Rule { expression, message: rule.message.clone() });
        }
    }
}

#[cfg(test)]
mod tests;
