//! Whether a file on the site proves a name, by what the site said to each place that asked for it. The rule is the one for
//! records ([`super::decision`]): a place counts when it sees the file, and few may fail to. A place that does not answer, or
//! that could not check, sees nothing.

use super::Method;
use super::decision::{Finding, Outcome, Verdict, misses_allowed};
use super::evidence::EvidenceSite;
use super::site::{File, SiteEvidence};

/// What one place was told of the file, or why that is not known.
#[derive(Clone, Debug)]
pub(super) struct Visitor {
    pub(super) vantage_point: String,
    pub(super) told: Result<SiteEvidence, String>,
}

impl Visitor {
    fn sees(&self) -> bool {
        self.told.as_ref().is_ok_and(|site| site.file == File::Present)
    }

    /// Why it does not see the file. Where only this machine asked there is no place to name.
    fn problem(&self, alone: bool) -> Option<Finding> {
        let (vantage_point, site) = match &self.told {
            Ok(site) => (&self.vantage_point, site),
            Err(reason) => {
                let (vantage_point, reason) = (self.vantage_point.clone(), reason.clone());
                return Some(Finding::Unreachable { vantage_point, reason });
            }
        };
        let problem = site.problem.clone()?;
        Some(Finding::Site { problem: if alone { problem } else { format!("{vantage_point}: {problem}") } })
    }
}

/// Takes what places were told of the file into a verdict by which nothing else proves the name. The first is this machine.
pub(super) fn take_visits(verdict: &mut Verdict, own: Visitor, others: Vec<Visitor>) {
    let all = || std::iter::once(&own).chain(&others);
    let (seeing, blind): (Vec<&Visitor>, Vec<&Visitor>) = all().partition(|visitor| visitor.sees());
    let url = seeing.first().and_then(|visitor| visitor.told.as_ref().ok()).map(|site| site.url.clone());
    let alone = others.is_empty();
    let mut problems: Vec<Finding> = blind.iter().filter_map(|visitor| visitor.problem(alone)).collect();
    match url {
        Some(url) if blind.len() <= misses_allowed(seeing.len() + blind.len()) => {
            verdict.outcome = Outcome::Verified(Method::HttpFile);
            verdict.findings = vec![Finding::OnSite { url, vantage_points: seeing.len() }];
        }
        Some(url) => {
            let names = |visitors: &[&Visitor]| visitors.iter().map(|one| one.vantage_point.clone()).collect();
            let told = Finding::OnSiteForSome { url, with: names(&seeing), without: names(&blind) };
            verdict.findings.insert(0, told);
        }
        // Nobody sees it: one account of that is enough.
        None => problems = own.problem(true).into_iter().collect(),
    }
    problems.retain(|problem| !verdict.findings.contains(problem));
    verdict.findings.extend(problems);
    verdict.evidence.site = own.told.ok();
    verdict.evidence.sites_elsewhere = others
        .into_iter()
        .filter_map(|Visitor { vantage_point, told }| Some(EvidenceSite { vantage_point, site: told.ok()? }))
        .collect();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verification::Evidence;

    fn visitor(place: &str, file: File) -> Visitor {
        let problem = (file != File::Present).then(|| "there is no file".to_owned());
        let url = "http://example.com/f".to_owned();
        let site = SiteEvidence { url, address: None, status: None, body_sha256: None, file, problem };
        Visitor { vantage_point: place.to_owned(), told: Ok(site) }
    }

    fn silent(place: &str) -> Visitor {
        Visitor { vantage_point: place.to_owned(), told: Err("it did not answer".to_owned()) }
    }

    fn decided(visitors: Vec<Visitor>) -> (Verdict, Vec<String>) {
        let mut verdict = Verdict { outcome: Outcome::Pending, findings: Vec::new(), evidence: Evidence::default() };
        let mut visitors = visitors.into_iter();
        let own = visitors.next().expect("this machine");
        take_visits(&mut verdict, own, visitors.collect());
        let told = verdict.findings.iter().map(Finding::sentence).collect();
        (verdict, told)
    }

    const PROVED: Outcome = Outcome::Verified(Method::HttpFile);

    #[test]
    fn one_machine_alone_decides_for_itself() {
        let (verdict, told) = decided(vec![visitor("here", File::Present)]);
        assert_eq!((verdict.outcome, told), (PROVED, vec!["the file is at http://example.com/f".to_owned()]));
        let (verdict, told) = decided(vec![visitor("here", File::Absent)]);
        assert_eq!((verdict.outcome, told), (Outcome::Pending, vec!["there is no file".to_owned()]));
        assert!(verdict.evidence.shows_absence(Method::HttpFile));
    }

    #[test]
    fn two_places_must_both_see_the_file_and_one_of_three_may_fail_to() {
        let (here, sin) = (visitor("here", File::Present), visitor("sin", File::Absent));
        let (verdict, told) = decided(vec![here.clone(), sin.clone()]);
        assert_eq!(verdict.outcome, Outcome::Pending);
        assert_eq!(
            told,
            [
                "the file at http://example.com/f is seen from here, not from sin: the site must be the same for everybody",
                "sin: there is no file"
            ]
        );
        assert_eq!(decided(vec![here.clone(), visitor("sin", File::Unchecked)]).0.outcome, Outcome::Pending);
        assert_eq!(decided(vec![here.clone(), silent("sin")]).0.outcome, Outcome::Pending, "silence is not seeing");
        let (verdict, told) = decided(vec![here.clone(), sin.clone(), visitor("gru", File::Present)]);
        assert_eq!(verdict.outcome, PROVED);
        assert_eq!(told, ["the file is at http://example.com/f, seen from 2 places", "sin: there is no file"]);
        assert_eq!(verdict.evidence.sites_elsewhere.len(), 2);
        assert_eq!(decided(vec![sin, here, silent("gru")]).0.outcome, Outcome::Pending, "two of three are too many");
    }

    #[test]
    fn a_proof_that_is_held_is_missing_when_any_place_is_told_that_there_is_no_file() {
        let (verdict, _) = decided(vec![visitor("here", File::Unchecked), visitor("sin", File::Absent)]);
        assert!(verdict.evidence.shows_absence(Method::HttpFile));
        let (verdict, _) = decided(vec![visitor("here", File::Unchecked), silent("sin")]);
        assert!(!verdict.evidence.shows_absence(Method::HttpFile), "silence is not absence");
    }
}
