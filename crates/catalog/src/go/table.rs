//! Columns of text: each as wide as its widest cell, two spaces between, none after the last.

/// Lays out rows.
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let widths: Vec<usize> = (0..count.saturating_sub(1))
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for row in rows {
        for (i, cell) in row.iter().enumerate() {
            out.push_str(cell);
            if let Some(width) = widths.get(i) {
                out.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 2));
            }
        }
        out.push('\n');
    }
    out
}
