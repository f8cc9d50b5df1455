//! What is wrong with the nameservers of a domain, each finding with the servers and packets that show it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{DnsScan, ScanFinding, different, list};
use crate::authority::{Said, Security, Survey, Witness};
use crate::evidence::Evidence;
use crate::registration::Concern;

/// What a watch keeps of an answer: who said what, and the digest of the packet.
pub(super) fn from_memory(survey: &Survey) -> Witness {
    let servers = survey.answers.iter().map(|answer| Evidence {
        server: answer.server.to_string(),
        address: answer.address,
        question: format!("{} {}", survey.name, survey.kind),
        answer: match &answer.said {
            Said::Records(records) => records
                .iter()
                .map(|record| format!("{} {} {} {}", record.name, record.ttl, record.kind, record.value))
                .collect::<Vec<_>>()
                .join("; "),
            Said::NoData => "no such records".to_owned(),
            Said::NoSuchName => "no such name".to_owned(),
            Said::Nothing(reason) => reason.clone(),
        },
        packet_sha256: answer.packet_sha256.clone(),
        packet: None,
    });
    Witness { servers: servers.collect(), ..Witness::default() }
}

/// The findings, in no order.
pub(super) fn findings(dns: &DnsScan, witness: &Witness) -> Vec<ScanFinding> {
    let mut found = Vec::new();
    let mut tell = |concern: Concern, topic: &str, text: String, evidence: Vec<Evidence>| {
        found.push(ScanFinding { concern, topic: topic.to_owned(), text, evidence });
    };
    let parent = || witness.parent.iter().cloned();
    let of = |all: &[Evidence], address: IpAddr| -> Vec<Evidence> {
        all.iter().filter(|evidence| evidence.address == address).cloned().collect()
    };
    if dns.security == Security::Bogus {
        let text = "the DNSSEC signatures do not fit: resolvers that check them see nothing of the domain".to_owned();
        tell(Concern::Critical, "signatures", text, parent().chain(witness.servers.iter().cloned()).collect());
    }
    if !dns.listed.is_empty() && different(&dns.listed, &dns.delegated_to) {
        let text = format!(
            "the parent zone delegates to {}, the zone itself lists {}: make both lists the same",
            list(&dns.delegated_to),
            list(&dns.listed)
        );
        tell(Concern::Warning, "nameservers", text, parent().chain(witness.servers.iter().cloned()).collect());
    }
    if dns.delegated_to.len() == 1 {
        let text = "there is only one nameserver: when it fails, the domain is gone".to_owned();
        tell(Concern::Warning, "one nameserver", text, parent().collect());
    }
    for server in &dns.servers {
        if let Some(problem) = &server.problem {
            let text = format!("{} ({}) {problem}", server.server, server.address);
            let topic = format!("server {} {}", server.server, server.address);
            tell(Concern::Warning, &topic, text, of(&witness.servers, server.address));
        }
    }
    if let Some(network) = one_network(dns) {
        let text = format!(
            "all nameservers are in one network ({network}): when it fails, the domain is gone. Have one somewhere else"
        );
        tell(Concern::Warning, "one network", text, witness.servers.clone());
    }
    // Only a look at every name finds these, so they do not count against the health that is watched by the hour.
    for (server, evidence) in &witness.aliases {
        let text =
            format!("the nameserver {server} is an alias (CNAME), which is not allowed: some resolvers ignore it");
        tell(Concern::Notice, &format!("alias {server}"), text, vec![evidence.clone()]);
    }
    for glue in &dns.wrong_glue {
        let text = format!(
            "the parent zone sends people to {} for {}, which is at {} by its own zone: have the registrar correct the address",
            addresses(&glue.parent),
            glue.server,
            addresses(&glue.zone)
        );
        tell(Concern::Warning, &format!("glue {}", glue.server), text, parent().collect());
    }
    // Secondaries may lag for a moment, so this alone is no reason to worry.
    if let Some(newest) = dns.servers.iter().filter_map(|server| server.serial).reduce(newer) {
        for server in &dns.servers {
            if let Some(serial) = server.serial.filter(|serial| *serial != newest) {
                let text = format!(
                    "{} ({}) serves an old version of the zone: serial {serial}, others have {newest}",
                    server.server, server.address
                );
                let topic = format!("serial {} {}", server.server, server.address);
                tell(Concern::Notice, &topic, text, of(&witness.versions, server.address));
            }
        }
    }
    if !dns.servers.is_empty() && dns.servers.iter().all(|server| server.problem.is_some()) {
        let text = "no nameserver answers: the domain does not work".to_owned();
        tell(Concern::Critical, "no answer", text, witness.servers.clone());
    }
    found
}

/// The network that all addresses are in: a /24, the smallest that is announced on its own. With addresses of IPv6 beside, the
/// ways there are others.
fn one_network(dns: &DnsScan) -> Option<String> {
    let all: BTreeSet<IpAddr> = dns.servers.iter().map(|server| server.address).collect();
    let networks: BTreeSet<[u8; 3]> = all
        .iter()
        .map(|address| match address {
            IpAddr::V4(v4) => {
                let [a, b, c, _] = v4.octets();
                Some([a, b, c])
            }
            IpAddr::V6(_) => None,
        })
        .collect::<Option<_>>()?;
    match (all.len(), networks.iter().collect::<Vec<_>>().as_slice()) {
        (2.., [[a, b, c]]) => Some(format!("{a}.{b}.{c}.0/24")),
        _ => None,
    }
}

fn addresses(addresses: &[IpAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The newer of two versions, in the arithmetic of serials (RFC 1982).
fn newer(a: u32, b: u32) -> u32 {
    if b.wrapping_sub(a).cast_signed() > 0 { b } else { a }
}
