//! The protobuf wire format: tags, varints and length-delimited bytes, written and read.

use super::ProtobufError;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_tag(out: &mut Vec<u8>, number: u32, wire_type: WireType) {
    put_varint(out, u64::from(number) << 3 | wire_type as u64);
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_tag(out, number, WireType::Bytes);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The encoded length of a length-delimited field.
pub(super) fn bytes_len(number: u32, len: usize) -> usize {
    varint_len(u64::from(number) << 3) + varint_len(len as u64) + len
}

fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Writes a nested message in place and puts its length before it afterwards.
pub(crate) fn put_message<T>(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    put_tag(out, number, WireType::Bytes);
    let start = out.len();
    // One byte is enough for most messages; longer ones are moved up.
    out.push(0);
    let result = write(out);
    let len = out.len() - start - 1;
    let extra = varint_len(len as u64) - 1;
    if extra > 0 {
        let end = out.len();
        out.resize(end + extra, 0);
        out.copy_within(start + 1..end, start + 1 + extra);
    }
    let mut rest = len as u64;
    for slot in out.iter_mut().skip(start).take(extra) {
        *slot = rest as u8 | 0x80;
        rest >>= 7;
    }
    if let Some(last) = out.get_mut(start + extra) {
        *last = rest as u8;
    }
    result
}

#[derive(Clone, Copy)]
pub(super) struct Tag {
    pub(super) number: u32,
    wire_type: u8,
}

/// Reads the fields of one message.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    message: &'static str,
}

impl<'a> Reader<'a> {
    pub(super) fn new(data: &'a [u8], message: &'static str) -> Self {
        Self { rest: data, message }
    }

    /// The next field, or `None` at the end of the message.
    pub(super) fn tag(&mut self) -> Result<Option<Tag>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.raw_varint()?;
        let wire_type = (tag & 7) as u8;
        if wire_type == 4 {
            return Err(ProtobufError::EndGroup { message: self.message });
        }
        // The number is 32 bits wide with a sign; what does not fit is cut off.
        let number = (tag >> 3) as i32;
        match u32::try_from(number) {
            Ok(number) if number > 0 => Ok(Some(Tag { number, wire_type })),
            _ => Err(ProtobufError::IllegalTag { message: self.message, number, tag }),
        }
    }

    fn raw_varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(ProtobufError::UnexpectedEof)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ProtobufError::IntegerOverflow)
    }

    fn expect(tag: Tag, wire_type: WireType, field: &str) -> Result<(), ProtobufError> {
        if tag.wire_type == wire_type as u8 {
            return Ok(());
        }
        let mut name = field.to_owned();
        if let Some(first) = name.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        Err(ProtobufError::WrongWireType { wire_type: tag.wire_type, field: name })
    }

    pub(super) fn varint(&mut self, tag: Tag, field: &str) -> Result<u64, ProtobufError> {
        Self::expect(tag, WireType::Varint, field)?;
        self.raw_varint()
    }

    pub(super) fn double(&mut self, tag: Tag, field: &str) -> Result<f64, ProtobufError> {
        Self::expect(tag, WireType::Fixed64, field)?;
        let (bytes, rest) = self.rest.split_first_chunk::<8>().ok_or(ProtobufError::UnexpectedEof)?;
        self.rest = rest;
        Ok(f64::from_le_bytes(*bytes))
    }

    pub(super) fn bytes(&mut self, tag: Tag, field: &str) -> Result<&'a [u8], ProtobufError> {
        Self::expect(tag, WireType::Bytes, field)?;
        self.length_delimited()
    }

    fn length_delimited(&mut self) -> Result<&'a [u8], ProtobufError> {
        let len = self.raw_varint()?;
        if len > i64::MAX as u64 {
            return Err(ProtobufError::NegativeLength);
        }
        let split = usize::try_from(len).ok().and_then(|len| self.rest.split_at_checked(len));
        let (bytes, rest) = split.ok_or(ProtobufError::UnexpectedEof)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Passes over a field that the type does not have.
    pub(super) fn skip(&mut self, tag: Tag) -> Result<(), ProtobufError> {
        let mut open_groups = 0usize;
        let mut wire_type = tag.wire_type;
        loop {
            match wire_type {
                0 => drop(self.raw_varint()?),
                1 => self.advance(8)?,
                2 => drop(self.length_delimited()?),
                3 => open_groups += 1,
                4 => open_groups = open_groups.checked_sub(1).ok_or(ProtobufError::UnexpectedEndOfGroup)?,
                5 => self.advance(4)?,
                other => return Err(ProtobufError::IllegalWireType(other)),
            }
            if open_groups == 0 {
                return Ok(());
            }
            wire_type = (self.raw_varint()? & 7) as u8;
        }
    }

    fn advance(&mut self, len: usize) -> Result<(), ProtobufError> {
        self.rest = self.rest.get(len..).ok_or(ProtobufError::UnexpectedEof)?;
        Ok(())
    }
}
