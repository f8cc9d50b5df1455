//! Narrows an answer to what a case wants compared: some elements of a list, without some paths, or only what some
//! pointers name. Needed where the answer covers types that we do not serve (discovery, OpenAPI).

use serde_json::{Map, Value};

use super::case::{Only, Step};

/// Applies the step's `inline`, `only`, `sort`, `drop` and `pick` to a body.
pub fn narrow(body: Value, step: &Step) -> Value {
    let mut body = body;
    for section in &step.inline {
        inline(&mut body, section);
    }
    for only in &step.only {
        visit(&mut body, &parts(&only.at), &mut |list| keep_only(list, only));
    }
    for path in &step.sort {
        visit(&mut body, &parts(path), &mut sort);
    }
    for path in &step.drop {
        let mut parts = parts(path);
        if let Some(last) = parts.pop() {
            visit(&mut body, &parts, &mut |parent| remove(parent, last));
        }
    }
    if step.pick.is_empty() {
        return body;
    }
    let picked: Map<String, Value> = step
        .pick
        .iter()
        .map(|pointer| (pointer.clone(), body.pointer(pointer).cloned().unwrap_or_else(|| Value::from("<absent>"))))
        .collect();
    Value::Object(picked)
}

/// Puts the members of a section of an OpenAPI document's components where its paths refer to them.
fn inline(document: &mut Value, section: &str) {
    let components = document.get_mut("components").and_then(Value::as_object_mut);
    let Some(members) = components.and_then(|components| components.remove(section)) else { return };
    if let Some(paths) = document.get_mut("paths") {
        resolve(paths, &format!("#/components/{section}/"), &members);
    }
}

fn resolve(value: &mut Value, place: &str, members: &Value) {
    let name = value.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix(place));
    if let Some(member) = name.and_then(|name| members.get(name)) {
        *value = member.clone();
        return;
    }
    match value {
        Value::Object(entries) => entries.values_mut().for_each(|value| resolve(value, place, members)),
        Value::Array(items) => items.iter_mut().for_each(|value| resolve(value, place, members)),
        _ => {}
    }
}

fn parts(pointer: &str) -> Vec<&str> {
    pointer.split('/').skip(1).collect()
}

/// Calls `change` on every value that the pointer, with `*` for any element, leads to.
fn visit(value: &mut Value, path: &[&str], change: &mut dyn FnMut(&mut Value)) {
    let Some((first, rest)) = path.split_first() else { return change(value) };
    match value {
        Value::Array(items) if *first == "*" => items.iter_mut().for_each(|item| visit(item, rest, change)),
        Value::Object(members) if *first == "*" => members.values_mut().for_each(|item| visit(item, rest, change)),
        Value::Array(items) => {
            if let Some(item) = first.parse::<usize>().ok().and_then(|index| items.get_mut(index)) {
                visit(item, rest, change);
            }
        }
        Value::Object(members) => {
            if let Some(member) = members.get_mut(&first.replace("~1", "/").replace("~0", "~")) {
                visit(member, rest, change);
            }
        }
        _ => {}
    }
}

fn keep_only(list: &mut Value, only: &Only) {
    match list {
        Value::Array(items) => items.retain(|item| {
            let looked_at = match &only.key {
                Some(key) if key.starts_with('/') => item.pointer(key),
                Some(key) => item.get(key),
                None => Some(item),
            };
            looked_at.and_then(Value::as_str).is_some_and(|text| only.values.iter().any(|value| value == text))
        }),
        Value::Object(members) => members.retain(|key, _| only.values.contains(key)),
        _ => {}
    }
}

fn sort(list: &mut Value) {
    if let Value::Array(items) = list {
        items.sort_by_cached_key(Value::to_string);
    }
}

fn remove(parent: &mut Value, name: &str) {
    match parent {
        Value::Object(members) if name == "*" => members.clear(),
        Value::Object(members) => {
            members.remove(&name.replace("~1", "/").replace("~0", "~"));
        }
        Value::Array(items) => match name.parse::<usize>() {
            Ok(index) if index < items.len() => {
                items.remove(index);
            }
            _ => {}
        },
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn step(extra: Value) -> Step {
        let mut whole = json!({"request": "GET /"});
        if let (Some(whole), Some(extra)) = (whole.as_object_mut(), extra.as_object()) {
            whole.extend(extra.clone());
        }
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn only_keeps_the_named_elements_of_every_list() {
        let body = json!({"v": [{"r": [{"name": "a"}, {"name": "b"}]}, {"r": [{"name": "b"}]}]});
        let narrowed = narrow(body, &step(json!({"only": [{"at": "/v/*/r", "key": "name", "values": ["b"]}]})));
        assert_eq!(narrowed, json!({"v": [{"r": [{"name": "b"}]}, {"r": [{"name": "b"}]}]}));
    }

    #[test]
    fn inline_puts_components_where_they_are_referred_to() {
        let reference = json!({"$ref": "#/components/parameters/p"});
        let body =
            json!({"paths": {"/a": [reference]}, "components": {"schemas": {}, "parameters": {"p": {"in": "query"}}}});
        let narrowed = narrow(body, &step(json!({"inline": ["parameters", "responses"]})));
        assert_eq!(narrowed, json!({"paths": {"/a": [{"in": "query"}]}, "components": {"schemas": {}}}));
    }

    #[test]
    fn drop_removes_paths_and_pick_names_what_is_absent() {
        let narrowed = narrow(json!({"a": {"x": 1, "y": 2}}), &step(json!({"drop": ["/a/x"], "pick": ["/a", "/b"]})));
        assert_eq!(narrowed, json!({"/a": {"y": 2}, "/b": "<absent>"}));
    }
}
