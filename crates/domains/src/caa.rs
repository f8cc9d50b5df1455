//! Who may issue certificates for a name: the CAA records of the closest name upwards that has any (RFC 8659). Authorities must
//! obey them, so a record that was forgotten there is found only when a certificate is refused.

use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::name::DomainName;
use crate::resolve::{Run, Thoroughness};
use crate::wire::{Question, RecordType, parse_name, rdata_text};

/// `(part of the issuer's name in certificates, its names in CAA records)`. Issuers that are not here are not judged.
const ISSUERS: &[(&str, &[&str])] = &[
    ("Let's Encrypt", &["letsencrypt.org"]),
    ("Google Trust Services", &["pki.goog"]),
    (
        "DigiCert",
        &[
            "digicert.com",
            "www.digicert.com",
            "digicert.ne.jp",
            "symantec.com",
            "geotrust.com",
            "rapidssl.com",
            "thawte.com",
        ],
    ),
    ("Sectigo", &["sectigo.com", "comodoca.com", "comodo.com", "usertrust.com", "trust-provider.com"]),
    ("ZeroSSL", &["sectigo.com", "zerossl.com"]),
    ("Amazon", &["amazon.com", "amazontrust.com", "awstrust.com", "amazonaws.com"]),
    ("GlobalSign", &["globalsign.com"]),
    ("GoDaddy", &["godaddy.com", "starfieldtech.com"]),
    ("Entrust", &["entrust.net", "affirmtrust.com"]),
    ("Buypass", &["buypass.com", "buypass.no"]),
    ("SSL.com", &["ssl.com"]),
    ("Cloudflare", &["cloudflare.com"]),
];

/// The rules that count for a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateRules {
    /// The name that has them.
    pub at: DomainName,
    /// Who may issue; nobody when empty.
    pub issue: Vec<String>,
    /// Who may issue for wildcards, where that is said apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issue_wild: Option<Vec<String>>,
}

impl CertificateRules {
    /// Of the records at a name; none when none of them restricts anything.
    fn of(at: DomainName, records: &[String]) -> Option<Self> {
        let values = |wanted: &str| -> Option<Vec<String>> {
            let found: Vec<&str> = records.iter().filter_map(|record| value(record, wanted)).collect();
            let issuers =
                found.iter().map(|text| text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
            (!found.is_empty()).then(|| issuers.filter(|issuer| !issuer.is_empty()).collect())
        };
        let (issue, issue_wild) = (values("issue"), values("issuewild"));
        match (issue, issue_wild) {
            (None, None) => None,
            // Wildcards alone are restricted: everybody may issue for the rest, which is no rule for it.
            (None, wild) => Some(Self { at, issue: vec!["*".to_owned()], issue_wild: wild }),
            (Some(issue), wild) => Some(Self { at, issue, issue_wild: wild }),
        }
    }

    fn allowed(&self, wildcard: bool) -> &[String] {
        match &self.issue_wild {
            Some(wild) if wildcard => wild,
            _ => &self.issue,
        }
    }

    /// What the owner is told before a certificate is asked for.
    pub fn sentence(&self, host: &str) -> Option<String> {
        match self.allowed(host.starts_with("*.")) {
            [all] if all == "*" => None,
            [] => Some(format!(
                "CAA at {} forbids all certificates for {host}: change it before one is asked for",
                self.at
            )),
            some => Some(format!(
                "CAA at {at} lets only {} issue certificates for {host}: if the platform uses another authority, add it there as 0 issue \"<authority>\"",
                some.join(", "),
                at = self.at
            )),
        }
    }

    /// What is wrong with a certificate by this issuer; nothing when it is allowed, or is not known.
    pub fn problem(&self, host: &str, issuer: &str) -> Option<String> {
        let (_, names) = ISSUERS.iter().find(|(known, _)| issuer.contains(known))?;
        let allowed = self.allowed(host.starts_with("*."));
        let is_allowed = allowed.iter().any(|name| name == "*" || names.contains(&name.as_str()));
        (!is_allowed).then(|| format!("CAA at {} does not let {issuer} issue it: it cannot be renewed there", self.at))
    }
}

/// The value of a record that has this tag, as zone files write it: `0 issue "letsencrypt.org"`.
fn value<'a>(record: &'a str, wanted: &str) -> Option<&'a str> {
    let mut words = record.splitn(3, ' ');
    let (_flags, tag, value) = (words.next()?, words.next()?, words.next()?);
    tag.eq_ignore_ascii_case(wanted).then(|| value.trim().trim_matches('"'))
}

/// Looks for the rules of a name, upwards from it.
pub async fn rules(engine: &Engine, name: &DomainName) -> Option<CertificateRules> {
    let run = Run::new(engine);
    let mut rest = Some(name.as_str());
    // A top-level domain has none that anybody means.
    while let Some(text) = rest.filter(|text| text.contains('.')) {
        let question = Question::new(parse_name(text).ok()?, RecordType::CAA);
        let found = run.resolve(&question, Thoroughness::FirstAnswer).await;
        let records = found.records.iter().filter(|record| record.record_type() == RecordType::CAA);
        let records: Vec<String> = records.map(rdata_text).collect();
        if !records.is_empty() {
            return CertificateRules::of(DomainName::parse(text).ok()?, &records);
        }
        rest = text.split_once('.').map(|(_, above)| above);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(records: &[&str]) -> Option<CertificateRules> {
        let records: Vec<String> = records.iter().map(|record| (*record).to_owned()).collect();
        CertificateRules::of(DomainName::parse("example.com").expect("a name"), &records)
    }

    #[test]
    fn who_may_issue_is_told_with_what_to_add() {
        let rules = rules(&["0 issue \"letsencrypt.org\"", "0 iodef \"mailto:a@example.com\""]).expect("rules");
        let told = rules.sentence("www.example.com").expect("told");
        assert!(
            told.starts_with("CAA at example.com lets only letsencrypt.org issue certificates for www.example.com")
        );
        assert_eq!(rules.problem("www.example.com", "Let's Encrypt"), None);
        assert_eq!(
            rules.problem("www.example.com", "DigiCert Inc").as_deref(),
            Some("CAA at example.com does not let DigiCert Inc issue it: it cannot be renewed there")
        );
        assert_eq!(rules.problem("www.example.com", "Somebody Unknown"), None);
    }

    #[test]
    fn a_semicolon_forbids_all() {
        let rules = rules(&["0 issue \";\""]).expect("rules");
        assert!(rules.sentence("example.com").is_some_and(|told| told.contains("forbids all certificates")));
    }

    #[test]
    fn wildcards_may_have_rules_of_their_own() {
        let some =
            rules(&["0 issue \"pki.goog; cansignhttpexchanges=yes\"", "0 issuewild \"digicert.com\""]).expect("rules");
        assert!(some.sentence("*.example.com").is_some_and(|told| told.contains("only digicert.com")));
        assert!(some.sentence("example.com").is_some_and(|told| told.contains("only pki.goog")));
        let wild = rules(&["0 issuewild \";\""]).expect("rules");
        assert_eq!(wild.sentence("www.example.com"), None);
        assert!(wild.sentence("*.example.com").is_some_and(|told| told.contains("forbids all")));
    }

    #[test]
    fn records_that_restrict_nothing_are_no_rules() {
        assert_eq!(rules(&["0 iodef \"mailto:a@example.com\""]), None);
    }
}
