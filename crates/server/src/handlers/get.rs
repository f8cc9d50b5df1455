//! GET of one object.

use bailiwick_machinery::media::Answer;
use bailiwick_machinery::status::ApiResult;

use super::request::{Reply, Request};

/// Serves the named object, as fresh as the last acknowledged write.
pub async fn get(rq: &Request<'_>) -> ApiResult<Reply> {
    let encoder = rq.encoder(Answer::Object)?;
    let object = rq.current(&rq.info.name).await?.ok_or_else(|| rq.not_found())?;
    rq.object_reply(200, &encoder, &object)
}
