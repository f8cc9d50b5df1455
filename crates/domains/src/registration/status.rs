//! Status flags of a registration. Registries write them in two ways, EPP's and RDAP's (RFC 8056); here there is one, with
//! how bad each is and what the owner should do about it.

use serde::{Deserialize, Serialize};

use super::Concern;

/// One status flag, in EPP's spelling, and what it means for the owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusFlag {
    /// EPP's spelling, such as `clientTransferProhibited`; a flag we do not know keeps the registry's.
    pub code: String,
    pub concern: Concern,
    /// What it means.
    pub meaning: String,
    /// What to do about it, where there is something to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl PartialOrd for StatusFlag {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for StatusFlag {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.code.cmp(&other.code)
    }
}

struct Known {
    epp: &'static str,
    concern: Concern,
    meaning: &'static str,
    advice: &'static str,
}

const fn known(epp: &'static str, concern: Concern, meaning: &'static str, advice: &'static str) -> Known {
    Known { epp, concern, meaning, advice }
}

const KNOWN: &[Known] = &[
    known("ok", Concern::None, "nothing is pending and nothing is locked", "ask the registrar for a transfer lock"),
    known("active", Concern::None, "the registration is in force", ""),
    known(
        "inactive",
        Concern::Critical,
        "no nameservers are set: the name is not in DNS",
        "set nameservers at the registrar",
    ),
    known("addPeriod", Concern::None, "registered within the last days", ""),
    known("autoRenewPeriod", Concern::None, "renewed automatically within the last days", ""),
    known("renewPeriod", Concern::None, "renewed within the last days", ""),
    known(
        "transferPeriod",
        Concern::Notice,
        "moved to another registrar within the last days",
        "if you did not ask for this, call the registrar now",
    ),
    known(
        "redemptionPeriod",
        Concern::Critical,
        "deleted, out of DNS, and can still be bought back",
        "restore it at the registrar today; after this period it cannot be restored",
    ),
    known(
        "pendingRestore",
        Concern::Critical,
        "a restore was asked for and is not finished",
        "make sure that the registrar sends the restore report in time",
    ),
    known(
        "pendingDelete",
        Concern::Critical,
        "will be deleted within days and then be free for anybody",
        "it cannot be renewed any more; register it again when it is released",
    ),
    known("pendingCreate", Concern::Notice, "the registration is not finished", ""),
    known("pendingRenew", Concern::None, "a renewal is not finished", ""),
    known(
        "pendingTransfer",
        Concern::Critical,
        "is being moved to another registrar",
        "if you did not ask for this, refuse the transfer at your registrar now",
    ),
    known("pendingUpdate", Concern::Notice, "a change is not finished", ""),
    known(
        "clientHold",
        Concern::Critical,
        "the registrar took the name out of DNS",
        "call the registrar: usually a payment or an e-mail confirmation is missing",
    ),
    known(
        "serverHold",
        Concern::Critical,
        "the registry took the name out of DNS",
        "call the registrar: usually a dispute, abuse or an unconfirmed registration",
    ),
    known("clientDeleteProhibited", Concern::None, "the registrar refuses to delete it", ""),
    known(
        "clientRenewProhibited",
        Concern::Warning,
        "the registrar refuses to renew it",
        "ask the registrar why; the name will expire otherwise",
    ),
    known("clientTransferProhibited", Concern::None, "locked against transfers by the registrar", ""),
    known(
        "clientUpdateProhibited",
        Concern::None,
        "locked against changes by the registrar",
        "unlock it at the registrar before you change nameservers",
    ),
    known("serverDeleteProhibited", Concern::None, "the registry refuses to delete it", ""),
    known(
        "serverRenewProhibited",
        Concern::Warning,
        "the registry refuses to renew it",
        "ask the registrar why; usually a dispute or a legal hold",
    ),
    known("serverTransferProhibited", Concern::None, "locked against transfers by the registry", ""),
    known(
        "serverUpdateProhibited",
        Concern::None,
        "locked against changes by the registry",
        "ask the registrar to have the registry lock lifted before you change nameservers",
    ),
    // RDAP's own.
    known("locked", Concern::None, "locked against changes", ""),
    known("transferProhibited", Concern::None, "locked against transfers", ""),
    known("updateProhibited", Concern::None, "locked against changes", ""),
    known("deleteProhibited", Concern::None, "locked against deletion", ""),
    known("renewProhibited", Concern::Warning, "cannot be renewed", "ask the registrar why"),
    known("validated", Concern::None, "the registry checked the data", ""),
    known("reserved", Concern::Notice, "reserved by the registry", ""),
];

/// Pairs of RFC 8056 that differ in more than spaces and capitals.
const RDAP_TO_EPP: &[(&str, &str)] = &[("active", "ok"), ("associated", "linked")];

/// Texts of registries that are neither EPP's nor RDAP's.
const ELSEWHERE: &[(&str, &str)] = &[
    ("connect", "ok"),
    ("registered", "ok"),
    ("delegated", "ok"),
    ("verified", "validated"),
    ("registered until expiry date.", "ok"),
    ("published", "ok"),
    ("granted", "ok"),
    ("free", "available"),
    ("quarantine", "redemptionPeriod"),
    ("in quarantine", "redemptionPeriod"),
    ("redemption", "redemptionPeriod"),
    ("rgp", "redemptionPeriod"),
    ("to be deleted", "pendingDelete"),
    ("pending delete restorable", "redemptionPeriod"),
    ("pending delete scheduled for release", "pendingDelete"),
    ("suspended", "serverHold"),
    ("on-hold", "serverHold"),
    ("failed", "inactive"),
];

impl StatusFlag {
    /// Reads a flag in any spelling: `client transfer prohibited`, `clientTransferProhibited
    /// https://icann.org/epp#clientTransferProhibited`, `CLIENT_TRANSFER_PROHIBITED`. None for an empty text.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text =
            text.split("http").next().unwrap_or(text).trim().trim_matches(|c| matches!(c, '(' | ')' | ',' | ';'));
        if text.is_empty() {
            return None;
        }
        let folded = fold(text);
        let lower = text.to_ascii_lowercase();
        let elsewhere = ELSEWHERE.iter().chain(RDAP_TO_EPP).find(|(other, _)| *other == lower).map(|(_, epp)| *epp);
        let code = elsewhere.or_else(|| KNOWN.iter().map(|known| known.epp).find(|epp| fold(epp) == folded));
        Some(Self::of(code.unwrap_or(text)))
    }

    fn of(code: &str) -> Self {
        match KNOWN.iter().find(|known| known.epp == code) {
            Some(known) => Self {
                code: code.to_owned(),
                concern: known.concern,
                meaning: known.meaning.to_owned(),
                advice: (!known.advice.is_empty()).then(|| known.advice.to_owned()),
            },
            None => Self {
                code: code.to_owned(),
                concern: Concern::Notice,
                meaning: "a status of this registry that is not in the standards".to_owned(),
                advice: None,
            },
        }
    }

    /// Whether the name is out of DNS, or soon will be, because of this flag.
    pub fn takes_out_of_dns(&self) -> bool {
        matches!(
            self.code.as_str(),
            "clientHold" | "serverHold" | "inactive" | "redemptionPeriod" | "pendingDelete" | "pendingRestore"
        )
    }
}

/// The letters alone: RDAP separates words with spaces, EPP with capitals, some registries with underscores.
fn fold(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// All flags of a list, in order, each once.
pub fn flags<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<StatusFlag> {
    let mut flags: Vec<StatusFlag> = texts.into_iter().filter_map(StatusFlag::parse).collect();
    flags.sort();
    flags.dedup_by(|a, b| a.code == b.code);
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_flag_in_every_spelling() {
        for text in [
            "client transfer prohibited",
            "clientTransferProhibited",
            "clientTransferProhibited https://icann.org/epp#clientTransferProhibited",
            "clientTransferProhibited (https://www.icann.org/epp#clientTransferProhibited)",
            "CLIENT_TRANSFER_PROHIBITED",
        ] {
            assert_eq!(
                StatusFlag::parse(text).map(|flag| flag.code).as_deref(),
                Some("clientTransferProhibited"),
                "{text}"
            );
        }
    }

    #[test]
    fn rfc_8056_pairs_that_are_other_words() {
        let code = |text: &str| StatusFlag::parse(text).map(|flag| flag.code).unwrap_or_default();
        assert_eq!(code("active"), "ok");
        assert_eq!(code("associated"), "linked");
        assert_eq!(code("redemption period"), "redemptionPeriod");
        assert_eq!(code("auto renew period"), "autoRenewPeriod");
    }

    #[test]
    fn every_flag_of_epp_has_its_rdap_form() {
        for known in KNOWN {
            let spaced: String = known
                .epp
                .chars()
                .flat_map(|c| if c.is_ascii_uppercase() { vec![' ', c.to_ascii_lowercase()] } else { vec![c] })
                .collect();
            let expected = if known.epp == "active" { "ok" } else { known.epp };
            assert_eq!(StatusFlag::parse(&spaced).map(|flag| flag.code).as_deref(), Some(expected), "{spaced}");
        }
    }

    #[test]
    fn holds_and_deletions_are_critical_and_say_what_to_do() {
        for code in ["clientHold", "serverHold", "pendingDelete", "redemptionPeriod", "pendingTransfer"] {
            let flag = StatusFlag::parse(code).expect("a flag");
            assert_eq!(flag.concern, Concern::Critical, "{code}");
            assert!(flag.advice.is_some(), "{code}");
        }
        assert!(StatusFlag::parse("serverHold").expect("a flag").takes_out_of_dns());
        assert!(!StatusFlag::parse("pendingTransfer").expect("a flag").takes_out_of_dns());
    }

    #[test]
    fn a_flag_nobody_knows_is_kept_as_written() {
        let flag = StatusFlag::parse("some registry thing").expect("a flag");
        assert_eq!((flag.code.as_str(), flag.concern), ("some registry thing", Concern::Notice));
        assert_eq!(StatusFlag::parse("  "), None);
    }
}
