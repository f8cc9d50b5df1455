//! The same graph as a picture that any browser shows: one row for each channel, old bundles left, the head right.

use std::collections::HashMap;

use super::mermaid::versions;
use crate::fbc::{Catalog, Channel, schema};
use crate::version::Version;

const NODE_WIDTH: usize = 190;
const NODE_HEIGHT: usize = 30;
const GAP: usize = 46;
const LEFT: usize = 24;
/// Room above the nodes of a channel for its name and for arcs.
const ROW_HEAD: usize = 86;
const STYLE: &str = "text{font:12px sans-serif;fill:#1b1f24}.package{font:bold 16px sans-serif}\
    .channel{font:bold 13px sans-serif}rect{fill:#f6f8fa;stroke:#57606a;rx:6}.head{fill:#dafbe1;stroke:#1a7f37}\
    .deprecated{fill:#ffd8a8}.replace{fill:none;stroke:#0969da;stroke-width:1.6}\
    .skip{fill:none;stroke:#8c959f;stroke-dasharray:4 3}";

/// Draws a catalog, or one package of it.
pub fn svg(catalog: &Catalog, package: Option<&str>) -> Result<String, String> {
    let versions = versions(catalog)?;
    let mut channels: Vec<&Channel> =
        catalog.channels.iter().filter(|channel| package.is_none_or(|package| package == channel.package)).collect();
    channels.sort_by(|a, b| (&a.package, &a.name).cmp(&(&b.package, &b.name)));
    let mut body = String::new();
    let (mut y, mut width, mut current) = (10, 400, "");
    for channel in channels {
        if channel.package != current {
            current = &channel.package;
            y += 24;
            body.push_str(&format!("<text class=\"package\" x=\"12\" y=\"{y}\">{}</text>\n", escape(current)));
        }
        width = width.max(row(&mut body, catalog, channel, &versions, y));
        y += ROW_HEAD + NODE_HEIGHT + 10;
    }
    let height = y + 20;
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\">\n<style>{STYLE}</style>\n<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" \
         refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" \
         fill=\"#57606a\"/></marker></defs>\n{body}</svg>\n"
    ))
}

/// Draws a channel and returns how wide it is.
fn row(
    out: &mut String,
    catalog: &Catalog,
    channel: &Channel,
    versions: &std::collections::BTreeMap<String, Version>,
    top: usize,
) -> usize {
    let version = |name: &str| versions.get(name).cloned().unwrap_or_default();
    let mut entries: Vec<_> = channel.entries.iter().collect();
    entries.sort_by(|a, b| version(&a.name).compare(&version(&b.name)).then_with(|| a.name.cmp(&b.name)));
    let place: HashMap<&str, usize> = entries.iter().enumerate().map(|(i, entry)| (entry.name.as_str(), i)).collect();
    let left = |i: usize| LEFT + i * (NODE_WIDTH + GAP);
    let y = top + ROW_HEAD;
    let deprecated = |schema: &str, name: &str| {
        let entries = catalog.deprecations.iter().filter(|it| it.package == channel.package).flat_map(|it| &it.entries);
        entries.into_iter().any(|entry| entry.schema == schema && entry.name == name)
    };
    let mark = if deprecated(schema::CHANNEL, &channel.name) { " (deprecated)" } else { "" };
    let title = escape(&channel.name);
    out.push_str(&format!("<text class=\"channel\" x=\"16\" y=\"{}\">{title}{mark}</text>\n", top + 24));
    for (i, entry) in entries.iter().enumerate() {
        let edges = entry.skips.iter().map(|name| ("skip", name)).chain([("replace", &entry.replaces)]);
        for (class, older) in edges.filter(|(_, name)| !name.is_empty()) {
            let Some(&from) = place.get(older.as_str()) else { continue };
            let (x1, x2) = (left(from) + NODE_WIDTH, left(i));
            let middle = y + NODE_HEIGHT / 2;
            let path = if class == "replace" && from + 1 == i {
                format!("M{x1} {middle}L{x2} {middle}")
            } else {
                let lift = (16 + 7 * i.abs_diff(from)).min(ROW_HEAD - 34);
                let (x1, x2) = (left(from) + NODE_WIDTH / 2, left(i) + NODE_WIDTH / 2);
                format!("M{x1} {y}C{x1} {0} {x2} {0} {x2} {y}", y - lift)
            };
            out.push_str(&format!("<path class=\"{class}\" marker-end=\"url(#arrow)\" d=\"{path}\"/>\n"));
        }
    }
    for (i, entry) in entries.iter().enumerate() {
        let class = match (deprecated(schema::BUNDLE, &entry.name), i + 1 == entries.len()) {
            (true, _) => "deprecated",
            (false, true) => "head",
            (false, false) => "bundle",
        };
        let (x, name) = (left(i), escape(&entry.name));
        let range =
            if entry.skip_range.is_empty() { String::new() } else { format!(" skipRange {}", entry.skip_range) };
        let replaces = if entry.replaces.is_empty() { String::new() } else { format!(" replaces {}", entry.replaces) };
        let tip = escape(&format!("{}{replaces}{range}", entry.name));
        out.push_str(&format!(
            "<g><title>{tip}</title><rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{NODE_WIDTH}\" \
             height=\"{NODE_HEIGHT}\"/><text x=\"{}\" y=\"{}\" text-anchor=\"middle\" textLength=\"{}\" \
             lengthAdjust=\"spacingAndGlyphs\">{name}</text></g>\n",
            x + NODE_WIDTH / 2,
            y + 19,
            (entry.name.chars().count() * 7).min(NODE_WIDTH - 12)
        ));
    }
    left(entries.len())
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
