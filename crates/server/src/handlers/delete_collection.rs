//! DELETE of a collection: every object that a list with the same selectors would show.

use bailiwick_machinery::list_options::ListOptions;
use bailiwick_machinery::media::Answer;
use bailiwick_machinery::status::ApiResult;
use bytes::Bytes;

use super::body::decode_delete_options;
use super::delete::{Deleted, delete_object};
use super::list::{converted, find};
use super::request::{Reply, Request};
use crate::http::ResponseBody;

/// Deletes what matches and answers with the list of what it was.
pub async fn delete_collection(rq: &Request<'_>, body: Bytes) -> ApiResult<Reply> {
    let selected = ListOptions::parse(rq.query)?;
    let options = decode_delete_options(rq, &body)?;
    let encoder = rq.encoder(Answer::List)?;
    let filter = rq.filter(&selected)?;
    let found = find(rq, &selected, filter.clone()).await?;
    let meta = found.meta.clone();
    let mut objects = found.into_objects();
    // Only then: what is deleted need not be shown by a webhook that may be gone.
    if filter.looks_inside() {
        objects = converted(rq, &filter, objects).await?;
    }
    for object in &objects {
        match delete_object(rq, object.name(), &options).await {
            Ok(Deleted::Gone(_) | Deleted::Marked(_)) => {}
            // Somebody else was faster, which is as good.
            Err(error) if error.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    let list = encoder.whole_list_in_turns(&meta, objects).await?;
    Ok(Reply::new(200, encoder.content_type(), ResponseBody::full(list)))
}
