//! Values written as Go's `fmt` writes them, where an upstream message that clients see contains one.

/// A list of strings under `%q`: `["a" "b"]`.
pub(crate) fn quoted_list<S: AsRef<str>>(items: &[S]) -> String {
    let quoted: Vec<String> = items.iter().map(|item| format!("{:?}", item.as_ref())).collect();
    format!("[{}]", quoted.join(" "))
}

/// A list of strings under `%#v`: `[]string{"a", "b"}`, or `[]string(nil)` when empty.
pub(crate) fn string_slice<S: AsRef<str>>(items: &[S]) -> String {
    if items.is_empty() {
        return "[]string(nil)".to_owned();
    }
    let quoted: Vec<String> = items.iter().map(|item| format!("{:?}", item.as_ref())).collect();
    format!("[]string{{{}}}", quoted.join(", "))
}

/// Several error texts as one, in the manner of upstream's aggregates: a single one stands alone, repetitions vanish.
pub(crate) fn aggregate(errors: &[String]) -> String {
    let mut distinct: Vec<&str> = Vec::with_capacity(errors.len());
    for error in errors {
        if !distinct.contains(&error.as_str()) {
            distinct.push(error);
        }
    }
    match distinct.as_slice() {
        [one] => (*one).to_owned(),
        many => format!("[{}]", many.join(", ")),
    }
}
