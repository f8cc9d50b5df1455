//! Accepting tokens, and what happens when the wrong one stands there. The strategy is the one of ANTLR's default
//! handler, as far as messages show it.

use super::lexer::{Kind, Kinds, Token};
use super::{MAX_RECOVERIES, Parser};

/// Tokens an expression can begin with.
pub(super) const EXPR_FIRST: Kinds = Kinds::of(&[
    Kind::LBracket,
    Kind::LBrace,
    Kind::LParen,
    Kind::Dot,
    Kind::Minus,
    Kind::Exclam,
    Kind::True,
    Kind::False,
    Kind::Null,
    Kind::NumFloat,
    Kind::NumInt,
    Kind::NumUint,
    Kind::String,
    Kind::Bytes,
    Kind::Identifier,
]);

/// Operators that can stand after an operand.
const AFTER_OPERAND: Kinds = Kinds::of(&[
    Kind::Equals,
    Kind::NotEquals,
    Kind::In,
    Kind::Less,
    Kind::LessEquals,
    Kind::GreaterEquals,
    Kind::Greater,
    Kind::LogicalAnd,
    Kind::LogicalOr,
    Kind::Question,
    Kind::Plus,
    Kind::Minus,
    Kind::Star,
    Kind::Slash,
    Kind::Percent,
]);

/// What continues a finished operand itself.
const MORE_OF_OPERAND: Kinds = Kinds::of(&[Kind::Dot, Kind::LBracket]);

impl Parser<'_> {
    pub(super) fn peek(&self) -> Token {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Token {
        let last = self.tokens.len().saturating_sub(1);
        let at = (self.at + ahead).min(last);
        self.tokens.get(at).copied().unwrap_or(Token { kind: Kind::Eof, start: 0, end: 0 })
    }

    /// Takes the next token whatever it is; the end is never passed.
    pub(super) fn advance(&mut self) -> Token {
        let token = self.peek();
        self.recovering = false;
        if token.kind != Kind::Eof {
            self.at += 1;
        }
        token
    }

    /// Takes the next token if it is of this kind.
    pub(super) fn accept(&mut self, kind: Kind) -> Option<Token> {
        (!self.abandoned && self.peek().kind == kind).then(|| self.advance())
    }

    /// Takes a token that must be here. A wrong token before the right one is skipped; a missing one is supposed if
    /// what stands here may follow it: one of `after`, by default what may follow an operand. `None` means that
    /// neither helped and the construct is given up.
    pub(super) fn expect(&mut self, kind: Kind, after: Option<Kinds>) -> Option<Token> {
        if self.abandoned {
            return None;
        }
        let found = self.peek();
        if found.kind == kind {
            return Some(self.advance());
        }
        if self.at_recovery_limit() {
            return None;
        }
        let expected = Kinds::of(&[kind]);
        if self.peek_at(1).kind == kind && found.kind != Kind::Eof {
            self.syntax_error(found, format!("extraneous input {} expecting {expected}", self.quoted(found)));
            self.at += 1;
            return Some(self.advance());
        }
        let follows = after.unwrap_or_else(|| {
            let enclosing = self.follow.last().copied().unwrap_or(Kinds::of(&[]));
            AFTER_OPERAND.with(MORE_OF_OPERAND).with(enclosing)
        });
        if follows.contains(found.kind) {
            self.syntax_error(found, format!("missing {expected} at {}", self.quoted(found)));
            return Some(Token { kind, start: found.start, end: found.start });
        }
        self.syntax_error(found, format!("mismatched input {} expecting {expected}", self.quoted(found)));
        self.skip_to_follow();
        None
    }

    /// Makes sure that one of these tokens is next, skipping a single wrong one. Gives back whether it is.
    pub(super) fn expect_one_of(&mut self, expected: Kinds) -> bool {
        if self.abandoned {
            return false;
        }
        let found = self.peek();
        if expected.contains(found.kind) {
            return true;
        }
        if !self.recovering && found.kind != Kind::Eof && expected.contains(self.peek_at(1).kind) {
            self.syntax_error(found, format!("extraneous input {} expecting {expected}", self.quoted(found)));
            self.at += 1;
            return true;
        }
        if self.at_recovery_limit() {
            return false;
        }
        self.syntax_error(found, format!("mismatched input {} expecting {expected}", self.quoted(found)));
        self.skip_to_follow();
        false
    }

    /// Reports that nothing fits from `from` to the next tokens, and gives the construct up.
    pub(super) fn no_viable_alternative(&mut self, from: Token, offending: Token) {
        if self.at_recovery_limit() {
            return;
        }
        let end = if offending.kind == Kind::Eof { offending.start } else { offending.end };
        let text: String = self
            .chars
            .get(from.start as usize..end as usize)
            .unwrap_or_default()
            .iter()
            .filter(|c| !matches!(c, ' ' | '\t' | '\r' | '\n'))
            .collect();
        let message = match (text.strip_prefix('.'), offending.kind) {
            (Some(word), Kind::True | Kind::False | Kind::Null) => {
                format!("mismatched input '{word}' expecting IDENTIFIER")
            }
            _ => format!("no viable alternative at input '{text}'"),
        };
        self.syntax_error(offending, message);
        self.skip_to_follow();
    }

    /// The error of a wrong token after `!`: everything up to what can go on is skipped.
    pub(super) fn extraneous_until(&mut self, expected: Kinds) {
        let found = self.peek();
        self.syntax_error(found, format!("extraneous input {} expecting {expected}", self.quoted(found)));
        self.skip_to_follow();
    }

    pub(super) fn syntax_error(&mut self, at: Token, message: String) {
        if self.recovering || self.abandoned {
            return;
        }
        self.recovering = true;
        let mut location = self.lines.locate(at.start);
        if self.chars.is_empty() {
            location.column = -1;
        }
        self.issues.report(location, format!("Syntax error: {message}"));
    }

    /// Skips to a token that can follow one of the open constructs.
    fn skip_to_follow(&mut self) {
        if self.last_recovery == Some(self.at) && self.peek().kind != Kind::Eof {
            // Nothing was accepted since the last error here: without this the same error would come back for ever.
            self.at += 1;
        }
        self.last_recovery = Some(self.at);
        let follow = self.follow_set();
        while !follow.contains(self.peek().kind) && self.peek().kind != Kind::Eof {
            self.at += 1;
        }
    }

    fn follow_set(&self) -> Kinds {
        self.follow.iter().fold(AFTER_OPERAND, |all, one| all.with(*one))
    }

    fn at_recovery_limit(&mut self) -> bool {
        self.recoveries += 1;
        if self.recoveries > MAX_RECOVERIES && !self.abandoned {
            let here = self.peek();
            self.recovering = false;
            self.syntax_error(here, format!("error recovery attempt limit exceeded: {MAX_RECOVERIES}"));
            self.abandoned = true;
        }
        self.abandoned
    }

    fn quoted(&self, token: Token) -> String {
        if token.kind == Kind::Eof { "'<EOF>'".to_owned() } else { format!("'{}'", self.text(token)) }
    }
}
