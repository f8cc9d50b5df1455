//! gRPC over HTTP/2, as far as these services need it: length-prefixed messages, streams of them, a status in the
//! trailers.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use prost::Message;

use super::index::{Index, Span};
use super::messages::{Health, Texts};
use super::reflection;

/// Requests are a few names.
const MAX_REQUEST_BYTES: usize = 1024 * 1024;
/// Reads of the index happen between frames; so many are prepared ahead of a slow client.
const ACKNOWLEDGE: &str = "x-acknowledge-experimental";

/// The body of every answer.
pub(super) type Body = BoxBody<Bytes, Infallible>;

/// Codes of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    Ok = 0,
    Unknown = 2,
    InvalidArgument = 3,
    Unimplemented = 12,
}

struct Status {
    code: Code,
    message: String,
}

type Messages = BoxStream<'static, Result<Bytes, Status>>;

/// Answers a call.
pub(super) async fn call(index: Arc<Index>, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let (parts, body) = request.into_parts();
    let messages = match path.strip_prefix("/").and_then(|path| path.split_once('/')) {
        Some(("grpc.reflection.v1.ServerReflection" | "grpc.reflection.v1alpha.ServerReflection", _)) => {
            reflection_stream(body)
        }
        Some((service, method)) => match read_request(body).await {
            Ok(request) => dispatch(index, service, method, &parts.headers, &request),
            Err(status) => failed(status),
        },
        None => failed(Status { code: Code::Unimplemented, message: format!("malformed method name: {path:?}") }),
    };
    respond(messages)
}

fn dispatch(index: Arc<Index>, service: &str, method: &str, headers: &HeaderMap, request: &[u8]) -> Messages {
    let Ok(texts) = Texts::decode(request) else {
        return failed(Status { code: Code::InvalidArgument, message: "the request is not readable".to_owned() });
    };
    let (first, second, third) = (texts.first.as_str(), texts.second.as_str(), texts.third.as_str());
    match (service, method) {
        ("api.Registry", "ListPackages") => many(index.list_packages()),
        ("api.Registry", "GetPackage") => one(index.get_package(first).map(|it| it.encode_to_vec().into())),
        ("api.Registry", "GetBundle") => one(index.get_bundle(first, second, third)),
        ("api.Registry", "GetBundleForChannel") => one(index.get_bundle_for_channel(first, second)),
        ("api.Registry", "GetChannelEntriesThatReplace") => many_or(index.entries_that_replace(first)),
        ("api.Registry", "GetBundleThatReplaces") => one(index.bundle_that_replaces(first, second, third)),
        ("api.Registry", "GetChannelEntriesThatProvide") => many_or(index.entries_that_provide((first, second, third))),
        ("api.Registry", "GetLatestChannelEntriesThatProvide") => {
            many_or(index.latest_that_provide((first, second, third)))
        }
        ("api.Registry", "GetDefaultBundleThatProvides") => one(index.default_that_provides((first, second, third))),
        ("api.Registry", "ListBundles") => list_bundles(index),
        ("api.ExperimentalRegistry", "ExperimentalListPackageCustomSchemas") => {
            let acknowledged = headers.get(ACKNOWLEDGE).is_some_and(|value| value == "true");
            if acknowledged { custom_schemas(index, first, second) } else { stream::empty().boxed() }
        }
        ("grpc.health.v1.Health", "Check") => one(Ok(serving())),
        // Nothing changes until the server ends.
        ("grpc.health.v1.Health", "Watch") => stream::iter([Ok(serving())]).chain(stream::pending()).boxed(),
        _ => {
            let message = format!("unknown method {method} for service {service}");
            failed(Status { code: Code::Unimplemented, message })
        }
    }
}

fn serving() -> Bytes {
    Health { status: 1 }.encode_to_vec().into()
}

fn failed(status: Status) -> Messages {
    stream::iter([Err(status)]).boxed()
}

fn unknown(message: String) -> Status {
    Status { code: Code::Unknown, message }
}

fn one(answer: Result<Bytes, String>) -> Messages {
    stream::iter([answer.map_err(unknown)]).boxed()
}

fn many<M: Message>(messages: Vec<M>) -> Messages {
    let encoded: Vec<_> = messages.iter().map(|message| Ok(Bytes::from(message.encode_to_vec()))).collect();
    stream::iter(encoded).boxed()
}

fn many_or<M: Message>(answer: Result<Vec<M>, String>) -> Messages {
    answer.map_or_else(|error| failed(unknown(error)), many)
}

fn list_bundles(index: Arc<Index>) -> Messages {
    // One package at a time: a catalog has thousands.
    let packages = 0..index.package_count();
    let read = move |package: usize| stream::iter(index.list_bundles(package)).map(|it| it.map_err(unknown));
    stream::iter(packages).map(read).flatten().boxed()
}

fn custom_schemas(index: Arc<Index>, schema: &str, package: &str) -> Messages {
    if schema.is_empty() {
        return failed(Status { code: Code::InvalidArgument, message: "schema is required".to_owned() });
    }
    let found = match index.select(|document| document.schema == schema && document.package == package) {
        Ok(found) => found,
        Err(error) => return failed(unknown(error.to_string())),
    };
    let read = move |document: Span| {
        let text = index.read_text(document).map_err(|error| unknown(error.to_string()))?;
        let value: serde_json::Value = serde_json::from_str(&text).map_err(|error| unknown(error.to_string()))?;
        Ok(reflection::encode_struct(&value).into())
    };
    stream::iter(found).map(read).boxed()
}

async fn read_request(mut body: Incoming) -> Result<Bytes, Status> {
    let mut buffer = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| unknown(error.to_string()))?;
        if let Ok(data) = frame.into_data() {
            buffer.extend_from_slice(&data);
        }
        if buffer.len() > MAX_REQUEST_BYTES {
            return Err(Status { code: Code::InvalidArgument, message: "the request is too large".to_owned() });
        }
    }
    take_message(&mut buffer)?
        .ok_or_else(|| Status { code: Code::InvalidArgument, message: "the request has no message".to_owned() })
}

/// The first whole message of a buffer.
fn take_message(buffer: &mut BytesMut) -> Result<Option<Bytes>, Status> {
    let Some((&[compressed, a, b, c, d], rest)) = buffer.split_first_chunk::<5>() else { return Ok(None) };
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if compressed != 0 {
        return Err(Status { code: Code::Unimplemented, message: "compressed requests are not supported".to_owned() });
    }
    if length > MAX_REQUEST_BYTES {
        return Err(Status { code: Code::InvalidArgument, message: "the request is too large".to_owned() });
    }
    if rest.len() < length {
        return Ok(None);
    }
    let mut message = buffer.split_to(5 + length);
    Ok(Some(message.split_off(5).freeze()))
}

/// Reflection answers each question as it comes.
fn reflection_stream(body: Incoming) -> Messages {
    let state = (body, BytesMut::new(), false);
    stream::unfold(state, |(mut body, mut buffer, ended)| async move {
        if ended {
            return None;
        }
        loop {
            match take_message(&mut buffer) {
                Ok(Some(message)) => {
                    let answer = reflection::answer(&message);
                    return Some((Ok(Bytes::from(answer)), (body, buffer, false)));
                }
                Err(status) => return Some((Err(status), (body, buffer, true))),
                Ok(None) => {}
            }
            match body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(_)) | None => return None,
            }
        }
    })
    .boxed()
}

fn respond(messages: Messages) -> Response<Body> {
    let ok = Status { code: Code::Ok, message: String::new() };
    // After the first refusal nothing more is sent but the trailers.
    let frames = stream::unfold(Some(messages), move |messages| {
        let ok = Status { code: ok.code, message: String::new() };
        async move {
            let mut messages = messages?;
            Some(match messages.next().await {
                Some(Ok(message)) => (Ok(Frame::data(framed(&message))), Some(messages)),
                Some(Err(status)) => (Ok(Frame::trailers(trailers(&status))), None),
                None => (Ok(Frame::trailers(trailers(&ok))), None),
            })
        }
    });
    let mut response = Response::new(SyncBody::new(StreamBody::new(frames)).boxed());
    response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(5 + message.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap_or_default());
    frame.extend_from_slice(message);
    frame.freeze()
}

fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(status.code as u16));
    if !status.message.is_empty() {
        let encoded = percent_encoding::utf8_percent_encode(&status.message, percent_encoding::CONTROLS);
        if let Ok(value) = HeaderValue::from_str(&encoded.to_string()) {
            trailers.insert("grpc-message", value);
        }
    }
    trailers
}

/// Streams are not `Sync`, boxed bodies must be; only one task ever polls them.
pub(super) struct SyncBody<B>(std::sync::Mutex<std::pin::Pin<Box<B>>>);

impl<B> SyncBody<B> {
    pub(super) fn new(body: B) -> Self {
        SyncBody(std::sync::Mutex::new(Box::pin(body)))
    }
}

impl<B: hyper::body::Body> hyper::body::Body for SyncBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let body = self.get_mut().0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        body.as_mut().poll_frame(context)
    }
}
