//! Names that look like other names: letters of several scripts in one label, or letters of one script that have the
//! shapes of Latin. A browser's address bar asks the same questions before it shows a name in its own script.

use serde::Serialize;

/// Why a name may be mistaken for another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Lookalike {
    /// One label has letters of scripts that are not written together.
    MixedScripts { label: String, scripts: Vec<&'static str> },
    /// Every letter of the label has the shape of a Latin one.
    LatinShapes { label: String, latin: String },
}

impl std::fmt::Display for Lookalike {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::MixedScripts { label, scripts } => {
                write!(f, "{label:?} mixes letters of {}; it may imitate another name", scripts.join(" and "))
            }
            Self::LatinShapes { label, latin } => {
                write!(f, "{label:?} is not written in Latin letters but looks like {latin:?}")
            }
        }
    }
}

/// The scripts that are told apart, by their blocks. What is not here counts as one other script.
const BLOCKS: &[(u32, u32, &str)] = &[
    (0x0041, 0x007a, "Latin"),
    (0x00c0, 0x024f, "Latin"),
    (0x1e00, 0x1eff, "Latin"),
    (0x0250, 0x02af, "Latin"),
    (0x0370, 0x03ff, "Greek"),
    (0x1f00, 0x1fff, "Greek"),
    (0x0400, 0x052f, "Cyrillic"),
    (0x1c80, 0x1c8f, "Cyrillic"),
    (0x0530, 0x058f, "Armenian"),
    (0x0590, 0x05ff, "Hebrew"),
    (0x0600, 0x06ff, "Arabic"),
    (0x0750, 0x077f, "Arabic"),
    (0x0900, 0x097f, "Devanagari"),
    (0x0980, 0x09ff, "Bengali"),
    (0x0b80, 0x0bff, "Tamil"),
    (0x0e00, 0x0e7f, "Thai"),
    (0x10a0, 0x10ff, "Georgian"),
    (0x1100, 0x11ff, "Hangul"),
    (0xac00, 0xd7af, "Hangul"),
    (0x13a0, 0x13ff, "Cherokee"),
    (0x3040, 0x309f, "Hiragana"),
    (0x30a0, 0x30ff, "Katakana"),
    (0x3100, 0x312f, "Bopomofo"),
    (0x3400, 0x4dbf, "Han"),
    (0x4e00, 0x9fff, "Han"),
    (0x20000, 0x2ffff, "Han"),
];

/// Scripts that are written together in East Asia, Latin among them.
const TOGETHER: &[&[&str]] =
    &[&["Latin", "Han", "Hiragana", "Katakana"], &["Latin", "Han", "Bopomofo"], &["Latin", "Han", "Hangul"]];

/// Letters with the shape of a Latin one, in the order of the scripts above.
const SHAPES: &[(char, char)] = &[
    ('α', 'a'),
    ('ο', 'o'),
    ('ν', 'v'),
    ('ρ', 'p'),
    ('υ', 'u'),
    ('ι', 'i'),
    ('κ', 'k'),
    ('χ', 'x'),
    ('а', 'a'),
    ('с', 'c'),
    ('ԁ', 'd'),
    ('е', 'e'),
    ('һ', 'h'),
    ('і', 'i'),
    ('ј', 'j'),
    ('ӏ', 'l'),
    ('о', 'o'),
    ('р', 'p'),
    ('ԛ', 'q'),
    ('ѕ', 's'),
    ('ԝ', 'w'),
    ('х', 'x'),
    ('у', 'y'),
    ('ѵ', 'v'),
    ('к', 'k'),
    ('т', 't'),
    ('м', 'm'),
    ('ь', 'b'),
    ('ո', 'n'),
    ('օ', 'o'),
    ('ս', 'u'),
    ('հ', 'h'),
];

fn script(c: char) -> Option<&'static str> {
    if c.is_ascii_digit() || matches!(c, '-' | '_' | '\u{b7}' | '\u{30fb}' | '\u{30fc}' | '々') {
        return None;
    }
    let code = u32::from(c);
    let block = BLOCKS.iter().find(|(first, last, _)| (*first..=*last).contains(&code));
    Some(block.map_or("another script", |(_, _, name)| *name))
}

/// The first label of the name that may be mistaken for another.
pub(super) fn lookalike(unicode: &str) -> Option<Lookalike> {
    if unicode.is_ascii() {
        return None;
    }
    unicode.split('.').find_map(|label| mixed(label).or_else(|| shaped(label)))
}

fn mixed(label: &str) -> Option<Lookalike> {
    let mut scripts: Vec<&'static str> = Vec::new();
    for found in label.chars().filter_map(script) {
        if !scripts.contains(&found) {
            scripts.push(found);
        }
    }
    let together = TOGETHER.iter().any(|set| scripts.iter().all(|script| set.contains(script)));
    if scripts.len() < 2 || together {
        return None;
    }
    scripts.sort_unstable();
    Some(Lookalike::MixedScripts { label: label.to_owned(), scripts })
}

fn shaped(label: &str) -> Option<Lookalike> {
    if label.is_ascii() {
        return None;
    }
    let shape = |c: char| match c {
        c if c.is_ascii_digit() || c == '-' => Some(c),
        c => SHAPES.iter().find(|(letter, _)| *letter == c).map(|(_, latin)| *latin),
    };
    let latin: Option<String> = label.chars().map(shape).collect();
    latin.map(|latin| Lookalike::LatinShapes { label: label.to_owned(), latin })
}
