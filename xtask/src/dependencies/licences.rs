//! Whether a licence expression (SPDX) is satisfied by the licences we allow.

use anyhow::{Context, Result};
use regex::Regex;

/// The allowed licences of `deny.toml`.
pub fn allowed(deny_toml: &str) -> Result<Vec<String>> {
    let list = Regex::new(r"(?s)\[licenses\].*?allow = \[(.*?)\]")?;
    let list = list.captures(deny_toml).context("deny.toml has no list of licences")?;
    let name = Regex::new(r#""([^"]+)""#)?;
    Ok(name.captures_iter(&list[1]).map(|found| found[1].to_owned()).collect())
}

/// Whether some way to read the expression needs only allowed licences. `AND` binds tighter than `OR`; `/` is how old
/// manifests write `OR`.
pub fn satisfied(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let satisfied = any(&mut words, allowed);
    satisfied && words.next().is_none()
}

type Words<'a, 'b> = &'a mut std::iter::Peekable<std::str::SplitWhitespace<'b>>;

fn any(words: Words<'_, '_>, allowed: &[String]) -> bool {
    let mut satisfied = all(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        satisfied |= all(words, allowed);
    }
    satisfied
}

fn all(words: Words<'_, '_>, allowed: &[String]) -> bool {
    let mut satisfied = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        satisfied &= one(words, allowed);
    }
    satisfied
}

fn one(words: Words<'_, '_>, allowed: &[String]) -> bool {
    match words.next() {
        Some("(") => {
            let satisfied = any(words, allowed);
            words.next_if_eq(&")").is_some() && satisfied
        }
        Some(licence) => {
            let exception = words.next_if_eq(&"WITH").and_then(|_| words.next());
            let name = exception.map_or(licence.to_owned(), |exception| format!("{licence} WITH {exception}"));
            // `+` is "or any later version", which includes the one we allow.
            allowed.iter().any(|known| *known == name || name.strip_suffix('+') == Some(known))
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read_as_spdx_defines_them() {
        let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "Zlib"].map(str::to_owned);
        for good in [
            "MIT",
            "MIT OR GPL-3.0",
            "MIT/GPL-3.0",
            "Zlib+",
            "(MIT OR GPL-3.0) AND Zlib",
            "Apache-2.0 WITH LLVM-exception",
            "GPL-3.0 OR MIT AND Zlib",
        ] {
            assert!(satisfied(good, &allowed), "{good}");
        }
        for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Zlib) AND GPL-3.0", "MIT WITH odd", "", "MIT Zlib", "(MIT"] {
            assert!(!satisfied(bad, &allowed), "{bad}");
        }
    }

    #[test]
    fn the_policy_names_its_licences() {
        let toml = "[licenses]\n# why\nallow = [\n    \"MIT\",\n    \"ISC\",\n]\n[bans]\nallow = [\"x\"]\n";
        assert_eq!(allowed(toml).unwrap(), ["MIT", "ISC"]);
    }
}
