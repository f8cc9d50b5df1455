//! POST of a TokenRequest to a service account.

use bailiwick_auth::token_request;
use bailiwick_machinery::media::Answer;
use bailiwick_machinery::status::ApiResult;
use bailiwick_machinery::write_options::WriteOptions;
use bytes::Bytes;

use super::admit;
use super::body::decode_object;
use super::managed_fields;
use super::request::{Reply, Request};
use super::write::{self, Run};
use crate::http::ResponseBody;
use crate::lookup::Loaded;

/// Issues the token that the body asks for.
pub async fn create(rq: &Request<'_>, body: Bytes) -> ApiResult<Reply> {
    let options = WriteOptions::parse_create(rq.query)?;
    let encoder = rq.encoder(Answer::Object)?;
    let mut request = decode_object(rq, &body, options.field_validation)?;
    token_request::default(&mut request);
    write::settle_namespace(rq, &mut request)?;
    managed_fields::create_virtual(rq, &mut request, &options.manager(rq.user_agent()));
    let run = Run::from(options.dry_run);
    let request = admit::answered(rq, request, run).await?;
    // The account must be seen as its last acknowledged write left it.
    rq.current(&rq.info.name).await?;
    let (namespace, name) = (&rq.info.namespace, &rq.info.name);
    let issue = || token_request::create(&rq.tenant.issuer, &*rq.tenant.lookup, namespace, name, &request, rq.now);
    let complete = rq.tenant.lookup.is_complete();
    let answer = match issue() {
        // It may be bound to a secret, and those are loaded only when one is asked for.
        Err(_) if !complete && rq.tenant.loaded_missed().await? == Loaded::More => issue()?,
        issued => issued?,
    };
    rq.audit.annotate("authentication.kubernetes.io/issued-credential-id", answer.credential_id);
    answer.warnings.into_iter().for_each(|warning| rq.warn(warning));
    Ok(Reply::new(201, encoder.content_type(), ResponseBody::full(encoder.made_up(answer.object)?)))
}
