//! google/cel-spec's conformance tests. The data is read from `CEL_SPEC_TESTDATA`, or from the Go module
//! `cel.dev/expr` in the module cache (`go mod download cel.dev/expr@v0.25.1`); without it the test is skipped.
//! `CEL_SPEC_VERBOSE=1` with `--nocapture` names every failure. What fails on purpose: repeated keys of map literals, fields
//! of optional scalars and indices beyond a string are no errors in cel-go 0.26 as Kubernetes sets it up.

#[path = "conformance/textproto.rs"]
mod textproto;
#[path = "conformance/values.rs"]
mod values;

use std::path::{Path, PathBuf};

use bailiwick_cel::{
    AggregateLiterals, Bindings, Budget, Checking, Env, Feature, Library, LiteralValidation, Macros, Type, Value,
    library,
};
use textproto::{Field, Message};

/// How many tests of each file must pass. Raise a figure when more do.
const BARS: &[(&str, usize)] = &[
    ("basic", 43),
    ("bindings_ext", 5),
    ("block_ext", 25),
    ("comparisons", 334),
    ("conversions", 109),
    ("encoders_ext", 4),
    ("fields", 58),
    ("fp_math", 30),
    ("integer_math", 64),
    ("lists", 39),
    ("logic", 30),
    ("macros", 44),
    ("macros2", 46),
    ("math_ext", 199),
    ("namespace", 3),
    ("optionals", 57),
    ("parse", 193),
    ("plumbing", 5),
    ("string", 51),
    ("string_ext", 204),
    ("timestamps", 73),
    ("type_deduction", 20),
];

/// More than any test costs, so that a bug cannot run for ever.
const COST_LIMIT: u64 = 10_000_000;

#[test]
fn passes_the_recorded_share_of_cel_spec() {
    let Some(directory) = testdata() else {
        bailiwick_skip::skip("no cel-spec test data (CEL_SPEC_TESTDATA or go mod download cel.dev/expr@v0.25.1)");
        return;
    };
    let mut below = Vec::new();
    let (mut total_passed, mut total_reachable) = (0, 0);
    let verbose = std::env::var_os("CEL_SPEC_VERBOSE").is_some();
    for path in files(&directory) {
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let text = std::fs::read_to_string(&path).expect("test data can be read");
        let file = textproto::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut tally = Tally::default();
        for section in file.all("section").filter_map(Field::as_message) {
            for test in section.all("test").filter_map(Field::as_message) {
                let outcome = run(test);
                if let (Outcome::Failed(why), true) = (&outcome, verbose) {
                    let names = (section.text("name").unwrap_or_default(), test.text("name").unwrap_or_default());
                    println!("  {name}/{}/{}: {}: {why}", names.0, names.1, test.text("expr").unwrap_or_default());
                }
                tally.count(&outcome);
            }
        }
        let reachable = tally.passed + tally.failed;
        total_passed += tally.passed;
        total_reachable += reachable;
        println!("{name:<16} {:>4} of {reachable:>4} ({} need protobuf messages)", tally.passed, tally.unreachable);
        if let Some((_, bar)) = BARS.iter().find(|(known, _)| *known == name)
            && tally.passed < *bar
        {
            below.push(format!("{name}: {} passed, {bar} were recorded", tally.passed));
        }
    }
    println!("total {total_passed} of {total_reachable}");
    assert!(below.is_empty(), "fewer tests pass than before: {below:?}");
}

#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    unreachable: usize,
}

impl Tally {
    fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Failed(_) => self.failed += 1,
            Outcome::NeedsProtobuf => self.unreachable += 1,
        }
    }
}

enum Outcome {
    Passed,
    Failed(String),
    /// Protobuf messages and enums are no part of our language.
    NeedsProtobuf,
}

fn testdata() -> Option<PathBuf> {
    if let Some(directory) = std::env::var_os("CEL_SPEC_TESTDATA") {
        return Some(PathBuf::from(directory)).filter(|path| path.is_dir());
    }
    let cache = match (std::env::var_os("GOMODCACHE"), std::env::var_os("GOPATH"), std::env::var_os("HOME")) {
        (Some(cache), _, _) => PathBuf::from(cache),
        (None, Some(path), _) => PathBuf::from(path).join("pkg/mod"),
        (None, None, Some(home)) => PathBuf::from(home).join("go/pkg/mod"),
        _ => return None,
    };
    Some(cache.join("cel.dev/expr@v0.25.1/tests/simple/testdata")).filter(|path| path.is_dir())
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "textproto"))
        .collect();
    files.sort();
    files
}

fn environment() -> Env {
    let macros =
        Macros::STANDARD | Macros::OPTIONAL | Macros::TWO_VARIABLES | Macros::BINDINGS | Macros::MATH | Macros::BLOCK;
    let libraries: [Library; 4] =
        [library::strings_newest(), library::math(), library::encoders(), library::two_variables()];
    libraries
        .into_iter()
        .fold(Env::builder(), |builder, library| builder.library(library))
        .macros(macros)
        .aggregate_literals(AggregateLiterals::Dynamic)
        .literal_validation(LiteralValidation::Evaluate)
        .escaped_identifiers(Feature::Enabled)
        .build()
}

fn needs_protobuf(test: &Message) -> bool {
    let expression = test.text("expr").unwrap_or_default();
    let container = test.text("container").unwrap_or_default();
    container.starts_with("cel.expr.conformance")
        || container == "google.protobuf"
        || ["TestAllTypes", "GlobalEnum", "NestedTestAllTypes", "google.protobuf.", "proto.hasExt", "proto.getExt"]
            .iter()
            .any(|word| expression.contains(word))
        || format!("{test:?}").contains("TestAllTypes")
}

fn run(test: &Message) -> Outcome {
    if needs_protobuf(test) {
        return Outcome::NeedsProtobuf;
    }
    let expression = test.text("expr").unwrap_or_default();
    let mut builder = environment().extend().container(&test.text("container").unwrap_or_default());
    if test.word("disable_macros") == Some("true") {
        builder = builder.macros(Macros::NONE);
    }
    if test.word("disable_check") == Some("true") {
        builder = builder.checking(Checking::Deferred);
    }
    for declaration in test.all("type_env").filter_map(Field::as_message) {
        let name = declaration.text("name").unwrap_or_default();
        let Some(ty) = declaration.message("ident").and_then(|ident| ident.message("type")) else {
            return Outcome::Failed("declares a function".to_owned());
        };
        match values::type_of(ty) {
            Some(ty) => builder = builder.variable(&name, ty),
            None => return Outcome::NeedsProtobuf,
        }
    }
    let mut bound: Vec<(String, Value<'static>)> = Vec::new();
    for binding in test.all("bindings").filter_map(Field::as_message) {
        let name = binding.text("key").unwrap_or_default();
        let Some(value) = binding.message("value").and_then(|value| value.message("value")).and_then(values::value)
        else {
            return Outcome::NeedsProtobuf;
        };
        bound.push((name, value));
    }
    let env = builder.clone().build();
    for (name, _) in &bound {
        if env.variable_type(name).is_none() {
            builder = builder.variable(name, Type::Dyn);
        }
    }
    let expects_error = test.get("eval_error").is_some() || test.get("any_eval_errors").is_some();
    let checked = match builder.build().compile(&expression) {
        Ok(checked) => checked,
        Err(_) if expects_error => return Outcome::Passed,
        Err(issues) => return Outcome::Failed(issues.to_string()),
    };
    let typed = test.message("typed_result");
    if let Some(deduced) = typed.and_then(|typed| typed.message("deduced_type")) {
        match values::type_of(deduced) {
            Some(expected) if expected.to_string() != checked.output_type().to_string() => {
                return Outcome::Failed(format!("type {} instead of {expected}", checked.output_type()));
            }
            Some(_) => {}
            None => return Outcome::NeedsProtobuf,
        }
    }
    if test.word("check_only") == Some("true") {
        return Outcome::Passed;
    }
    let program = match checked.program() {
        Ok(program) => program,
        Err(_) if expects_error => return Outcome::Passed,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let bindings = bound.iter().fold(Bindings::new(), |all, (name, value)| all.bind(name, value.clone()));
    let result = program.evaluate(&bindings, &mut Budget::new(COST_LIMIT));
    let expected = test.message("value").or_else(|| typed.and_then(|typed| typed.message("result")));
    match (result, expected) {
        (Err(_), _) if expects_error => Outcome::Passed,
        (Ok(value), _) if expects_error => Outcome::Failed(format!("{value:?} instead of an error")),
        (Err(error), _) => Outcome::Failed(error.to_string()),
        (Ok(value), None) => match value {
            Value::Bool(true) => Outcome::Passed,
            other => Outcome::Failed(format!("{other:?} instead of true")),
        },
        (Ok(found), Some(expected)) => match values::value(expected) {
            None => Outcome::NeedsProtobuf,
            Some(expected) if values::same(&found, &expected) => Outcome::Passed,
            Some(expected) => Outcome::Failed(format!("{found:?} instead of {expected:?}")),
        },
    }
}
