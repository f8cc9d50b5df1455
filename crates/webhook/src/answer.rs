//! What a webhook answered, read as upstream's client reads it and complained about in its words, which operators of
//! webhooks know.

use bailiwick_machinery::yaml;
use bailiwick_merge::go_format::json_type;
use bailiwick_schema::decode;
use bytes::Bytes;
use serde_json::Value;

/// The longest part of an answer that is no review which messages show.
const SHOWN_BYTES_MAX: usize = 2048;
/// What is said for an answer that can be read by nobody.
const UNAVAILABLE: u16 = 503;

/// What a server answered, whatever it is.
#[derive(Clone, Debug)]
pub struct RawAnswer {
    pub status: u16,
    /// Empty when it did not say.
    pub content_type: String,
    pub body: Bytes,
}

/// Why an answer holds no object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unreadable {
    pub reason: String,
    /// The status that was answered, 503 if that was a success.
    pub code: u16,
}

impl RawAnswer {
    /// The object a webhook answered, or what its answer says instead.
    pub fn object(&self) -> Result<Value, Unreadable> {
        let media = self.content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if !(200..=206).contains(&self.status) {
            return Err(Unreadable { reason: self.refusal(&media), code: self.status });
        }
        if self.body.is_empty() {
            let shown = if media.is_empty() { "application/json" } else { &self.content_type };
            let reason = format!("0-length response with status code: {} and content type: {shown}", self.status);
            return Err(Unreadable { reason, code: UNAVAILABLE });
        }
        self.decoded().map_err(|error| Unreadable {
            reason: format!("couldn't get version/kind; json parse error: {error}"),
            code: UNAVAILABLE,
        })
    }

    fn decoded(&self) -> Result<Value, String> {
        let value = match decode::check_syntax(&self.body) {
            Ok(()) => serde_json::from_slice(&self.body).map_err(|error| error.to_string())?,
            // What is no JSON is read as YAML, as upstream's decoders do.
            Err(_) => {
                let text = String::from_utf8_lossy(&self.body);
                yaml::decode(&text).map_err(|error| error.to_string())?.value
            }
        };
        match json_type(&value) {
            "object" => Ok(value),
            other => Err(format!(
                "json: cannot unmarshal {other} into Go value of type struct {{ APIVersion string \
                 \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
            )),
        }
    }

    /// What a client of Go's says of a status that is no success: the message of a Status, else its own for the code.
    fn refusal(&self, media: &str) -> String {
        let status: Option<Value> = serde_json::from_slice(&self.body).ok();
        let status = status.as_ref().filter(|value| value["kind"] == "Status");
        let message = status.and_then(|value| value["message"].as_str());
        if let Some(message) = message.filter(|message| !message.is_empty()) {
            return message.to_owned();
        }
        let shown = self.body.get(..SHOWN_BYTES_MAX.min(self.body.len())).unwrap_or_default();
        let said = match media.is_empty() || media.starts_with("text/") {
            true => String::from_utf8_lossy(shown).trim().to_owned(),
            false => "unknown".to_owned(),
        };
        said_of(self.status, said)
    }
}

fn said_of(status: u16, said: String) -> String {
    let text = match status {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 415 => return said,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        406 if said.is_empty() || said == "unknown" => {
            "the server was unable to respond with a content type that the client supports"
        }
        406 => return said,
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        500.. => {
            return format!("an error on the server ({said:?}) has prevented the request from succeeding");
        }
        code => {
            return format!("the server responded with the status code {code} but did not return more information");
        }
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(status: u16, content_type: &str, body: &'static str) -> String {
        let answer =
            RawAnswer { status, content_type: content_type.to_owned(), body: Bytes::from_static(body.as_bytes()) };
        answer.object().expect_err("no object").reason
    }

    #[test]
    fn an_answer_may_be_json_or_yaml() {
        for body in [r#"{"kind":"Review"}"#, "kind: Review\n"] {
            let answer = RawAnswer {
                status: 200,
                content_type: "application/json".into(),
                body: Bytes::from_static(body.as_bytes()),
            };
            assert_eq!(answer.object(), Ok(serde_json::json!({"kind": "Review"})), "{body}");
        }
    }

    #[test]
    fn refusals_are_worded_by_their_status_unless_they_are_a_status() {
        assert_eq!(reason(403, "text/plain", "not you\n"), "not you");
        assert_eq!(reason(404, "text/plain", "nothing"), "the server could not find the requested resource");
        assert_eq!(
            reason(500, "text/plain", "out of \"order\""),
            r#"an error on the server ("out of \"order\"") has prevented the request from succeeding"#
        );
        let status = r#"{"kind":"Status","message":"said in a Status"}"#;
        assert_eq!(reason(500, "application/json", status), "said in a Status");
    }

    #[test]
    fn an_answer_that_is_no_object_says_so() {
        let empty = reason(200, "application/json", "");
        assert_eq!(empty, "0-length response with status code: 200 and content type: application/json");
        let text = reason(200, "application/json", "this is no JSON");
        assert!(
            text.starts_with("couldn't get version/kind; json parse error: json: cannot unmarshal string"),
            "{text}"
        );
    }
}
