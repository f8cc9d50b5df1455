//! Server reflection, by which grpcurl and others learn the services, and the encoding of `google.protobuf.Struct`.
//! The descriptors are written from a table of the messages.

use prost::Message;
use serde_json::Value;

const STRING: u64 = 9;
const MESSAGE: u64 = 11;
const ENUM: u64 = 14;
const DOUBLE: u64 = 1;
const BOOL: u64 = 8;
const NOT_FOUND: i32 = 5;

#[derive(Clone, PartialEq, Message)]
struct Question {
    #[prost(string, optional, tag = "3")]
    file: Option<String>,
    #[prost(string, optional, tag = "4")]
    symbol: Option<String>,
    #[prost(string, optional, tag = "7")]
    list: Option<String>,
}

/// Answers one question.
pub(super) fn answer(question: &[u8]) -> Vec<u8> {
    let asked = Question::decode(question).unwrap_or_default();
    let mut out = Vec::new();
    bytes(&mut out, 2, question);
    if asked.list.is_some() {
        let mut services = Vec::new();
        for name in SERVICE_NAMES {
            bytes(&mut services, 1, &text_field(1, name));
        }
        bytes(&mut out, 6, &services);
        return out;
    }
    let file = match (&asked.file, &asked.symbol) {
        (Some(file), _) => file_by_name(file),
        (None, Some(symbol)) => file_of_symbol(symbol),
        (None, None) => None,
    };
    match file {
        Some(file) => bytes(&mut out, 4, &bytes_field(1, &file)),
        None => {
            let mut error = Vec::new();
            number(&mut error, 1, NOT_FOUND as u64);
            bytes(&mut error, 2, b"not found");
            bytes(&mut out, 7, &error);
        }
    }
    out
}

const SERVICE_NAMES: [&str; 5] = [
    "api.ExperimentalRegistry",
    "api.Registry",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];

fn file_by_name(name: &str) -> Option<Vec<u8>> {
    match name {
        "registry.proto" => Some(registry_file()),
        "google/protobuf/struct.proto" => Some(struct_file()),
        "grpc/health/v1/health.proto" => Some(health_file()),
        _ => None,
    }
}

fn file_of_symbol(symbol: &str) -> Option<Vec<u8>> {
    if symbol.starts_with("api.") {
        Some(registry_file())
    } else if symbol.starts_with("google.protobuf.") {
        Some(struct_file())
    } else if symbol.starts_with("grpc.health.v1.") {
        Some(health_file())
    } else {
        None
    }
}

/// Fields as `name:number`, `*` before a repeated one, `=Type` after a message.
const MESSAGES: &[(&str, &str)] = &[
    ("Channel", "name:1 csvName:2 deprecation:3=Deprecation"),
    ("PackageName", "name:1"),
    ("Package", "name:1 *channels:2=Channel defaultChannelName:3 deprecation:4=Deprecation"),
    ("GroupVersionKind", "group:1 version:2 kind:3 plural:4"),
    ("Dependency", "type:1 value:2"),
    ("Property", "type:1 value:2"),
    (
        "Bundle",
        "csvName:1 packageName:2 channelName:3 csvJson:4 *object:5 bundlePath:6 *providedApis:7=GroupVersionKind \
         *requiredApis:8=GroupVersionKind version:9 skipRange:10 *dependencies:11=Dependency *properties:12=Property \
         replaces:13 *skips:14 deprecation:15=Deprecation",
    ),
    ("ChannelEntry", "packageName:1 channelName:2 bundleName:3 replaces:4"),
    ("ListPackageRequest", ""),
    ("ListBundlesRequest", ""),
    ("GetPackageRequest", "name:1"),
    ("GetBundleRequest", "pkgName:1 channelName:2 csvName:3"),
    ("GetBundleInChannelRequest", "pkgName:1 channelName:2"),
    ("GetAllReplacementsRequest", "csvName:1"),
    ("GetReplacementRequest", "csvName:1 pkgName:2 channelName:3"),
    ("GetAllProvidersRequest", "group:1 version:2 kind:3 plural:4"),
    ("GetLatestProvidersRequest", "group:1 version:2 kind:3 plural:4"),
    ("GetDefaultProviderRequest", "group:1 version:2 kind:3 plural:4"),
    ("Deprecation", "message:1"),
    ("ExperimentalListPackageCustomSchemasRequest", "schema:1 packageName:2"),
];

/// Name, request, answer; `*` before a stream of answers.
const METHODS: &[(&str, &str, &str)] = &[
    ("ListPackages", "ListPackageRequest", "*PackageName"),
    ("GetPackage", "GetPackageRequest", "Package"),
    ("GetBundle", "GetBundleRequest", "Bundle"),
    ("GetBundleForChannel", "GetBundleInChannelRequest", "Bundle"),
    ("GetChannelEntriesThatReplace", "GetAllReplacementsRequest", "*ChannelEntry"),
    ("GetBundleThatReplaces", "GetReplacementRequest", "Bundle"),
    ("GetChannelEntriesThatProvide", "GetAllProvidersRequest", "*ChannelEntry"),
    ("GetLatestChannelEntriesThatProvide", "GetLatestProvidersRequest", "*ChannelEntry"),
    ("GetDefaultBundleThatProvides", "GetDefaultProviderRequest", "Bundle"),
    ("ListBundles", "ListBundlesRequest", "*Bundle"),
];

fn registry_file() -> Vec<u8> {
    let mut file = Vec::new();
    bytes(&mut file, 1, b"registry.proto");
    bytes(&mut file, 2, b"api");
    bytes(&mut file, 3, b"google/protobuf/struct.proto");
    for (name, fields) in MESSAGES {
        bytes(&mut file, 4, &message(name, fields));
    }
    bytes(&mut file, 6, &service("Registry", METHODS));
    let experimental = [(
        "ExperimentalListPackageCustomSchemas",
        "ExperimentalListPackageCustomSchemasRequest",
        "*google.protobuf.Struct",
    )];
    bytes(&mut file, 6, &service("ExperimentalRegistry", &experimental));
    bytes(&mut file, 12, b"proto3");
    file
}

fn message(name: &str, fields: &str) -> Vec<u8> {
    let mut out = text_field(1, name);
    for field in fields.split_whitespace() {
        let (repeated, field) = field.strip_prefix('*').map_or((false, field), |field| (true, field));
        let (field, type_name) = field.split_once('=').map_or((field, None), |(field, name)| (field, Some(name)));
        let (name, tag) = field.split_once(':').unwrap_or((field, "0"));
        let kind = if type_name.is_some() { MESSAGE } else { STRING };
        let type_name = type_name.map(|name| format!(".api.{name}"));
        bytes(
            &mut out,
            2,
            &field_descriptor(name, tag.parse().unwrap_or(0), repeated, kind, type_name.as_deref(), None),
        );
    }
    out
}

fn field_descriptor(
    name: &str,
    tag: u64,
    repeated: bool,
    kind: u64,
    type_name: Option<&str>,
    oneof: Option<u64>,
) -> Vec<u8> {
    let mut out = text_field(1, name);
    number(&mut out, 3, tag);
    number(&mut out, 4, if repeated { 3 } else { 1 });
    number(&mut out, 5, kind);
    if let Some(type_name) = type_name {
        bytes(&mut out, 6, type_name.as_bytes());
    }
    if let Some(oneof) = oneof {
        number(&mut out, 9, oneof);
    }
    bytes(&mut out, 10, name.as_bytes());
    out
}

fn service(name: &str, methods: &[(&str, &str, &str)]) -> Vec<u8> {
    let mut out = text_field(1, name);
    for (method, request, answer) in methods {
        let (streams, answer) = answer.strip_prefix('*').map_or((false, *answer), |answer| (true, answer));
        let full = |name: &str| if name.contains('.') { format!(".{name}") } else { format!(".api.{name}") };
        let mut descriptor = text_field(1, method);
        bytes(&mut descriptor, 2, full(request).as_bytes());
        bytes(&mut descriptor, 3, full(answer).as_bytes());
        if streams {
            number(&mut descriptor, 6, 1);
        }
        bytes(&mut out, 2, &descriptor);
    }
    out
}

fn health_file() -> Vec<u8> {
    let mut file = Vec::new();
    bytes(&mut file, 1, b"grpc/health/v1/health.proto");
    bytes(&mut file, 2, b"grpc.health.v1");
    bytes(&mut file, 4, &message("HealthCheckRequest", "service:1"));
    let mut response = text_field(1, "HealthCheckResponse");
    let status = ".grpc.health.v1.HealthCheckResponse.ServingStatus";
    bytes(&mut response, 2, &field_descriptor("status", 1, false, ENUM, Some(status), None));
    bytes(&mut response, 4, &enumeration("ServingStatus", &["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"]));
    bytes(&mut file, 4, &response);
    let methods = [
        ("Check", "grpc.health.v1.HealthCheckRequest", "grpc.health.v1.HealthCheckResponse"),
        ("Watch", "grpc.health.v1.HealthCheckRequest", "*grpc.health.v1.HealthCheckResponse"),
    ];
    bytes(&mut file, 6, &service("Health", &methods));
    bytes(&mut file, 12, b"proto3");
    file
}

fn enumeration(name: &str, values: &[&str]) -> Vec<u8> {
    let mut out = text_field(1, name);
    for (i, value) in values.iter().enumerate() {
        let mut descriptor = text_field(1, value);
        number(&mut descriptor, 2, i as u64);
        bytes(&mut out, 2, &descriptor);
    }
    out
}

fn struct_file() -> Vec<u8> {
    let mut file = Vec::new();
    bytes(&mut file, 1, b"google/protobuf/struct.proto");
    bytes(&mut file, 2, b"google.protobuf");
    let mut entry = text_field(1, "FieldsEntry");
    bytes(&mut entry, 2, &field_descriptor("key", 1, false, STRING, None, None));
    bytes(&mut entry, 2, &field_descriptor("value", 2, false, MESSAGE, Some(".google.protobuf.Value"), None));
    let mut options = Vec::new();
    number(&mut options, 7, 1);
    bytes(&mut entry, 7, &options);
    let mut message = text_field(1, "Struct");
    let fields = ".google.protobuf.Struct.FieldsEntry";
    bytes(&mut message, 2, &field_descriptor("fields", 1, true, MESSAGE, Some(fields), None));
    bytes(&mut message, 3, &entry);
    bytes(&mut file, 4, &message);
    let mut value = text_field(1, "Value");
    for (name, tag, kind, type_name) in [
        ("null_value", 1, ENUM, Some(".google.protobuf.NullValue")),
        ("number_value", 2, DOUBLE, None),
        ("string_value", 3, STRING, None),
        ("bool_value", 4, BOOL, None),
        ("struct_value", 5, MESSAGE, Some(".google.protobuf.Struct")),
        ("list_value", 6, MESSAGE, Some(".google.protobuf.ListValue")),
    ] {
        bytes(&mut value, 2, &field_descriptor(name, tag, false, kind, type_name, Some(0)));
    }
    bytes(&mut value, 8, &text_field(1, "kind"));
    bytes(&mut file, 4, &value);
    let mut list = text_field(1, "ListValue");
    bytes(&mut list, 2, &field_descriptor("values", 1, true, MESSAGE, Some(".google.protobuf.Value"), None));
    bytes(&mut file, 4, &list);
    bytes(&mut file, 5, &enumeration("NullValue", &["NULL_VALUE"]));
    bytes(&mut file, 12, b"proto3");
    file
}

/// A JSON object as `google.protobuf.Struct`.
pub(super) fn encode_struct(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (key, value) in value.as_object().into_iter().flatten() {
        let mut entry = text_field(1, key);
        bytes(&mut entry, 2, &encode_value(value));
        bytes(&mut out, 1, &entry);
    }
    out
}

fn encode_value(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    match value {
        Value::Null => number(&mut out, 1, 0),
        Value::Number(it) => {
            out.push(2 << 3 | 1);
            out.extend(it.as_f64().unwrap_or_default().to_le_bytes());
        }
        Value::String(text) => bytes(&mut out, 3, text.as_bytes()),
        Value::Bool(flag) => number(&mut out, 4, u64::from(*flag)),
        Value::Object(_) => bytes(&mut out, 5, &encode_struct(value)),
        Value::Array(items) => {
            let mut list = Vec::new();
            items.iter().for_each(|item| bytes(&mut list, 1, &encode_value(item)));
            bytes(&mut out, 6, &list);
        }
    }
    out
}

fn bytes(out: &mut Vec<u8>, tag: u64, content: &[u8]) {
    varint(out, tag << 3 | 2);
    varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

fn number(out: &mut Vec<u8>, tag: u64, value: u64) {
    varint(out, tag << 3);
    varint(out, value);
}

fn varint(out: &mut Vec<u8>, value: u64) {
    prost::encoding::encode_varint(value, out);
}

fn text_field(tag: u64, text: &str) -> Vec<u8> {
    bytes_field(tag, text.as_bytes())
}

fn bytes_field(tag: u64, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    bytes(&mut out, tag, content);
    out
}
