//! The messages of `api.Registry`, by hand: three dozen fields need no code generator.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub struct Channel {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub csv_name: String,
    #[prost(message, optional, tag = "3")]
    pub deprecation: Option<Deprecation>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PackageName {
    #[prost(string, tag = "1")]
    pub name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Package {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, repeated, tag = "2")]
    pub channels: Vec<Channel>,
    #[prost(string, tag = "3")]
    pub default_channel_name: String,
    #[prost(message, optional, tag = "4")]
    pub deprecation: Option<Deprecation>,
}

#[derive(Clone, PartialEq, Message)]
pub struct GroupVersionKind {
    #[prost(string, tag = "1")]
    pub group: String,
    #[prost(string, tag = "2")]
    pub version: String,
    #[prost(string, tag = "3")]
    pub kind: String,
    #[prost(string, tag = "4")]
    pub plural: String,
}

/// A dependency or a property.
#[derive(Clone, PartialEq, Message)]
pub struct Typed {
    #[prost(string, tag = "1")]
    pub r#type: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Bundle {
    #[prost(string, tag = "1")]
    pub csv_name: String,
    #[prost(string, tag = "2")]
    pub package_name: String,
    #[prost(string, tag = "3")]
    pub channel_name: String,
    #[prost(string, tag = "4")]
    pub csv_json: String,
    #[prost(string, repeated, tag = "5")]
    pub object: Vec<String>,
    #[prost(string, tag = "6")]
    pub bundle_path: String,
    #[prost(message, repeated, tag = "7")]
    pub provided_apis: Vec<GroupVersionKind>,
    #[prost(message, repeated, tag = "8")]
    pub required_apis: Vec<GroupVersionKind>,
    #[prost(string, tag = "9")]
    pub version: String,
    #[prost(string, tag = "10")]
    pub skip_range: String,
    #[prost(message, repeated, tag = "11")]
    pub dependencies: Vec<Typed>,
    #[prost(message, repeated, tag = "12")]
    pub properties: Vec<Typed>,
    #[prost(string, tag = "13")]
    pub replaces: String,
    #[prost(string, repeated, tag = "14")]
    pub skips: Vec<String>,
    #[prost(message, optional, tag = "15")]
    pub deprecation: Option<Deprecation>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ChannelEntry {
    #[prost(string, tag = "1")]
    pub package_name: String,
    #[prost(string, tag = "2")]
    pub channel_name: String,
    #[prost(string, tag = "3")]
    pub bundle_name: String,
    #[prost(string, tag = "4")]
    pub replaces: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Deprecation {
    #[prost(string, tag = "1")]
    pub message: String,
}

/// Every request: up to four texts, whose meaning the method knows.
#[derive(Clone, PartialEq, Message)]
pub struct Texts {
    #[prost(string, tag = "1")]
    pub first: String,
    #[prost(string, tag = "2")]
    pub second: String,
    #[prost(string, tag = "3")]
    pub third: String,
    #[prost(string, tag = "4")]
    pub fourth: String,
}

/// The answer of a health check.
#[derive(Clone, PartialEq, Message)]
pub struct Health {
    /// 1: serving.
    #[prost(int32, tag = "1")]
    pub status: i32,
}
