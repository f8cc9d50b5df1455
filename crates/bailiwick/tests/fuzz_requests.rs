//! Hostile requests against the whole server in process: whatever is sent, the answer is a proper one, nothing panics and
//! nothing fails on our side. Custom objects are among them, of a definition with about everything a schema can have.
//!
//! Requests are mutations of valid ones, made by a seeded generator. `BAILIWICK_FUZZ_SECONDS` sets how long it runs (a
//! minute in CI, a few seconds otherwise); a failure prints the seed and the request, and `BAILIWICK_FUZZ_SEED` repeats it.

use std::time::{Duration, Instant};

use bailiwick::ControlPlane;
use bailiwick_machinery::user::UserInfo;
use bailiwick_server::LocalService;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tower_service::Service;

/// A custom type with defaults, every kind of list and map, rules, unknown fields and two versions.
const DEFINITION: &str = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gadgets.fuzz.example.com"},"spec":{"group":"fuzz.example.com","scope":"Namespaced","names":{"plural":"gadgets","kind":"Gadget"},"versions":[
 {"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","required":["n"],"properties":{
  "n":{"type":"integer","format":"int32","minimum":0,"maximum":100,"multipleOf":2,"default":4},"f":{"type":"number","exclusiveMinimum":true,"minimum":0},
  "s":{"type":"string","maxLength":20,"pattern":"^[a-z]*$","nullable":true,"default":"abc"},"e":{"type":"string","enum":["a","b"]},"d":{"type":"string","format":"date-time"},
  "p":{"x-kubernetes-int-or-string":true},"set":{"type":"array","maxItems":10,"x-kubernetes-list-type":"set","items":{"type":"string"}},
  "map":{"type":"array","maxItems":10,"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},"v":{"type":"integer","default":1}},"x-kubernetes-validations":[{"rule":"!has(oldSelf.v) || self.v >= oldSelf.v"}]}},
  "atomic":{"type":"object","x-kubernetes-map-type":"atomic","additionalProperties":{"type":"string"}},"any":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
  "embedded":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true},
  "or":{"type":"object","anyOf":[{"required":["x"]},{"required":["y"]}],"not":{"required":["z"]},"properties":{"x":{"type":"string"},"y":{"type":"string"},"z":{"type":"string"}}}},
  "x-kubernetes-validations":[{"rule":"self.n < 90 || self.s.startsWith('a')","message":"n is large"},{"rule":"!has(self.map) || self.map.all(m, m.k.size() < 50)"}]},
  "status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}},
  "subresources":{"status":{},"scale":{"specReplicasPath":".spec.n","statusReplicasPath":".status.n","labelSelectorPath":".status.sel"}},
  "additionalPrinterColumns":[{"name":"N","type":"integer","jsonPath":".spec.n"},{"name":"K","type":"string","jsonPath":".spec.map[?(@.k=='a')].v"}],"selectableFields":[{"jsonPath":".spec.s"}]},
 {"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}"#;
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GADGETS: &str = "/apis/fuzz.example.com/v1/namespaces/default/gadgets";
/// The generator deletes what it can; so often it gets its definition back.
const REDEFINED_AFTER: u64 = 100;

const PATHS: &[&str] = &[
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/configmaps/a",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/namespaces/default/serviceaccounts/a/token",
    "/api/v1/namespaces/default/events",
    "/api/v1/namespaces/default/resourcequotas/a/status",
    "/api/v1/namespaces",
    "/api/v1/namespaces/x/finalize",
    "/api/v1/configmaps",
    "/apis/events.k8s.io/v1/namespaces/default/events",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases/a",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings/a",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/a/status",
    "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com/status",
    "/apis/apiregistration.k8s.io/v1/apiservices",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests/a/approval",
    "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
    "/apis/authentication.k8s.io/v1/tokenreviews",
    GADGETS,
    GADGETS,
    "/apis/fuzz.example.com/v1/namespaces/default/gadgets/a",
    "/apis/fuzz.example.com/v1/namespaces/default/gadgets/a",
    "/apis/fuzz.example.com/v2/namespaces/default/gadgets/a",
    "/apis/fuzz.example.com/v1/namespaces/default/gadgets/a/status",
    "/apis/fuzz.example.com/v1/namespaces/default/gadgets/a/scale",
    "/apis/fuzz.example.com/v2/gadgets",
    "/openapi/v3/apis/fuzz.example.com/v1",
    "/apis",
    "/apis/rbac.authorization.k8s.io/v1",
    "/openapi/v3/apis/coordination.k8s.io/v1",
    "/healthz",
    "/version",
];

const QUERIES: &[&str] = &[
    "",
    "",
    "limit=2",
    "limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0",
    "labelSelector=a%20in%20(b,c),!d",
    "fieldSelector=metadata.name%3Da,type!%3DOpaque",
    "resourceVersion=1&resourceVersionMatch=Exact",
    "resourceVersion=0",
    "watch=1&timeoutSeconds=1&allowWatchBookmarks=1&resourceVersion=3",
    "dryRun=All&fieldValidation=Strict&fieldManager=f",
    "pretty=true",
    "propagationPolicy=Foreground&gracePeriodSeconds=0",
    "includeObject=Object",
    "fieldManager=m",
    "fieldManager=n&force=true",
    "fieldSelector=spec.s%3Dabc",
];

const GADGET: &str = r#"{"apiVersion":"fuzz.example.com/v1","kind":"Gadget","metadata":{"name":"a","labels":{"a":"b"}},"spec":{"n":2,"f":1.5,"s":"abc","e":"a","d":"2026-01-02T03:04:05Z","p":"50%","set":["x","y"],"map":[{"k":"a","v":1},{"k":"b"}],"atomic":{"x":"y"},"any":{"deep":[{"er":1}]},"embedded":{"apiVersion":"v1","kind":"X","metadata":{"name":"m"},"more":{}},"or":{"x":"1"}},"status":{"n":1}}"#;

const BODIES: &[&str] = &[
    GADGET,
    GADGET,
    GADGET,
    r#"{"apiVersion":"fuzz.example.com/v2","kind":"Gadget","metadata":{"name":"a"},"spec":{"n":2,"map":[{"k":"a"},{"k":"b","v":3}]}}"#,
    r#"{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a"},"spec":{"replicas":6}}"#,
    r#"{"spec":{"n":8,"map":[{"k":"c","v":2}],"set":["z"],"s":null},"status":{"n":3,"sel":"a=b"}}"#,
    r#"[{"op":"replace","path":"/spec/n","value":10},{"op":"add","path":"/spec/map/-","value":{"k":"q"}},{"op":"test","path":"/spec/e","value":"a"}]"#,
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"a":"b"},"finalizers":["x.io/f"]},"data":{"k":"v"},"binaryData":{"b":"AAE="}}"#,
    r#"{"apiVersion":"v1","kind":"Secret","metadata":{"generateName":"s-"},"type":"kubernetes.io/tls","stringData":{"a":"b"}}"#,
    r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x"},"spec":{"finalizers":["kubernetes"]}}"#,
    r#"{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"a"},"spec":{"hard":{"configmaps":"10","count/secrets":"1k"},"scopes":["Terminating"]}}"#,
    r#"{"apiVersion":"v1","kind":"Event","metadata":{"name":"e","namespace":"default"},"involvedObject":{"kind":"X","namespace":"default"},"eventTime":"2026-01-02T03:04:05.000006Z","count":2}"#,
    r#"{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"e"},"regarding":{"namespace":"default"},"eventTime":"2026-01-02T03:04:05Z","reportingController":"x.io/c","reportingInstance":"i","action":"a","reason":"r","type":"Normal","series":{"count":2,"lastObservedTime":"2026-01-02T03:04:05Z"}}"#,
    r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"a"},"spec":{"holderIdentity":"h","leaseDurationSeconds":10,"renewTime":"2026-01-02T03:04:05.000006Z"}}"#,
    r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"r"},"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["configmaps"]}],"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}}"#,
    r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"a"},"subjects":[{"kind":"ServiceAccount","name":"d","namespace":"default"}],"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"}}"#,
    r#"{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"w"},"webhooks":[{"name":"a.b.io","clientConfig":{"url":"https://x/y"},"rules":[{"operations":["*"],"apiGroups":["coordination.k8s.io"],"apiVersions":["*"],"resources":["leases"]}],"sideEffects":"None","admissionReviewVersions":["v1"],"matchConditions":[{"name":"m","expression":"true"}]}]}"#,
    r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"things","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"n":{"type":"integer","minimum":1}}}}}},"subresources":{"status":{}},"additionalPrinterColumns":[{"name":"N","type":"integer","jsonPath":".spec.n"}]}]}}"#,
    r#"{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"FlowSchema","metadata":{"name":"f"},"spec":{"priorityLevelConfiguration":{"name":"exempt"},"matchingPrecedence":5,"rules":[{"subjects":[{"kind":"User","user":{"name":"*"}}],"nonResourceRules":[{"verbs":["*"],"nonResourceURLs":["*"]}]}]}}"#,
    r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"u","resourceAttributes":{"verb":"get","resource":"configmaps"}}}"#,
    r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"eyJhbGciOiJub25lIn0.e30."}}"#,
    r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":["a"],"expirationSeconds":600}}"#,
    r#"[{"op":"add","path":"/data/x","value":"y"},{"op":"move","from":"/data/x","path":"/data/z"}]"#,
    r#"{"metadata":{"labels":null,"$patch":"merge","$deleteFromPrimitiveList/finalizers":["x.io/f"]},"data":{"$retainKeys":["k"]}}"#,
    r#"{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"x"},"propagationPolicy":"Orphan"}"#,
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: &x\n  k: v\n  on: 'yes'\n",
    "",
];

const CONTENT_TYPES: &[&str] = &[
    "application/json",
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "text/plain",
];

const ACCEPTS: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
    "*/*",
    "image/png",
];

const METHODS: &[&str] = &["GET", "POST", "POST", "PUT", "PATCH", "PATCH", "DELETE", "HEAD", "OPTIONS"];

/// How long an answer is read.
const BODY_TIMEOUT: Duration = Duration::from_millis(200);

/// Bytes that mean something to the parsers.
const TOKENS: &[&[u8]] = &[
    b"null",
    b"{}",
    b"[]",
    b"\"\"",
    b"-1",
    b"1e400",
    b"9223372036854775808",
    b"\\u0000",
    b"\xff",
    b"%2F",
    b"..",
    b"k8s\0",
    b"{\"a\":",
    b"[[[[[[[[",
    b"\"metadata\":",
    b",",
    b"*a",
    b"true",
    b"/",
    b"&x",
    b"\n---\n",
    b"\x80\x80\x80\x80\x10",
];

fn mutate(bytes: &mut Vec<u8>, rng: &mut StdRng) {
    for _ in 0..rng.random_range(0..4) {
        let at = rng.random_range(0..=bytes.len());
        let end = (at + rng.random_range(1..30)).min(bytes.len());
        match rng.random_range(0..5) {
            0 if at < bytes.len() => bytes[at] = rng.random(),
            1 => drop(bytes.drain(at..end)),
            2 => drop(bytes.splice(at..at, TOKENS.choose(rng).copied().unwrap_or_default().iter().copied())),
            3 => {
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            _ => bytes.truncate(at),
        }
    }
}

#[derive(Clone, Debug)]
struct Hostile {
    method: &'static str,
    target: String,
    content_type: &'static str,
    accept: &'static str,
    body: Vec<u8>,
}

impl Hostile {
    fn generate(rng: &mut StdRng) -> Self {
        let pick = |from: &'static [&'static str], rng: &mut StdRng| from.choose(rng).copied().unwrap_or_default();
        let mut target = format!("{}?{}", pick(PATHS, rng), pick(QUERIES, rng)).into_bytes();
        if rng.random_bool(0.3) {
            mutate(&mut target, rng);
        }
        // What HTTP itself refuses never reaches us: keep to visible ASCII.
        let target: String =
            target.into_iter().filter(|b| b.is_ascii_graphic() && *b != b'#').map(char::from).collect();
        let mut body = pick(BODIES, rng).as_bytes().to_vec();
        if rng.random_bool(0.8) {
            mutate(&mut body, rng);
        }
        let (method, content_type, accept) = (pick(METHODS, rng), pick(CONTENT_TYPES, rng), pick(ACCEPTS, rng));
        Self { method, target: format!("/{}", target.trim_start_matches('/')), content_type, accept, body }
    }

    fn request(&self) -> Option<http::Request<Full<Bytes>>> {
        http::Request::builder()
            .method(self.method)
            .uri(&self.target)
            .header("content-type", self.content_type)
            .header("accept", self.accept)
            .body(Full::from(self.body.clone()))
            .ok()
    }
}

async fn send(service: &mut LocalService, request: http::Request<Full<Bytes>>) -> (u16, Bytes) {
    let Ok(response) = service.call(request).await;
    let status = response.status().as_u16();
    // A watch whose timeout was mutated away goes on for half an hour; its beginning is enough.
    let body = tokio::time::timeout(BODY_TIMEOUT, response.into_body().collect()).await;
    let body = body.ok().and_then(Result::ok);
    (status, body.map(|body| body.to_bytes()).unwrap_or_default())
}

/// What upstream too answers with 500 where the request is at fault; each is in the recordings under `conformance/golden`.
const UPSTREAM_500: [&str; 10] = [
    // A create that names a revision, and revisions that are no numbers.
    "resourceVersion should not be set on objects to be created",
    "strconv.ParseUint: parsing",
    // Applies of what does not fit the type.
    "failed to create typed patch object",
    "failed to convert new object",
    "request to convert CR to an invalid group/version",
    // Strategic merge patches whose directives make no sense.
    "unknown patch type",
    "does not contain declared merge key",
    "unsupported role reference kind",
    // Webhooks that the generator configured and nobody serves.
    "failed calling webhook",
    // The Scale of an object whose definition the generator gave another path of replicas.
    "the spec replicas field",
];

/// Whether an answer is one that the request deserves. Waiting in vain is the client's affair where it set the time, or waits for
/// a revision that is not there yet.
fn is_meant(hostile: &Hostile, status: u16, body: &[u8]) -> bool {
    match status {
        ..500 => true,
        500 => UPSTREAM_500.iter().any(|message| contains(body, message.as_bytes())),
        504 => hostile.target.contains("timeout=") || contains(body, b"Too large resource version"),
        _ => false,
    }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

fn from_env<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_makes_the_server_fail() {
    let in_ci = std::env::var_os("CI").is_some();
    let seconds = from_env("BAILIWICK_FUZZ_SECONDS").unwrap_or(if in_ci { 60 } else { 5 });
    let seed = from_env("BAILIWICK_FUZZ_SEED").unwrap_or_else(|| rand::rng().random());
    println!("BAILIWICK_FUZZ_SEED={seed}");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let running = ControlPlane::builder(dir.path()).start().await.expect("the control plane starts");
    let admin = UserInfo { name: "fuzz".into(), groups: vec![UserInfo::MASTERS.into()], ..UserInfo::default() };
    let mut service = running.local_service(admin);
    let mut rng = StdRng::seed_from_u64(seed);
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let mut sent = 0u64;
    let mut accepted = 0u64;
    while Instant::now() < deadline {
        if sent.is_multiple_of(REDEFINED_AFTER) {
            let define = http::Request::post(DEFINITIONS).header("content-type", "application/json");
            send(&mut service, define.body(Full::from(DEFINITION)).expect("a request")).await;
        }
        let hostile = Hostile::generate(&mut rng);
        let Some(request) = hostile.request() else { continue };
        let (status, mut body) = send(&mut service, request).await;
        if status >= 500 && hostile.method == "HEAD" {
            // Why is said to those only who ask for it.
            let again = Hostile { method: "GET", ..hostile.clone() };
            body = send(&mut service, again.request().expect("a request")).await.1;
        }
        let text = String::from_utf8_lossy(&body);
        assert!(is_meant(&hostile, status, &body), "seed {seed}: {status} to {hostile:?}: {text}");
        sent += 1;
        accepted += u64::from(hostile.target.starts_with("/apis/fuzz.example.com") && status < 300);
    }
    let metrics = http::Request::get("/metrics").body(Full::default()).expect("a request");
    let (_, text) = send(&mut service, metrics).await;
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("apiserver_request_panics_total 0"), "seed {seed}: a request panicked");
    println!("{sent} hostile requests answered, {accepted} of custom objects accepted");
    assert!(sent > 0 && (accepted > 0 || sent < 1000));
    running.stop().await;
}
