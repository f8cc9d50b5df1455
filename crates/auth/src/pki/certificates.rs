//! What goes into our own certificates, and whether one on disk still says so.

use std::net::IpAddr;
use std::time::Duration;

use bailiwick_machinery::UserInfo;
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
    PublicKeyData, SanType,
};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::parse_x509_pem;

use super::ServingNames;

const DAY_SECONDS: i64 = 24 * 60 * 60;
/// A CA outlives many renewals of what it signs; ten years is kubeadm's choice.
const CA_LIFETIME_SECONDS: i64 = 3650 * DAY_SECONDS;
const LEAF_LIFETIME_SECONDS: i64 = 365 * DAY_SECONDS;
/// Renewed on a start that finds less than this left, so that a server restarted monthly never expires.
const LEAF_RENEWAL_SECONDS: i64 = 60 * DAY_SECONDS;
/// Clients' clocks may be a little behind ours.
const BACKDATE_SECONDS: i64 = 5 * 60;

/// The name of the administrator the kubeconfig logs in as, kubeadm's.
const ADMIN_NAME: &str = "kubernetes-admin";

/// A CA must outlive every leaf it signs.
pub(super) fn ca_renewal_threshold(now: Timestamp) -> i64 {
    now.as_second() + LEAF_LIFETIME_SECONDS + LEAF_RENEWAL_SECONDS
}

pub(super) fn authority(name: &str, now: Timestamp) -> CertificateParams {
    let mut params = named(name, now, CA_LIFETIME_SECONDS);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params
}

pub(super) fn serving(names: &ServingNames, now: Timestamp) -> Result<CertificateParams, rcgen::Error> {
    let mut params = leaf("kube-apiserver", ExtendedKeyUsagePurpose::ServerAuth, now);
    for name in &names.dns {
        params.subject_alt_names.push(SanType::DnsName(name.as_str().try_into()?));
    }
    params.subject_alt_names.extend(names.ips.iter().map(|ip| SanType::IpAddress(*ip)));
    Ok(params)
}

pub(super) fn admin(now: Timestamp) -> CertificateParams {
    let mut params = leaf(ADMIN_NAME, ExtendedKeyUsagePurpose::ClientAuth, now);
    params.distinguished_name.push(DnType::OrganizationName, UserInfo::MASTERS);
    params
}

/// A client's certificate without any group.
pub(super) fn client(name: &str, now: Timestamp) -> CertificateParams {
    leaf(name, ExtendedKeyUsagePurpose::ClientAuth, now)
}

fn leaf(name: &str, usage: ExtendedKeyUsagePurpose, now: Timestamp) -> CertificateParams {
    let mut params = named(name, now, LEAF_LIFETIME_SECONDS);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    params.use_authority_key_identifier_extension = true;
    params
}

fn named(name: &str, now: Timestamp, lifetime_seconds: i64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let at = |second: i64| epoch + Duration::from_secs(u64::try_from(second).unwrap_or_default());
    params.not_before = at(now.as_second() - BACKDATE_SECONDS);
    params.not_after = at(now.as_second() + lifetime_seconds);
    params
}

/// What matters about a certificate on disk.
pub(super) struct Facts {
    pub(super) not_after: i64,
    pub(super) subject_key_id: Vec<u8>,
    authority_key_id: Vec<u8>,
    public_key: Vec<u8>,
    pub(super) subject: Vec<u8>,
    names: Vec<String>,
}

pub(super) fn inspect(pem: &str) -> Result<Facts, String> {
    let (_, block) = parse_x509_pem(pem.as_bytes()).map_err(|error| error.to_string())?;
    let certificate = block.parse_x509().map_err(|error| error.to_string())?;
    let mut facts = Facts {
        not_after: certificate.validity().not_after.timestamp(),
        subject_key_id: Vec::new(),
        authority_key_id: Vec::new(),
        public_key: certificate.public_key().subject_public_key.data.to_vec(),
        subject: certificate.subject().as_raw().to_vec(),
        names: Vec::new(),
    };
    for extension in certificate.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => facts.subject_key_id = id.0.to_vec(),
            ParsedExtension::AuthorityKeyIdentifier(id) => {
                facts.authority_key_id = id.key_identifier.as_ref().map(|k| k.0.to_vec()).unwrap_or_default();
            }
            ParsedExtension::SubjectAlternativeName(san) => {
                facts.names = san.general_names.iter().filter_map(general_name).collect();
            }
            _ => {}
        }
    }
    Ok(facts)
}

fn general_name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(dns) => Some((*dns).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|b| IpAddr::from(b).to_string()),
            16 => <[u8; 16]>::try_from(*bytes).ok().map(|b| IpAddr::from(b).to_string()),
            _ => None,
        },
        _ => None,
    }
}

/// Whether the certificate can be used as it is: ours, of this key, long enough valid, and for every wanted name.
pub(super) fn is_current(pem: &str, wanted: &CertificateParams, key: &KeyPair, ca_pem: &str, now: Timestamp) -> bool {
    let (Ok(facts), Ok(ca)) = (inspect(pem), inspect(ca_pem)) else { return false };
    let covers = wanted.subject_alt_names.iter().all(|san| match san {
        SanType::DnsName(name) => facts.names.iter().any(|n| n == name.as_str()),
        SanType::IpAddress(ip) => facts.names.contains(&ip.to_string()),
        _ => false,
    });
    let subject_matches =
        wanted.self_signed(key).is_ok_and(|twin| inspect(&twin.pem()).is_ok_and(|t| t.subject == facts.subject));
    facts.not_after > now.as_second() + LEAF_RENEWAL_SECONDS
        && facts.authority_key_id == ca.subject_key_id
        && facts.public_key == key.der_bytes()
        && subject_matches
        && covers
}
