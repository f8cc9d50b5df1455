use super::*;

/// Texts that have the format, and texts that have not.
fn check(format: &str, valid: &[&str], invalid: &[&str]) {
    let parsed = Format::of(format, Some(Kind::String)).expect(format);
    for text in valid {
        assert!(parsed.accepts(text), "{text:?} should be a {format}");
    }
    for text in invalid {
        assert!(!parsed.accepts(text), "{text:?} should not be a {format}");
    }
}

#[test]
fn dates_and_times() {
    check("date", &["2024-02-29"], &["2023-02-29", "2024-2-1", "2024-01-01T", ""]);
    check(
        "date-time",
        &["2024-01-01T00:00:00Z", "2024-01-01t00:00:00.5+01:00", "2024-01-01T23:59:59x5z"],
        &["2024-01-01", "2024-01-01T24:00:00Z", "2024-01-01T00:00:00", "2024-01-01 00:00:00Z", "2024-01-01T00:00:60Z"],
    );
    check(
        "duration",
        &["1h30m", "-1.5h", "0", "22 ns", "3 days and 4 hours", "1 weeks", "1µs"],
        &["", "1", "x", "h", "1 fortnight"],
    );
}

#[test]
fn addresses() {
    check("ipv4", &["1.2.3.4", "01.2.3.4", "::ffff:1.2.3.4"], &["1.2.3", "1.2.3.256", "::1", ""]);
    check("ipv6", &["::1", "fe80::1", "::ffff:1.2.3.4"], &["1.2.3.4", "fe80::1%eth0", "::ffff:01.2.3.4", "1:2"]);
    check("cidr", &["10.0.0.0/8", "010.0.0.0/8", "::/0"], &["10.0.0.0", "10.0.0.0/33", "::/129", "/8"]);
    check("mac", &["00:11:22:33:44:55", "00-11-22-33-44-55", "0011.2233.4455", "001122334455"], &["00:11", "0:1:2"]);
    check(
        "hostname",
        &["a", "a-b", "www.example.com", "1.example.com"],
        &["ab-c", "a.b", "a_b.com", "", "-a.com", "a.1"],
    );
    check(
        "email",
        &["a@b", "A B <a@b.c>", "\"a b\"@c", "a@[1.2.3.4]", "a@b (comment)", "g: a@b;"],
        &["", "a", "@b", "a@", ".a@b", "a..b@c", "a@b c", "<a@b", "a@[x]"],
    );
    check(
        "uri",
        &["http://a/b?c", "/a", "mailto:x", "*", "http://[::1]:80/", "http://u:p@h/", "x://a:1,b:2/"],
        &["", "a", "http://a b/", ":a", "/%zz", "http://[1.2.3.4]/", "http://a:b/", "http://a:1:2/"],
    );
}

#[test]
fn codes() {
    check("uuid", &["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"], &["123e4567", ""]);
    check("uuid3", &["123e4567-e89b-32d3-0456-426614174000"], &["123e4567-e89b-42d3-a456-426614174000"]);
    check("uuid4", &["123e4567-e89b-42d3-a456-426614174000"], &["123e4567-e89b-42d3-c456-426614174000"]);
    check("uuid5", &["123e4567-e89b-52d3-b456-426614174000"], &["123e4567-e89b-42d3-a456-426614174000"]);
    check("isbn", &["0321751043", "978-0321751041"], &["0321751044", "978-0321751042"]);
    check("isbn10", &["0321751043"], &["978-0321751041"]);
    check("isbn13", &["978-0321751041"], &["0321751043"]);
    check("creditcard", &["4111-1111-1111-1111", "378282246310005"], &["4111111111111112", "1"]);
    check("ssn", &["111-11-1111", "111 11 1111"], &["111111111", "111-11-111"]);
    check("hexcolor", &["#fff", "FFFFFF"], &["#ffff", "#ggg"]);
    check("rgbcolor", &["rgb(0, 1,255)", "rgb( 10 , 20 , 30 )"], &["rgb(256,0,0)", "rgb(01,0,0)", "rgb(1,2)"]);
    check("byte", &["YQ==", "YWI=", "YWJj"], &["", "YQ", "Y===", "Y-=="]);
    check("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f", "zzzzzzzzzzzzzzzzzzzzzzzz"]);
    check("password", &["", "x"], &[]);
    check("k8s-short-name", &["a", "a-1"], &["A", "-a", "", "a.b"]);
    check("k8s-long-name", &["a.b-c"], &["a..b", "A.b"]);
}

#[test]
fn formats_belong_to_types() {
    assert_eq!(Format::of("int32", Some(Kind::Integer)), Some(Format::Int32));
    assert_eq!(Format::of("int32", Some(Kind::Number)), None);
    assert_eq!(Format::of("int32", Some(Kind::String)), None);
    assert_eq!(Format::of("date", None), Some(Format::Date));
    assert_eq!(Format::of("date", Some(Kind::Object)), None);
    assert_eq!(Format::of("unheard-of", Some(Kind::String)), None);
}
