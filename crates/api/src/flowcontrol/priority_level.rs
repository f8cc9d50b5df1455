//! PriorityLevelConfigurations: the share of the server a class of requests gets, and how it queues.

use bailiwick_machinery::field::{Error, ErrorList, Path};
use bailiwick_machinery::object::{self, at};
use bailiwick_machinery::table::Column;
use jiff::Timestamp;
use k8s_openapi::api::flowcontrol::v1::{
    LimitedPriorityLevelConfiguration, PriorityLevelConfigurationSpec, QueuingConfiguration,
};
use serde_json::{Value, json};

use super::bootstrap;
use crate::columns::{age, age_column, description, name_column};
use crate::field_errors::invalid_shown;
use crate::fields::{
    integer, optional_integer, present, present_mut, put, same, set_default, set_default_nonzero, text,
};
use crate::go_shape::{Field, Shape, shown};

const DEFAULT_SHARES: i64 = 30;
const DEFAULT_HAND_SIZE: i64 = 8;
const DEFAULT_QUEUES: i64 = 64;
const DEFAULT_QUEUE_LENGTH: i64 = 50;
/// Every server allocates its queues; this bounds the memory one object can ask for.
const MAX_QUEUES: i64 = 10_000_000;
/// Bits of the flow's hash that shuffle sharding may consume without dealing unevenly.
const MAX_HASH_BITS: f64 = 60.0;

/// An annotation of an older API version that must not be stored.
const ZERO_SHARES_ANNOTATION: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";

const SPEC: &[Field] = &[
    ("Type", "type", Shape::Text),
    (
        "Limited",
        "limited",
        Shape::Pointer(&[
            ("NominalConcurrencyShares", "nominalConcurrencyShares", Shape::Integer),
            (
                "LimitResponse",
                "limitResponse",
                Shape::Struct(&[
                    ("Type", "type", Shape::Text),
                    (
                        "Queuing",
                        "queuing",
                        Shape::Pointer(&[
                            ("Queues", "queues", Shape::Integer),
                            ("HandSize", "handSize", Shape::Integer),
                            ("QueueLengthLimit", "queueLengthLimit", Shape::Integer),
                        ]),
                    ),
                ]),
            ),
            ("LendablePercent", "lendablePercent", Shape::Optional),
            ("BorrowingLimitPercent", "borrowingLimitPercent", Shape::Optional),
        ]),
    ),
    (
        "Exempt",
        "exempt",
        Shape::Pointer(&[
            ("NominalConcurrencyShares", "nominalConcurrencyShares", Shape::Optional),
            ("LendablePercent", "lendablePercent", Shape::Optional),
        ]),
    ),
];

pub(super) fn default(object: &mut Value) {
    let Some(spec) = present_mut(object, "spec") else { return };
    if let Some(exempt) = present_mut(spec, "exempt") {
        set_default(exempt, "nominalConcurrencyShares", || 0.into());
        set_default(exempt, "lendablePercent", || 0.into());
    }
    let Some(limited) = present_mut(spec, "limited") else { return };
    set_default(limited, "nominalConcurrencyShares", || DEFAULT_SHARES.into());
    set_default(limited, "lendablePercent", || 0.into());
    if let Some(queuing) = present_mut(limited, "limitResponse").and_then(|response| present_mut(response, "queuing")) {
        set_default_nonzero(queuing, "handSize", DEFAULT_HAND_SIZE);
        set_default_nonzero(queuing, "queues", DEFAULT_QUEUES);
        set_default_nonzero(queuing, "queueLengthLimit", DEFAULT_QUEUE_LENGTH);
    }
}

pub(super) fn validate(object: &Value) -> ErrorList {
    let nothing = Value::Null;
    let name = object::name(object);
    let spec = present(object, "spec").unwrap_or(&nothing);
    let path = Path::new("spec");
    let mut errors = ErrorList::new();
    if at(object, &["metadata", "annotations", ZERO_SHARES_ANNOTATION]).is_some() {
        let detail = format!("annotation '{ZERO_SHARES_ANNOTATION}' is forbidden");
        errors.push(Error::forbidden(&Path::new("metadata").child("annotations"), detail));
    }
    errors.extend(validate_spec(name, spec, &path));
    errors.extend(validate_mandatory(name, spec, &path));
    errors
}

/// The levels every server has cannot be changed, but for the shares of the exempt one.
fn validate_mandatory(name: &str, spec: &Value, path: &Path) -> Option<Error> {
    let mandatory = bootstrap::mandatory("PriorityLevelConfiguration", name)?;
    let wanted = mandatory.get("spec")?;
    let (equal, except) = if name == "exempt" {
        let mut have = spec.clone();
        put(&mut have, "exempt", wanted["exempt"].clone());
        (same(Some(&have), Some(wanted)), " except the 'spec.exempt' field")
    } else {
        (same(Some(spec), Some(wanted)), "")
    };
    let detail = format!("spec of '{name}'{except} must equal the fixed value");
    (!equal).then(|| invalid_shown(path, &shown(spec, SPEC), &detail))
}

fn validate_spec(name: &str, spec: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let kind = text(spec, "type");
    let (limited, exempt) = (present(spec, "limited"), present(spec, "exempt"));
    if (name == "exempt") != (kind == "Exempt") {
        let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.push(Error::invalid(&path.child("type"), kind, detail));
    }
    match kind {
        "Exempt" => {
            if limited.is_some() {
                errors.push(Error::forbidden(&path.child("limited"), "must be nil if the type is not Limited"));
            }
            if let Some(exempt) = exempt {
                let path = path.child("exempt");
                errors.extend(validate_shares(exempt, &path));
                errors.extend(validate_lendable(exempt, &path));
            }
        }
        "Limited" => {
            if exempt.is_some() {
                errors.push(Error::forbidden(&path.child("exempt"), "must be nil if the type is Limited"));
            }
            match limited {
                None => {
                    errors.push(Error::required(&path.child("limited"), "must not be empty when type is Limited"));
                }
                Some(limited) => errors.extend(validate_limited(limited, &path.child("limited"))),
            }
        }
        "" => errors.push(Error::required(&path.child("type"), "")),
        other => errors.push(Error::not_supported(&path.child("type"), other, &["Exempt", "Limited"])),
    }
    errors
}

fn validate_shares(level: &Value, path: &Path) -> Option<Error> {
    let shares = integer(level, "nominalConcurrencyShares");
    let path = path.child("nominalConcurrencyShares");
    (shares < 0).then(|| Error::invalid(&path, shares, "must be a non-negative integer"))
}

fn validate_lendable(level: &Value, path: &Path) -> Option<Error> {
    let percent = integer(level, "lendablePercent");
    let detail = "must be between 0 and 100, inclusive";
    (!(0..=100).contains(&percent)).then(|| Error::invalid(&path.child("lendablePercent"), percent, detail))
}

fn validate_limited(limited: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    errors.extend(validate_shares(limited, path));
    let nothing = Value::Null;
    let response = present(limited, "limitResponse").unwrap_or(&nothing);
    errors.extend(validate_response(response, &path.child("limitResponse")));
    errors.extend(validate_lendable(limited, path));
    if let Some(percent) = optional_integer(limited, "borrowingLimitPercent").filter(|percent| *percent < 0) {
        let detail = "if specified, must be a non-negative integer";
        errors.push(Error::invalid(&path.child("borrowingLimitPercent"), percent, detail));
    }
    errors
}

fn validate_response(response: &Value, path: &Path) -> ErrorList {
    let queuing = present(response, "queuing");
    let queuing_path = path.child("queuing");
    match (text(response, "type"), queuing) {
        ("Reject", Some(_)) => {
            let detail = "must be nil if limited.limitResponse.type is not Limited";
            vec![Error::forbidden(&queuing_path, detail)]
        }
        ("Reject", None) => ErrorList::new(),
        ("Queue", None) => {
            let detail = "must not be empty if limited.limitResponse.type is Limited";
            vec![Error::required(&queuing_path, detail)]
        }
        ("Queue", Some(queuing)) => validate_queuing(queuing, &queuing_path),
        ("", _) => vec![Error::required(&path.child("type"), "")],
        (other, _) => vec![Error::not_supported(&path.child("type"), other, &["Queue", "Reject"])],
    }
}

fn validate_queuing(queuing: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut wrong = |name: &str, value: i64, detail: String| {
        errors.push(Error::invalid(&path.child(name), value, detail));
    };
    let (length, queues) = (integer(queuing, "queueLengthLimit"), integer(queuing, "queues"));
    let hand = integer(queuing, "handSize");
    if length <= 0 {
        wrong("queueLengthLimit", length, "must be positive".into());
    }
    if queues <= 0 {
        wrong("queues", queues, "must be positive".into());
    } else if queues > MAX_QUEUES {
        wrong("queues", queues, format!("must not be greater than {MAX_QUEUES}"));
    }
    if hand <= 0 {
        wrong("handSize", hand, "must be positive".into());
    } else if hand > queues {
        wrong("handSize", hand, format!("should not be greater than queues ({queues})"));
    } else if ((queues as f64).log2() * hand as f64).ceil() > MAX_HASH_BITS {
        let detail = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {MAX_HASH_BITS}"
        );
        wrong("handSize", hand, detail);
    }
    errors
}

pub(super) fn head() -> Vec<Column> {
    vec![
        name_column(),
        Column::new("Type", "string", &description::<PriorityLevelConfigurationSpec>("type")),
        Column::new(
            "NominalConcurrencyShares",
            "string",
            &description::<LimitedPriorityLevelConfiguration>("nominalConcurrencyShares"),
        ),
        Column::new("Queues", "string", &description::<QueuingConfiguration>("queues")),
        Column::new("HandSize", "string", &description::<QueuingConfiguration>("handSize")),
        Column::new("QueueLengthLimit", "string", &description::<QueuingConfiguration>("queueLengthLimit")),
        age_column(),
    ]
}

pub(super) fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let limited = present(spec, "limited");
    let queuing = limited.and_then(|limited| present(&limited["limitResponse"], "queuing"));
    let number = |holder: Option<&Value>, name: &str| {
        holder.map_or_else(|| json!("<none>"), |holder| json!(integer(holder, name)))
    };
    vec![
        json!(object::name(object)),
        json!(text(spec, "type")),
        number(limited, "nominalConcurrencyShares"),
        number(queuing, "queues"),
        number(queuing, "handSize"),
        number(queuing, "queueLengthLimit"),
        age(object, now),
    ]
}
