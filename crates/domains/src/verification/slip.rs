//! Slips of the hand: what was typed or pasted is nearly what was asked for, and this says exactly what differs. The
//! sentences are what the owner of the name reads, so they say what to change.

use serde::{Deserialize, Serialize};

use super::Challenge;

/// What is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Slip {
    /// The quotes became part of the value.
    Quoted,
    /// Blanks at an end, or a line's end.
    Padded,
    /// Blanks within, as where a line was broken.
    Broken,
    /// One value was spread over several records.
    SplitOverRecords { records: usize },
    /// Capital letters.
    CaseChanged,
    /// Letters are missing at the end, or at the front.
    Truncated { present: usize, expected: usize },
    /// The value is in there, with other things around it.
    Surrounded { extra: String },
    /// Pasted twice.
    Doubled,
    /// The token of an earlier instruction.
    FormerToken,
    /// A few letters differ.
    Mistyped { edits: usize, diff: String },
}

/// More than this many edits in a token is another token.
const EDITS_MAX: usize = 4;

/// Longer texts are not compared letter by letter: the work grows with the square.
const COMPARED_CHARS_MAX: usize = 512;

/// A beginning shorter than this may be chance.
const PREFIX_CHARS_MIN: usize = 6;

impl Slip {
    /// What to tell the owner: what was seen, and what to change.
    pub fn explain(&self) -> String {
        match self {
            Self::Quoted => "the quotation marks became part of the value: type it without them".into(),
            Self::Padded => "there is a blank before or behind the value: remove it".into(),
            Self::Broken => {
                "there is a blank within the value, as if a line had been broken: type it in one piece".into()
            }
            Self::SplitOverRecords { records } => {
                format!("the value is spread over {records} records: it must be whole in one")
            }
            Self::CaseChanged => "capital and small letters were changed: type it exactly as shown".into(),
            Self::Truncated { present, expected } => {
                format!("only {present} of {expected} letters are there: the value was cut off")
            }
            Self::Surrounded { extra } => format!("the value is there, but with {extra:?} around it: remove that"),
            Self::Doubled => "the value was pasted twice".into(),
            Self::FormerToken => "this is the value of an earlier instruction: use the current one".into(),
            Self::Mistyped { edits, diff } => {
                format!(
                    "{edits} {} from what we expect: {diff}",
                    if *edits == 1 { "letter differs" } else { "letters differ" }
                )
            }
        }
    }
}

/// What a value that is not the proof may have been meant to be. None when it has nothing to do with it.
pub fn recognise(challenge: &Challenge, seen: &str) -> Option<Slip> {
    let apex = challenge.apex_value();
    let expected = if seen.contains("-verification") { apex.as_str() } else { challenge.token.as_str() };
    against(expected, seen).or_else(|| {
        challenge.former_tokens.iter().any(|former| seen.contains(former.as_str())).then_some(Slip::FormerToken)
    })
}

/// A value that is whole only when several records are put together.
pub fn recognise_split(challenge: &Challenge, seen: &[&str]) -> Option<Slip> {
    let token = &challenge.token;
    let parts: Vec<&&str> =
        seen.iter().filter(|part| part.len() >= 2 && token.contains(**part) && part.len() < token.len()).collect();
    let pair = |a: &str, b: &str| a.len() + b.len() == token.len() && token.starts_with(a) && token.ends_with(b);
    let found = parts.iter().any(|a| parts.iter().any(|b| pair(a, b)));
    found.then_some(Slip::SplitOverRecords { records: 2 })
}

fn against(expected: &str, seen: &str) -> Option<Slip> {
    let trimmed = seen.trim();
    if trimmed == expected {
        return (seen != expected).then_some(Slip::Padded);
    }
    let unquoted = trimmed.trim_matches(|c| matches!(c, '"' | '\'' | '“' | '”' | '„' | '‘' | '’' | '`')).trim();
    if unquoted == expected {
        return Some(Slip::Quoted);
    }
    let joined: String = unquoted.chars().filter(|c| !c.is_whitespace() && *c != '"').collect();
    if joined == expected {
        return Some(Slip::Broken);
    }
    if joined.eq_ignore_ascii_case(expected) {
        return Some(Slip::CaseChanged);
    }
    if joined == format!("{expected}{expected}") {
        return Some(Slip::Doubled);
    }
    if let Some(at) = joined.find(expected) {
        let (before, after) =
            (joined.get(..at).unwrap_or_default(), joined.get(at + expected.len()..).unwrap_or_default());
        let extra = if before.is_empty() || after.is_empty() {
            format!("{before}{after}")
        } else {
            format!("{before} … {after}")
        };
        return Some(Slip::Surrounded { extra: extra.chars().take(EXTRA_SHOWN_CHARS).collect() });
    }
    let (present, whole) = (joined.chars().count(), expected.chars().count());
    if present >= PREFIX_CHARS_MIN && present < whole && (expected.starts_with(&joined) || expected.ends_with(&joined))
    {
        return Some(Slip::Truncated { present, expected: whole });
    }
    mistyped(expected, &joined)
}

/// What is repeated of a stranger's text.
const EXTRA_SHOWN_CHARS: usize = 40;

fn mistyped(expected: &str, seen: &str) -> Option<Slip> {
    let (expected, seen): (Vec<char>, Vec<char>) = (expected.chars().collect(), seen.chars().collect());
    if expected.len().abs_diff(seen.len()) > EDITS_MAX || expected.len().max(seen.len()) > COMPARED_CHARS_MAX {
        return None;
    }
    let (edits, diff) = edit(&expected, &seen);
    (edits <= EDITS_MAX && edits * 3 <= expected.len()).then_some(Slip::Mistyped { edits, diff })
}

/// How many letters differ, and a text that marks them: `ab[typed c, expected d]ef`.
fn edit(expected: &[char], seen: &[char]) -> (usize, String) {
    let width = seen.len() + 1;
    let mut cost = vec![0_usize; (expected.len() + 1) * width];
    let at = |row: usize, column: usize| row * width + column;
    for row in 0..=expected.len() {
        for column in 0..=seen.len() {
            cost[at(row, column)] = match (row, column) {
                (0, column) => column,
                (row, 0) => row,
                _ => {
                    let same = usize::from(expected[row - 1] != seen[column - 1]);
                    let replaced = cost[at(row - 1, column - 1)] + same;
                    replaced.min(cost[at(row - 1, column)] + 1).min(cost[at(row, column - 1)] + 1)
                }
            };
        }
    }
    // Back from the end, gathering runs that differ.
    let (mut row, mut column) = (expected.len(), seen.len());
    let mut pieces: Vec<String> = Vec::new();
    let (mut typed, mut wanted) = (String::new(), String::new());
    let flush = |pieces: &mut Vec<String>, typed: &mut String, wanted: &mut String| {
        if typed.is_empty() && wanted.is_empty() {
            return;
        }
        let backwards = |text: &str| text.chars().rev().collect::<String>();
        pieces.push(match (typed.is_empty(), wanted.is_empty()) {
            (false, false) => format!("[you typed {:?}, we expect {:?}]", backwards(typed), backwards(wanted)),
            (true, _) => format!("[{:?} is missing]", backwards(wanted)),
            (_, true) => format!("[{:?} is too much]", backwards(typed)),
        });
        typed.clear();
        wanted.clear();
    };
    while row > 0 || column > 0 {
        let here = cost[at(row, column)];
        if row > 0 && column > 0 && expected[row - 1] == seen[column - 1] && here == cost[at(row - 1, column - 1)] {
            flush(&mut pieces, &mut typed, &mut wanted);
            pieces.push(expected[row - 1].to_string());
            (row, column) = (row - 1, column - 1);
        } else if row > 0 && column > 0 && here == cost[at(row - 1, column - 1)] + 1 {
            typed.push(seen[column - 1]);
            wanted.push(expected[row - 1]);
            (row, column) = (row - 1, column - 1);
        } else if row > 0 && here == cost[at(row - 1, column)] + 1 {
            wanted.push(expected[row - 1]);
            row -= 1;
        } else {
            typed.push(seen[column - 1]);
            column -= 1;
        }
    }
    flush(&mut pieces, &mut typed, &mut wanted);
    pieces.reverse();
    (cost[at(expected.len(), seen.len())], pieces.concat())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::name::DomainName;
    use crate::verification::Scope;

    const TOKEN: &str = "mzxw6ytboi4dsnrzgqytcnbqgezdgnbv";

    fn challenge() -> Challenge {
        let domain = DomainName::parse("example.com").expect("a name");
        let now = "2026-11-16T10:00:00Z".parse().expect("a time");
        let challenge = Challenge::new(&domain, Scope::Domain, "bailiwick", now, &mut |_| ()).expect("a challenge");
        Challenge { former_tokens: vec!["oldoldoldoldoldoldoldoldoldoldol".into()], ..challenge.with_token(TOKEN) }
    }

    fn told(seen: &str) -> String {
        recognise(&challenge(), seen).map_or_else(|| "nothing".to_owned(), |slip| slip.explain())
    }

    #[test]
    fn each_slip_is_named() {
        assert_eq!(told(&format!("\"{TOKEN}\"")), "the quotation marks became part of the value: type it without them");
        assert_eq!(told(&format!("“{TOKEN}”")), "the quotation marks became part of the value: type it without them");
        assert_eq!(told(&format!("{TOKEN} ")), "there is a blank before or behind the value: remove it");
        assert_eq!(told(&format!("{TOKEN}\t")), "there is a blank before or behind the value: remove it");
        assert_eq!(
            told(&format!("{} {}", &TOKEN[..16], &TOKEN[16..])),
            "there is a blank within the value, as if a line had been broken: type it in one piece"
        );
        assert_eq!(told(&TOKEN.to_uppercase()), "capital and small letters were changed: type it exactly as shown");
        assert_eq!(told(&TOKEN[..20]), "only 20 of 32 letters are there: the value was cut off");
        assert_eq!(told(&TOKEN[5..]), "only 27 of 32 letters are there: the value was cut off");
        assert_eq!(told(&format!("{TOKEN}{TOKEN}")), "the value was pasted twice");
        assert_eq!(told(&format!("{TOKEN}.")), "the value is there, but with \".\" around it: remove that");
        assert_eq!(told(&format!("TXT {TOKEN}")), "the value is there, but with \"TXT\" around it: remove that");
        assert_eq!(
            told("oldoldoldoldoldoldoldoldoldoldol"),
            "this is the value of an earlier instruction: use the current one"
        );
        assert_eq!(told("v=spf1 -all"), "nothing");
    }

    #[test]
    fn mistyped_letters_are_shown_where_they_are() {
        assert_eq!(
            told("mzxw6ytboi4dsnrzgqytcnbqgezdgnbw"),
            "1 letter differs from what we expect: mzxw6ytboi4dsnrzgqytcnbqgezdgnb[you typed \"w\", we expect \"v\"]"
        );
        assert_eq!(
            told("mzxw6ytbi4dsnrzgqytcnbqgezdgnbv"),
            "1 letter differs from what we expect: mzxw6ytb[\"o\" is missing]i4dsnrzgqytcnbqgezdgnbv"
        );
        assert_eq!(
            told("mzxw6ytboi4dsnrzzgqytcnbqgezdgnbv"),
            "1 letter differs from what we expect: mzxw6ytboi4dsnr[\"z\" is too much]zgqytcnbqgezdgnbv"
        );
    }

    #[test]
    fn a_value_over_two_records_is_put_together() {
        assert_eq!(
            recognise_split(&challenge(), &["v=spf1 -all", &TOKEN[16..], &TOKEN[..16]]),
            Some(Slip::SplitOverRecords { records: 2 })
        );
        assert_eq!(recognise_split(&challenge(), &["v=spf1 -all", &TOKEN[..16]]), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(seen in "\\PC{0,600}") {
            let _ = recognise(&challenge(), &seen);
        }

        #[test]
        fn the_number_of_edits_is_a_distance(a in "[ab]{0,12}", b in "[ab]{0,12}") {
            let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
            let (there, back) = (edit(&a, &b).0, edit(&b, &a).0);
            prop_assert_eq!(there, back);
            prop_assert!(there <= a.len().max(b.len()));
            prop_assert_eq!(there == 0, a == b);
        }

        #[test]
        fn one_changed_letter_is_always_recognised(at in 0_usize..32, letter in "[0-9]") {
            let mut seen: Vec<char> = TOKEN.chars().collect();
            let changed = letter.chars().next().expect("one letter");
            prop_assume!(seen[at] != changed);
            seen[at] = changed;
            let seen: String = seen.into_iter().collect();
            let recognised = matches!(recognise(&challenge(), &seen), Some(Slip::Mistyped { edits: 1, .. }));
            prop_assert!(recognised);
        }
    }
}
