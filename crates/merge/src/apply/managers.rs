//! Names of managers, and how many of them an object may have.

use std::borrow::Cow;

use super::conflict::{ManagerId, Operation};
use super::entries::Entry;

/// The longest name of a manager; `fieldManager` may not be longer and user agents are cut to it.
pub const MAX_MANAGER_NAME_BYTES: usize = 128;

/// The manager of a request that names none: what precedes the first `/` of its user agent.
pub fn manager_of_user_agent(user_agent: &str) -> String {
    let name = user_agent.split('/').next().unwrap_or_default();
    let mut out = String::new();
    for c in name.chars().filter(|c| is_printable(*c)) {
        if out.len() + c.len_utf8() > MAX_MANAGER_NAME_BYTES {
            break;
        }
        out.push(c);
    }
    out
}

/// Go's `unicode.IsPrint`: of all spaces only the ASCII one.
fn is_printable(c: char) -> bool {
    c == ' ' || !(c.is_control() || c.is_whitespace() || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{feff}'))
}

/// How many entries for updates an object may have before the oldest are merged.
pub(super) const MAX_UPDATE_MANAGERS: usize = 10;

/// The manager of entries that were merged.
const OLD_UPDATES: &str = "ancient-changes";

/// Merges the oldest entries for updates, version by version, until there are few enough.
pub(super) fn cap<'a>(entries: &mut Vec<Entry<'a>>) -> Result<(), String> {
    let is_update = |entry: &Entry<'_>| entry.id.operation == Operation::Update;
    let mut count = entries.iter().filter(|entry| is_update(entry)).count();
    if count <= MAX_UPDATE_MANAGERS {
        return Ok(());
    }
    let mut oldest_first: Vec<_> = entries
        .iter()
        .filter(|entry| is_update(entry))
        .map(|entry| (entry.unix_seconds(), entry.id.sort_text(), entry.id.clone()))
        .collect();
    oldest_first.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));

    // The first entry of each version, which becomes the one that others are merged into.
    let mut firsts: Vec<ManagerId<'a>> = Vec::new();
    for (_, _, id) in oldest_first {
        if count <= MAX_UPDATE_MANAGERS {
            break;
        }
        let Some(first) = firsts.iter().find(|first| first.api_version == id.api_version) else {
            firsts.push(id);
            continue;
        };
        let bucket = ManagerId {
            manager: Cow::Borrowed(OLD_UPDATES),
            operation: Operation::Update,
            api_version: id.api_version.clone(),
            subresource: Cow::Borrowed(""),
        };
        let Some(at) = entries.iter().position(|entry| entry.id == id) else { continue };
        let mut merged = entries.remove(at);
        let into = entries.iter().position(|entry| entry.id == bucket);
        let into = into.or_else(|| entries.iter().position(|entry| entry.id == *first));
        if let Some(into) = into.and_then(|at| entries.get_mut(at)) {
            let set = merged.take()?;
            into.change(|fields| fields.add(set))?;
            into.rename(bucket, merged.time)?;
        }
        count -= 1;
    }
    Ok(())
}
