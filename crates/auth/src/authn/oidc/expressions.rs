//! CEL in authentication: expressions over a token's `claims`, and over the `user` they were mapped to.

use std::sync::{Arc, OnceLock};

use bailiwick_cel::ast::{Expr, ExprKind, operators};
use bailiwick_cel::{
    Bindings, Budget, Checked, DeclField, DeclKind, DeclType, Env, EnvBuilder, ListSemantics, Map, Program, Type,
    Value, library,
};
use bailiwick_machinery::UserInfo;
use serde_json::{Map as JsonMap, Value as Json, json};

/// What an expression must give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A verdict.
    Bool,
    /// Anything; looked at when it is there.
    Any,
}

/// What an expression speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Claims,
    User,
}

/// An expression ready to run, with its text for messages.
#[derive(Debug)]
pub(super) struct Expression {
    pub(super) text: String,
    checked: Checked,
    program: Program,
}

impl Expression {
    /// Compiles; the error is what upstream puts behind the field.
    pub(super) fn compile(text: &str, subject: Subject, wanted: Wanted) -> Result<Self, String> {
        let environment = match subject {
            Subject::Claims => &environments().claims,
            Subject::User => &environments().user,
        };
        let checked = environment.compile(text).map_err(|issues| format!("compilation failed: {issues}"))?;
        if wanted == Wanted::Bool && *checked.output_type() != Type::Bool {
            return Err("must evaluate to bool".to_owned());
        }
        let program = checked.program().map_err(|error| format!("program instantiation failed: {error}"))?;
        Ok(Self { text: text.to_owned(), checked, program })
    }

    /// Whether the expression reads `claims.<field>`.
    pub(super) fn reads_claim(&self, field: &str) -> bool {
        selects(self.checked.root(), CLAIMS, field)
    }

    /// Runs over claims and hands the result on, since it borrows from them.
    pub(super) fn of_claims<T>(
        &self,
        claims: &JsonMap<String, Json>,
        then: impl FnOnce(&Value<'_>) -> T,
    ) -> Result<T, String> {
        self.run(CLAIMS, Value::Map(Map::Json { members: claims, decl: claims_decl() }), then)
    }

    /// Runs over a user, given as [`user_json`].
    pub(super) fn of_user<T>(
        &self,
        user: &JsonMap<String, Json>,
        then: impl FnOnce(&Value<'_>) -> T,
    ) -> Result<T, String> {
        self.run(USER, Value::Map(Map::Json { members: user, decl: user_decl() }), then)
    }

    fn run<'a, T>(
        &'a self,
        name: &'static str,
        value: Value<'a>,
        then: impl FnOnce(&Value<'_>) -> T,
    ) -> Result<T, String> {
        let bindings = Bindings::new().bind(name, value);
        let result = self.program.evaluate(&bindings, &mut Budget::new(COST_MAX));
        result
            .map(|value| then(&value))
            .map_err(|error| format!("expression '{}' resulted in error: {error}", self.text))
    }
}

const CLAIMS: &str = "claims";
const USER: &str = "user";
/// What one evaluation may cost; upstream's limit for a single expression. Tokens come from strangers.
const COST_MAX: u64 = 10_000_000;

struct Environments {
    claims: Env,
    user: Env,
}

fn environments() -> &'static Environments {
    static ENVIRONMENTS: OnceLock<Environments> = OnceLock::new();
    ENVIRONMENTS.get_or_init(|| {
        let base = library::kubernetes().into_iter().fold(Env::builder(), EnvBuilder::library).build();
        let user = user_decl().cel_type("kubernetes.UserInfo").unwrap_or(Type::Dyn);
        Environments {
            claims: base.extend().variable(CLAIMS, Type::map(Type::String, Type::Dyn)).build(),
            user: base.extend().variable(USER, user).build(),
        }
    })
}

fn claims_decl() -> &'static DeclType {
    static DECL: OnceLock<DeclType> = OnceLock::new();
    DECL.get_or_init(|| DeclType::new(DeclKind::Claims))
}

fn user_decl() -> &'static Arc<DeclType> {
    static DECL: OnceLock<Arc<DeclType>> = OnceLock::new();
    DECL.get_or_init(|| {
        let text = Arc::new(DeclType::new(DeclKind::String));
        let texts = Arc::new(DeclType::list(text.clone(), ListSemantics::Atomic, 0));
        let extra = Arc::new(DeclType::map(texts.clone(), 0));
        let fields = [("username", text.clone()), ("uid", text), ("groups", texts), ("extra", extra)];
        let fields = fields.into_iter().map(|(name, decl)| DeclField { name: name.into(), decl, required: false });
        Arc::new(DeclType::object(fields.collect()))
    })
}

/// The user as expressions see it.
pub(super) fn user_json(user: &UserInfo) -> JsonMap<String, Json> {
    let json = json!({"username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra});
    match json {
        Json::Object(members) => members,
        _ => JsonMap::new(),
    }
}

fn selects(expr: &Expr, variable: &str, wanted: &str) -> bool {
    let within = |expr: &Expr| selects(expr, variable, wanted);
    let is_variable = |expr: &Expr| matches!(&expr.kind, ExprKind::Ident(name) if **name == *variable);
    match &expr.kind {
        ExprKind::Unspecified | ExprKind::Literal(_) | ExprKind::Ident(_) => false,
        ExprKind::Select { operand, field, .. } => (is_variable(operand) && **field == *wanted) || within(operand),
        ExprKind::Call(call) => {
            let optional = call.target.is_none() && *call.function == *operators::OPT_SELECT;
            let named = |expr: &Expr| matches!(&expr.kind, ExprKind::Literal(value) if value.as_str() == Some(wanted));
            match call.args.as_slice() {
                [operand, field] if optional && is_variable(operand) && named(field) => true,
                args => call.target.iter().chain(args).any(within),
            }
        }
        ExprKind::List { elements, .. } => elements.iter().any(within),
        ExprKind::Map(entries) => entries.iter().any(|entry| within(&entry.key) || within(&entry.value)),
        ExprKind::Struct { fields, .. } => fields.iter().any(|field| within(&field.value)),
        ExprKind::Comprehension(inner) => {
            [&inner.iter_range, &inner.accu_init, &inner.loop_condition, &inner.loop_step, &inner.result]
                .into_iter()
                .any(within)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(json: Json) -> JsonMap<String, Json> {
        json.as_object().cloned().expect("an object")
    }

    fn verdict(text: &str, json: Json) -> Result<Option<bool>, String> {
        let expression = Expression::compile(text, Subject::Claims, Wanted::Any)?;
        expression.of_claims(&claims(json), |value| match value {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        })
    }

    #[test]
    fn claims_are_maps_of_anything() {
        let token = json!({"sub": "a", "n": 3, "nested": {"x.y": [{"a.b": true}]}, "kubernetes.io": {"pod": "p"}});
        for text in [
            "claims.sub == 'a' && claims.n == 3",
            "claims.n / 2.0 == 1.5",
            "claims.kubernetes__dot__io.pod == 'p'",
            "claims['kubernetes.io'].pod == 'p'",
            "claims.nested.x__dot__y[0].a__dot__b",
            "!has(claims.missing) && claims.?missing.orValue('x') == 'x'",
            "size(claims) == 4",
        ] {
            assert_eq!(verdict(text, token.clone()), Ok(Some(true)), "{text}");
        }
        let error = verdict("claims.missing == 'a'", token).expect_err("no such claim");
        assert_eq!(error, "expression 'claims.missing == 'a'' resulted in error: no such key: missing");
    }

    #[test]
    fn users_have_four_fields() {
        let user = UserInfo { name: "a".into(), groups: vec!["g".into()], ..UserInfo::default() };
        let expression = Expression::compile(
            "!user.username.startsWith('system:') && 'g' in user.groups",
            Subject::User,
            Wanted::Bool,
        );
        let verdict = expression.expect("compiles").of_user(&user_json(&user), |v| matches!(v, Value::Bool(true)));
        assert_eq!(verdict, Ok(true));
        let error = Expression::compile("user.name == 'a'", Subject::User, Wanted::Bool).expect_err("no such field");
        assert!(error.starts_with("compilation failed: ERROR: <input>:1:5: undefined field 'name'"), "{error}");
        let error = Expression::compile("user.username", Subject::User, Wanted::Bool).expect_err("not a verdict");
        assert_eq!(error, "must evaluate to bool");
    }

    #[test]
    fn the_use_of_a_claim_is_seen_wherever_it_is() {
        for text in ["claims.email", "has(claims.email) ? 'a' : 'b'", "claims.?email.orValue('')", "[claims.email]"] {
            let expression = Expression::compile(text, Subject::Claims, Wanted::Any).expect(text);
            assert!(expression.reads_claim("email"), "{text}");
            assert!(!expression.reads_claim("email_verified"), "{text}");
        }
    }
}
