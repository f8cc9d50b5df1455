//! GET of one object.

use bailiwick_machinery::list_options::GetOptions;
use bailiwick_machinery::media::Answer;
use bailiwick_machinery::status::ApiResult;
use bailiwick_store::Revision;

use super::list::wait_until_fresh;
use super::request::{Reply, Request};

/// Serves the named object, as fresh as the last acknowledged write unless the client is content with less.
pub async fn get(rq: &Request<'_>) -> ApiResult<Reply> {
    let encoder = rq.encoder(Answer::Object)?;
    let object = match GetOptions::parse(rq.query)?.not_older_than {
        None => rq.current(&rq.info.name).await?,
        Some(revision) => {
            wait_until_fresh(rq, Revision(revision)).await?;
            rq.cache().await?.get(&rq.served.key(&rq.info.namespace, &rq.info.name))
        }
    };
    let object = object.ok_or_else(|| rq.not_found())?;
    rq.object_reply(200, &encoder, object).await
}
