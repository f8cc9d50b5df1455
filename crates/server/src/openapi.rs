//! `/openapi/v2` and `/openapi/v3`: documents built when first asked for and cached by content hash.

use bailiwick_machinery::status::{ApiError, ApiResult};
use http::request::Parts;

use crate::server::{Answer, ApiServer};

/// Built documents.
#[derive(Default)]
pub struct OpenApi {}

impl ApiServer {
    /// The answer to an OpenAPI path; `None` for other paths.
    pub(crate) fn openapi_answer(&self, _parts: &Parts, path: &str) -> ApiResult<Option<Answer>> {
        if path.starts_with("/openapi/") { Err(ApiError::not_implemented("OpenAPI documents")) } else { Ok(None) }
    }
}
