//! Colours and columns.

use jiff::Timestamp;

use crate::verdict::Severity;

/// A colour, or the wish for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Good.
    Green,
    /// Look at this.
    Yellow,
    /// Broken.
    Red,
    /// Headings.
    Bold,
    /// Less important.
    Dim,
}

impl Colour {
    /// That of a severity.
    pub fn of(severity: Severity) -> Self {
        match severity {
            Severity::Info => Self::Green,
            Severity::Notice => Self::Dim,
            Severity::Warning => Self::Yellow,
            Severity::Error | Severity::Critical => Self::Red,
        }
    }
}

/// Whether text is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// For files and pipes.
    Plain,
    /// For terminals.
    Ansi,
}

impl Style {
    /// The text in a colour.
    pub fn paint(self, colour: Colour, text: &str) -> String {
        let code = match colour {
            Colour::Green => "32",
            Colour::Yellow => "33",
            Colour::Red => "31",
            Colour::Bold => "1",
            Colour::Dim => "2",
        };
        match self {
            Self::Plain => text.to_owned(),
            Self::Ansi => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }
}

/// Rows with columns as wide as their widest cell.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<(String, Option<Colour>)>>,
    indent: usize,
}

impl Table {
    /// A table whose rows begin with that many spaces.
    pub fn indented(indent: usize) -> Self {
        Self { rows: Vec::new(), indent }
    }

    /// Adds a row of cells.
    pub fn row(&mut self, cells: impl IntoIterator<Item = (String, Option<Colour>)>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Adds a row of headings.
    pub fn heading(&mut self, cells: &[&str]) {
        self.row(cells.iter().map(|cell| ((*cell).to_owned(), Some(Colour::Bold))));
    }

    /// The table as text; the last column is not filled up.
    pub fn render(&self, style: Style) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|(text, _)| text.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(self.indent);
            for (column, (cell, colour)) in row.iter().enumerate() {
                let is_last = column + 1 == row.len();
                let width = widths.get(column).copied().unwrap_or(0);
                let padding = if is_last { 0 } else { width.saturating_sub(cell.chars().count()) + 2 };
                match colour {
                    Some(colour) => line.push_str(&style.paint(*colour, cell)),
                    None => line.push_str(cell),
                }
                line.push_str(&" ".repeat(padding));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Seconds as people say them: `90 s`, `15 min`, `2 h`, `3 d`.
pub fn duration_text(seconds: u32) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A time of day, with the day when it is not today.
pub fn time_text(time: Timestamp, now: Timestamp) -> String {
    let same_day = time.strftime("%F").to_string() == now.strftime("%F").to_string();
    time.strftime(if same_day { "%H:%M:%S UTC" } else { "%F %H:%M UTC" }).to_string()
}
