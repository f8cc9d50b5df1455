//! What is said about wrong expressions, word for word as cel-go says it.

use bailiwick_cel::{Env, Type};

fn issues(expression: &str) -> String {
    let env = Env::builder().variable("x", Type::Int).variable("l", Type::list(Type::Int)).build();
    match env.compile(expression) {
        Ok(_) => "compiles".to_owned(),
        Err(issues) => issues.to_string(),
    }
}

const EXPRESSION: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, \
                          STRING, BYTES, IDENTIFIER}";

#[test]
fn syntax_errors_show_the_place() {
    assert_eq!(
        issues("x = 1"),
        "ERROR: <input>:1:3: Syntax error: token recognition error at: '= '\n | x = 1\n | ..^\n\
         ERROR: <input>:1:5: Syntax error: extraneous input '1' expecting <EOF>\n | x = 1\n | ....^"
    );
    assert_eq!(issues("(x"), "ERROR: <input>:1:3: Syntax error: missing ')' at '<EOF>'\n | (x\n | ..^");
    assert_eq!(
        issues("x +"),
        format!("ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting {EXPRESSION}\n | x +\n | ...^")
    );
    assert_eq!(
        issues("x.true"),
        "ERROR: <input>:1:3: Syntax error: mismatched input 'true' expecting IDENTIFIER\n | x.true\n | ..^"
    );
}

#[test]
fn carets_count_wide_characters_and_tabs() {
    assert_eq!(
        issues("'😁' +\t\n  'é' + x"),
        "ERROR: <input>:2:7: found no matching overload for '_+_' applied to '(string, int)'\n |   'é' + x\n | ...．..^"
    );
}

#[test]
fn type_errors_come_in_order_of_place() {
    assert_eq!(
        issues("b && a"),
        "ERROR: <input>:1:1: undeclared reference to 'b' (in container '')\n | b && a\n | ^\n\
         ERROR: <input>:1:6: undeclared reference to 'a' (in container '')\n | b && a\n | .....^"
    );
    assert_eq!(
        issues("x.size()"),
        "ERROR: <input>:1:7: found no matching overload for 'size' applied to 'int.()'\n | x.size()\n | ......^"
    );
    assert_eq!(issues("[1, 'a']"), "ERROR: <input>:1:5: expected type 'int' but found 'string'\n | [1, 'a']\n | ....^");
    assert_eq!(
        issues("x.all(i, true)"),
        "ERROR: <input>:1:1: expression of type 'int' cannot be range of a comprehension (must be list, map, or \
         dynamic)\n | x.all(i, true)\n | ^"
    );
}

#[test]
fn constants_that_cannot_work_are_refused() {
    assert_eq!(
        issues("'a'.matches('(')"),
        "ERROR: <input>:1:13: invalid matches argument\n | 'a'.matches('(')\n | ............^"
    );
    assert!(issues("duration('1x') == duration('1s')").contains("invalid duration argument"));
    assert!(issues("timestamp('soon') == timestamp(0)").contains("invalid timestamp argument"));
}

#[test]
fn nesting_and_length_are_limited() {
    let nested = format!("{}x{}", "(".repeat(400), ")".repeat(400));
    assert_eq!(issues(&nested), "ERROR: <input>:-1:0: expression recursion limit exceeded: 250");
    let chain = vec!["x"; 400].join(" + ");
    assert_eq!(issues(&chain), "ERROR: <input>:-1:0: max recursion depth exceeded");
    let conjunction = vec!["true"; 5000].join(" && ");
    assert_eq!(issues(&conjunction), "compiles");
    let long = "1".repeat(100_001);
    assert_eq!(
        issues(&long),
        "ERROR: <input>:-1:0: expression code point size exceeds limit: size: 100001, limit 100000"
    );
    let macros = (0..120).fold("true".to_owned(), |inner, _| format!("l.all(i, {inner})"));
    assert_eq!(issues(&macros), "compiles");
}
