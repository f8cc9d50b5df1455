//! The form of `/metrics`. Its parts are written by several hands, some as the library does (OpenMetrics, where a counter's family
//! is named without `_total`), some by hand in Prometheus' text form; here they become one document in the form that was
//! asked for.

use std::collections::HashSet;

use bailiwick_machinery::media::parse_accept;

/// What a scraper can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// Prometheus' text form, 0.0.4, upstream's only one.
    Text,
    OpenMetrics,
}

impl Exposition {
    /// The most wanted form of an Accept header; text where none of ours is named.
    pub fn negotiate(accept: &str) -> Self {
        let known = |kind: &str, subtype: &str| match (kind, subtype) {
            ("application", "openmetrics-text") => Some(Self::OpenMetrics),
            ("text", "plain" | "*") | ("*", "*") => Some(Self::Text),
            _ => None,
        };
        let clauses = parse_accept(accept);
        let mut wanted = clauses.iter().filter(|clause| clause.quality > 0.0);
        wanted.find_map(|clause| known(clause.kind, clause.subtype)).unwrap_or(Self::Text)
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8; escaping=underscores",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores",
        }
    }

    /// The document made of `parts`, lines of either form. A family that two parts describe is described once.
    pub fn document(self, parts: &str) -> String {
        let mut out = String::with_capacity(parts.len() + 1024);
        let mut described = HashSet::new();
        let mut help = None;
        for line in parts.lines() {
            let Some(comment) = line.strip_prefix('#') else {
                if !line.is_empty() {
                    push_line(&mut out, &[line]);
                }
                continue;
            };
            let (word, rest) = comment.trim_start().split_once(' ').unwrap_or_default();
            match (word, rest.split_once(' ')) {
                // It waits for the type, which decides on the name.
                ("HELP", Some(text)) => help = Some(text),
                ("TYPE", Some((name, kind))) => {
                    let name = self.family(name, kind);
                    if described.insert(name.clone()) {
                        if let Some((_, text)) = help.filter(|(of, _)| is_same_family(of, &name)) {
                            push_line(&mut out, &["# HELP ", &name, " ", text]);
                        }
                        push_line(&mut out, &["# TYPE ", &name, " ", self.kind(kind)]);
                    }
                    help = None;
                }
                // Units are OpenMetrics' and say what names say; the end comes last.
                _ => {}
            }
        }
        if self == Self::OpenMetrics {
            out.push_str("# EOF\n");
        }
        out
    }

    /// The name a family is described under.
    fn family(self, name: &str, kind: &str) -> String {
        match (self, kind) {
            (Self::Text, "counter") if !name.ends_with("_total") => format!("{name}_total"),
            (Self::OpenMetrics, "counter") => name.strip_suffix("_total").unwrap_or(name).to_owned(),
            _ => name.to_owned(),
        }
    }

    fn kind(self, kind: &str) -> &str {
        match (self, kind) {
            (Self::Text, "unknown") => "untyped",
            (Self::OpenMetrics, "untyped") => "unknown",
            _ => kind,
        }
    }
}

fn is_same_family(one: &str, other: &str) -> bool {
    let base = |name: &str| name.strip_suffix("_total").unwrap_or(name).to_owned();
    base(one) == base(other)
}

fn push_line(out: &mut String, pieces: &[&str]) {
    pieces.iter().for_each(|piece| out.push_str(piece));
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the library writes, then what is written by hand.
    const PARTS: &str = "# HELP apiserver_request Requests.\n# TYPE apiserver_request counter\n# UNIT apiserver_request x\n\
                         apiserver_request_total{code=\"200\"} 1\n# EOF\n\
                         # HELP made_total By hand\n# TYPE made_total counter\nmade_total 2\n\
                         # TYPE level gauge\nlevel 3\n# TYPE level gauge\nlevel{of=\"b\"} 4\n";

    #[test]
    fn in_the_text_form_a_counter_is_described_by_the_name_of_its_samples() {
        let expected = "# HELP apiserver_request_total Requests.\n# TYPE apiserver_request_total counter\n\
                        apiserver_request_total{code=\"200\"} 1\n\
                        # HELP made_total By hand\n# TYPE made_total counter\nmade_total 2\n\
                        # TYPE level gauge\nlevel 3\nlevel{of=\"b\"} 4\n";
        assert_eq!(Exposition::Text.document(PARTS), expected);
    }

    #[test]
    fn in_openmetrics_it_is_described_by_its_family_and_the_document_has_an_end() {
        let expected = "# HELP apiserver_request Requests.\n# TYPE apiserver_request counter\n\
                        apiserver_request_total{code=\"200\"} 1\n\
                        # HELP made By hand\n# TYPE made counter\nmade_total 2\n\
                        # TYPE level gauge\nlevel 3\nlevel{of=\"b\"} 4\n# EOF\n";
        assert_eq!(Exposition::OpenMetrics.document(PARTS), expected);
    }

    #[test]
    fn openmetrics_is_for_those_who_ask_for_it() {
        // What Prometheus sends.
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert_eq!(Exposition::negotiate(prometheus), Exposition::OpenMetrics);
        for text in ["", "*/*", "text/plain", "application/json", "text/plain, application/openmetrics-text;q=0.5"] {
            assert_eq!(Exposition::negotiate(text), Exposition::Text, "{text}");
        }
    }
}
