//! Well-known registrars by their number at IANA. Registries spell the same company in many ways; the number is one. Each was
//! compared with IANA's list of registrar IDs; those that are no longer accredited are left out.

/// Number, and the name people know.
const REGISTRARS: &[(u32, &str)] = &[
    (2, "Network Solutions"),
    (48, "eNom"),
    (49, "GMO Internet (Onamae)"),
    (65, "DomainPeople"),
    (69, "Tucows"),
    (81, "Gandi"),
    (82, "OnlineNIC"),
    (83, "IONOS"),
    (141, "Cronon (STRATO)"),
    (146, "GoDaddy"),
    (151, "InterNetX"),
    (269, "Key-Systems"),
    (292, "MarkMonitor"),
    (299, "CSC Corporate Domains"),
    (303, "PDR (PublicDomainRegistry)"),
    (420, "Alibaba Cloud (HiChina)"),
    (433, "OVH"),
    (440, "Wild West Domains"),
    (447, "SafeNames"),
    (460, "Web Commerce Communications"),
    (468, "Amazon Registrar"),
    (472, "Dynadot"),
    (609, "Sav.com"),
    (625, "Name.com"),
    (886, "Domain.com"),
    (895, "Squarespace Domains"),
    (955, "Launchpad (HostGator)"),
    (1011, "101domain"),
    (1068, "Namecheap"),
    (1154, "Bluehost"),
    (1250, "OwnRegistrar"),
    (1387, "1API"),
    (1479, "NameSilo"),
    (1556, "Chengdu West Dimension"),
    (1606, "REG.RU"),
    (1636, "Hostinger"),
    (1647, "Hosting Concepts (Registrar.eu)"),
    (1659, "GoDaddy Online Services (Uniregistrar)"),
    (1861, "Porkbun"),
    (1910, "Cloudflare"),
];

/// The name of a registrar by its number.
pub fn name(iana_id: u32) -> Option<&'static str> {
    REGISTRARS
        .binary_search_by_key(&iana_id, |(id, _)| *id)
        .ok()
        .and_then(|at| REGISTRARS.get(at))
        .map(|(_, name)| *name)
}

/// A name without what registries write differently: case, punctuation, the form of the company.
pub fn fold(name: &str) -> String {
    const FORMS: [&str; 9] = ["inc", "llc", "ltd", "gmbh", "ag", "sas", "bv", "co", "limited"];
    let lower = name.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty() && !FORMS.contains(word));
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_order_so_that_they_are_found() {
        assert!(REGISTRARS.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(name(1068), Some("Namecheap"));
        assert_eq!(name(1_000_000), None);
    }

    #[test]
    fn spellings_of_one_company_are_the_same() {
        assert_eq!(fold("NAMECHEAP INC"), fold("NameCheap, Inc."));
        assert_ne!(fold("Gandi SAS"), fold("OVH sas"));
    }
}
