//! Comma-separated values by the rules of Go's `encoding/csv`, whose dialect and complaints users of token files know.

/// Where and why a text is no CSV.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CsvError {
    #[error("{}: bare \" in non-quoted field", position(.0))]
    BareQuote(Position),
    #[error("{}: extraneous or missing \" in quoted-field", position(.0))]
    Quote(Position),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    record_line: usize,
    line: usize,
    /// In bytes, from one.
    column: usize,
}

fn position(at: &Position) -> String {
    let Position { record_line, line, column } = at;
    if record_line == line {
        format!("parse error on line {line}, column {column}")
    } else {
        format!("record on line {record_line}; parse error on line {line}, column {column}")
    }
}

/// The records of a text. Empty lines are none; records may differ in length.
pub(crate) fn records(text: &str) -> Result<Vec<Vec<String>>, CsvError> {
    let mut lines = text.split_inclusive('\n').map(normalised).enumerate().map(|(i, line)| (i + 1, line));
    let mut records = Vec::new();
    while let Some((number, line)) = lines.next() {
        if line != "\n" {
            records.push(record(&mut lines, number, &line)?);
        }
    }
    Ok(records)
}

/// CRLF is a line end; so is a CR at the very end.
fn normalised(line: &str) -> String {
    match line.strip_suffix("\r\n") {
        Some(content) => format!("{content}\n"),
        None => line.strip_suffix('\r').unwrap_or(line).to_owned(),
    }
}

fn record(
    lines: &mut impl Iterator<Item = (usize, String)>,
    record_line: usize,
    first: &str,
) -> Result<Vec<String>, CsvError> {
    let mut fields = Vec::new();
    let mut line = first.to_owned();
    let mut rest = line.as_str();
    let mut number = record_line;
    let mut column = 1;
    'fields: loop {
        let Some(quoted) = rest.strip_prefix('"') else {
            let comma = rest.find(',');
            let field = match comma {
                Some(end) => rest.get(..end).unwrap_or_default(),
                None => rest.strip_suffix('\n').unwrap_or(rest),
            };
            if let Some(quote) = field.find('"') {
                return Err(CsvError::BareQuote(Position { record_line, line: number, column: column + quote }));
            }
            fields.push(field.to_owned());
            let Some(end) = comma else { break };
            rest = rest.get(end + 1..).unwrap_or_default();
            column += end + 1;
            continue;
        };
        rest = quoted;
        column += 1;
        let mut field = String::new();
        loop {
            if let Some((before, after)) = rest.split_once('"') {
                field.push_str(before);
                column += before.len() + 1;
                rest = after;
                if let Some(after) = rest.strip_prefix('"') {
                    field.push('"');
                    rest = after;
                    column += 1;
                } else if let Some(after) = rest.strip_prefix(',') {
                    rest = after;
                    column += 1;
                    fields.push(field);
                    continue 'fields;
                } else if rest.is_empty() || rest == "\n" {
                    fields.push(field);
                    break 'fields;
                } else {
                    return Err(CsvError::Quote(Position { record_line, line: number, column: column - 1 }));
                }
            } else {
                field.push_str(rest);
                column += rest.len();
                let Some((next_number, next)) = lines.next() else {
                    return Err(CsvError::Quote(Position { record_line, line: number, column }));
                };
                number = next_number;
                column = 1;
                line = next;
                rest = line.as_str();
            }
        }
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &str) -> Vec<Vec<String>> {
        records(text).expect("is CSV")
    }

    #[test]
    fn quoting_joins_commas_lines_and_quotes() {
        assert_eq!(parsed("a,\"b,c\",\"d\"\"e\"\r\n\n\"x\ny\",z"), [vec!["a", "b,c", "d\"e"], vec!["x\ny", "z"]]);
        assert_eq!(parsed("a,,\n"), [["a", "", ""]]);
        assert_eq!(parsed("a,\r"), [["a", ""]]);
    }

    #[test]
    fn complaints_name_line_and_column() {
        let complaint = |text| records(text).expect_err("is no CSV").to_string();
        assert_eq!(complaint("a,b\nx\"y"), "parse error on line 2, column 2: bare \" in non-quoted field");
        assert_eq!(complaint("\"a\"b"), "parse error on line 1, column 3: extraneous or missing \" in quoted-field");
        assert_eq!(
            complaint("\"a\nb"),
            "record on line 1; parse error on line 2, column 2: extraneous or missing \" in quoted-field"
        );
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in ".*") {
            let _ = records(&text);
        }

        #[test]
        fn quoted_fields_come_back(fields in proptest::collection::vec("[^\r]*", 1..5)) {
            let quoted: Vec<String> = fields.iter().map(|f| format!("\"{}\"", f.replace('"', "\"\""))).collect();
            prop_assert_eq!(parsed(&quoted.join(",")), vec![fields]);
        }
    }
}
