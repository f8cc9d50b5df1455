//! The list of all documents of a catalog in their order, which is read from its beginning to its end: OLM v1's API asks
//! for documents by schema, package and name.

use std::io::{self, BufReader, Read};

use super::index::{Index, Span};

/// Enough for a few hundred documents at a time.
const BUFFER_BYTES: usize = 32 * 1024;
/// Place and length of the document, then the lengths of three texts.
const HEADER_BYTES: usize = 8 + 4 + 3 * 4;
/// Schema, package and name together; longer ones are not of an index that we made.
const MAX_TEXT_BYTES: usize = 64 * 1024 * 1024;

/// A document with its identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Document {
    pub(super) schema: String,
    pub(super) package: String,
    pub(super) name: String,
    pub(super) span: Span,
}

impl Document {
    /// Appends it to a list.
    pub(super) fn encode(&self, out: &mut Vec<u8>) -> io::Result<()> {
        out.extend(self.span.at.to_le_bytes());
        out.extend(self.span.length.to_le_bytes());
        let texts = [&self.schema, &self.package, &self.name];
        for text in texts {
            out.extend(u32::try_from(text.len()).map_err(io::Error::other)?.to_le_bytes());
        }
        texts.iter().for_each(|text| out.extend(text.as_bytes()));
        Ok(())
    }

    fn decode(input: &mut impl Read) -> io::Result<Option<Self>> {
        let mut header = [0; HEADER_BYTES];
        let read = input.read(&mut header)?;
        if read == 0 {
            return Ok(None);
        }
        input.read_exact(header.get_mut(read..).unwrap_or_default())?;
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the index is damaged: its list of documents");
        let (at, lengths) = header.split_first_chunk::<8>().ok_or_else(damaged)?;
        let mut lengths = lengths.chunks_exact(4).filter_map(|it| Some(u32::from_le_bytes(it.try_into().ok()?)));
        let span = Span { at: u64::from_le_bytes(*at), length: lengths.next().ok_or_else(damaged)? };
        let lengths: Vec<usize> = lengths.map(|it| it as usize).collect();
        let total = lengths.iter().sum::<usize>();
        if total > MAX_TEXT_BYTES {
            return Err(damaged());
        }
        let mut texts = vec![0; total];
        input.read_exact(&mut texts)?;
        let mut texts = String::from_utf8(texts).map_err(|_| damaged())?;
        let mut take = |length: &usize| {
            let rest = texts.is_char_boundary(*length).then(|| texts.split_off(*length)).ok_or_else(damaged)?;
            Ok::<_, io::Error>(std::mem::replace(&mut texts, rest))
        };
        let [schema, package, name] = lengths.as_slice() else { return Err(damaged()) };
        Ok(Some(Document { schema: take(schema)?, package: take(package)?, name: take(name)?, span }))
    }
}

impl Index {
    /// The places of the documents that are asked for, in their order.
    pub(super) fn select(&self, mut is_wanted: impl FnMut(&Document) -> bool) -> io::Result<Vec<Span>> {
        let mut input = BufReader::with_capacity(BUFFER_BYTES, self.documents_reader());
        let mut spans = Vec::new();
        while let Some(document) = Document::decode(&mut input)? {
            if is_wanted(&document) {
                spans.push(document.span);
            }
        }
        Ok(spans)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn documents_come_back_in_order() {
        let document = |name: &str, at| Document {
            schema: "olm.bundle".to_owned(),
            package: "foo".to_owned(),
            name: name.to_owned(),
            span: Span { at, length: 3 },
        };
        let documents = [document("", 1), document("ü", 1 << 40), document("foo.v1", 9)];
        let mut bytes = Vec::new();
        documents.iter().for_each(|it| it.encode(&mut bytes).unwrap());
        // Two bytes at a time, so that every boundary is met.
        let mut input = BufReader::with_capacity(2, bytes.as_slice());
        for document in documents {
            assert_eq!(Document::decode(&mut input).unwrap(), Some(document));
        }
        assert_eq!(Document::decode(&mut input).unwrap(), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(0u8..4, 0..80)) {
            let mut input = bytes.as_slice();
            while let Ok(Some(_)) = Document::decode(&mut input) {}
        }
    }
}
