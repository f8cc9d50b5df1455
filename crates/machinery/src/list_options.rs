//! The query parameters of list, watch and get: parsed, checked against each other, and turned into what to serve.

use crate::continue_token::ContinueToken;
use crate::field::{Error, ErrorList, Path};
use crate::query::{Query, go_number_error};
use crate::resource::GroupKind;
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::{ApiError, ApiResult};

/// How `resourceVersion` is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceVersionMatch {
    Exact,
    NotOlderThan,
}

/// Options of a list or watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
    pub watch: bool,
    pub allow_watch_bookmarks: bool,
    /// As the client sent it; [`Self::list_at`] and [`Self::watch_start`] read it.
    pub resource_version: String,
    pub resource_version_match: Option<ResourceVersionMatch>,
    pub timeout_seconds: Option<i64>,
    /// The largest page; `None` for all.
    pub limit: Option<usize>,
    /// As the client sent it; empty on the first page.
    pub continue_token: String,
    pub send_initial_events: Option<bool>,
}

/// Which state of the world a list shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListAt {
    /// As fresh as a read that begins now must be.
    Latest,
    /// Whatever is at hand.
    Any,
    /// At least as new as this revision.
    NotOlderThan(u64),
    /// Exactly this revision.
    Exact(u64),
    /// A later page. The token says which revision, negative for the newest.
    Continue(ContinueToken),
}

/// Where a watch begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchStart {
    /// With the present state as ADDED events, then changes. The list never is `Exact` or `Continue`.
    Initial(ListAt),
    /// With changes from now on.
    Now,
    /// With changes after this revision.
    After(u64),
}

impl ListOptions {
    /// Reads and checks the options of a list or watch. What the fields are called is not checked: see
    /// [`FieldSelector::check`].
    pub fn parse(query: &Query) -> ApiResult<Self> {
        let timeout_seconds = query.integer("timeoutSeconds")?;
        let limit = query.integer("limit")?;
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default())
            .map_err(|e| ApiError::bad_request(e.to_string()))?;
        let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or_default())
            .map_err(|e| ApiError::bad_request(e.to_string()))?;
        let mut options = Self {
            labels,
            fields,
            watch: query.flag("watch").unwrap_or(false),
            allow_watch_bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            resource_version: query.text("resourceVersion"),
            resource_version_match: None,
            timeout_seconds,
            limit: limit.and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0),
            continue_token: query.text("continue"),
            send_initial_events: query.flag("sendInitialEvents"),
        };
        let mut matching = query.get("resourceVersionMatch").unwrap_or_default();
        // A watch from nowhere has always begun with the present state; that is now said with sendInitialEvents.
        let from_nowhere = matches!(options.resource_version.as_str(), "" | "0");
        if options.watch && from_nowhere && options.send_initial_events.is_none() && matching.is_empty() {
            options.send_initial_events = Some(true);
            matching = "NotOlderThan";
        }
        let errors = if options.watch { options.check_watch(matching) } else { options.check_list(matching) };
        if !errors.is_empty() {
            let kind = GroupKind { group: "meta.k8s.io".into(), kind: "ListOptions".into() };
            return Err(ApiError::invalid(&kind, "", &errors));
        }
        options.resource_version_match = match matching {
            "Exact" => Some(ResourceVersionMatch::Exact),
            "NotOlderThan" => Some(ResourceVersionMatch::NotOlderThan),
            _ => None,
        };
        Ok(options)
    }

    /// Restricts to one object, as a watch on a single object is asked for; fails when the selector names another.
    pub fn restrict_to_name(&mut self, name: &str) -> ApiResult<()> {
        if self.fields.is_empty() {
            self.fields = FieldSelector::equals("metadata.name", name);
        } else if self.fields.exact_name() != Some(name) {
            return Err(ApiError::bad_request("fieldSelector metadata.name doesn't match requested name"));
        }
        Ok(())
    }

    /// Whether the client wants a marked bookmark after the initial events.
    pub fn bookmarks_initial_events(&self) -> bool {
        self.send_initial_events == Some(true) && self.allow_watch_bookmarks
    }

    /// Which state a list shows.
    pub fn list_at(&self) -> ApiResult<ListAt> {
        if !self.continue_token.is_empty() {
            let token = ContinueToken::decode(&self.continue_token)?;
            if !matches!(self.resource_version.as_str(), "" | "0") {
                return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
            }
            return Ok(ListAt::Continue(token));
        }
        let revision = parse_resource_version(&self.resource_version)
            .map_err(|text| ApiError::bad_request(format!("invalid resource version: {text}")))?;
        Ok(match (revision, self.resource_version_match) {
            (None, _) => ListAt::Latest,
            (Some(0), _) => ListAt::Any,
            (Some(n), Some(ResourceVersionMatch::Exact)) => ListAt::Exact(n),
            (Some(n), Some(ResourceVersionMatch::NotOlderThan)) => ListAt::NotOlderThan(n),
            // Without a match, paging pins the revision; that is how it was before there was a match.
            (Some(n), None) if self.limit.is_some() => ListAt::Exact(n),
            (Some(n), None) => ListAt::NotOlderThan(n),
        })
    }

    /// Where a watch begins.
    pub fn watch_start(&self) -> ApiResult<WatchStart> {
        let revision = parse_resource_version(&self.resource_version).map_err(unexplained)?;
        Ok(match (self.send_initial_events, revision) {
            (Some(true), None) => WatchStart::Initial(ListAt::Latest),
            (Some(true), Some(0)) => WatchStart::Initial(ListAt::Any),
            (Some(true), Some(n)) => WatchStart::Initial(ListAt::NotOlderThan(n)),
            (_, None | Some(0)) => WatchStart::Now,
            (_, Some(n)) => WatchStart::After(n),
        })
    }

    fn check_list(&self, matching: &str) -> ErrorList {
        let path = Path::new("resourceVersionMatch");
        let mut errors = ErrorList::new();
        if !matching.is_empty() {
            if self.resource_version.is_empty() {
                let text = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                errors.push(Error::forbidden(&path, text));
            }
            if !self.continue_token.is_empty() {
                errors.push(Error::forbidden(&path, "resourceVersionMatch is forbidden when continue is provided"));
            }
            if !matches!(matching, "Exact" | "NotOlderThan") {
                errors.push(Error::not_supported(&path, matching, &["Exact", "NotOlderThan", ""]));
            }
            if matching == "Exact" && self.resource_version == "0" {
                let text = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(Error::forbidden(&path, text));
            }
        }
        if self.send_initial_events.is_some() {
            let text = "sendInitialEvents is forbidden for list";
            errors.push(Error::forbidden(&Path::new("sendInitialEvents"), text));
        }
        errors
    }

    fn check_watch(&self, matching: &str) -> ErrorList {
        let path = Path::new("resourceVersionMatch");
        let mut errors = ErrorList::new();
        if self.send_initial_events.is_some() && matching != "NotOlderThan" {
            let text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(Error::forbidden(&path, text));
        }
        if !matching.is_empty() {
            if self.send_initial_events.is_none() {
                let text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(Error::forbidden(&path, text));
            }
            if matching != "NotOlderThan" {
                errors.push(Error::not_supported(&path, matching, &["NotOlderThan"]));
            }
            if !self.continue_token.is_empty() {
                errors.push(Error::forbidden(&path, "resourceVersionMatch is forbidden when continue is provided"));
            }
        }
        errors
    }
}

/// Options of a get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetOptions {
    /// The answer must be at least this fresh: `None` is the newest, 0 whatever is at hand.
    pub not_older_than: Option<u64>,
}

impl GetOptions {
    pub fn parse(query: &Query) -> ApiResult<Self> {
        if query.flag("export") == Some(true) {
            let text = "the export parameter, deprecated since v1.14, is no longer supported";
            return Err(ApiError::bad_request(text));
        }
        let revision = parse_resource_version(query.get("resourceVersion").unwrap_or_default());
        Ok(Self { not_older_than: revision.map_err(unexplained)? })
    }
}

/// A resourceVersion as a number; `None` when empty. The error is the text of an invalid field.
pub fn parse_resource_version(text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    // Upstream takes no sign, where Rust takes a plus.
    let digits = if text.starts_with('+') { "+" } else { text };
    digits.parse().map(Some).map_err(|e| {
        Error::invalid(&Path::new("resourceVersion"), text, go_number_error("ParseUint", text, &e)).to_string()
    })
}

/// Upstream answers a malformed resourceVersion of get and watch with a bare 500.
fn unexplained(text: String) -> ApiError {
    ApiError::new(500, "", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str) -> ApiResult<ListOptions> {
        ListOptions::parse(&Query::parse(query))
    }

    fn refused(query: &str) -> String {
        let error = parse(query).unwrap_err();
        let prefix = "ListOptions.meta.k8s.io \"\" is invalid: ";
        error.message.strip_prefix(prefix).unwrap_or(&error.message).to_owned()
    }

    /// The texts kube-apiserver 1.36.4 answers.
    #[test]
    fn illegal_combinations_are_refused() {
        for (query, text) in [
            (
                "resourceVersionMatch=Exact",
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
            ),
            (
                "resourceVersionMatch=Foo&resourceVersion=1",
                "resourceVersionMatch: Unsupported value: \"Foo\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
            ),
            (
                "resourceVersionMatch=Exact&resourceVersion=0",
                "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ),
            ("sendInitialEvents=true", "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"),
            (
                "watch=1&sendInitialEvents=true&resourceVersion=abc",
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ),
            (
                "watch=1&resourceVersionMatch=Exact&resourceVersion=1",
                "[resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents \
                 is provided, resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"]",
            ),
            (
                "watch=1&continue=x",
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
            ),
            ("limit=x&labelSelector=a%20b", "strconv.ParseInt: parsing \"x\": invalid syntax"),
            ("fieldSelector=x&labelSelector=,", "found ',', expected: !, identifier, or 'end of string'"),
        ] {
            assert_eq!(refused(query), text, "{query}");
        }
        assert_eq!(parse("resourceVersionMatch=Exact").unwrap_err().code, 422);
        assert_eq!(parse("limit=x").unwrap_err().code, 400);
    }

    #[test]
    fn lists_know_their_revision() {
        let token = ContinueToken::after("n/x", 7);
        for (query, expected) in [
            (String::new(), ListAt::Latest),
            ("resourceVersion=0&limit=5".into(), ListAt::Any),
            ("resourceVersion=5".into(), ListAt::NotOlderThan(5)),
            ("resourceVersion=5&limit=1".into(), ListAt::Exact(5)),
            ("resourceVersion=5&limit=-1".into(), ListAt::NotOlderThan(5)),
            ("resourceVersion=5&limit=1&resourceVersionMatch=NotOlderThan".into(), ListAt::NotOlderThan(5)),
            ("resourceVersion=5&resourceVersionMatch=Exact".into(), ListAt::Exact(5)),
            (format!("continue={}&resourceVersion=0", token.encode()), ListAt::Continue(token.clone())),
        ] {
            assert_eq!(parse(&query).unwrap().list_at(), Ok(expected), "{query}");
        }
        let message = |query: &str| parse(query).unwrap().list_at().unwrap_err().message;
        assert_eq!(
            message("resourceVersion=abc"),
            "invalid resource version: resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax"
        );
        assert_eq!(
            message(&format!("continue={}&resourceVersion=5", token.encode())),
            "specifying resource version is not allowed when using continue"
        );
        assert_eq!(
            message("continue=!!&resourceVersion=5"),
            "invalid continue token: continue key is not valid: illegal base64 data at input byte 0"
        );
    }

    #[test]
    fn watches_know_where_to_begin() {
        for (query, expected) in [
            ("watch=1", WatchStart::Initial(ListAt::Latest)),
            ("watch=1&resourceVersion=0", WatchStart::Initial(ListAt::Any)),
            ("watch=1&resourceVersion=5", WatchStart::After(5)),
            (
                "watch=1&resourceVersion=5&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
                WatchStart::Initial(ListAt::NotOlderThan(5)),
            ),
            ("watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", WatchStart::Now),
            (
                "watch=1&resourceVersion=5&sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
                WatchStart::After(5),
            ),
        ] {
            assert_eq!(parse(query).unwrap().watch_start(), Ok(expected), "{query}");
        }
        let error = parse("watch=1&resourceVersion=-5").unwrap().watch_start().unwrap_err();
        assert_eq!((error.code, error.reason), (500, ""));
        assert!(parse("watch=1&allowWatchBookmarks=1").unwrap().bookmarks_initial_events());
        assert!(!parse("watch=1").unwrap().bookmarks_initial_events());
    }

    #[test]
    fn a_watch_on_one_object_selects_its_name() {
        let mut options = parse("").unwrap();
        options.restrict_to_name("a").unwrap();
        assert_eq!(options.fields.exact_name(), Some("a"));
        options.restrict_to_name("a").unwrap();
        assert!(options.restrict_to_name("b").is_err());
    }

    #[test]
    fn get_reads_freshness() {
        let parse = |query: &str| GetOptions::parse(&Query::parse(query));
        assert_eq!(parse("").unwrap().not_older_than, None);
        assert_eq!(parse("resourceVersion=0").unwrap().not_older_than, Some(0));
        assert_eq!(parse("resourceVersion=%2B1").unwrap_err().code, 500);
        assert_eq!(parse("export=true").unwrap_err().code, 400);
    }
}
