//! Mail addresses, by the rules of Go's `mail.ParseAddress`: `a@b`, `Name <a@b>`, comments, quoted strings and groups of
//! one address.

use super::addresses::is_ip;

pub(super) fn is_address(text: &str) -> bool {
    let mut parser = Parser { rest: text };
    parser.address().is_some() && parser.skip_comments().is_some() && parser.rest.is_empty()
}

/// Every method reads something or returns `None`.
struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn address(&mut self) -> Option<()> {
        if self.plain_address().is_some() {
            return Some(());
        }
        self.skip_space();
        if !self.rest.starts_with('<') {
            self.phrase()?;
        }
        self.skip_space();
        if self.consume(':') {
            return self.group_of_one();
        }
        self.angle_address()
    }

    fn plain_address(&mut self) -> Option<()> {
        let before = self.rest;
        let mut parse = || {
            self.spec()?;
            self.skip_space();
            if self.consume('(') { self.comment() } else { Some(()) }
        };
        let parsed = parse();
        if parsed.is_none() {
            self.rest = before;
        }
        parsed
    }

    fn angle_address(&mut self) -> Option<()> {
        if !self.consume('<') {
            return None;
        }
        self.spec()?;
        self.consume('>').then_some(())
    }

    /// `Name: a@b;`
    fn group_of_one(&mut self) -> Option<()> {
        self.skip_space();
        if self.plain_address().is_none() {
            self.skip_space();
            if !self.rest.starts_with('<') {
                self.phrase()?;
            }
            self.skip_space();
            self.angle_address()?;
        }
        self.skip_comments()?;
        self.consume(';').then_some(())?;
        self.skip_comments()
    }

    fn spec(&mut self) -> Option<()> {
        self.skip_space();
        if self.rest.starts_with('"') {
            let length = self.quoted_string()?;
            (length > 0).then_some(())?;
        } else {
            self.strict_atom()?;
        }
        self.consume('@').then_some(())?;
        self.skip_space();
        if self.consume('[') {
            let (literal, rest) = self.rest.split_once(']')?;
            self.rest = rest;
            return is_ip(literal).then_some(());
        }
        self.strict_atom()
    }

    fn phrase(&mut self) -> Option<()> {
        let mut words = 0;
        loop {
            if words > 0 {
                self.skip_comments()?;
            }
            self.skip_space();
            let word = if self.rest.starts_with('"') { self.quoted_string().map(drop) } else { self.atom().map(drop) };
            if self.rest.is_empty() || word.is_none() {
                words += usize::from(word.is_some());
                break;
            }
            words += 1;
        }
        (words > 0).then_some(())
    }

    /// The number of characters inside the quotes.
    fn quoted_string(&mut self) -> Option<usize> {
        let (mut length, mut escaped) = (0, false);
        for (at, c) in self.rest.char_indices().skip(1) {
            match c {
                c if escaped && (is_visible(c) || matches!(c, ' ' | '\t')) => {
                    escaped = false;
                    length += 1;
                }
                _ if escaped => return None,
                '"' => {
                    self.rest = self.rest.get(at + 1..)?;
                    return Some(length);
                }
                '\\' => escaped = true,
                c if is_visible(c) || matches!(c, ' ' | '\t') => length += 1,
                _ => return None,
            }
        }
        None
    }

    fn atom(&mut self) -> Option<&str> {
        let end = self.rest.find(|c| !is_atom_char(c)).unwrap_or(self.rest.len());
        let (atom, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        (!atom.is_empty()).then_some(atom)
    }

    fn strict_atom(&mut self) -> Option<()> {
        let atom = self.atom()?;
        let well_dotted = !atom.starts_with('.') && !atom.ends_with('.') && !atom.contains("..");
        well_dotted.then_some(())
    }

    fn skip_comments(&mut self) -> Option<()> {
        self.skip_space();
        while self.consume('(') {
            self.comment()?;
            self.skip_space();
        }
        Some(())
    }

    /// The rest of a comment, which may hold others.
    fn comment(&mut self) -> Option<()> {
        let (mut depth, mut escaped) = (1_usize, false);
        for (at, c) in self.rest.char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\\' if at + 1 < self.rest.len() => escaped = true,
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                self.rest = self.rest.get(at + 1..)?;
                return Some(());
            }
        }
        None
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn consume(&mut self, c: char) -> bool {
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
}

fn is_visible(c: char) -> bool {
    ('!'..='~').contains(&c) || !c.is_ascii()
}

fn is_atom_char(c: char) -> bool {
    is_visible(c) && !matches!(c, '(' | ')' | '<' | '>' | '[' | ']' | ':' | ';' | '@' | '\\' | ',' | '"')
}
