//! Against a collector of our own that speaks OTLP over gRPC.

use std::convert::Infallible;
use std::net::SocketAddr;

use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::TcpListener;

use super::*;
use crate::proto::{Any, ExportRequest};

/// Takes spans until the test ends.
async fn collector() -> (SocketAddr, mpsc::UnboundedReceiver<ExportRequest>) {
    let (taken, requests) = mpsc::unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let taken = taken.clone();
            let service = service_fn(move |request: Request<Incoming>| answer(request, taken.clone()));
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(connection), service);
            tokio::spawn(connection);
        }
    });
    (address, requests)
}

async fn answer(
    request: Request<Incoming>,
    taken: mpsc::UnboundedSender<ExportRequest>,
) -> Result<Response<impl hyper::body::Body<Data = Bytes, Error = Infallible>>, Infallible> {
    assert_eq!(request.uri().path(), proto::EXPORT);
    let body = request.into_body().collect().await.unwrap().to_bytes();
    taken.send(ExportRequest::decode(body.slice(5..)).unwrap()).unwrap();
    let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), "0".parse().unwrap())]);
    let frames = [Ok(Frame::data(Bytes::from_static(&[0; 5]))), Ok(Frame::trailers(trailers))];
    let response = Response::builder().header("content-type", "application/grpc");
    Ok(response.body(StreamBody::new(futures::stream::iter(frames))).unwrap())
}

fn sent() -> TraceContext {
    TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap()
}

async fn started(rate: u32) -> (Arc<Tracer>, Exporting, mpsc::UnboundedReceiver<ExportRequest>) {
    let (address, requests) = collector().await;
    let endpoint = format!("http://{address}");
    let configuration = TracingConfiguration { endpoint, sampling_rate_per_million: rate };
    let (tracer, exporting) = Tracer::start(&configuration, "apiserver").unwrap();
    (tracer, exporting, requests)
}

#[tokio::test]
async fn a_recorded_trace_goes_on_and_reaches_the_collector_before_the_end() {
    let (tracer, exporting, mut requests) = started(0).await;
    let span = tracer.begin("KubernetesAPI", Some(sent())).expect("its parent is recorded");
    assert_eq!(span.context().trace_id, sent().trace_id);
    let status = Attribute::Number("http.response.status_code", 500);
    span.end(Outcome::Failed, vec![Attribute::Text("url.path", "/api".to_owned()), status]);
    exporting.finish().await;
    let mut request = requests.recv().await.unwrap();
    let mut group = request.resource_spans.remove(0);
    let service = &group.resource.unwrap().attributes[0];
    assert_eq!(service.key, "service.name");
    assert_eq!(service.value.as_ref().unwrap().value, Some(Any::Text("apiserver".to_owned())));
    let span = group.scope_spans.remove(0).spans.remove(0);
    assert_eq!((span.trace_id.as_slice(), span.parent_span_id.as_slice()), (&sent().trace_id[..], &sent().span_id[..]));
    assert_eq!((span.name.as_str(), span.kind), ("KubernetesAPI", proto::KIND_SERVER));
    assert_eq!(span.status.map(|status| status.code), Some(proto::STATUS_ERROR));
    assert_eq!(span.attributes.len(), 2);
    assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
}

#[tokio::test]
async fn strangers_cannot_make_us_record_but_are_remembered() {
    let (tracer, _exporting, _requests) = started(0).await;
    assert!(tracer.begin_linked("KubernetesAPI", Some(sent())).is_none(), "nothing is sampled");
    assert!(tracer.begin("KubernetesAPI", None).is_none(), "nothing is sampled");
    let (tracer, exporting, mut requests) = started(1_000_000).await;
    let span = tracer.begin_linked("KubernetesAPI", Some(sent())).expect("everything is sampled");
    assert_ne!(span.context().trace_id, sent().trace_id);
    span.end(Outcome::Fine, Vec::new());
    exporting.finish().await;
    let span = requests.recv().await.unwrap().resource_spans.remove(0).scope_spans.remove(0).spans.remove(0);
    assert_eq!(span.links[0].trace_id, sent().trace_id);
    assert!(span.parent_span_id.is_empty() && span.status.is_none());
}

#[tokio::test]
async fn a_collector_that_is_not_there_costs_spans_and_nothing_else() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let endpoint = format!("http://{gone}");
    let configuration = TracingConfiguration { endpoint, sampling_rate_per_million: 1_000_000 };
    let (tracer, exporting) = Tracer::start(&configuration, "apiserver").unwrap();
    for _ in 0..3 * QUEUE_SPANS_MAX {
        tracer.begin("KubernetesAPI", None).unwrap().end(Outcome::Fine, Vec::new());
    }
    exporting.finish().await;
    assert!(tracer.dropped.load(Ordering::Relaxed) as usize >= QUEUE_SPANS_MAX);
}
