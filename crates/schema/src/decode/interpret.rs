//! The kind of a body before its type is known: upstream reads `apiVersion` and `kind` in a pass of its own, leniently.

use super::scanner::{Scanner, SyntaxError};
use super::typed::json_kind;

/// The two fields that say what an object is; empty where the body leaves them out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeMeta {
    pub api_version: String,
    pub kind: String,
}

/// The type upstream decodes into, as its messages print it.
const GO_TYPE: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// Reads `apiVersion` and `kind`, checking the syntax of the whole body. Names match in any case, as upstream's do. The
/// error is what upstream writes after `couldn't get version/kind; json parse error: `.
pub fn interpret(data: &[u8]) -> Result<TypeMeta, String> {
    let mut scanner = Scanner::new(data);
    match read(&mut scanner) {
        Err(error) => Err(error.to_string()),
        Ok(found) => scanner.end().map_err(|error| error.to_string()).and(found),
    }
}

fn read(scanner: &mut Scanner<'_>) -> Result<Result<TypeMeta, String>, SyntaxError> {
    let mut found = TypeMeta::default();
    let mut mismatch = None;
    match scanner.peek_value()? {
        b'{' => {
            let mut more = scanner.open(b'}')?.entered();
            while more {
                let key = scanner.key()?;
                let (slot, name) = if key.eq_ignore_ascii_case("apiVersion") {
                    (Some(&mut found.api_version), "apiVersion")
                } else if key.eq_ignore_ascii_case("kind") {
                    (Some(&mut found.kind), "kind")
                } else {
                    (None, "")
                };
                match (slot, scanner.peek_value()?) {
                    (Some(slot), b'"') => *slot = scanner.string()?.into_owned(),
                    (Some(_), first) if first != b'n' => {
                        mismatch.get_or_insert_with(|| {
                            let what = json_kind(first);
                            format!("json: cannot unmarshal {what} into Go struct field .{name} of type string")
                        });
                        scanner.skip_value()?;
                    }
                    _ => scanner.skip_value()?,
                }
                more = scanner.next(b'}')?;
            }
        }
        b'n' => scanner.skip_value()?,
        first => {
            scanner.skip_value()?;
            mismatch = Some(format!("json: cannot unmarshal {} into Go value of type {GO_TYPE}", json_kind(first)));
        }
    }
    Ok(mismatch.map_or(Ok(found), Err))
}
