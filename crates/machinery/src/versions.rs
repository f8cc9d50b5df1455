//! The order of API versions: `v2`, `v1`, `v2beta1`, `v1beta2`, `v1alpha1`, then all other names.

use std::cmp::Ordering;

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Alpha,
    Beta,
    Stable,
}

/// Compares two version names; the greater one is preferred. Names that are no versions come last, by name.
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        // Of two odd names the one that sorts first is preferred.
        (None, None) => b.cmp(a),
    }
}

/// Stage, major and minor number; `None` unless the name has the form `v1`, `v1beta1` or `v1alpha1`.
fn parse(name: &str) -> Option<(Stage, u64, u64)> {
    let rest = name.strip_prefix('v')?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (major, rest) = rest.split_at(digits);
    let (stage, minor) = match rest {
        "" => (Stage::Stable, "0"),
        _ => match (rest.strip_prefix("alpha"), rest.strip_prefix("beta")) {
            (Some(minor), _) => (Stage::Alpha, minor),
            (_, Some(minor)) => (Stage::Beta, minor),
            _ => return None,
        },
    };
    let minor = if stage == Stage::Stable { 0 } else { number(minor)? };
    Some((stage, number(major)?, minor))
}

/// Digits without a leading zero.
fn number(digits: &str) -> Option<u64> {
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    if plain { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::compare_versions;

    #[test]
    fn stable_before_beta_before_alpha_before_odd_names() {
        let mut names =
            ["foo1", "v1", "v10beta3", "v11alpha2", "v12alpha1", "v10", "v2", "v3beta1", "foo10", "v01", "v"];
        names.sort_by(|a, b| compare_versions(b, a));
        let expected =
            ["v10", "v2", "v1", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10", "v", "v01"];
        assert_eq!(names, expected);
    }
}
