//! Requests for another protocol, such as SPDY or websockets: once the other server agrees, bytes go both ways until one
//! side ends.

use bailiwick_aggregation::headers::{self, Passage};
use bailiwick_webhook::{Backend, RequestBody};
use http::StatusCode;
use http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncWriteExt, copy_bidirectional};

use super::ProxiedBody;
use crate::http::ResponseBody;
use crate::server::{Answer, ApiServer};
use crate::tenant::Tenant;

impl ApiServer {
    /// Passes on a request for another protocol.
    pub(super) async fn switch_protocols(
        &self,
        tenant: &Tenant,
        backend: &Backend,
        request: http::Request<RequestBody>,
        parts: &Parts,
    ) -> Answer {
        // HTTP/2 has no such requests, and neither have callers within the process.
        let Some(client) = parts.extensions.get::<OnUpgrade>().cloned() else {
            return Answer::text(503, "Upgrade request required\n");
        };
        let response = match backend.upgrade(request).await {
            Ok(response) => response,
            Err(error) => return Answer::text(503, format!("error dialing backend: {}\n", error.reason)),
        };
        let status = response.status();
        if status != StatusCode::SWITCHING_PROTOCOLS {
            if status.as_u16() < 400 {
                return Answer::text(503, format!("invalid upgrade response: status code {}\n", status.as_u16()));
            }
            let (head, body) = response.into_parts();
            let body = ProxiedBody::brief(body, self.config.request_timeout);
            let headers = headers::of_answer(head.headers, Passage::Plain);
            return Answer::passed_on(status.as_u16(), headers, ResponseBody::Proxied(Box::new(body)));
        }
        let headers = headers::of_answer(response.headers().clone(), Passage::Upgrade);
        let server = hyper::upgrade::on(response);
        // Ends with either side, or with us.
        tokio::spawn(tunnel(client, server, tenant.closing()));
        Answer::passed_on(status.as_u16(), headers, ResponseBody::empty())
    }
}

async fn tunnel(client: OnUpgrade, server: OnUpgrade, closing: impl Future<Output = ()>) {
    let exchange = async {
        let (client, server) = tokio::try_join!(client, server)?;
        let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
        // The head of our answer may still wait to be sent.
        client.flush().await?;
        copy_bidirectional(&mut client, &mut server).await?;
        Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    };
    tokio::select! {
        ended = exchange => {
            if let Err(error) = ended {
                tracing::debug!(%error, "an upgraded connection broke off");
            }
        }
        () = closing => {}
    }
}
