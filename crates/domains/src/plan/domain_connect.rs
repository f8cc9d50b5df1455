//! Whether a zone's provider takes templates (Domain Connect): the provider says so in a TXT record at
//! `_domainconnect.<zone>`, and its settings name the pages at which the owner lets a template be applied.

use serde::{Deserialize, Serialize};

use super::export::apply_link;
use crate::authority::{Authorities, RecordKind, RecordValue};
use crate::https::{Ask, HttpClient, Scheme};
use crate::name::DomainName;
use crate::seams::VantagePoint;

/// Settings are a page of JSON.
const SETTINGS_BYTES_MAX: usize = 64 * 1024;
/// Our names in templates, as the export writes them.
const PROVIDER_ID: &str = "bailiwick";
const SERVICE_ID: &str = "gateway";

/// What a provider offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainConnect {
    pub provider_id: String,
    pub provider_name: String,
    /// Where the owner applies our template, once the provider has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply_link: Option<String>,
    /// Where the owner edits the zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_panel: Option<String>,
}

/// As the provider writes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Settings {
    provider_id: String,
    provider_name: String,
    #[serde(default, rename = "urlSyncUX")]
    url_sync_ux: Option<String>,
    #[serde(default)]
    url_control_panel: Option<String>,
}

impl DomainConnect {
    /// What the owner is told.
    pub fn sentence(&self) -> String {
        let link = self.apply_link.as_ref().map(|link| format!(": once it has your template, {link} applies it"));
        let panel = self.control_panel.as_ref().map(|panel| format!("; the zone is edited at {panel}"));
        format!(
            "{} takes templates (Domain Connect){}{}",
            self.provider_name,
            link.unwrap_or_default(),
            panel.unwrap_or_default()
        )
    }
}

/// Asks a zone's provider. Nothing is the answer of most; what goes wrong on the way is nothing too, as the records can always be
/// made by hand.
pub async fn discover(
    authorities: &dyn Authorities,
    from: &VantagePoint,
    http: &HttpClient,
    zone: &DomainName,
) -> Option<DomainConnect> {
    let name = zone.prepend("_domainconnect").ok()?;
    let survey = authorities.survey(from, &name, RecordKind::Txt).await.ok()?;
    let host = survey.records().into_iter().find_map(|record| match &record.value {
        RecordValue::Text(strings) => Some(strings.concat()),
        _ => None,
    })?;
    let url = format!("https://{}/v2/{zone}/settings", host.trim().trim_end_matches('/'));
    let ask = Ask { accept: "application/json", scheme: Scheme::HttpsOnly, bytes_max: SETTINGS_BYTES_MAX };
    let reply = http.get(&url, ask).await.ok().filter(|reply| reply.status == 200)?;
    read(&reply.body, zone)
}

fn read(body: &[u8], zone: &DomainName) -> Option<DomainConnect> {
    let settings: Settings = serde_json::from_slice(body).ok()?;
    let apply = settings.url_sync_ux.as_deref().and_then(|url| apply_link(url, PROVIDER_ID, SERVICE_ID, zone));
    let panel = settings.url_control_panel.filter(|url| url.starts_with("https://"));
    Some(DomainConnect {
        provider_id: settings.provider_id,
        provider_name: settings.provider_name,
        apply_link: apply,
        control_panel: panel.map(|url| url.replace("%domain%", zone.as_str())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_links_are_for_this_domain_and_secure() {
        let zone = DomainName::parse("example.com").expect("a name");
        let body = br#"{"providerId":"p.example","providerName":"P","urlSyncUX":"https://dc.p.example","urlControlPanel":"https://p.example/zones/%domain%"}"#;
        let found = read(body, &zone).expect("settings");
        assert_eq!(
            found.sentence(),
            "P takes templates (Domain Connect): once it has your template, https://dc.p.example/v2/domainTemplates/providers/bailiwick/services/gateway/apply?domain=example.com applies it; the zone is edited at https://p.example/zones/example.com"
        );
        let plain = br#"{"providerId":"p","providerName":"P","urlSyncUX":"http://dc.p.example","urlControlPanel":"javascript:alert(1)"}"#;
        assert_eq!(read(plain, &zone).expect("settings").sentence(), "P takes templates (Domain Connect)");
        assert_eq!(read(b"<html>", &zone), None);
    }
}
