//! Proof by delegation: whoever can have the parent delegate a name to a nameserver that is named after the token controls the
//! name. Only the parent's word counts.

use super::{Challenge, Finding, Look, Place, misses_allowed, troubles};
use crate::authority::Security;
use crate::name::DomainName;

/// Whether the domain's parent delegates it to the nameserver that proves it, as one vantage point sees it; nothing where
/// nobody said whom it is delegated to. The domain's own servers have no say, and need not even answer.
pub(super) fn delegated(challenge: &Challenge, look: &Look) -> Option<bool> {
    let target = challenge.nameserver_target()?;
    let survey = look.seen.as_ref().ok().filter(|_| look.place == Place::Apex)?;
    match survey.zone == challenge.domain {
        true => Some(survey.nameservers.contains(&target)),
        // The zone above answers for it, so it is not delegated.
        false => survey.answered().next().map(|_| false),
    }
}

/// What is told when the delegation is the proof, by the same rule for vantage points as for records.
pub(super) fn proof(challenge: &Challenge, looks: &[Look]) -> Option<Vec<Finding>> {
    let here: Vec<&Look> = looks.iter().filter(|look| look.place == Place::Apex).collect();
    let is_bogus = |look: &Look| look.seen.as_ref().is_ok_and(|survey| survey.security == Security::Bogus);
    let agreeing = here.iter().filter(|look| delegated(challenge, look) == Some(true) && !is_bogus(look)).count();
    if agreeing == 0 || here.len() - agreeing > misses_allowed(here.len()) {
        return None;
    }
    let (domain, nameserver) = (challenge.domain.clone(), challenge.nameserver_target()?);
    let mut findings = vec![Finding::Delegated { domain, nameserver, vantage_points: agreeing }];
    findings.extend(troubles(&here));
    Some(findings)
}

/// A delegation that only some places see, or to another nameserver of the zone: one of another token.
pub(super) fn nearly(challenge: &Challenge, looks: &[Look]) -> Vec<Finding> {
    let places = |wanted: bool| -> Vec<String> {
        let seen = looks.iter().filter(|look| delegated(challenge, look) == Some(wanted));
        seen.map(|look| look.vantage_point.clone()).collect()
    };
    let (with, without) = (places(true), places(false));
    if !with.is_empty() {
        let partial = (!without.is_empty()).then_some(Finding::FromSomePlaces { with, without });
        return partial.into_iter().collect();
    }
    let (Some(zone), Some(expected)) = (&challenge.nameserver_zone, challenge.nameserver_target()) else {
        return Vec::new();
    };
    let surveys = looks.iter().filter(|look| look.place == Place::Apex).filter_map(|look| look.seen.as_ref().ok());
    let other = surveys
        .filter(|survey| survey.zone == challenge.domain)
        .flat_map(|survey| &survey.nameservers)
        .find(|server| server.is_within(zone) && *server != zone);
    let finding = |seen: &DomainName| Finding::OtherNameserver {
        domain: challenge.domain.clone(),
        seen: seen.clone(),
        expected: expected.clone(),
    };
    other.map(finding).into_iter().collect()
}
