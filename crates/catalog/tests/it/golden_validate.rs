//! Every catalog that opm was asked to validate gets the same verdict, word for word.

use bailiwick_catalog::model::validate;
use serde_json::Value;

use crate::paths;

#[test]
fn verdicts_are_opm_s() {
    let Some(data) = paths::data() else { return };
    let folder = data.join("golden/validate");
    let cases: Vec<Value> =
        serde_json::from_str(&std::fs::read_to_string(folder.join("expected.json")).unwrap()).unwrap();
    assert!(cases.len() >= 30);
    for case in cases {
        let name = case["case"].as_str().unwrap();
        let found = validate(&folder.join(name)).map(|_| ()).map_err(|error| error.to_string());
        // The golden has the message as opm's logger quotes it.
        let expected: String = match case["stderr"].as_str().unwrap() {
            "" => String::new(),
            quoted => serde_json::from_str(quoted).unwrap(),
        };
        assert_eq!(found.err().unwrap_or_default(), expected, "{name}");
    }
}
