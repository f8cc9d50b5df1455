//! Runs a check.

use jiff::Timestamp;
use serde_json::Value;

use super::{Check, CheckError, LIST_MAX, Report, Signatures, TYPES_MAX};
use crate::dnssec;
use crate::endpoint::places::{self, Errand};
use crate::history::past::{Asked, Recorded};
use crate::name::{DomainName, NameError, Subject, asked_name, one_host_of};
use crate::plan::analysis::{Analysis, ServiceReport, live_hosts};
use crate::plan::{Aim, Host, Wish, service};
use crate::probe::{QUESTIONS_MAX, RemotePlaces, parse_type};
use crate::recursive;
use crate::report::compare::CompareReport;
use crate::report::fqdn::FqdnReport;
use crate::report::history::HistoryReport;
use crate::report::trace::TraceReport;
use crate::resolve::{Run, Thoroughness};
use crate::toolbox::{Target, Toolbox};
use crate::verification::Challenge;
use crate::verification::challenge::system_random;
use crate::wire::{Name, Question};
use crate::zonecheck::{self, MAX_CHECK_QUESTIONS, Undelegated};

/// Runs a check with `toolbox`; what can be seen from other places too is asked of `remote`.
pub async fn run(check: &Check, toolbox: &Toolbox, remote: &dyn RemotePlaces) -> Result<Report, CheckError> {
    match check {
        Check::Scan { name } => {
            let subject = Subject::parse(name).map_err(arguments)?;
            Ok(Report::Scan(Box::new(toolbox.scan(subject).await)))
        }
        Check::Verify { .. } => verify(check, toolbox, remote).await,
        Check::Plan { .. } => plan(check, toolbox, remote).await,
        Check::Fqdn { name, types, endpoints } => {
            within("types", types.len(), TYPES_MAX)?;
            let host = one_host_of(name).map_err(arguments)?;
            let types = types.iter().map(|text| parse_type(text).map_err(CheckError::Arguments));
            let types = types.collect::<Result<Vec<_>, _>>()?;
            let reports = FqdnReport::make_with(&toolbox.engines(), remote, &host, &types, *endpoints).await;
            Ok(Report::Fqdn(reports.map_err(CheckError::Failed)?))
        }
        Check::Compare { name, rtype, resolvers, via } => {
            within("resolvers", resolvers.len(), LIST_MAX)?;
            let engines = toolbox.engines();
            let engine = *engines.first().ok_or_else(no_place)?;
            let mut all = engine.roots().resolvers.clone();
            all.extend(resolvers.iter().copied().map(recursive::by_address));
            let question = question(name, rtype)?;
            let report = CompareReport::make(&engines, &all, &question, *via).await.ok_or_else(no_place)?;
            Ok(Report::Compare(Box::new(report)))
        }
        Check::ZoneCheck { name, level, servers, signers } => {
            within("servers", servers.len(), LIST_MAX)?;
            within("signers", signers.len(), LIST_MAX)?;
            let engines = toolbox.engines();
            let run = Run::with_budget(engines.first().ok_or_else(no_place)?, MAX_CHECK_QUESTIONS);
            let zone = owner(name)?;
            let mut check = match servers.is_empty() {
                true => zonecheck::check(&run, &zone).await,
                false => {
                    let like = Undelegated::parse(servers, signers).map_err(arguments)?;
                    zonecheck::check_undelegated(&run, &zone, &like).await
                }
            };
            check.findings.retain(|finding| finding.severity >= *level);
            Ok(Report::ZoneCheck(Box::new(check)))
        }
        Check::History { name, at, objects } => history(name, at.as_deref(), objects, toolbox.clock().now()),
        Check::Trace { name, rtype, dnssec } => {
            let engines = toolbox.engines();
            let engine = *engines.first().ok_or_else(no_place)?;
            let resolution = Run::new(engine).resolve(&question(name, rtype)?, Thoroughness::EveryServer).await;
            let validation = match dnssec {
                Signatures::Check => Some(dnssec::validate(&Run::new(engine), &resolution).await),
                Signatures::Ignore => None,
            };
            Ok(Report::Trace(Box::new(TraceReport::new(&resolution, validation))))
        }
    }
}

fn history(name: &str, at: Option<&str>, objects: &[Value], now: Timestamp) -> Result<Report, CheckError> {
    let at = at.map(str::parse::<Asked>).transpose().map_err(CheckError::Arguments)?;
    let at = at.map(|asked| asked.at(now)).transpose().map_err(CheckError::Arguments)?;
    let domain = objects.first().ok_or_else(|| {
        CheckError::Failed(format!("there is no Domain for {name}: what is not watched over has no history"))
    })?;
    let recorded = Recorded::of(domain).map_err(CheckError::Failed)?;
    let name = domain.pointer("/spec/name").and_then(Value::as_str).unwrap_or(name);
    Ok(Report::History(Box::new(match at {
        Some(at) => HistoryReport::Then(recorded.past(name, at)),
        None => HistoryReport::all(name, recorded),
    })))
}

async fn verify(check: &Check, toolbox: &Toolbox, remote: &dyn RemotePlaces) -> Result<Report, CheckError> {
    let Check::Verify { name, token, brand, delegation_zone, nameserver_zone, scope, account_label } = check else {
        return Err(CheckError::Arguments("this is no verification".to_owned()));
    };
    let domain = match one_host_of(name) {
        Err(NameError::Wildcard(base)) => {
            let told = format!("*.{base} is proved at {base}: give that name, and the scope wildcard");
            return Err(CheckError::Arguments(told));
        }
        parsed => parsed.map_err(arguments)?,
    };
    let zone = |text: &Option<String>| text.as_deref().map(DomainName::parse).transpose().map_err(arguments);
    let (delegation_zone, nameserver_zone) = (zone(delegation_zone)?, zone(nameserver_zone)?);
    let now = toolbox.clock().now();
    let mut challenge = Challenge::new(&domain, *scope, brand, now, &mut system_random).map_err(arguments)?;
    if let Some(account) = account_label {
        challenge = challenge.for_account(account).map_err(arguments)?;
    }
    let challenge = Challenge { delegation_zone, nameserver_zone, ..challenge };
    if token.as_ref().is_some_and(|token| token.trim().is_empty()) {
        let told = "the token is empty: give the one that you were given, or none at all to be given one";
        return Err(CheckError::Arguments(told.to_owned()));
    }
    if let Some(token) = token {
        let challenge = challenge.with_token(token);
        let verdict = toolbox.verify_from(&challenge, remote).await;
        return Ok(Report::Verdict { challenge: Box::new(challenge), verdict: Box::new(verdict) });
    }
    let zone = toolbox.zone_of(&domain).await.map_err(|reason| CheckError::Failed(format!("{domain}: {reason}")))?;
    Ok(Report::Instructions { challenge: Box::new(challenge), zone: Box::new(zone), at: now })
}

async fn plan(check: &Check, toolbox: &Toolbox, remote: &dyn RemotePlaces) -> Result<Report, CheckError> {
    let Check::Plan { name, targets, objects, analyze, export } = check else {
        return Err(CheckError::Arguments("this is no plan".to_owned()));
    };
    within("targets", targets.len(), LIST_MAX)?;
    let mut wishes = match service::name_a_service(objects) {
        false => Vec::new(),
        true => service::wishes(objects).map_err(arguments)?,
    };
    toolbox.look_up_targets(&mut wishes).await;
    if let Some(name) = name {
        if targets.is_empty() {
            return Err(CheckError::Arguments("say where the name is to lead: addresses, or a host".to_owned()));
        }
        let targets = targets.iter().map(|text| text.parse::<Target>().map_err(arguments));
        let targets = targets.collect::<Result<Vec<_>, _>>()?;
        wishes.push(toolbox.wish(Host::parse(name).map_err(arguments)?, &targets).await);
    }
    if wishes.is_empty() {
        return Err(CheckError::Arguments("name a host, or a Gateway whose hosts are meant".to_owned()));
    }
    let mut plans = toolbox.plan(wishes.clone()).await.map_err(CheckError::Failed)?;
    let proofs = service::proofs(objects);
    plans.iter_mut().for_each(|plan| plan.prove(&proofs));
    if *analyze {
        let mut analyses = futures::future::join_all(plans.iter().map(|plan| toolbox.analyze_with_caches(plan))).await;
        look_behind(&mut analyses, &service::secured(objects), &wishes, toolbox, remote).await;
        return Ok(Report::Analyses { plans, analyses, at: toolbox.clock().now() });
    }
    Ok(Report::Plans { plans, at: toolbox.clock().now(), export: *export })
}

/// Calls the services behind names that are live, from every place.
async fn look_behind(
    analyses: &mut [Analysis],
    secured: &[Host],
    wishes: &[Wish],
    toolbox: &Toolbox,
    remote: &dyn RemotePlaces,
) {
    let addresses = |host: &Host| {
        wishes.iter().find(|wish| wish.host == *host).map(|wish| match &wish.aim {
            Aim::Addresses(addresses) | Aim::Host { addresses, .. } => addresses.clone(),
        })
    };
    let mut errands = Vec::new();
    for (index, analysis) in analyses.iter().enumerate() {
        for host in live_hosts(analysis, secured) {
            let addresses = addresses(host).unwrap_or_default();
            errands.push((index, Errand { host: host.base.clone(), addresses }));
        }
    }
    // As many as one piece of an agent's work has room for.
    errands.truncate(QUESTIONS_MAX);
    let all: Vec<Errand> = errands.iter().map(|(_, errand)| errand.clone()).collect();
    let seen = places::call(&toolbox.engines(), remote, &remote.present(), &all).await;
    for ((index, errand), seen) in errands.into_iter().zip(seen) {
        if let Some(analysis) = analyses.get_mut(index) {
            let (host, absent) = (errand.host, remote.absent());
            analysis.services.push(ServiceReport { host, endpoints: places::merge(seen), absent });
        }
    }
}

fn owner(name: &str) -> Result<Name, CheckError> {
    asked_name(name).map_err(CheckError::Arguments)
}

fn question(name: &str, rtype: &str) -> Result<Question, CheckError> {
    Ok(Question::new(owner(name)?, parse_type(rtype).map_err(CheckError::Arguments)?))
}

fn arguments(error: impl std::fmt::Display) -> CheckError {
    CheckError::Arguments(error.to_string())
}

fn no_place() -> CheckError {
    CheckError::Failed("there is no place to ask from".to_owned())
}

fn within(what: &str, count: usize, most: usize) -> Result<(), CheckError> {
    match count > most {
        true => Err(CheckError::Arguments(format!("{count} {what} are too many: {most} at most"))),
        false => Ok(()),
    }
}
