//! Version constraints as ClusterExtensions write them: `~1.2`, `^2`, `1.x`, `>=1.0, <2.0`, `1.2 - 1.4`, `||`. A comma
//! or a space means and. Unlike in [`super::Range`], a pre-release fits only where the constraint names one.

use std::cmp::Ordering;
use std::sync::LazyLock;

use regex::Regex;

use super::Version;

const OPERATOR: &str = r"=>|>=|=<|<=|!=|~>|=|>|<|~|\^|";
const VERSION: &str = concat!(
    r"v?(?P<major>[0-9]+|[xX*])(?:\.(?P<minor>[0-9]+|[xX*]))?(?:\.(?P<patch>[0-9]+|[xX*]))?",
    r"(?P<rest>(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?)"
);

static TERM: LazyLock<Regex> = LazyLock::new(|| pattern(&format!(r"^\s*(?P<operator>{OPERATOR})\s*{VERSION}\s*")));
static HYPHEN: LazyLock<Regex> = LazyLock::new(|| {
    let bare = r"v?[0-9xX*]+(?:\.[0-9xX*]+){0,2}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?";
    pattern(&format!(r"\s*(?P<low>{bare})\s+-\s+(?P<high>{bare})\s*"))
});

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("invariant: the pattern is constant")
}

/// A set of versions, as the v1 API of OLM reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint {
    text: String,
    alternatives: Vec<Group>,
}

/// Terms that must all hold.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    terms: Vec<Term>,
    /// Whether a term names a pre-release: then all of them look at pre-releases.
    pre_releases: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    operator: Operator,
    version: Version,
    open: Open,
}

/// From where on the version was left open: `1`, `1.x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Nothing,
    Patch,
    Minor,
    Everything,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Tilde,
    Caret,
}

impl Constraint {
    /// Reads a constraint.
    pub fn parse(text: &str) -> Result<Self, String> {
        let plain = HYPHEN.replace_all(text, ">= $low, <= $high ");
        let alternatives = plain.split("||").map(Group::parse).collect::<Result<_, _>>()?;
        Ok(Constraint { text: text.to_owned(), alternatives })
    }

    /// Whether a version is allowed.
    pub fn contains(&self, version: &Version) -> bool {
        self.alternatives.iter().any(|group| group.contains(version))
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Group {
    fn parse(text: &str) -> Result<Self, String> {
        let improper = || format!("improper constraint: {text}");
        let mut terms = Vec::new();
        let mut rest = text;
        loop {
            let found = TERM.captures(rest).ok_or_else(improper)?;
            terms.push(Term::new(&found).ok_or_else(improper)?);
            let taken = found.get(0).map_or("", |all| all.as_str());
            rest = rest.get(taken.len()..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
            match rest.strip_prefix(',') {
                Some(after) => rest = after,
                None if taken.ends_with(char::is_whitespace) => {}
                None => return Err(improper()),
            }
        }
        let pre_releases = terms.iter().any(|term| !term.version.pre.is_empty());
        Ok(Group { terms, pre_releases })
    }

    fn contains(&self, version: &Version) -> bool {
        (version.pre.is_empty() || self.pre_releases) && self.terms.iter().all(|term| term.holds(version))
    }
}

impl Term {
    fn new(found: &regex::Captures) -> Option<Self> {
        let part = |name: &str| found.name(name).map_or("", |part| part.as_str());
        let is_open = |text: &str| matches!(text, "" | "x" | "X" | "*");
        let (major, minor, patch) = (part("major"), part("minor"), part("patch"));
        let (open, numbers) = if is_open(major) {
            (Open::Everything, ["0", "0", "0"])
        } else if is_open(minor) {
            (Open::Minor, [major, "0", "0"])
        } else if is_open(patch) {
            (Open::Patch, [major, minor, "0"])
        } else {
            (Open::Nothing, [major, minor, patch])
        };
        let [major, minor, patch] = numbers.map(|number| number.parse::<u64>().ok());
        let version = Version::parse(&format!("{}.{}.{}{}", major?, minor?, patch?, part("rest"))).ok()?;
        let operator = match part("operator") {
            "" | "=" => Operator::Equal,
            "!=" => Operator::NotEqual,
            ">" => Operator::Greater,
            ">=" | "=>" => Operator::GreaterOrEqual,
            "<" => Operator::Less,
            "<=" | "=<" => Operator::LessOrEqual,
            "~" | "~>" => Operator::Tilde,
            _ => Operator::Caret,
        };
        Some(Term { operator, version, open })
    }

    fn holds(&self, version: &Version) -> bool {
        let order = version.compare(&self.version);
        match self.operator {
            Operator::Equal if self.open == Open::Nothing => order == Ordering::Equal,
            Operator::Equal | Operator::Tilde => self.tilde(version),
            Operator::NotEqual => match self.open {
                Open::Nothing | Open::Everything => order != Ordering::Equal,
                Open::Minor => version.major != self.version.major,
                Open::Patch => {
                    (version.major, version.minor) != (self.version.major, self.version.minor)
                        || version.pre != self.version.pre
                }
            },
            Operator::Greater => match self.open {
                Open::Minor => version.major > self.version.major,
                Open::Patch => (version.major, version.minor) > (self.version.major, self.version.minor),
                Open::Nothing | Open::Everything => order == Ordering::Greater,
            },
            Operator::GreaterOrEqual => order != Ordering::Less,
            Operator::Less => order == Ordering::Less,
            Operator::LessOrEqual => match self.open {
                Open::Nothing => order != Ordering::Greater,
                Open::Minor => version.major <= self.version.major,
                Open::Patch | Open::Everything => {
                    (version.major, version.minor) <= (self.version.major, self.version.minor)
                }
            },
            Operator::Caret => self.caret(version),
        }
    }

    /// Not below, and equal down to what the tilde leaves free.
    fn tilde(&self, version: &Version) -> bool {
        let wanted = &self.version;
        if version.compare(wanted) == Ordering::Less {
            return false;
        }
        let is_zero = (wanted.major, wanted.minor, wanted.patch) == (0, 0, 0);
        if is_zero && matches!(self.open, Open::Nothing | Open::Everything) {
            return true;
        }
        version.major == wanted.major && (version.minor == wanted.minor || self.open == Open::Minor)
    }

    /// Not below, and equal in the first number that is not zero.
    fn caret(&self, version: &Version) -> bool {
        let wanted = &self.version;
        if version.compare(wanted) == Ordering::Less {
            return false;
        }
        if wanted.major > 0 || self.open == Open::Minor {
            return version.major == wanted.major;
        }
        if version.major > 0 {
            return false;
        }
        if wanted.minor > 0 || self.open == Open::Patch {
            return version.minor == wanted.minor;
        }
        version.minor == 0 && version.patch == wanted.patch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(constraint: &str, version: &str) -> bool {
        Constraint::parse(constraint).unwrap().contains(&Version::parse(version).unwrap())
    }

    #[test]
    fn operators_mean_what_masterminds_says() {
        for (constraint, inside, outside) in [
            ("1.2.3", "1.2.3", "1.2.4"),
            ("1.2", "1.2.9", "1.3.0"),
            ("1.x", "1.9.0", "2.0.0"),
            ("*", "7.0.0", "1.0.0-rc.1"),
            (">=1.0, <2.0", "1.9.9", "2.0.0"),
            (">=1.0 <2.0", "1.0.0", "0.9.9"),
            ("=>1.0.0", "1.0.0", "0.9.0"),
            (">11", "12.0.0", "11.1.0"),
            (">11.1", "11.2.0", "11.1.5"),
            ("<=11", "11.9.0", "12.0.0"),
            ("!=1.2", "1.3.0", "1.2.7"),
            ("~1.2.3", "1.2.9", "1.3.0"),
            ("~1", "1.9.0", "2.0.0"),
            ("^1.2.3", "1.9.0", "2.0.0"),
            ("^0.2.3", "0.2.9", "0.3.0"),
            ("^0.0.3", "0.0.3", "0.0.4"),
            ("^0", "0.9.0", "1.0.0"),
            ("1.2 - 1.4.5", "1.4.5", "1.4.6"),
            ("<1.0.0 || ^3", "3.5.0", "2.0.0"),
            (">=1.0.0-0", "1.1.0-rc.1", "0.9.0"),
        ] {
            assert!(contains(constraint, inside), "{constraint} should allow {inside}");
            assert!(!contains(constraint, outside), "{constraint} should not allow {outside}");
        }
    }

    #[test]
    fn what_is_no_constraint_is_refused() {
        for text in ["", "abc", ">=1.0.0<2.0.0", "1.2.3 ||", ">> 1", "1.2.3.4"] {
            assert!(Constraint::parse(text).unwrap_err().starts_with("improper constraint"), "{text}");
        }
    }
}
