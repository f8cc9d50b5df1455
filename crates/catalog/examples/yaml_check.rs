//! Reads YAML files and says what is wrong with them.
fn main() {
    for path in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&path).expect(&path);
        match bailiwick_machinery::yaml::decode(&text) {
            Ok(_) => {}
            Err(error) => println!("{path}: {error}"),
        }
    }
}
