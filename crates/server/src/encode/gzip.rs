//! Compression of large answers on the fly, at the level and from the size upstream uses.

use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body::{Body, Frame};

use crate::http::{BrokenBody, ResponseBody};

/// Answers below this size are cheaper to send than to compress; upstream's threshold.
pub const GZIP_BYTES_MIN: usize = 128 * 1024;
/// Compressed bytes are passed on in pieces of about this size.
const CHUNK_BYTES: usize = 32 * 1024;

/// A body compressed as it is produced.
pub struct GzipBody {
    inner: ResponseBody,
    /// `None` once the trailer has been written.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl GzipBody {
    /// Compresses `first` (already taken from `inner`) and the rest of `inner`.
    pub fn new(first: Bytes, inner: ResponseBody) -> Self {
        let mut encoder = GzEncoder::new(Vec::with_capacity(CHUNK_BYTES), Compression::new(1));
        // Writing into memory cannot fail.
        let _ = encoder.write_all(&first);
        Self { inner, encoder: Some(encoder) }
    }

    pub fn inner_mut(&mut self) -> &mut ResponseBody {
        &mut self.inner
    }

    fn take_chunk(encoder: &mut GzEncoder<Vec<u8>>) -> Bytes {
        std::mem::take(encoder.get_mut()).into()
    }
}

impl Body for GzipBody {
    type Data = Bytes;
    type Error = BrokenBody;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        loop {
            let Some(encoder) = &mut this.encoder else { return Poll::Ready(None) };
            if encoder.get_ref().len() >= CHUNK_BYTES {
                return Poll::Ready(Some(Ok(Frame::data(Self::take_chunk(encoder)))));
            }
            match Pin::new(&mut this.inner).poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        let _ = encoder.write_all(&data);
                    }
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => {
                    let rest = this.encoder.take().and_then(|encoder| encoder.finish().ok());
                    return Poll::Ready(rest.map(|bytes| Ok(Frame::data(bytes.into()))));
                }
            }
        }
    }
}
