//! The formats of strings and numbers that the reference checks, with its very lenient or very strict ideas of each.

mod addresses;
mod calendar;
mod codes;
mod mail;
mod uri;

use super::schema::Kind;

/// A format that is checked. Any other name in a schema is a remark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    BsonObjectId,
    Byte,
    Cidr,
    CreditCard,
    Date,
    DateTime,
    Duration,
    Email,
    HexColor,
    Hostname,
    Ipv4,
    Ipv6,
    Isbn,
    Isbn10,
    Isbn13,
    LongName,
    Mac,
    Password,
    RgbColor,
    ShortName,
    Ssn,
    Uri,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Int32,
    Int64,
    Float,
    Double,
}

/// Longest `k8s-short-name`: a DNS label.
const SHORT_NAME_MAX_LENGTH: usize = 63;
/// Longest `k8s-long-name`: a DNS name.
const LONG_NAME_MAX_LENGTH: usize = 253;

impl Format {
    /// The format a schema asks for by name, if it is checked for values of that type.
    pub fn of(name: &str, kind: Option<Kind>) -> Option<Self> {
        match kind {
            None | Some(Kind::String) => Self::of_strings(name),
            Some(Kind::Integer) => match name {
                "int32" => Some(Self::Int32),
                "int64" => Some(Self::Int64),
                _ => None,
            },
            Some(Kind::Number) => match name {
                "float" => Some(Self::Float),
                "double" => Some(Self::Double),
                _ => None,
            },
            Some(Kind::Object | Kind::Array | Kind::Boolean) => None,
        }
    }

    /// Dashes in names of formats count for nothing.
    fn of_strings(name: &str) -> Option<Self> {
        let plain: String = name.chars().filter(|c| *c != '-').collect();
        Some(match plain.as_str() {
            "bsonobjectid" => Self::BsonObjectId,
            "byte" => Self::Byte,
            "cidr" => Self::Cidr,
            "creditcard" => Self::CreditCard,
            "date" => Self::Date,
            "datetime" => Self::DateTime,
            "duration" => Self::Duration,
            "email" => Self::Email,
            "hexcolor" => Self::HexColor,
            "hostname" => Self::Hostname,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "isbn" => Self::Isbn,
            "isbn10" => Self::Isbn10,
            "isbn13" => Self::Isbn13,
            "k8slongname" => Self::LongName,
            "mac" => Self::Mac,
            "password" => Self::Password,
            "rgbcolor" => Self::RgbColor,
            "k8sshortname" => Self::ShortName,
            "ssn" => Self::Ssn,
            "uri" => Self::Uri,
            "uuid" => Self::Uuid,
            "uuid3" => Self::Uuid3,
            "uuid4" => Self::Uuid4,
            "uuid5" => Self::Uuid5,
            _ => return None,
        })
    }

    /// Whether strings are checked against this format.
    pub fn is_of_strings(self) -> bool {
        !matches!(self, Self::Int32 | Self::Int64 | Self::Float | Self::Double)
    }

    /// Whether a string has this format; formats of numbers say nothing of strings.
    pub fn accepts(self, text: &str) -> bool {
        match self {
            Self::BsonObjectId => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
            Self::Byte => codes::is_base64(text),
            Self::Cidr => addresses::is_cidr(text),
            Self::CreditCard => codes::is_credit_card(text),
            Self::Date => calendar::is_date(text),
            Self::DateTime => calendar::is_date_time(text),
            Self::Duration => calendar::is_duration(text),
            Self::Email => mail::is_address(text),
            Self::HexColor => codes::is_hex_color(text),
            Self::Hostname => addresses::is_hostname(text),
            Self::Ipv4 => text.contains('.') && addresses::is_ip_sloppy(text),
            Self::Ipv6 => text.contains(':') && addresses::is_ip(text),
            Self::Isbn => codes::is_isbn10(text) || codes::is_isbn13(text),
            Self::Isbn10 => codes::is_isbn10(text),
            Self::Isbn13 => codes::is_isbn13(text),
            Self::LongName => text.len() <= LONG_NAME_MAX_LENGTH && text.split('.').all(is_name_segment),
            Self::Mac => addresses::is_mac(text),
            Self::RgbColor => codes::is_rgb_color(text),
            Self::ShortName => text.len() <= SHORT_NAME_MAX_LENGTH && is_name_segment(text),
            Self::Ssn => codes::is_ssn(text),
            Self::Uri => uri::is_request_uri(text),
            Self::Uuid => codes::is_uuid(text, None),
            Self::Uuid3 => codes::is_uuid(text, Some(b'3')),
            Self::Uuid4 => codes::is_uuid(text, Some(b'4')),
            Self::Uuid5 => codes::is_uuid(text, Some(b'5')),
            Self::Password | Self::Int32 | Self::Int64 | Self::Float | Self::Double => true,
        }
    }
}

fn is_name_segment(text: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    !text.is_empty()
        && text.bytes().all(|b| alphanumeric(b) || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests;
