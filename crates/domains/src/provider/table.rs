//! The providers that are known, with what their forms take. The ends of nameservers' names and who has aliases at the root of a
//! zone were compared with the tables of dnscontrol and with published zones; what could not be confirmed is left out. Where
//! a habit is not known the entry has what most forms take; a wrong entry costs a person a second try and nothing else, as
//! every record is looked at once it is live.

use super::{Apex, Labels, NameStyle, Provider, TargetStyle, TextStyle};

/// What is assumed of everybody else.
pub(super) static UNKNOWN: Provider = usual("your DNS provider", &[]);

const fn usual(name: &'static str, suffixes: &'static [&'static str]) -> Provider {
    Provider {
        name,
        suffixes,
        names: NameStyle::RelativeAt,
        targets: TargetStyle::Plain,
        texts: TextStyle::Plain,
        apex: Apex::AddressesOnly,
        ttl_min: 60,
        labels: Labels { name: "Name", value: "Value" },
    }
}

const fn labels(name: &'static str, value: &'static str) -> Labels {
    Labels { name, value }
}

pub(super) static PROVIDERS: &[Provider] = &[
    Provider { names: NameStyle::Whole, apex: Apex::Alias("AKAMAITLC"), ..usual("Akamai Edge DNS", &["akam.net"]) },
    Provider { ttl_min: 600, ..usual("Alibaba Cloud DNS", &["hichina.com", "alidns.com"]) },
    Provider {
        names: NameStyle::RelativeEmpty,
        texts: TextStyle::Quoted,
        apex: Apex::OwnServicesOnly("alias record"),
        ttl_min: 1,
        labels: labels("Record name", "Value"),
        ..usual("Amazon Route 53", &["awsdns-*"])
    },
    Provider {
        apex: Apex::OwnServicesOnly("alias record set"),
        ttl_min: 1,
        ..usual("Azure DNS", &["azure-dns.com", "azure-dns.net", "azure-dns.org", "azure-dns.info"])
    },
    Provider {
        names: NameStyle::RelativeEmpty,
        apex: Apex::Flattening,
        ttl_min: 15,
        ..usual("Bunny DNS", &["bunny.net"])
    },
    Provider {
        apex: Apex::Flattening,
        labels: labels("Name", "Content"),
        ..usual("Cloudflare", &["ns.cloudflare.com"])
    },
    Provider { apex: Apex::Alias("ALIAS"), ..usual("ClouDNS", &["cloudns.net", "cloudns.uk"]) },
    Provider { names: NameStyle::RelativeEmpty, ttl_min: 3600, ..usual("deSEC", &["desec.io", "desec.org"]) },
    Provider {
        targets: TargetStyle::Dot,
        ttl_min: 30,
        labels: labels("Hostname", "Value"),
        ..usual("DigitalOcean", &["digitalocean.com"])
    },
    Provider {
        names: NameStyle::RelativeEmpty,
        apex: Apex::Alias("ANAME"),
        ttl_min: 5,
        ..usual("DNS Made Easy", &["dnsmadeeasy.com"])
    },
    Provider {
        names: NameStyle::RelativeEmpty,
        apex: Apex::Alias("ALIAS"),
        labels: labels("Name", "Content"),
        ..usual("DNSimple", &["dnsimple.com", "dnsimple-edge.net", "dnsimple-edge.org"])
    },
    usual("Dynadot", &["dyna-ns.net"]),
    Provider { targets: TargetStyle::Dot, apex: Apex::Alias("ALIAS"), ttl_min: 300, ..usual("Gandi", &["gandi.net"]) },
    Provider { ttl_min: 600, labels: labels("Name", "Value"), ..usual("GoDaddy", &["domaincontrol.com"]) },
    Provider {
        names: NameStyle::RelativeEmpty,
        targets: TargetStyle::Dot,
        texts: TextStyle::Quoted,
        apex: Apex::Alias("ALIAS"),
        ttl_min: 1,
        labels: labels("DNS name", "Data"),
        ..usual("Google Cloud DNS", &["googledomains.com"])
    },
    Provider {
        targets: TargetStyle::Dot,
        ..usual("Hetzner DNS", &["ns.hetzner.com", "ns.hetzner.de", "first-ns.de", "second-ns.de", "second-ns.com"])
    },
    usual("Hostinger", &["dns-parking.com"]),
    usual("Hostpoint", &["hostpoint.ch"]),
    Provider {
        names: NameStyle::Whole,
        apex: Apex::Alias("ALIAS"),
        ttl_min: 300,
        ..usual("Hurricane Electric", &["he.net"])
    },
    usual("Infomaniak", &["infomaniak.ch", "infomaniak.com"]),
    Provider {
        labels: labels("Host name", "Value"),
        ..usual("IONOS", &["ui-dns.com", "ui-dns.de", "ui-dns.org", "ui-dns.biz", "1and1.com"])
    },
    Provider {
        names: NameStyle::RelativeEmpty,
        ttl_min: 300,
        labels: labels("Hostname", "Value"),
        ..usual("Linode (Akamai)", &["linode.com"])
    },
    Provider {
        names: NameStyle::RelativeEmpty,
        apex: Apex::Alias("ANAME"),
        ttl_min: 300,
        labels: labels("Host", "Answer"),
        ..usual("Name.com", &["name.com"])
    },
    Provider {
        apex: Apex::Alias("ALIAS"),
        labels: labels("Host", "Value"),
        ..usual("Namecheap", &["registrar-servers.com", "namecheaphosting.com"])
    },
    Provider {
        names: NameStyle::RelativeEmpty,
        ttl_min: 3600,
        labels: labels("Hostname", "Value"),
        ..usual("NameSilo", &["dnsowl.com"])
    },
    Provider { apex: Apex::Alias("ALIAS"), ..usual("NS1 (IBM)", &["nsone.net"]) },
    Provider {
        names: NameStyle::RelativeEmpty,
        targets: TargetStyle::Dot,
        labels: labels("Sub-domain", "Target"),
        ..usual("OVHcloud", &["ovh.net", "ovh.ca", "anycast.me"])
    },
    Provider {
        names: NameStyle::RelativeEmpty,
        apex: Apex::Alias("ALIAS"),
        ttl_min: 600,
        labels: labels("Host", "Answer"),
        ..usual("Porkbun", &["porkbun.com"])
    },
    Provider { labels: labels("Host", "Data"), ttl_min: 14_400, ..usual("Squarespace", &["squarespacedns.com"]) },
    usual("STRATO", &["rzone.de"]),
    Provider { apex: Apex::Alias("ALIAS"), ..usual("TransIP", &["transip.net", "transip.nl", "transip.eu"]) },
    Provider {
        names: NameStyle::WholeDot,
        targets: TargetStyle::Dot,
        apex: Apex::Alias("APEXALIAS"),
        ..usual("Vercara UltraDNS", &["ultradns.com", "ultradns.net", "ultradns.org", "ultradns.biz", "ultradns.info"])
    },
    Provider { names: NameStyle::RelativeEmpty, apex: Apex::Alias("ALIAS"), ..usual("Vercel", &["vercel-dns.com"]) },
    Provider { names: NameStyle::RelativeEmpty, ttl_min: 120, ..usual("Vultr", &["vultr.com"]) },
    Provider { labels: labels("Host Name", "Value"), ttl_min: 300, ..usual("Wix", &["wixdns.net"]) },
    Provider { ttl_min: 300, ..usual("WordPress.com", &["wordpress.com"]) },
];
