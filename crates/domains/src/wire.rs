//! The codec boundary: questions become bytes and bytes become answers here and nowhere else. The bytes of an answer are
//! kept beside its parsed form as evidence; a malformed message is an error, never a panic.

mod answer;
mod ask;
mod text;

pub use answer::{Answer, ExtendedError, MalformedAnswer, Section};
pub use ask::{Ask, Edns, Question, Recursion};
pub use hickory_proto::op::ResponseCode;
pub use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
pub use text::{InvalidName, RecordView, class_text, parse_name, rcode_text, rdata_text, show_name, type_text};

/// Labels of a name, a leading `*` included and the root excluded. (The codec's own count leaves `*` out, as signatures do.)
pub fn label_count(name: &Name) -> usize {
    name.iter().count()
}

/// The target of a DNAME record, whose type the codec leaves opaque.
pub fn dname_target(record: &Record) -> Option<Name> {
    use hickory_proto::serialize::binary::{BinDecodable, BinDecoder};
    let RData::Unknown { code, rdata } = &record.data else { return None };
    if *code != RecordType::DNAME {
        return None;
    }
    let mut name = Name::read(&mut BinDecoder::new(&rdata.anything)).ok()?;
    name.set_fqdn(true);
    Some(name)
}
