//! The identity of a span on its way between servers: the `traceparent` header of W3C Trace Context.

use std::future::Future;

use http::HeaderValue;

/// Which trace and which span in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    pub trace_id: [u8; 16],
    pub span_id: [u8; 8],
    /// Whether it is recorded.
    pub sampled: bool,
}

impl TraceContext {
    /// Reads a header; `None` if it is none, in which case it does not count.
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.trim().split('-');
        let version: [u8; 1] = hex(parts.next()?)?;
        let trace_id: [u8; 16] = hex(parts.next()?)?;
        let span_id: [u8; 8] = hex(parts.next()?)?;
        let [flags] = hex::<1>(parts.next()?)?;
        // Later versions may have more parts; ours has not.
        let fits = version != [0xff] && (version != [0] || parts.next().is_none());
        let exists = trace_id != [0; 16] && span_id != [0; 8];
        (fits && exists).then_some(Self { trace_id, span_id, sampled: flags & 1 == 1 })
    }

    /// As the header says it.
    pub fn traceparent(&self) -> String {
        let text = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        format!("00-{}-{}-{:02x}", text(&self.trace_id), text(&self.span_id), u8::from(self.sampled))
    }
}

fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let lower = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    if text.len() != 2 * N || !text.as_bytes().iter().all(lower) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

tokio::task_local! {
    static CURRENT: TraceContext;
}

/// Runs `work` so that calls to other servers from within belong to a span.
pub async fn in_span<F: Future>(context: TraceContext, work: F) -> F::Output {
    CURRENT.scope(context, work).await
}

/// The header for calls to other servers; `None` where nothing is traced.
pub fn current_traceparent() -> Option<HeaderValue> {
    CURRENT.try_with(TraceContext::traceparent).ok().and_then(|text| HeaderValue::from_str(&text).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the specification's example.
    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn headers_are_read_and_written() {
        let context = TraceContext::parse(HEADER).unwrap();
        assert!(context.sampled);
        assert_eq!(context.traceparent(), HEADER);
        assert!(!TraceContext::parse(&HEADER.replace("-01", "-00")).unwrap().sampled);
        assert_eq!(TraceContext::parse("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more"), Some(context));
    }

    #[test]
    fn what_is_no_header_does_not_count() {
        for text in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        ] {
            assert_eq!(TraceContext::parse(text), None, "{text}");
        }
    }

    #[tokio::test]
    async fn calls_within_a_span_say_so() {
        assert_eq!(current_traceparent(), None);
        let context = TraceContext::parse(HEADER).unwrap();
        let header = in_span(context, async { current_traceparent() }).await;
        assert_eq!(header.as_ref().map(HeaderValue::as_bytes), Some(HEADER.as_bytes()));
    }

    proptest::proptest! {
        #[test]
        fn no_header_is_too_strange(text in "\\PC{0,70}|[0-9a-f-]{50,60}") {
            if let Some(context) = TraceContext::parse(&text) {
                proptest::prop_assert_eq!(TraceContext::parse(&context.traceparent()), Some(context));
            }
        }
    }
}
