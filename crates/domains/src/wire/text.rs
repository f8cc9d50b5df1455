//! Names, types and record data as people write them.

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use serde::{Deserialize, Serialize};

use super::dname_target;

/// Text that is no domain name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a domain name: {reason}")]
pub struct InvalidName {
    text: String,
    reason: String,
}

/// Parses an absolute name; the last dot may be missing.
pub fn parse_name(text: &str) -> Result<Name, InvalidName> {
    let mut name =
        Name::from_ascii(text).map_err(|error| InvalidName { text: text.to_owned(), reason: error.to_string() })?;
    name.set_fqdn(true);
    Ok(name)
}

/// A name in lower case, without the last dot except for the root.
pub fn show_name(name: &Name) -> String {
    let mut text = name.to_lowercase().to_ascii();
    if text.len() > 1 && text.ends_with('.') {
        text.pop();
    }
    text
}

/// A type's mnemonic, `TYPE123` for one that has none.
pub fn type_text(rtype: RecordType) -> String {
    match rtype {
        RecordType::Unknown(code) => format!("TYPE{code}"),
        known => known.to_string(),
    }
}

/// A class' mnemonic.
pub fn class_text(class: DNSClass) -> String {
    class.to_string()
}

/// A response code's mnemonic.
pub fn rcode_text(code: ResponseCode) -> String {
    match code {
        ResponseCode::NoError => "NOERROR".to_owned(),
        ResponseCode::FormErr => "FORMERR".to_owned(),
        ResponseCode::ServFail => "SERVFAIL".to_owned(),
        ResponseCode::NXDomain => "NXDOMAIN".to_owned(),
        ResponseCode::NotImp => "NOTIMP".to_owned(),
        ResponseCode::Refused => "REFUSED".to_owned(),
        ResponseCode::YXDomain => "YXDOMAIN".to_owned(),
        ResponseCode::NotAuth => "NOTAUTH".to_owned(),
        ResponseCode::NotZone => "NOTZONE".to_owned(),
        ResponseCode::BADVERS | ResponseCode::BADSIG => "BADVERS".to_owned(),
        other => format!("RCODE{}", u16::from(other)),
    }
}

/// A record's data as a zone file has it.
pub fn rdata_text(record: &Record) -> String {
    if let Some(target) = dname_target(record) {
        return target.to_lowercase().to_ascii();
    }
    match &record.data {
        RData::TXT(txt) => {
            let strings: Vec<String> = txt.txt_data.iter().map(|string| quoted(string)).collect();
            strings.join(" ")
        }
        RData::CNAME(name) => name.0.to_lowercase().to_ascii(),
        RData::NS(name) => name.0.to_lowercase().to_ascii(),
        RData::PTR(name) => name.0.to_lowercase().to_ascii(),
        RData::Unknown { rdata, .. } => {
            let bytes = &rdata.anything;
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("\\# {} {hex}", bytes.len())
        }
        data => data.to_string(),
    }
}

/// A character string in quotes, with what is not printable ASCII as `\ddd`.
fn quoted(string: &[u8]) -> String {
    let mut text = String::with_capacity(string.len() + 2);
    text.push('"');
    for &byte in string {
        match byte {
            b'"' | b'\\' => {
                text.push('\\');
                text.push(char::from(byte));
            }
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\{byte:03}")),
        }
    }
    text.push('"');
    text
}

/// A record for JSON and tables.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RecordView {
    /// The owner name.
    pub name: String,
    /// The type's mnemonic.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The time to live in seconds.
    pub ttl: u32,
    /// The data as a zone file has it.
    pub data: String,
}

impl From<&Record> for RecordView {
    fn from(record: &Record) -> Self {
        Self {
            name: show_name(&record.name),
            rtype: type_text(record.record_type()),
            ttl: record.ttl,
            data: rdata_text(record),
        }
    }
}
