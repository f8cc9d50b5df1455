//! Negotiation as kube-apiserver 1.36.4 does it.

use proptest::prelude::*;

use super::*;

fn agreed(accept: &str) -> (MediaType, Transform) {
    let negotiated = negotiate(accept, Origin::Native, Answer::List).unwrap();
    (negotiated.media, negotiated.transform)
}

fn refused(accept: &str, origin: Origin, answer: Answer) -> ApiError {
    negotiate(accept, origin, answer).unwrap_err()
}

#[test]
fn the_most_wanted_type_wins() {
    for (accept, media) in [
        ("", MediaType::Json),
        ("*/*", MediaType::Json),
        ("application/yaml", MediaType::Yaml),
        ("application/json;q=0.1,application/yaml", MediaType::Yaml),
        ("application/vnd.kubernetes.protobuf, application/json", MediaType::Protobuf),
        ("application/json;q=0", MediaType::Json),
        ("*/*;q=0.8,text/html", MediaType::Json),
        ("text/html,application/yaml;q=0.5,*/*;q=0.9", MediaType::Json),
        ("application/json;stream=watch", MediaType::Json),
        ("application/json;foo=1", MediaType::Json),
    ] {
        assert_eq!(agreed(accept), (media, Transform::None), "{accept}");
    }
}

#[test]
fn a_named_type_beats_a_wildcard_that_came_first() {
    assert_eq!(agreed("*/*,application/yaml").0, MediaType::Yaml);
}

#[test]
fn kubectl_gets_tables() {
    let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
    assert_eq!(agreed(kubectl), (MediaType::Json, Transform::Table(MetaVersion::V1)));
    let yaml = "application/yaml;as=Table;v=v1;g=meta.k8s.io";
    assert_eq!(agreed(yaml), (MediaType::Yaml, Transform::Table(MetaVersion::V1)));
    let fallback = "application/json;as=Table;g=apps;v=v1, application/json";
    assert_eq!(agreed(fallback), (MediaType::Json, Transform::None));
    let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    let negotiated = negotiate(metadata, Origin::Custom, Answer::List).unwrap();
    assert_eq!(negotiated.media, MediaType::Protobuf);
    assert_eq!(negotiated.transform, Transform::PartialObjectMetadataList(MetaVersion::V1));
}

#[test]
fn what_cannot_be_served_is_refused() {
    let handler = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf";
    for accept in [
        "application/json;as=Table",
        "application/json;as=Foo;v=v1;g=meta.k8s.io",
        "application/json;as=Table;v=v2;g=meta.k8s.io",
        "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
        "application/json;stream=foo",
    ] {
        assert_eq!(refused(accept, Origin::Native, Answer::List).message, handler, "{accept}");
    }
    for accept in ["text/plain", "APPLICATION/JSON", "application/vnd.kubernetes.protobuf"] {
        assert_eq!(refused(accept, Origin::Custom, Answer::List).message, handler, "{accept}");
    }
    assert_eq!(negotiate("application/*", Origin::Custom, Answer::List).unwrap().media, MediaType::Json);
    let error = refused("application/yaml", Origin::Native, Answer::Watch);
    assert_eq!(
        error.message,
        "only the following media types are accepted: application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
    );
    assert_eq!((error.code, error.details), (406, None));
}

#[test]
fn the_router_refuses_first() {
    for accept in ["text/plain", "garbage", "application/*", "APPLICATION/JSON", "application/cbor"] {
        let error = refused(accept, Origin::Native, Answer::List);
        assert_eq!(
            error.message,
            "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
             application/vnd.kubernetes.protobuf, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
        );
        assert_eq!(error.details, Some(Box::default()));
    }
}

#[test]
fn statuses_are_sent_plainly_when_nothing_fits() {
    assert_eq!(negotiate_status("application/yaml").map(|n| n.media), Some(MediaType::Yaml));
    assert_eq!(negotiate_status("application/*").map(|n| n.media), Some(MediaType::Json));
    assert_eq!(negotiate_status("text/plain"), None);
    assert_eq!(negotiate_status("application/json;as=Table;v=v1;g=meta.k8s.io"), None);
}

#[test]
fn people_get_pretty_output() {
    assert!(wants_pretty(None, "curl/8.0") && wants_pretty(Some("1"), "x") && wants_pretty(Some(""), "Mozilla/5.0 x"));
    assert!(
        !wants_pretty(Some("false"), "curl/8.0")
            && !wants_pretty(None, "kubectl")
            && !wants_pretty(Some("yes"), "curl")
    );
    assert!(negotiate("application/json;pretty=1", Origin::Native, Answer::Object).unwrap().pretty);
}

#[test]
fn bodies_have_types() {
    for good in ["", "application/json", "application/json; charset=utf-8", "APPLICATION/JSON", "application/json;"] {
        assert_eq!(body_type(good, Origin::Native), Ok(MediaType::Json), "{good}");
    }
    assert_eq!(body_type("application/yaml", Origin::Custom), Ok(MediaType::Yaml));
    for bad in ["text/plain", "application/merge-patch+json", "application/json;;;", "*/*"] {
        let error = body_type(bad, Origin::Native).unwrap_err();
        assert_eq!(
            error.message,
            "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf"
        );
        assert_eq!(error.code, 415);
    }
}

#[test]
fn patches_have_types() {
    assert_eq!(patch_type("application/merge-patch+json;x=y", Origin::Native), Ok(PatchKind::MergePatch));
    assert_eq!(
        patch_type("application/strategic-merge-patch+json", Origin::Native),
        Ok(PatchKind::StrategicMergePatch)
    );
    for bad in ["", "application/json", "APPLICATION/merge-patch+json"] {
        assert_eq!(patch_type(bad, Origin::Native).unwrap_err().message, "415: Unsupported Media Type");
    }
    for bad in ["", "application/json", "application/strategic-merge-patch+json"] {
        assert_eq!(
            patch_type(bad, Origin::Custom).unwrap_err().message,
            "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
        );
    }
}

proptest! {
    #[test]
    fn no_header_panics(header in "\\PC*") {
        let _ = negotiate(&header, Origin::Custom, Answer::List);
        let _ = body_type(&header, Origin::Native);
        let _ = patch_type(&header, Origin::Native);
    }
}
