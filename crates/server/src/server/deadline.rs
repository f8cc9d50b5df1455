//! How long a request may take: what the server allows, or less if the client says so in `timeout`.

use std::time::Duration;

use bailiwick_machinery::query::Query;
use bailiwick_machinery::status::ApiError;

use crate::request_info::RequestInfo;

/// The time for a request, out of at most `allowed`. Watches last as long as they like, and their `timeout` means nothing.
pub(super) fn of(query: &Query, info: &RequestInfo, allowed: Duration) -> Result<Duration, ApiError> {
    let asked = query.get("timeout").filter(|text| !text.is_empty() && info.verb != "watch");
    let Some(text) = asked else { return Ok(allowed) };
    let Some(asked) = bailiwick_cel::Duration::parse(text) else {
        let problem = format!("invalid timeout specified in the request URL - time: invalid duration {text:?}");
        return Err(ApiError::bad_request(problem));
    };
    // No time at all, or less, means that the client sets no limit.
    Ok(match u64::try_from(asked.nanos) {
        Ok(nanos @ 1..) => Duration::from_nanos(nanos).min(allowed),
        _ => allowed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deadline(path_and_query: &str) -> Result<Duration, ApiError> {
        let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
        let query = Query::parse(query);
        let info = RequestInfo::parse(&http::Method::GET, path, &query);
        of(&query, &info, Duration::from_secs(60))
    }

    #[test]
    fn a_client_may_ask_for_less_time_and_not_for_more() {
        for (asked, seconds) in
            [("", 60), ("?timeout=", 60), ("?timeout=0s", 60), ("?timeout=3m", 60), ("?timeout=5s", 5)]
        {
            assert_eq!(deadline(&format!("/version{asked}")).unwrap(), Duration::from_secs(seconds), "{asked}");
        }
        assert!(deadline("/version?timeout=invalid").is_err());
        assert!(deadline("/api/v1/configmaps?watch=true&timeout=invalid").is_ok(), "watches have no deadline");
    }
}
