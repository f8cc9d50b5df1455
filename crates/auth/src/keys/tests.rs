//! Keys and their ids, against what kube-apiserver derives from the same keys.

use super::*;

/// Made for this test; P-256.
const EC_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE6PzqagmZJxYrCyyZfw+7MH8VdqVa
Ctgjbb7IRWVlFbidE0nOpQx9vIGklD61U45tPX6n8UJkvx1zk1yhy4Xa1g==
-----END PUBLIC KEY-----
";
const RSA_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAx6p/RufQQ/EHG94M+/X+
2MzqPvPbC6YIFORBiywIPWzvR2MeJUqMOYwn3Z9fdo2Q5vpLaMt8ki8sJiLJXD+c
/dvuxv4oM1LCutoPKxREZIk2keDP0kgpSn53nnGhUMtaV+9+aFxFlnaGyd62xZQL
UcYZTAVj3/xYu+aBHmwZIZvJYEsBiu6NjqeladTYOQspiUCl4NRxz/QYRCs2Os3I
mAGt7v6cWridABfUu7GFfcnaVksnkL75JRhqCWB7nhWYZhu9EHsvtX1ccaozquNg
1fB6YiuK/3YD2xi5k15920ojOvSW/8ioRih+k/5v9ieHcSBU7jor2Cm7Wx5aNPH8
5wIDAQAB
-----END PUBLIC KEY-----
";

fn one(pem: &str) -> VerifyingKey {
    VerifyingKey::all_from_pem(pem).expect("a key").pop().expect("one")
}

/// `openssl pkey -pubin -outform DER | sha256sum`, as base64url.
#[test]
fn key_ids_are_hashes_of_the_public_key() {
    assert_eq!(one(EC_PUBLIC).key_id(), "LVFDUcHWHAMvaHBBQj3zdx7VJAZiU8vLxJXTqpTy3eU");
    assert_eq!(one(RSA_PUBLIC).key_id(), "YXez_uoGvZq9ELSL2VtE3RjTfsC_Zz4TQvJwdZ915qY");
}

#[test]
fn web_keys_carry_what_verifiers_need() {
    let ec = one(EC_PUBLIC).to_jwk().expect("a JWK");
    assert_eq!(
        (&ec["kty"], &ec["crv"], &ec["alg"], &ec["use"]),
        (&"EC".into(), &"P-256".into(), &"ES256".into(), &"sig".into())
    );
    assert_eq!(
        (&ec["x"], &ec["y"]),
        (&"6PzqagmZJxYrCyyZfw-7MH8VdqVaCtgjbb7IRWVlFbg".into(), &"nRNJzqUMfbyBpJQ-tVOObT1-p_FCZL8dc5NcocuF2tY".into())
    );
    let rsa = one(RSA_PUBLIC).to_jwk().expect("a JWK");
    assert_eq!((&rsa["kty"], &rsa["alg"], &rsa["e"]), (&"RSA".into(), &"RS256".into(), &"AQAB".into()));
    assert_eq!(
        rsa["n"],
        "x6p_RufQQ_EHG94M-_X-2MzqPvPbC6YIFORBiywIPWzvR2MeJUqMOYwn3Z9fdo2Q5vpLaMt8ki8sJiLJXD-c_dvuxv4oM1LCutoPKxREZIk2keDP0kgpSn53nnGhUMtaV-9-aFxFlnaGyd62xZQLUcYZTAVj3_xYu-aBHmwZIZvJYEsBiu6NjqeladTYOQspiUCl4NRxz_QYRCs2Os3ImAGt7v6cWridABfUu7GFfcnaVksnkL75JRhqCWB7nhWYZhu9EHsvtX1ccaozquNg1fB6YiuK_3YD2xi5k15920ojOvSW_8ioRih-k_5v9ieHcSBU7jor2Cm7Wx5aNPH85w"
    );
}

#[test]
fn what_a_key_signs_only_that_key_verifies() {
    let make = || {
        let pem = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key").serialize_pem();
        SigningKey::from_pem(&pem).expect("usable")
    };
    let (ours, theirs) = (make(), make());
    let signature = ours.sign(b"message").expect("signed");
    assert!(ours.verifying_key().verifies(b"message", &signature));
    assert!(!ours.verifying_key().verifies(b"massage", &signature));
    assert!(!theirs.verifying_key().verifies(b"message", &signature));
}

#[test]
fn what_is_no_key_is_refused() {
    assert_eq!(VerifyingKey::all_from_pem(""), Err(KeyError::NoKey));
    assert!(SigningKey::from_pem("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n").is_err());
    assert!(VerifyingKey::all_from_pem("-----BEGIN PUBLIC KEY-----\n!!\n-----END PUBLIC KEY-----\n").is_err());
}

#[test]
fn a_web_key_verifies_as_the_key_it_was_made_of() {
    for pem in [EC_PUBLIC, RSA_PUBLIC] {
        let key = one(pem);
        let mut jwk = key.to_jwk().expect("a JWK");
        assert_eq!(VerifyingKey::from_jwk(&jwk), Ok(key), "the id is part of it");
        jwk["kid"] = "mine".into();
        assert_eq!(VerifyingKey::from_jwk(&jwk).expect("a key").key_id(), "mine");
    }
    for bad in [
        json!({}),
        json!({"kty": "oct", "k": "AAAA"}),
        json!({"kty": "RSA", "n": "", "e": "AQAB"}),
        json!({"kty": "RSA", "n": "!", "e": "AQAB"}),
        json!({"kty": "EC", "crv": "P-521", "x": "AA", "y": "AA"}),
        json!({"kty": "EC", "crv": "P-256", "x": "A".repeat(200), "y": "AA"}),
    ] {
        assert!(VerifyingKey::from_jwk(&bad).is_err(), "{bad}");
    }
}

#[test]
fn rsa_keys_check_every_rsa_algorithm_and_nothing_else() {
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key");
    let signing = SigningKey::from_pem(&pair.serialize_pem()).expect("usable");
    let signature = signing.sign(b"message").expect("signed");
    let public = signing.verifying_key();
    assert!(public.verifies_as(Algorithm::Es256, b"message", &signature));
    for other in Algorithm::ALL.into_iter().filter(|algorithm| *algorithm != Algorithm::Es256) {
        assert!(!public.verifies_as(other, b"message", &signature), "{}", other.name());
    }
    assert!(!one(RSA_PUBLIC).verifies_as(Algorithm::Es256, b"message", &signature));
}

/// `openssl ecparam -name prime256v1 -genkey` writes this older form.
#[test]
fn bare_ec_keys_sign() {
    const SEC1: &str = "-----BEGIN EC PARAMETERS-----
BggqhkjOPQMBBw==
-----END EC PARAMETERS-----
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEICh+dvhjOjOdQYS1cC5WFnUgJuz2pTwKu7Jm6+X9/L0ToAoGCCqGSM49
AwEHoUQDQgAELUqmgmoPW2LJaC6MVfZvLRlU5uwuMJ7eftDnvPfD9GnPPJVp5wnK
lKCihLEmXTm/ucCv0ux9ZPCOshfVJCOpyQ==
-----END EC PRIVATE KEY-----
";
    let signing = SigningKey::from_pem(SEC1).expect("usable");
    assert!(signing.verifying_key().verifies(b"message", &signing.sign(b"message").expect("signed")));
    assert_eq!(VerifyingKey::all_from_pem(SEC1), Ok(vec![signing.verifying_key()]));
}
