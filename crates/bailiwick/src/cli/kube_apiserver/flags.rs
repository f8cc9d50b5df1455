//! Every flag of kube-apiserver v1.36: its name, the kind of its value and what becomes of it here.

/// What a flag's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Int,
    Float,
    Duration,
    Ip,
    Text,
    /// Comma-separated, and may be repeated.
    List,
    /// May be repeated.
    Repeated,
    /// Comma-separated `key=value`, and may be repeated.
    Pairs,
}

/// What becomes of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// `serve` has a flag of the same name with the same meaning.
    Same,
    /// Together with others it becomes something else.
    Combined,
    /// It makes no difference here that a client could notice, for this reason.
    NoDifference(&'static str),
    /// Ignoring it would not be what its user meant, for this reason.
    Refused(&'static str),
}

/// A flag of kube-apiserver.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    pub name: &'static str,
    pub kind: Kind,
    pub meaning: Meaning,
}

const fn same(name: &'static str, kind: Kind) -> Flag {
    Flag { name, kind, meaning: Meaning::Same }
}

const fn combined(name: &'static str, kind: Kind) -> Flag {
    Flag { name, kind, meaning: Meaning::Combined }
}

const fn no_difference(name: &'static str, kind: Kind, why: &'static str) -> Flag {
    Flag { name, kind, meaning: Meaning::NoDifference(why) }
}

const fn refused(name: &'static str, kind: Kind, why: &'static str) -> Flag {
    Flag { name, kind, meaning: Meaning::Refused(why) }
}

const NO_NODES: &str = "there are no nodes and pods";
const NO_SERVICES: &str = "there are no services";
const ONE_VERSION: &str = "one version of the API is served";
const OWN_CACHE: &str = "caches and the store look after themselves";
const OWN_LOGS: &str = "logs are written at once, to standard error";
const NO_PROFILER: &str = "there is no profiling endpoint";
const OWN_METRICS: &str = "metrics are few and always on";
const NO_PEERS: &str = "servers do not proxy for each other";

/// All of them, and one of ours.
pub const FLAGS: &[Flag] = &[
    no_difference("admission-control", Kind::List, "replaced by --enable-admission-plugins long ago"),
    same("admission-control-config-file", Kind::Text),
    same("advertise-address", Kind::Ip),
    no_difference("aggregator-reject-forwarding-redirect", Kind::Bool, "redirects are never followed"),
    no_difference("allow-metric-labels", Kind::Pairs, OWN_METRICS),
    no_difference("allow-metric-labels-manifest", Kind::Text, OWN_METRICS),
    no_difference("allow-privileged", Kind::Bool, NO_NODES),
    same("anonymous-auth", Kind::Bool),
    same("api-audiences", Kind::List),
    same("audit-log-batch-buffer-size", Kind::Int),
    same("audit-log-batch-max-size", Kind::Int),
    same("audit-log-batch-max-wait", Kind::Duration),
    same("audit-log-batch-throttle-burst", Kind::Int),
    same("audit-log-batch-throttle-enable", Kind::Bool),
    same("audit-log-batch-throttle-qps", Kind::Float),
    same("audit-log-compress", Kind::Bool),
    same("audit-log-format", Kind::Text),
    same("audit-log-maxage", Kind::Int),
    same("audit-log-maxbackup", Kind::Int),
    same("audit-log-maxsize", Kind::Int),
    same("audit-log-mode", Kind::Text),
    same("audit-log-path", Kind::Text),
    same("audit-log-truncate-enabled", Kind::Bool),
    same("audit-log-truncate-max-batch-size", Kind::Int),
    same("audit-log-truncate-max-event-size", Kind::Int),
    no_difference("audit-log-version", Kind::Text, "there is only audit.k8s.io/v1"),
    same("audit-policy-file", Kind::Text),
    same("audit-webhook-batch-buffer-size", Kind::Int),
    same("audit-webhook-batch-max-size", Kind::Int),
    same("audit-webhook-batch-max-wait", Kind::Duration),
    same("audit-webhook-batch-throttle-burst", Kind::Int),
    same("audit-webhook-batch-throttle-enable", Kind::Bool),
    same("audit-webhook-batch-throttle-qps", Kind::Float),
    same("audit-webhook-config-file", Kind::Text),
    same("audit-webhook-initial-backoff", Kind::Duration),
    same("audit-webhook-mode", Kind::Text),
    same("audit-webhook-truncate-enabled", Kind::Bool),
    same("audit-webhook-truncate-max-batch-size", Kind::Int),
    same("audit-webhook-truncate-max-event-size", Kind::Int),
    no_difference("audit-webhook-version", Kind::Text, "there is only audit.k8s.io/v1"),
    same("authentication-config", Kind::Text),
    same("authentication-token-webhook-cache-ttl", Kind::Duration),
    same("authentication-token-webhook-config-file", Kind::Text),
    same("authentication-token-webhook-version", Kind::Text),
    same("authorization-config", Kind::Text),
    combined("authorization-mode", Kind::List),
    refused("authorization-policy-file", Kind::Text, "there is no ABAC; use RBAC or Webhook"),
    same("authorization-webhook-cache-authorized-ttl", Kind::Duration),
    same("authorization-webhook-cache-unauthorized-ttl", Kind::Duration),
    same("authorization-webhook-config-file", Kind::Text),
    same("authorization-webhook-version", Kind::Text),
    combined("bind-address", Kind::Ip),
    combined("cert-dir", Kind::Text),
    same("client-ca-file", Kind::Text),
    no_difference("contention-profiling", Kind::Bool, NO_PROFILER),
    no_difference("coordinated-leadership-lease-duration", Kind::Duration, "coordinated leader election is off"),
    no_difference("coordinated-leadership-renew-deadline", Kind::Duration, "coordinated leader election is off"),
    no_difference("coordinated-leadership-retry-period", Kind::Duration, "coordinated leader election is off"),
    no_difference("cors-allowed-origins", Kind::List, "browsers of other origins are not let in"),
    no_difference("debug-socket-path", Kind::Text, NO_PROFILER),
    no_difference("default-not-ready-toleration-seconds", Kind::Int, NO_NODES),
    no_difference("default-unreachable-toleration-seconds", Kind::Int, NO_NODES),
    no_difference("delete-collection-workers", Kind::Int, OWN_CACHE),
    same("disable-admission-plugins", Kind::List),
    no_difference("disable-http2-serving", Kind::Bool, "HTTP/2 is served within limits"),
    no_difference("disabled-metrics", Kind::List, OWN_METRICS),
    refused("egress-selector-config-file", Kind::Text, "webhooks are called directly"),
    no_difference("emulated-version", Kind::List, ONE_VERSION),
    no_difference("emulation-forward-compatible", Kind::Bool, ONE_VERSION),
    same("enable-admission-plugins", Kind::List),
    no_difference("enable-aggregator-routing", Kind::Bool, NO_SERVICES),
    same("enable-bootstrap-token-auth", Kind::Bool),
    no_difference("enable-garbage-collector", Kind::Bool, "owner references always count"),
    no_difference("enable-logs-handler", Kind::Bool, "there is no /logs"),
    same("enable-priority-and-fairness", Kind::Bool),
    same("encryption-provider-config", Kind::Text),
    same("encryption-provider-config-automatic-reload", Kind::Bool),
    no_difference("endpoint-reconciler-type", Kind::Text, NO_SERVICES),
    same("etcd-cafile", Kind::Text),
    same("etcd-certfile", Kind::Text),
    same("etcd-compaction-interval", Kind::Duration),
    no_difference("etcd-count-metric-poll-period", Kind::Duration, OWN_METRICS),
    no_difference("etcd-db-metric-poll-interval", Kind::Duration, OWN_METRICS),
    no_difference("etcd-healthcheck-timeout", Kind::Duration, OWN_CACHE),
    same("etcd-keyfile", Kind::Text),
    same("etcd-prefix", Kind::Text),
    no_difference("etcd-readycheck-timeout", Kind::Duration, OWN_CACHE),
    combined("etcd-servers", Kind::List),
    refused("etcd-servers-overrides", Kind::List, "all resources are in one etcd cluster"),
    same("event-ttl", Kind::Duration),
    no_difference("external-hostname", Kind::Text, "no document names it"),
    no_difference("feature-gates", Kind::List, "features are on as they are by default"),
    no_difference("goaway-chance", Kind::Float, "no connection is ended to spread clients over servers"),
    combined("http2-max-streams-per-connection", Kind::Int),
    no_difference("kubelet-certificate-authority", Kind::Text, NO_NODES),
    no_difference("kubelet-client-certificate", Kind::Text, NO_NODES),
    no_difference("kubelet-client-key", Kind::Text, NO_NODES),
    no_difference("kubelet-preferred-address-types", Kind::List, NO_NODES),
    no_difference("kubelet-timeout", Kind::Duration, NO_NODES),
    no_difference("kubernetes-service-node-port", Kind::Int, NO_SERVICES),
    no_difference("lease-reuse-duration-seconds", Kind::Int, OWN_CACHE),
    no_difference("livez-grace-period", Kind::Duration, "starting takes no time"),
    no_difference("log-flush-frequency", Kind::Duration, OWN_LOGS),
    no_difference("log-json-info-buffer-size", Kind::Text, OWN_LOGS),
    no_difference("log-json-split-stream", Kind::Bool, OWN_LOGS),
    no_difference("log-text-info-buffer-size", Kind::Text, OWN_LOGS),
    no_difference("log-text-split-stream", Kind::Bool, OWN_LOGS),
    combined("logging-format", Kind::Text),
    no_difference("max-connection-bytes-per-sec", Kind::Int, "connections are not throttled"),
    same("max-mutating-requests-inflight", Kind::Int),
    same("max-requests-inflight", Kind::Int),
    no_difference("min-compatibility-version", Kind::List, ONE_VERSION),
    no_difference("min-request-timeout", Kind::Int, "watches last as long as by default"),
    same("oidc-ca-file", Kind::Text),
    same("oidc-client-id", Kind::Text),
    same("oidc-groups-claim", Kind::Text),
    same("oidc-groups-prefix", Kind::Text),
    same("oidc-issuer-url", Kind::Text),
    same("oidc-required-claim", Kind::Pairs),
    same("oidc-signing-algs", Kind::List),
    same("oidc-username-claim", Kind::Text),
    same("oidc-username-prefix", Kind::Text),
    no_difference("peer-advertise-ip", Kind::Text, NO_PEERS),
    no_difference("peer-advertise-port", Kind::Text, NO_PEERS),
    no_difference("peer-ca-file", Kind::Text, NO_PEERS),
    no_difference("permit-address-sharing", Kind::Bool, "the address can be used again at once anyway"),
    no_difference("permit-port-sharing", Kind::Bool, "a port has one server"),
    no_difference("profiling", Kind::Bool, NO_PROFILER),
    same("proxy-client-cert-file", Kind::Text),
    same("proxy-client-key-file", Kind::Text),
    same("request-timeout", Kind::Duration),
    same("requestheader-allowed-names", Kind::List),
    same("requestheader-client-ca-file", Kind::Text),
    same("requestheader-extra-headers-prefix", Kind::List),
    same("requestheader-group-headers", Kind::List),
    same("requestheader-uid-headers", Kind::List),
    same("requestheader-username-headers", Kind::List),
    combined("run-controllers", Kind::Bool),
    same("runtime-config", Kind::Pairs),
    no_difference("runtime-config-emulation-forward-compatible", Kind::Bool, ONE_VERSION),
    combined("secure-port", Kind::Int),
    same("service-account-extend-token-expiration", Kind::Bool),
    same("service-account-issuer", Kind::Repeated),
    same("service-account-jwks-uri", Kind::Text),
    same("service-account-key-file", Kind::Repeated),
    no_difference("service-account-lookup", Kind::Bool, "accounts are always looked up"),
    same("service-account-max-token-expiration", Kind::Duration),
    refused("service-account-signing-endpoint", Kind::Text, "tokens are signed with a key file"),
    same("service-account-signing-key-file", Kind::Text),
    no_difference("service-cluster-ip-range", Kind::Text, NO_SERVICES),
    no_difference("service-node-port-range", Kind::Text, NO_SERVICES),
    no_difference("show-hidden-metrics-for-version", Kind::Text, OWN_METRICS),
    same("shutdown-delay-duration", Kind::Duration),
    no_difference("shutdown-send-retry-after", Kind::Bool, "the listener closes before requests are drained"),
    no_difference(
        "shutdown-watch-termination-grace-period",
        Kind::Duration,
        "watches end at once and resume elsewhere",
    ),
    combined("storage-backend", Kind::Text),
    no_difference("storage-initialization-timeout", Kind::Duration, OWN_CACHE),
    no_difference("storage-media-type", Kind::Text, "objects are stored as JSON"),
    same("strict-transport-security-directives", Kind::List),
    same("tls-cert-file", Kind::Text),
    same("tls-cipher-suites", Kind::List),
    no_difference("tls-curve-preferences", Kind::List, "rustls chooses among safe curves"),
    same("tls-min-version", Kind::Text),
    same("tls-private-key-file", Kind::Text),
    refused("tls-sni-cert-key", Kind::Repeated, "there is one serving certificate"),
    same("token-auth-file", Kind::Text),
    same("tracing-config-file", Kind::Text),
    combined("v", Kind::Int),
    no_difference("vmodule", Kind::List, "use --v, or BAILIWICK_LOG for parts"),
    no_difference("watch-cache", Kind::Bool, OWN_CACHE),
    no_difference("watch-cache-sizes", Kind::List, OWN_CACHE),
];

/// The flag of this name.
pub fn find(name: &str) -> Option<&'static Flag> {
    FLAGS.iter().find(|flag| flag.name == name)
}
