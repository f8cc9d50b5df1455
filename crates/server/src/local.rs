//! The server as an in-process HTTP service: how our own controllers reach the API without a socket or TLS.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bailiwick_machinery::user::UserInfo;
use http::{Request, Response};

use crate::http::ResponseBody;
use crate::server::{ApiServer, Connection};

/// Serves requests of one user within the process. They are authorized, admitted and counted like all others.
#[derive(Clone)]
pub struct LocalService {
    server: Arc<ApiServer>,
    connection: Arc<Connection>,
}

impl LocalService {
    pub fn new(server: Arc<ApiServer>, user: UserInfo) -> Self {
        Self { server, connection: Arc::new(Connection::in_process(user)) }
    }
}

impl<B> tower_service::Service<Request<B>> for LocalService
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (server, connection) = (self.server.clone(), self.connection.clone());
        Box::pin(async move { Ok(server.handle(request, connection).await) })
    }
}
