//! What a bundle requires of another one: an API, a package, a label, or an `olm.constraint` of these. A requirement is
//! met by one bundle as a whole, never by several together.

mod cel;

use std::fmt;

use serde_json::Value;

use crate::fbc::{Fields, Property};
use crate::property::{self, Gvk};
use crate::version::{Range, Version};

pub(super) use cel::Rule;

/// The property of a bundle that has a label.
pub(super) const LABEL: &str = "olm.label";
const LABEL_REQUIRED: &str = "olm.label.required";
/// What OLM reads of one constraint.
const MAX_CONSTRAINT_BYTES: usize = 2 << 16;
/// Constraints inside constraints; people write three levels.
const MAX_DEPTH: usize = 32;

/// A condition on a bundle.
#[derive(Clone, Debug)]
pub enum Requirement {
    Api(Gvk),
    Package {
        name: String,
        range: Range,
        /// As it was written.
        text: String,
    },
    Label(String),
    Cel(Rule),
    All(Vec<Requirement>),
    Any(Vec<Requirement>),
    Not(Vec<Requirement>),
    /// With what its author wants to be said when nothing meets it.
    Explained(String, Box<Requirement>),
}

/// What a requirement looks at.
pub(super) trait Subject {
    fn package(&self) -> Option<&str>;
    fn version(&self) -> Option<&Version>;
    fn provides(&self) -> &[Gvk];
    fn properties(&self) -> &[Property];
}

impl Requirement {
    /// The requirement that a property states; `None` if it states none. Properties that OLM does not know state none.
    pub fn of_property(property: &Property) -> Option<Result<Self, String>> {
        let fields = |text: &str| serde_json::from_str::<Value>(text).map_err(|error| error.to_string());
        let read = |make: &dyn Fn(&Fields) -> Result<Self, String>| {
            Some(fields(&property.value).and_then(|value| make(&Fields::of(&value))))
        };
        match property.kind.as_str() {
            property::GVK_REQUIRED => read(&|it| Ok(Requirement::Api(gvk(it)))),
            property::PACKAGE_REQUIRED => read(&package),
            LABEL_REQUIRED => read(&|it| Ok(Requirement::Label(it.text("label")))),
            property::CONSTRAINT => Some(constraint(&property.value)),
            _ => None,
        }
    }

    /// All requirements of a bundle.
    pub(super) fn all(properties: &[Property]) -> Result<Vec<Self>, String> {
        properties.iter().filter_map(Self::of_property).collect()
    }

    pub(super) fn is_met_by(&self, subject: &dyn Subject) -> bool {
        match self {
            Requirement::Api(gvk) => subject.provides().contains(gvk),
            Requirement::Package { name, range, .. } => {
                subject.package() == Some(name) && subject.version().is_some_and(|version| range.contains(version))
            }
            Requirement::Label(label) => subject.properties().iter().any(|it| is_label(it, label)),
            Requirement::Cel(rule) => rule.holds(subject.properties()),
            Requirement::All(all) => all.iter().all(|it| it.is_met_by(subject)),
            Requirement::Any(any) => any.iter().any(|it| it.is_met_by(subject)),
            Requirement::Not(none) => !none.iter().any(|it| it.is_met_by(subject)),
            Requirement::Explained(_, inner) => inner.is_met_by(subject),
        }
    }

    /// What its author wants to be said, of itself or of what is in it.
    pub fn failure_message(&self) -> Option<&str> {
        match self {
            Requirement::Explained(message, _) => Some(message),
            Requirement::All(inner) => inner.iter().find_map(Self::failure_message),
            _ => None,
        }
    }

    /// OLM's words for it.
    pub fn olm_text(&self) -> String {
        let join = |inner: &[Self], word: &str| inner.iter().map(Self::olm_text).collect::<Vec<_>>().join(word);
        match self {
            Requirement::Api(Gvk { group, version, kind }) => {
                format!("providing an API with group: {group}, version: {version}, kind: {kind}")
            }
            Requirement::Package { name, text, .. } => {
                format!("with package: {name} and with version in range: {text}")
            }
            Requirement::Label(label) => format!("with label: {label}"),
            Requirement::Cel(rule) => rule.olm_text(""),
            Requirement::All(all) => join(all, " and "),
            Requirement::Any(any) => join(any, " or "),
            Requirement::Not(none) => join(none, " and not "),
            Requirement::Explained(message, inner) => match inner.as_ref() {
                Requirement::Cel(rule) => rule.olm_text(message),
                inner => inner.olm_text(),
            },
        }
    }
}

/// Plain words, to follow "requires".
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, inner: &[Self], word: &str| {
            for (i, it) in inner.iter().enumerate() {
                if i > 0 {
                    f.write_str(word)?;
                }
                match it {
                    Requirement::All(_) | Requirement::Any(_) => write!(f, "({it})")?,
                    _ => write!(f, "{it}")?,
                }
            }
            Ok(())
        };
        match self {
            Requirement::Api(gvk) => write!(f, "the API {}", api_text(gvk)),
            Requirement::Package { name, text, .. } => write!(f, "package {name} in version {text}"),
            Requirement::Label(label) => write!(f, "a bundle with the label {label}"),
            Requirement::Cel(rule) => write!(f, "a bundle for which `{}` is true", rule.text()),
            Requirement::All(all) => list(f, all, " and "),
            Requirement::Any(any) => list(f, any, " or "),
            Requirement::Not(none) => {
                f.write_str("not ")?;
                list(f, none, " nor ")
            }
            Requirement::Explained(_, inner) => write!(f, "{inner}"),
        }
    }
}

/// `Kind (group/version)`.
pub(super) fn api_text(gvk: &Gvk) -> String {
    format!("{} ({}/{})", gvk.kind, gvk.group, gvk.version)
}

fn is_label(property: &Property, label: &str) -> bool {
    property.kind == LABEL
        && serde_json::from_str::<Value>(&property.value).is_ok_and(|it| Fields::of(&it).text("label") == label)
}

fn gvk(fields: &Fields) -> Gvk {
    Gvk { group: fields.text("group"), kind: fields.text("kind"), version: fields.text("version") }
}

fn package(fields: &Fields) -> Result<Requirement, String> {
    let (name, text) = (fields.text("packageName"), fields.text("versionRange"));
    Ok(Requirement::Package { name, range: Range::parse(&text)?, text })
}

fn constraint(text: &str) -> Result<Requirement, String> {
    if text.len() > MAX_CONSTRAINT_BYTES {
        return Err(format!(
            "parse olm.constraint: olm.constraint value is greater than max constraint size {MAX_CONSTRAINT_BYTES} bytes"
        ));
    }
    let value: Value = serde_json::from_str(text).map_err(|error| format!("parse olm.constraint: {error}"))?;
    read_constraint(&value, MAX_DEPTH)
}

fn read_constraint(value: &Value, depth: usize) -> Result<Requirement, String> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(format!("parse olm.constraint: constraints are nested more than {MAX_DEPTH} deep"));
    };
    let members = value.as_object().ok_or("parse olm.constraint: a constraint must be an object")?;
    let mut found = None;
    let mut message = "";
    for (key, value) in members {
        let fields = Fields::of(value);
        let requirement = match key.as_str() {
            "failureMessage" => {
                message = value.as_str().unwrap_or_default();
                continue;
            }
            "gvk" => Requirement::Api(gvk(&fields)),
            "package" => package(&fields).map_err(|error| not_converted(&error))?,
            "cel" => Requirement::Cel(Rule::new(&fields.text("rule")).map_err(|error| not_converted(&error))?),
            "all" => Requirement::All(read_constraints(&fields, depth)?),
            "any" => Requirement::Any(read_constraints(&fields, depth)?),
            "not" => Requirement::Not(read_constraints(&fields, depth)?),
            other => return Err(format!("parse olm.constraint: json: unknown field {}", crate::go::quote(other))),
        };
        // OLM takes the first of a fixed order and forgets the others.
        if found.is_some() {
            return Err(not_converted("more than one kind of constraint in one object"));
        }
        found = Some(requirement);
    }
    let requirement = found.ok_or_else(|| not_converted("constraint is empty"))?;
    Ok(match message {
        "" => requirement,
        message => Requirement::Explained(message.to_owned(), Box::new(requirement)),
    })
}

fn not_converted(error: &str) -> String {
    format!("convert olm.constraint to resolver predicate: {error}")
}

fn read_constraints(fields: &Fields, depth: usize) -> Result<Vec<Requirement>, String> {
    fields.list("constraints").iter().map(|it| read_constraint(it, depth)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Plain(Vec<Property>, Vec<Gvk>);

    impl Subject for Plain {
        fn package(&self) -> Option<&str> {
            Some("foo")
        }
        fn version(&self) -> Option<&Version> {
            None
        }
        fn provides(&self) -> &[Gvk] {
            &self.1
        }
        fn properties(&self) -> &[Property] {
            &self.0
        }
    }

    fn of(kind: &str, value: &str) -> Result<Requirement, String> {
        Requirement::of_property(&Property { kind: kind.to_owned(), value: value.to_owned() }).unwrap()
    }

    #[test]
    fn compound_constraints_are_met_by_one_bundle() {
        let gvk = |kind: &str| Gvk { group: "g".to_owned(), kind: kind.to_owned(), version: "v1".to_owned() };
        let subject = Plain(Vec::new(), vec![gvk("A"), gvk("B")]);
        let api = |kind: &str| format!(r#"{{"gvk":{{"group":"g","version":"v1","kind":"{kind}"}}}}"#);
        let list = |word: &str, kinds: [&str; 2]| {
            format!(r#"{{"{word}":{{"constraints":[{},{}]}}}}"#, api(kinds[0]), api(kinds[1]))
        };
        for (text, met) in [
            (list("all", ["A", "B"]), true),
            (list("all", ["A", "C"]), false),
            (list("any", ["C", "B"]), true),
            (list("not", ["C", "D"]), true),
            (list("not", ["C", "A"]), false),
        ] {
            assert_eq!(of("olm.constraint", &text).unwrap().is_met_by(&subject), met, "{text}");
        }
        let words = of("olm.constraint", &list("any", ["A", "B"])).unwrap().to_string();
        assert_eq!(words, "the API A (g/v1) or the API B (g/v1)");
    }

    #[test]
    fn rules_see_the_properties() {
        let properties = vec![Property { kind: "certified".to_owned(), value: r#"{"level":"1.10.0"}"#.to_owned() }];
        let subject = Plain(properties, Vec::new());
        let rule = |rule: &str| {
            let value = serde_json::json!({"failureMessage": "only certified ones", "cel": {"rule": rule}});
            of("olm.constraint", &value.to_string())
        };
        let newer = rule("properties.exists(p, p.type == 'certified' && semver_compare(p.value.level, '1.9') > 0)");
        let newer = newer.unwrap();
        assert!(newer.is_met_by(&subject));
        assert_eq!(newer.failure_message(), Some("only certified ones"));
        assert!(!rule("properties.exists(p, p.type == 'other')").unwrap().is_met_by(&subject));
        assert!(rule("properties.size()").unwrap_err().contains("cel expressions must have type Bool"));
        assert!(rule("nonsense(").is_err());
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        assert!(of("olm.constraint", "{}").unwrap_err().contains("constraint is empty"));
        assert!(of("olm.constraint", r#"{"gvx":{}}"#).unwrap_err().contains("unknown field \"gvx\""));
        assert!(of("olm.package.required", r#"{"packageName":"a","versionRange":"~1"}"#).is_err());
        let deep = format!("{}{}{}", r#"{"all":{"constraints":["#.repeat(40), r#"{"gvk":{}}"#, "]}}".repeat(40));
        assert!(of("olm.constraint", &deep).unwrap_err().contains("nested more than 32 deep"));
    }
}
