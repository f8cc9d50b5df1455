//! Range reads, in pages sized so that no single answer grows beyond what gRPC and memory take well.

use bytes::Bytes;
use tonic::Status;

use super::EtcdStore;
use super::client::Repeat;
use super::keys::{from_wire, header_revision, to_wire};
use super::proto::{self, path};
use super::status::{Known, known, to_error};
use crate::{Error, KeyValue, RangeRequest, RangeResponse, Result, Revision, key_after};

/// Entries in the first page: with etcd's limit of 1.5 MiB for a value this stays below the 2 GiB of a gRPC message.
const FIRST_PAGE: usize = 1000;
/// kube-apiserver's largest page, too: etcd holds the whole page in memory.
const MAX_PAGE: usize = 10_000;
/// Later pages aim at this size, judging by the entries seen so far.
const PAGE_BYTES: usize = 16 << 20;
/// How often a read of the newest state starts over because compaction overtook it between two pages.
const MAX_RESTARTS: usize = 3;

impl EtcdStore {
    pub(super) async fn read_range(&self, request: &RangeRequest) -> Result<RangeResponse> {
        if request.at == Some(Revision(0)) {
            return Err(Error::InvalidRequest("revision 0 never was".into()));
        }
        for restart in 0.. {
            match self.read_pages(request).await {
                Ok(response) => return Ok(response),
                Err(status) if known(&status) == Some(Known::Compacted) => match request.at {
                    Some(requested) => return Err(self.compacted_error(requested).await),
                    None if restart < MAX_RESTARTS => {}
                    None => return Err(Error::Unavailable("compaction keeps overtaking a long read".into())),
                },
                Err(status) if known(&status) == Some(Known::FutureRevision) => {
                    let requested = request.at.unwrap_or_default();
                    return Err(self.future_error(requested).await);
                }
                Err(status) => return Err(to_error(&status)),
            }
        }
        unreachable!("invariant: the loop above ends by returning")
    }

    async fn read_pages(&self, request: &RangeRequest) -> Result<RangeResponse, Status> {
        let (mut start, end) = self.keys.outer_range(&request.range);
        let limit = request.limit.unwrap_or(usize::MAX);
        let mut at = request.at;
        let mut count = None;
        let mut entries: Vec<KeyValue> = Vec::new();
        let mut bytes = 0;
        loop {
            let page = page_size(entries.len(), bytes).min(limit - entries.len());
            let asked = proto::RangeRequest {
                key: start,
                range_end: end.clone(),
                limit: page as i64,
                revision: at.map_or(0, to_wire),
                count_only: limit == 0,
            };
            let response: proto::RangeResponse = self.client.unary(path::RANGE, asked, Repeat::Safe).await?;
            let revision = *at.get_or_insert(header_revision(&response.header));
            // Later pages count from their own start.
            let count = *count.get_or_insert(u64::try_from(response.count).unwrap_or(0));
            let last = response.kvs.last().map(|kv| kv.key.clone());
            entries.reserve(response.kvs.len());
            for kv in response.kvs {
                bytes += kv.key.len() + kv.value.len();
                entries.extend(self.keys.inner(kv));
            }
            match last {
                Some(last) if response.more && entries.len() < limit => start = key_after(&last),
                _ => return Ok(RangeResponse { revision, entries, count }),
            }
        }
    }

    /// Reads one key, or nothing but the revision if there is no such key.
    pub(super) async fn read_one(&self, key: Bytes) -> Result<(Revision, Option<KeyValue>)> {
        let request = proto::RangeRequest { key, ..Default::default() };
        let mut response: proto::RangeResponse =
            self.client.unary(path::RANGE, request, Repeat::Safe).await.map_err(|status| to_error(&status))?;
        let kv = response.kvs.pop().and_then(|kv| self.keys.inner(kv));
        Ok((header_revision(&response.header), kv))
    }

    pub(super) async fn read_revision(&self) -> Result<Revision> {
        let request = proto::RangeRequest { key: self.keys.outer(b""), count_only: true, ..Default::default() };
        let response: proto::RangeResponse =
            self.client.unary(path::RANGE, request, Repeat::Safe).await.map_err(|status| to_error(&status))?;
        Ok(header_revision(&response.header))
    }

    /// Whether any history is gone: the oldest there can be is revision 1.
    pub(super) async fn history_is_cut(&self) -> Result<bool> {
        let key = self.keys.outer(b"");
        let request = proto::RangeRequest { key, revision: 1, count_only: true, ..Default::default() };
        let result: Result<proto::RangeResponse, Status> = self.client.unary(path::RANGE, request, Repeat::Safe).await;
        match result {
            Ok(_) => Ok(false),
            Err(status) if known(&status) == Some(Known::Compacted) => Ok(true),
            Err(status) => Err(to_error(&status)),
        }
    }

    /// The error for a revision that is gone. etcd does not say how far back history goes, so it takes another question.
    pub(super) async fn compacted_error(&self, requested: Revision) -> Error {
        match self.compaction_floor().await {
            Ok(compacted) => Error::Compacted { requested, compacted },
            Err(error) => error,
        }
    }

    /// The error for a revision that has not happened yet.
    pub(super) async fn future_error(&self, requested: Revision) -> Error {
        match self.read_revision().await {
            Ok(current) => Error::FutureRevision { requested, current },
            Err(error) => error,
        }
    }

    /// The highest compacted revision, 0 if there is none. A watch from before it is refused with the number.
    pub(super) async fn compaction_floor(&self) -> Result<Revision> {
        if !self.history_is_cut().await? {
            return Ok(Revision(0));
        }
        super::watch::compaction_floor(&self.client, self.keys.outer(b"")).await.map(from_wire)
    }
}

/// How many entries to ask for next, after `entries` of `bytes` altogether.
fn page_size(entries: usize, bytes: usize) -> usize {
    match entries {
        0 => FIRST_PAGE,
        _ => (PAGE_BYTES / (bytes / entries).max(1)).clamp(1, MAX_PAGE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_small_entries_grow_and_of_large_ones_shrink() {
        assert_eq!(page_size(0, 0), FIRST_PAGE);
        assert_eq!(page_size(1000, 1000 * 100), MAX_PAGE);
        assert_eq!(page_size(1000, 1000 << 20), PAGE_BYTES >> 20);
        assert_eq!(page_size(2, usize::MAX / 2), 1);
    }
}
