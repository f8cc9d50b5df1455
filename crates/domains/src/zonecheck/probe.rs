//! The questions that every server of the zone is asked.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use futures::StreamExt;

use crate::engine::DNS_PORT;
use crate::evidence::Evidence;
use crate::resolve::Run;
use crate::transport::Exchange;
use crate::wire::{Answer, Ask, DNSClass, Edns, Name, Question, Record, RecordType, Recursion, Section};

/// Questions on their way to one server at a time: a check is a guest.
const AT_ONCE: usize = 6;
/// An option that nobody has defined.
const UNKNOWN_OPTION: u16 = 137;
/// The flags that nobody has defined, but one.
const UNKNOWN_FLAGS: u16 = 0x0003;

/// What a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Probe {
    Soa,
    SoaTcp,
    Ns,
    NsTcp,
    Dnskey,
    Nsec,
    Nsec3Param,
    Cds,
    Cdnskey,
    Mx,
    Txt,
    A,
    Aaaa,
    /// A name that does not exist, somewhere else, with recursion desired.
    Recursion,
    /// A name in the zone that does not exist.
    Nonexistent,
    /// The servers of the root.
    Upward,
    /// The SOA with letters of changing case.
    MixedCase,
    /// The SOA without EDNS.
    NoEdns,
    EdnsVersion,
    EdnsOption,
    EdnsFlags,
    /// The keys with room for 512 bytes.
    Small,
    Axfr,
    Version,
}

const AFTER_SOA: [Probe; 21] = [
    Probe::Ns,
    Probe::NsTcp,
    Probe::Dnskey,
    Probe::Nsec,
    Probe::Nsec3Param,
    Probe::Cds,
    Probe::Cdnskey,
    Probe::Mx,
    Probe::Txt,
    Probe::A,
    Probe::Aaaa,
    Probe::Recursion,
    Probe::Nonexistent,
    Probe::Upward,
    Probe::MixedCase,
    Probe::EdnsVersion,
    Probe::EdnsOption,
    Probe::EdnsFlags,
    Probe::Small,
    Probe::Axfr,
    Probe::Version,
];

/// A server of the zone and what it answered.
pub struct Server {
    /// Its name.
    pub name: Name,
    /// The address asked.
    pub address: IpAddr,
    /// The parent lists it.
    pub in_parent: bool,
    /// The zone lists it.
    pub in_child: bool,
    pub(super) exchanges: HashMap<Probe, Exchange>,
}

impl Server {
    /// Asks everything; a server that is silent is not bothered further.
    pub(super) async fn ask(
        run: &Run<'_>,
        zone: &Name,
        name: Name,
        address: IpAddr,
        in_parent: bool,
        in_child: bool,
    ) -> Self {
        let mut server = Self { name, address, in_parent, in_child, exchanges: HashMap::new() };
        let first = futures::stream::iter([Probe::Soa, Probe::SoaTcp, Probe::NoEdns])
            .map(|probe| async move { (probe, send(run, zone, address, probe).await) });
        server.exchanges.extend(first.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await);
        if server.answer(Probe::Soa).is_some() {
            let rest = futures::stream::iter(AFTER_SOA)
                .map(|probe| async move { (probe, send(run, zone, address, probe).await) });
            server.exchanges.extend(rest.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await);
        }
        server
    }

    /// `name/address`, as findings name it.
    pub(super) fn label(&self) -> String {
        format!("{}/{}", crate::wire::show_name(&self.name), self.address)
    }

    pub(super) fn exchange(&self, probe: Probe) -> Option<&Exchange> {
        self.exchanges.get(&probe)
    }

    /// What it was asked and answered.
    pub(super) fn evidence(&self, probe: Probe) -> Option<Evidence> {
        Some(Evidence::of(&self.name, self.exchange(probe)?))
    }

    pub(super) fn answer(&self, probe: Probe) -> Option<&Answer> {
        self.exchange(probe)?.answer()
    }

    /// The records of the apex that answer a probe with authority.
    pub(super) fn apex(&self, probe: Probe, zone: &Name, rtype: RecordType) -> Vec<&Record> {
        match self.answer(probe) {
            Some(answer) if answer.is_authoritative() => answer.rrset(Section::Answer, zone, rtype).collect(),
            _ => Vec::new(),
        }
    }
}

async fn send(run: &Run<'_>, zone: &Name, address: IpAddr, probe: Probe) -> Exchange {
    let (ask, way) = question(zone, probe);
    let server = SocketAddr::new(address, DNS_PORT);
    let engine = run.engine();
    if let Some(failure) = engine.refusal(run.budget(), address) {
        return engine.not_asked(server, &ask, failure);
    }
    if let Some(turn) = engine.turn(address) {
        tokio::time::sleep_until(turn).await;
    }
    match way {
        Way::Patient => engine.transport().ask(server, &ask).await,
        Way::Strict => engine.transport().ask_udp_strictly(server, &ask).await,
        Way::Tcp => engine.transport().ask_tcp(server, &ask).await,
    }
}

#[derive(Clone, Copy)]
enum Way {
    /// With every fallback.
    Patient,
    /// UDP, exactly so.
    Strict,
    Tcp,
}

fn question(zone: &Name, probe: Probe) -> (Ask, Way) {
    let of = |rtype| Ask::authoritative(Question::new(zone.clone(), rtype));
    let soa = || of(RecordType::SOA);
    let below = |label: &str, root: &Name| root.prepend_label(label).unwrap_or_else(|_| root.clone());
    let with_edns = |edns: Edns| Ask { edns: Some(edns), ..soa() };
    match probe {
        Probe::Soa => (soa(), Way::Patient),
        Probe::SoaTcp => (soa(), Way::Tcp),
        Probe::Ns => (of(RecordType::NS), Way::Patient),
        Probe::NsTcp => (of(RecordType::NS), Way::Tcp),
        Probe::Dnskey => (of(RecordType::DNSKEY), Way::Patient),
        Probe::Nsec => (of(RecordType::NSEC), Way::Patient),
        Probe::Nsec3Param => (of(RecordType::NSEC3PARAM), Way::Patient),
        Probe::Cds => (of(RecordType::CDS), Way::Patient),
        Probe::Cdnskey => (of(RecordType::CDNSKEY), Way::Patient),
        Probe::Mx => (of(RecordType::MX), Way::Patient),
        Probe::Txt => (of(RecordType::TXT), Way::Patient),
        Probe::A => (of(RecordType::A), Way::Patient),
        Probe::Aaaa => (of(RecordType::AAAA), Way::Patient),
        Probe::Recursion => {
            let name = below("xx--domain-cannot-exist", &below("xx--illegal-syntax-tld", &Name::root()));
            let ask = Ask::authoritative(Question::new(name, RecordType::A)).without_edns();
            (Ask { recursion: Recursion::Desired, ..ask }, Way::Patient)
        }
        Probe::Nonexistent => {
            let name = below("xx--does-not-exist-here", zone);
            (Ask::authoritative(Question::new(name, RecordType::A)), Way::Patient)
        }
        Probe::Upward => (Ask::authoritative(Question::new(Name::root(), RecordType::NS)).without_edns(), Way::Patient),
        Probe::MixedCase => {
            (Ask::authoritative(Question::new(mixed_case(zone), RecordType::SOA)).without_edns(), Way::Strict)
        }
        Probe::NoEdns => (soa().without_edns(), Way::Strict),
        Probe::EdnsVersion => (with_edns(Edns { version: 1, dnssec_ok: false, ..Edns::default() }), Way::Strict),
        Probe::EdnsOption => (
            with_edns(Edns { options: vec![(UNKNOWN_OPTION, Vec::new())], dnssec_ok: false, ..Edns::default() }),
            Way::Strict,
        ),
        Probe::EdnsFlags => {
            (with_edns(Edns { flags: UNKNOWN_FLAGS, dnssec_ok: false, ..Edns::default() }), Way::Strict)
        }
        Probe::Small => {
            let edns = Edns { payload_bytes: 512, ..Edns::default() };
            (Ask { edns: Some(edns), ..of(RecordType::DNSKEY) }, Way::Strict)
        }
        Probe::Axfr => (of(RecordType::AXFR).without_edns(), Way::Tcp),
        Probe::Version => {
            let name = below("version", &below("bind", &Name::root()));
            let ask = Ask::authoritative(Question::new(name, RecordType::TXT)).without_edns();
            (Ask { class: DNSClass::CH, ..ask }, Way::Strict)
        }
    }
}

/// Every second letter in upper case.
fn mixed_case(name: &Name) -> Name {
    let text: String = name
        .to_ascii()
        .char_indices()
        .map(|(index, letter)| if index % 2 == 0 { letter.to_ascii_uppercase() } else { letter })
        .collect();
    crate::wire::parse_name(&text).unwrap_or_else(|_| name.clone())
}
