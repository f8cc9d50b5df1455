//! POST of a review: a question about authentication or authorization, answered and not stored.

use bailiwick_auth::reviews;
use bailiwick_machinery::media::Answer;
use bailiwick_machinery::status::{ApiError, ApiResult};
use bailiwick_machinery::write_options::WriteOptions;
use bytes::Bytes;

use super::admit;
use super::body::decode_object;
use super::managed_fields;
use super::request::{Reply, Request};
use super::write::{Run, settle_namespace};
use crate::http::ResponseBody;
use crate::lookup::Loaded;

/// Answers the review in the body.
pub async fn create(rq: &Request<'_>, body: Bytes) -> ApiResult<Reply> {
    let options = WriteOptions::parse_create(rq.query)?;
    let encoder = rq.encoder(Answer::Object)?;
    let mut review = decode_object(rq, &body, options.field_validation)?;
    settle_namespace(rq, &mut review)?;
    managed_fields::create_virtual(rq, &mut review, &options.manager(rq.user_agent()));
    let review = admit::answered(rq, review, Run::from(options.dry_run)).await?;
    let config = &rq.server.config;
    let authorizers = &rq.tenant.authorizers;
    let answered = match rq.served.resource.plural.as_str() {
        "tokenreviews" => {
            // A project knows its own service accounts: the root's have the same names and are others.
            let authenticator = rq.tenant.accounts.as_ref().unwrap_or(&config.authenticator);
            let audiences = rq.tenant.issuer.audiences();
            let ask = || reviews::token_review(authenticator, audiences, &review, rq.now);
            let complete = rq.tenant.lookup.is_complete();
            let answered = ask().await?;
            // The token may be bound to a secret, and those are loaded only when one is asked for.
            if !complete && rq.tenant.loaded_missed().await? == Loaded::More { ask().await? } else { answered }
        }
        "selfsubjectreviews" => reviews::self_subject_review(rq.user, rq.now),
        "subjectaccessreviews" => reviews::subject_access_review(authorizers, &review).await?,
        "selfsubjectaccessreviews" => reviews::self_subject_access_review(authorizers, rq.user, &review).await?,
        "localsubjectaccessreviews" => {
            reviews::local_subject_access_review(authorizers, &rq.info.namespace, &review).await?
        }
        "selfsubjectrulesreviews" => reviews::self_subject_rules_review(authorizers, rq.user, &review)?,
        other => return Err(ApiError::not_implemented(format!("answering {other}"))),
    };
    Ok(Reply::new(201, encoder.content_type(), ResponseBody::full(encoder.made_up(answered)?)))
}
