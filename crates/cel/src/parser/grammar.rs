//! The grammar: one function per rule, loosest binding first.

use super::lexer::{Kind, Kinds, Token};
use super::literal::{Target, unquote};
use super::recovery::EXPR_FIRST;
use super::{Feature, MAX_RECURSION_DEPTH, Parsed, Parser};
use crate::ast::{Call, Expr, ExprKind, MapEntry, StructField, operators};
use crate::decl::is_reserved;
use crate::source::Location;
use crate::value::Value;

const QUESTION: Kinds = Kinds::of(&[Kind::Question]);
const FIELD_FIRST: Kinds = Kinds::of(&[Kind::Question, Kind::Identifier, Kind::EscIdentifier]);

impl Parser<'_> {
    pub(super) fn start(&mut self) -> Expr {
        let parsed = self.expr();
        if !self.abandoned {
            self.expect(Kind::Eof, Some(Kinds::of(&[])));
        }
        if parsed.height > MAX_RECURSION_DEPTH {
            self.issues.report(Location::NONE, "max recursion depth exceeded");
        }
        parsed.expr
    }

    fn expr(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_RECURSION_DEPTH && !self.abandoned {
            self.issues.report(Location::NONE, format!("expression recursion limit exceeded: {MAX_RECURSION_DEPTH}"));
            self.abandoned = true;
        }
        let parsed = if self.abandoned {
            let offset = self.peek().start;
            self.unspecified(offset)
        } else {
            self.conditional()
        };
        self.depth -= 1;
        parsed
    }

    fn conditional(&mut self) -> Parsed {
        let condition = self.conditional_or();
        let Some(question) = self.accept(Kind::Question) else { return condition };
        let truthy = self.within(Kinds::of(&[Kind::Colon]), Self::conditional_or);
        if self.expect(Kind::Colon, Some(EXPR_FIRST)).is_none() {
            return condition;
        }
        let falsy = self.expr();
        let height = 1 + condition.height.max(truthy.height).max(falsy.height);
        let args = vec![condition.expr, truthy.expr, falsy.expr];
        let expr = self.call(question.start, operators::CONDITIONAL, args);
        Parsed { expr, height }
    }

    fn conditional_or(&mut self) -> Parsed {
        self.logical(Kind::LogicalOr, operators::LOGICAL_OR, Self::conditional_and)
    }

    fn conditional_and(&mut self) -> Parsed {
        self.logical(Kind::LogicalAnd, operators::LOGICAL_AND, |parser| parser.binary(0))
    }

    fn logical(&mut self, operator: Kind, function: &str, operand: fn(&mut Self) -> Parsed) -> Parsed {
        let first = operand(self);
        let mut height = first.height;
        let mut terms = vec![Some(first.expr)];
        let mut offsets = Vec::new();
        while let Some(token) = self.accept(operator) {
            let next = operand(self);
            height = height.max(next.height);
            terms.push(Some(next.expr));
            offsets.push(token.start);
        }
        let expr = self.balanced(function, &mut terms, &offsets);
        Parsed { expr, height }
    }

    /// A tree of logarithmic depth over a chain of one operator.
    fn balanced(&mut self, function: &str, terms: &mut [Option<Expr>], offsets: &[u32]) -> Expr {
        let middle = offsets.len() / 2;
        let Some(offset) = offsets.get(middle).copied() else {
            return match terms.first_mut().and_then(Option::take) {
                Some(expr) => expr,
                None => self.unspecified(0).expr,
            };
        };
        let (left_terms, right_terms) = terms.split_at_mut(middle + 1);
        let left = self.balanced(function, left_terms, offsets.get(..middle).unwrap_or_default());
        let right = self.balanced(function, right_terms, offsets.get(middle + 1..).unwrap_or_default());
        self.call(offset, function, vec![left, right])
    }

    /// Relations (level 0), sums (1) and products (2), all left-associative.
    fn binary(&mut self, level: u8) -> Parsed {
        if level > 2 {
            return self.unary();
        }
        let mut left = self.binary(level + 1);
        while let Some(function) = operator(level, self.peek().kind) {
            if self.abandoned {
                break;
            }
            let token = self.advance();
            let right = self.binary(level + 1);
            let height = 1 + left.height.max(right.height);
            let expr = self.call(token.start, function, vec![left.expr, right.expr]);
            left = Parsed { expr, height };
        }
        left
    }

    fn unary(&mut self) -> Parsed {
        if !self.expect_one_of(EXPR_FIRST) {
            let offset = self.peek().start;
            return self.unspecified(offset);
        }
        match self.peek().kind {
            Kind::Exclam => self.prefixed(Kind::Exclam, operators::LOGICAL_NOT),
            Kind::Minus if !matches!(self.peek_at(1).kind, Kind::NumInt | Kind::NumFloat) => {
                self.prefixed(Kind::Minus, operators::NEGATE)
            }
            _ => self.member(),
        }
    }

    fn prefixed(&mut self, kind: Kind, function: &str) -> Parsed {
        let first = self.advance();
        let mut last = first;
        let mut count = 1;
        while let Some(token) = self.accept(kind) {
            last = token;
            count += 1;
        }
        let next = self.peek().kind;
        if !EXPR_FIRST.contains(next) || next == Kind::Exclam {
            if kind == Kind::Minus {
                let offending = self.peek();
                self.no_viable_alternative(last, offending);
                self.recovering = false;
                self.expect_one_of(EXPR_FIRST);
            } else {
                self.extraneous_until(EXPR_FIRST);
            }
            return self.unspecified(first.start);
        }
        let operand = self.member();
        if count % 2 == 0 {
            return operand;
        }
        Parsed { expr: self.call(first.start, function, vec![operand.expr]), height: operand.height }
    }

    fn member(&mut self) -> Parsed {
        let mut operand = self.primary();
        while !self.abandoned {
            operand = match self.peek().kind {
                Kind::Dot => match self.dot(operand) {
                    Ok(selected) => selected,
                    Err(given_up) => return given_up,
                },
                Kind::LBracket => self.index(operand),
                _ => return operand,
            };
        }
        operand
    }

    /// `.field`, `.?field` or `.method(…)`; an error gives the operand back.
    fn dot(&mut self, operand: Parsed) -> Result<Parsed, Parsed> {
        let dot = self.peek();
        let optional = self.peek_at(1).kind == Kind::Question;
        let name = self.peek_at(if optional { 2 } else { 1 });
        if !matches!(name.kind, Kind::Identifier | Kind::EscIdentifier) {
            self.no_viable_alternative(dot, name);
            return Err(operand);
        }
        self.advance();
        if optional {
            self.advance();
        }
        self.advance();
        let height = operand.height + 1;
        if !optional && name.kind == Kind::Identifier && self.peek().kind == Kind::LParen {
            let open = self.peek();
            let function = self.text(name);
            let (args, args_height) = self.arguments();
            let expr = self.call_or_macro(open.start, &function, Some(operand.expr), args);
            return Ok(Parsed { expr, height: height.max(args_height + 1) });
        }
        let field = match self.field_name(name) {
            Some(field) => field,
            None => return Ok(self.unspecified(name.start)),
        };
        if optional {
            if self.syntax.optionals == Feature::Disabled {
                self.report(dot.start, "unsupported syntax '.?'");
                return Ok(self.unspecified(dot.start));
            }
            let field = self.literal(name.start, Value::string(field));
            let expr = self.call(dot.start, operators::OPT_SELECT, vec![operand.expr, field.expr]);
            return Ok(Parsed { expr, height });
        }
        let kind =
            ExprKind::Select { operand: Box::new(operand.expr), field: field.into_boxed_str(), test_only: false };
        Ok(Parsed { expr: self.node(dot.start, kind), height })
    }

    fn field_name(&mut self, token: Token) -> Option<String> {
        let text = self.text(token);
        if token.kind == Kind::Identifier {
            return Some(text);
        }
        if self.syntax.escaped_identifiers == Feature::Disabled {
            self.report(token.start, "unsupported syntax: '`'");
            return None;
        }
        Some(text.trim_matches('`').to_owned())
    }

    fn index(&mut self, operand: Parsed) -> Parsed {
        let open = self.advance();
        if !self.within(Kinds::of(&[Kind::RBracket]), |p| p.expect_one_of(EXPR_FIRST.with(QUESTION))) {
            self.expect(Kind::RBracket, None);
            return operand;
        }
        let optional = self.accept(Kind::Question);
        let index = self.within(Kinds::of(&[Kind::RBracket]), Self::expr);
        self.expect(Kind::RBracket, None);
        if optional.is_some() && self.syntax.optionals == Feature::Disabled {
            self.report(open.start, "unsupported syntax '[?'");
            return self.unspecified(open.start);
        }
        let function = if optional.is_some() { operators::OPT_INDEX } else { operators::INDEX };
        let height = 1 + operand.height.max(index.height);
        Parsed { expr: self.call(open.start, function, vec![operand.expr, index.expr]), height }
    }

    /// `(a, b)` with the parentheses.
    fn arguments(&mut self) -> (Vec<Expr>, u32) {
        self.advance();
        let mut args = Vec::new();
        let mut height = 0;
        let inside = Kinds::of(&[Kind::RParen, Kind::Comma]);
        if self.within(inside, |p| p.expect_one_of(EXPR_FIRST.with(Kinds::of(&[Kind::RParen]))))
            && self.peek().kind != Kind::RParen
        {
            loop {
                let arg = self.within(inside, Self::expr);
                height = height.max(arg.height);
                args.push(arg.expr);
                if self.accept(Kind::Comma).is_none() {
                    break;
                }
            }
        }
        self.expect(Kind::RParen, None);
        (args, height)
    }

    fn primary(&mut self) -> Parsed {
        let token = self.peek();
        match token.kind {
            Kind::LParen => {
                self.advance();
                let inner = self.within(Kinds::of(&[Kind::RParen]), Self::expr);
                self.expect(Kind::RParen, None);
                inner
            }
            Kind::LBracket => self.list(),
            Kind::LBrace => self.map(),
            Kind::Dot | Kind::Identifier => self.name(),
            _ => self.constant(),
        }
    }

    /// An identifier, a global call or an object literal.
    fn name(&mut self) -> Parsed {
        let start = self.peek();
        let dot = usize::from(start.kind == Kind::Dot);
        let ident = self.peek_at(dot);
        if ident.kind != Kind::Identifier {
            self.no_viable_alternative(start, ident);
            return self.unspecified(start.start);
        }
        if let Some(len) = self.object_name_len(dot) {
            return self.object(len);
        }
        for _ in 0..=dot {
            self.advance();
        }
        let word = self.text(ident);
        let leading = if dot == 1 { "." } else { "" };
        let open = self.peek();
        let call = (open.kind == Kind::LParen).then(|| self.arguments());
        if is_reserved(&word) {
            self.report(start.start, format!("reserved identifier: {word}"));
            return self.unspecified(start.start);
        }
        let name = format!("{leading}{word}");
        match call {
            Some((args, height)) => Parsed { expr: self.call_or_macro(open.start, &name, None, args), height },
            None => Parsed { expr: self.node(ident.start, ExprKind::Ident(name.into_boxed_str())), height: 0 },
        }
    }

    /// How many tokens the dotted name of an object literal has, if one begins here.
    fn object_name_len(&self, dot: usize) -> Option<usize> {
        let mut len = dot + 1;
        while self.peek_at(len).kind == Kind::Dot && self.peek_at(len + 1).kind == Kind::Identifier {
            len += 2;
        }
        (self.peek_at(len).kind == Kind::LBrace).then_some(len)
    }

    fn object(&mut self, name_len: usize) -> Parsed {
        let mut name = String::new();
        for _ in 0..name_len {
            let token = self.advance();
            name.push_str(&self.text(token));
        }
        let open = self.advance();
        let inside = Kinds::of(&[Kind::Comma, Kind::RBrace]);
        let mut fields = Vec::new();
        let mut height = 0;
        if self.within(inside, |p| p.expect_one_of(FIELD_FIRST.with(inside))) {
            while FIELD_FIRST.contains(self.peek().kind) && !self.abandoned {
                let question = self.accept(Kind::Question);
                let token = self.peek();
                if !matches!(token.kind, Kind::Identifier | Kind::EscIdentifier) {
                    self.no_viable_alternative(token, token);
                    break;
                }
                self.advance();
                let field = self.field_name(token);
                let Some(colon) = self.within(inside, |p| p.expect(Kind::Colon, Some(EXPR_FIRST))) else { break };
                let value = self.within(inside, Self::expr);
                height = height.max(value.height);
                if question.is_some() && self.syntax.optionals == Feature::Disabled {
                    self.report(token.start, "unsupported syntax '?'");
                }
                let id = self.new_id(colon.start);
                let name = field.unwrap_or_default().into_boxed_str();
                fields.push(StructField { id, name, value: value.expr, optional: question.is_some() });
                if self.peek().kind != Kind::Comma || !FIELD_FIRST.contains(self.peek_at(1).kind) {
                    break;
                }
                self.advance();
            }
            self.within(inside, |p| p.expect_one_of(inside));
            self.accept(Kind::Comma);
        }
        self.expect(Kind::RBrace, None);
        Parsed { expr: self.node(open.start, ExprKind::Struct { name: name.into_boxed_str(), fields }), height }
    }

    fn list(&mut self) -> Parsed {
        let open = self.advance();
        let inside = Kinds::of(&[Kind::Comma, Kind::RBracket]);
        let element = EXPR_FIRST.with(QUESTION);
        let mut elements = Vec::new();
        let mut optionals = Vec::new();
        let mut height = 0;
        if self.within(inside, |p| p.expect_one_of(element.with(inside))) {
            while element.contains(self.peek().kind) && !self.abandoned {
                if let Some(question) = self.accept(Kind::Question) {
                    if self.syntax.optionals == Feature::Disabled {
                        self.report(question.start, "unsupported syntax '?'");
                    }
                    optionals.push(u32::try_from(elements.len()).unwrap_or(u32::MAX));
                }
                let parsed = self.within(inside, Self::expr);
                height = height.max(parsed.height);
                elements.push(parsed.expr);
                if self.peek().kind != Kind::Comma || !element.contains(self.peek_at(1).kind) {
                    break;
                }
                self.advance();
            }
            self.within(inside, |p| p.expect_one_of(inside));
            self.accept(Kind::Comma);
        }
        self.expect(Kind::RBracket, None);
        Parsed { expr: self.node(open.start, ExprKind::List { elements, optionals }), height }
    }

    fn map(&mut self) -> Parsed {
        let open = self.advance();
        let inside = Kinds::of(&[Kind::Comma, Kind::RBrace]);
        let key_follow = inside.with(Kinds::of(&[Kind::Colon]));
        let first = EXPR_FIRST.with(QUESTION);
        let mut entries = Vec::new();
        let mut height = 0;
        if self.within(inside, |p| p.expect_one_of(first.with(inside))) {
            while first.contains(self.peek().kind) && !self.abandoned {
                let question = self.accept(Kind::Question);
                let key = self.within(key_follow, Self::expr);
                let Some(colon) = self.within(inside, |p| p.expect(Kind::Colon, Some(EXPR_FIRST))) else { break };
                let value = self.within(inside, Self::expr);
                height = height.max(key.height).max(value.height);
                if let Some(question) = question
                    && self.syntax.optionals == Feature::Disabled
                {
                    self.report(question.start, "unsupported syntax '?'");
                }
                let id = self.new_id(colon.start);
                entries.push(MapEntry { id, key: key.expr, value: value.expr, optional: question.is_some() });
                if self.peek().kind != Kind::Comma || !first.contains(self.peek_at(1).kind) {
                    break;
                }
                self.advance();
            }
            self.within(inside, |p| p.expect_one_of(inside));
            self.accept(Kind::Comma);
        }
        self.expect(Kind::RBrace, None);
        Parsed { expr: self.node(open.start, ExprKind::Map(entries)), height }
    }

    fn constant(&mut self) -> Parsed {
        let start = self.peek();
        let sign = if start.kind == Kind::Minus {
            self.advance();
            "-"
        } else {
            ""
        };
        let token = self.advance();
        let text = self.text(token);
        let value = match token.kind {
            Kind::True => Ok(Value::Bool(true)),
            Kind::False => Ok(Value::Bool(false)),
            Kind::Null => Ok(Value::Null),
            Kind::NumInt => match text.strip_prefix("0x") {
                Some(hex) => i64::from_str_radix(&format!("{sign}{hex}"), 16),
                None => format!("{sign}{text}").parse(),
            }
            .map(Value::Int)
            .map_err(|_| "invalid int literal"),
            Kind::NumUint => {
                let digits = text.trim_end_matches(['u', 'U']);
                match digits.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16),
                    None => digits.parse(),
                }
                .map(Value::Uint)
                .map_err(|_| "invalid uint literal")
            }
            Kind::NumFloat => match format!("{sign}{text}").parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Value::Double(number)),
                _ => Err("invalid double literal"),
            },
            Kind::String => {
                unquote(&text, Target::Text).map(|bytes| Value::string(String::from_utf8_lossy(&bytes).into_owned()))
            }
            Kind::Bytes => unquote(text.get(1..).unwrap_or_default(), Target::Bytes).map(Value::bytes),
            _ => Err("unknown parse element encountered"),
        };
        match value {
            Ok(value) => self.literal(start.start, value),
            Err(message) => {
                self.report(start.start, message);
                self.unspecified(start.start)
            }
        }
    }

    /// Runs a rule inside a construct that these tokens continue or close.
    fn within<T>(&mut self, follow: Kinds, rule: impl FnOnce(&mut Self) -> T) -> T {
        self.follow.push(follow);
        let result = rule(self);
        self.follow.pop();
        result
    }

    pub(super) fn call(&mut self, offset: u32, function: &str, args: Vec<Expr>) -> Expr {
        self.node(offset, ExprKind::Call(Box::new(Call { function: Box::from(function), target: None, args })))
    }
}

fn operator(level: u8, kind: Kind) -> Option<&'static str> {
    match (level, kind) {
        (0, Kind::Equals) => Some(operators::EQUALS),
        (0, Kind::NotEquals) => Some(operators::NOT_EQUALS),
        (0, Kind::In) => Some(operators::IN),
        (0, Kind::Less) => Some(operators::LESS),
        (0, Kind::LessEquals) => Some(operators::LESS_EQUALS),
        (0, Kind::GreaterEquals) => Some(operators::GREATER_EQUALS),
        (0, Kind::Greater) => Some(operators::GREATER),
        (1, Kind::Plus) => Some(operators::ADD),
        (1, Kind::Minus) => Some(operators::SUBTRACT),
        (2, Kind::Star) => Some(operators::MULTIPLY),
        (2, Kind::Slash) => Some(operators::DIVIDE),
        (2, Kind::Percent) => Some(operators::MODULO),
        _ => None,
    }
}
