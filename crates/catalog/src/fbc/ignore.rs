//! `.indexignore`: which files of a catalog directory are not part of it. Patterns as in `.gitignore`, each file's
//! for its directory; the last that matches decides.

/// The name of the file; it is never part of a catalog.
pub const FILE_NAME: &str = ".indexignore";

/// All patterns of a catalog, in the order in which their files were found.
#[derive(Debug, Default)]
pub struct Ignore {
    patterns: Vec<Pattern>,
}

#[derive(Debug)]
struct Pattern {
    /// The directory it was found in.
    domain: Vec<String>,
    parts: Vec<String>,
    includes: bool,
    directories_only: bool,
    /// With a slash: matches from its directory on, not any name.
    anchored: bool,
}

impl Ignore {
    /// Adds the patterns of a file in `domain`.
    pub fn add(&mut self, domain: &[String], text: &str) {
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (includes, line) = match line.strip_prefix('!') {
                Some(rest) => (true, rest),
                None => (false, line),
            };
            let line = if line.ends_with("\\ ") { line } else { line.trim_end_matches(' ') };
            let (directories_only, line) = match line.strip_suffix('/') {
                Some(rest) => (true, rest),
                None => (false, line),
            };
            self.patterns.push(Pattern {
                domain: domain.to_vec(),
                parts: line.split('/').map(str::to_owned).collect(),
                includes,
                directories_only,
                anchored: line.contains('/'),
            });
        }
    }

    /// Whether a file is left out.
    pub fn matches(&self, path: &[String]) -> bool {
        self.patterns.iter().rev().find(|pattern| pattern.matches(path)).is_some_and(|pattern| !pattern.includes)
    }
}

impl Pattern {
    fn matches(&self, path: &[String]) -> bool {
        match path.strip_prefix(self.domain.as_slice()) {
            Some(rest) if !rest.is_empty() && self.anchored => self.matches_path(rest),
            Some(rest) if !rest.is_empty() => self.matches_name(rest),
            _ => false,
        }
    }

    fn matches_name(&self, path: &[String]) -> bool {
        let pattern = self.parts.first().map_or("", String::as_str);
        match path.iter().position(|name| glob(pattern, name)) {
            // A file is no directory.
            Some(at) => !(self.directories_only && at == path.len() - 1),
            None => false,
        }
    }

    fn matches_path(&self, mut path: &[String]) -> bool {
        let (mut matched, mut traverse) = (false, false);
        for (i, part) in self.parts.iter().enumerate() {
            match part.as_str() {
                "" => traverse = false,
                "**" if i == self.parts.len() - 1 => break,
                "**" => traverse = true,
                part if part.contains("**") || path.is_empty() => return false,
                part if std::mem::take(&mut traverse) => match path.iter().position(|name| glob(part, name)) {
                    Some(at) => {
                        matched = true;
                        path = path.get(at + 1..).unwrap_or_default();
                    }
                    None => {
                        matched = false;
                        path = &[];
                    }
                },
                part => match path.split_first() {
                    Some((name, rest)) if glob(part, name) => {
                        matched = true;
                        path = rest;
                    }
                    _ => return false,
                },
            }
        }
        matched && !(self.directories_only && path.is_empty())
    }
}

/// `*`, `?`, `[a-z]` and `\` within one name.
fn glob(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    // Where to go back to when a later part does not fit: the last star and the name's position there.
    let (mut p, mut n, mut back) = (0, 0, None::<(usize, usize)>);
    while n < name.len() || p < pattern.len() {
        let step = match pattern.get(p) {
            Some('*') => {
                back = Some((p + 1, n));
                p += 1;
                continue;
            }
            Some('?') if n < name.len() => Some(p + 1),
            Some('[') if n < name.len() => match class(&pattern, p, name.get(n).copied().unwrap_or_default()) {
                Some((true, next)) => Some(next),
                Some((false, _)) => None,
                None => return false,
            },
            Some('\\') => match (pattern.get(p + 1), name.get(n)) {
                (Some(a), Some(b)) if a == b => Some(p + 2),
                (None, _) => return false,
                _ => None,
            },
            Some(c) if name.get(n) == Some(c) => Some(p + 1),
            _ => None,
        };
        match (step, back) {
            (Some(next), _) => {
                p = next;
                n += 1;
            }
            (None, Some((after_star, from))) if from < name.len() => {
                p = after_star;
                n = from + 1;
                back = Some((after_star, n));
            }
            _ => return false,
        }
    }
    true
}

/// Whether a character is in the class that begins at `at`, and where the class ends; `None` when it does not end.
fn class(pattern: &[char], at: usize, c: char) -> Option<(bool, usize)> {
    let mut at = at + 1;
    let negated = pattern.get(at) == Some(&'^');
    at += usize::from(negated);
    let mut found = false;
    let mut first = true;
    loop {
        let mut low = *pattern.get(at)?;
        if low == ']' && !first {
            return Some((found != negated, at + 1));
        }
        if low == '\\' {
            at += 1;
            low = *pattern.get(at)?;
        }
        let mut high = low;
        if pattern.get(at + 1) == Some(&'-') {
            high = *pattern.get(at + 2)?;
            at += 2;
        }
        found |= (low..=high).contains(&c);
        at += 1;
        first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split('/').map(str::to_owned).collect()
    }

    #[test]
    fn the_last_matching_pattern_decides() {
        let mut ignore = Ignore::default();
        ignore.add(&[], "# comment\na\n/ignore\n/really/**/file1\n*\n!*.yaml\nveneer.yaml\n");
        ignore.add(&path("dir1"), "b\n!a\n");
        for (name, ignored) in [
            ("x/README.md", true),
            ("x/catalog.yaml", false),
            ("x/veneer.yaml", true),
            ("dir1/a", false),
            ("dir1/b", true),
        ] {
            assert_eq!(ignore.matches(&path(name)), ignored, "{name}");
        }
    }

    #[test]
    fn slashes_anchor_and_stars_span() {
        let mut ignore = Ignore::default();
        ignore.add(&[], "/ignore\n/really/**/file1\ndocs/\nf[a-c]?.txt\n");
        for (name, ignored) in [
            ("ignore/a", true),
            ("sub/ignore/a", false),
            ("really/file1", true),
            ("really/long/path/file1", true),
            ("really/long/file2", false),
            ("docs", false),
            ("docs/x", true),
            ("fb1.txt", true),
            ("fd1.txt", false),
        ] {
            assert_eq!(ignore.matches(&path(name)), ignored, "{name}");
        }
    }
}
