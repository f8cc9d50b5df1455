use proptest::prelude::*;

use super::*;

fn address(text: &str) -> SocketAddr {
    SocketAddr::new(text.parse().unwrap(), 443)
}

fn ranges(texts: &[&str]) -> Vec<Cidr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn metadata_link_local_multicast_and_unspecified_addresses_are_denied_in_every_spelling() {
    let policy = DialPolicy::default();
    for denied in [
        "169.254.169.254",
        "0.0.0.0",
        "0.1.2.3",
        "224.0.0.1",
        "255.255.255.255",
        "100.100.100.200",
        "::",
        "fe80::1",
        "ff02::1",
        "fd00:ec2::254",
        "::ffff:169.254.169.254",
        "::169.254.169.254",
        "64:ff9b::169.254.169.254",
    ] {
        assert!(policy.check(address(denied)).is_err(), "{denied}");
    }
    for allowed in ["127.0.0.1", "::1", "10.0.0.1", "192.168.1.1", "8.8.8.8", "2001:db8::1", "::ffff:10.0.0.1"] {
        assert_eq!(policy.check(address(allowed)), Ok(()), "{allowed}");
    }
}

#[test]
fn the_narrowest_range_decides_and_the_operator_comes_before_the_default() {
    let policy =
        DialPolicy::new(&ranges(&["10.1.2.0/24", "169.254.0.0/16"]), &ranges(&["0.0.0.0/0", "10.1.2.3"]), vec![]);
    assert_eq!(policy.check(address("10.1.2.4")), Ok(()));
    assert!(policy.check(address("10.1.2.3")).is_err());
    assert!(policy.check(address("10.1.3.1")).is_err());
    assert_eq!(policy.check(address("169.254.1.1")), Ok(()));
    assert_eq!(policy.check(address("2001:db8::1")), Ok(()), "other family");
}

#[test]
fn services_of_the_server_are_denied_by_port() {
    let policy = DialPolicy::new(&[], &[], vec!["127.0.0.1:2379".parse().unwrap()]);
    assert!(policy.check("127.0.0.1:2379".parse().unwrap()).is_err());
    assert!(policy.check("[::ffff:127.0.0.1]:2379".parse().unwrap()).is_err());
    assert_eq!(policy.check("127.0.0.1:443".parse().unwrap()), Ok(()));
}

#[tokio::test]
async fn a_denied_address_is_not_dialled_and_the_message_does_not_name_it() {
    let error = dial(Origin::Tenant, "169.254.169.254", 80).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    assert_eq!(error.to_string(), "its address must not be called: link-local");
}

#[tokio::test]
async fn an_allowed_address_is_dialled_by_name() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (dialled, accepted) = tokio::join!(dial(Origin::Tenant, "localhost", port), listener.accept());
    assert!(dialled.is_ok() && accepted.is_ok());
}

proptest! {
    #[test]
    fn any_text_parses_or_is_refused(text in "\\PC{0,40}") {
        let _ = Cidr::from_str(&text);
    }

    #[test]
    fn a_range_contains_exactly_the_addresses_with_its_prefix(a: u32, b: u32, len in 0_u8..=32) {
        let range = Cidr { network: IpAddr::V4(Ipv4Addr::from_bits(a)), prefix_len: len };
        let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
        prop_assert_eq!(range.contains(IpAddr::V4(Ipv4Addr::from_bits(b))), a & mask == b & mask);
    }
}
