//! The file that turns traces on: upstream's TracingConfiguration.

use serde::Deserialize;

/// What all requests are, as samplers count.
const MILLION: i32 = 1_000_000;
/// Where collectors listen if nobody says otherwise.
const DEFAULT_ENDPOINT: &str = "localhost:4317";
const API_VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("unable to decode tracing configuration data: {0}")]
    Decode(String),
    #[error("no kind {kind:?} is registered for version {version:?} in scheme \"apiserver.config.k8s.io\"")]
    Kind { kind: String, version: String },
    #[error("samplingRatePerMillion: Invalid value: {0}: sampling rate must be positive")]
    Negative(i32),
    #[error(
        "samplingRatePerMillion: Invalid value: {0}: sampling rate per million must be less than or equal to one million"
    )]
    TooLarge(i32),
    #[error("endpoint: Invalid value: {0:?}: must be host:port or http://host:port")]
    Endpoint(String),
}

/// Where spans go, and which requests are traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracingConfiguration {
    /// The collector, as a URL.
    pub endpoint: String,
    /// Of a million requests that come without a trace, how many begin one. Requests with a trace that is recorded are
    /// traced in any case, if they come from somebody who may decide that.
    pub sampling_rate_per_million: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    endpoint: Option<String>,
    sampling_rate_per_million: Option<i32>,
}

impl TracingConfiguration {
    /// Reads the YAML or JSON of a TracingConfiguration.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let document: Document =
            serde_saphyr::from_str(text).map_err(|error| ConfigError::Decode(error.to_string()))?;
        if document.kind != "TracingConfiguration" || !API_VERSIONS.contains(&document.api_version.as_str()) {
            return Err(ConfigError::Kind { kind: document.kind, version: document.api_version });
        }
        let rate = document.sampling_rate_per_million.unwrap_or_default();
        let sampling_rate_per_million = match rate {
            ..0 => return Err(ConfigError::Negative(rate)),
            0..=MILLION => rate.unsigned_abs(),
            _ => return Err(ConfigError::TooLarge(rate)),
        };
        let endpoint = document.endpoint.unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
        Ok(Self { endpoint: url(&endpoint)?, sampling_rate_per_million })
    }
}

fn url(endpoint: &str) -> Result<String, ConfigError> {
    let url = if endpoint.contains("://") { endpoint.to_owned() } else { format!("http://{endpoint}") };
    let usable = url.parse::<http::Uri>().is_ok_and(|uri| {
        uri.scheme_str() == Some("http") && uri.port_u16().is_some() && uri.host().is_some_and(|host| !host.is_empty())
    });
    if usable { Ok(url) } else { Err(ConfigError::Endpoint(endpoint.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(rest: &str) -> Result<TracingConfiguration, String> {
        let text = format!("apiVersion: apiserver.config.k8s.io/v1beta1\nkind: TracingConfiguration\n{rest}");
        TracingConfiguration::parse(&text).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_upstreams() {
        let expected = TracingConfiguration { endpoint: "http://localhost:4317".into(), sampling_rate_per_million: 0 };
        assert_eq!(parsed(""), Ok(expected));
        let all = parsed("endpoint: http://10.0.0.1:1\nsamplingRatePerMillion: 1000000").unwrap();
        assert_eq!((all.endpoint.as_str(), all.sampling_rate_per_million), ("http://10.0.0.1:1", 1_000_000));
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        assert!(parsed("samplingRatePerMillion: -1").unwrap_err().ends_with("sampling rate must be positive"));
        assert!(parsed("samplingRatePerMillion: 1000001").unwrap_err().contains("less than or equal to one million"));
        assert!(parsed("endpoint: nowhere").unwrap_err().starts_with("endpoint: Invalid value"));
        assert!(parsed("color: red").unwrap_err().contains("color"));
        let other = TracingConfiguration::parse("kind: Other\napiVersion: v1").unwrap_err().to_string();
        assert!(other.starts_with("no kind \"Other\" is registered for version \"v1\""), "{other}");
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_strange(text in "\\PC{0,80}") {
            let _ = TracingConfiguration::parse(&text);
        }
    }
}
