//! A key service (KMS v2 on a unix socket) for tests of encryption at rest. It seals by XOR with its key's name, which is all
//! that tests need: that what one key sealed another does not open.

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::UnixListener;

#[derive(Clone, PartialEq, Message)]
struct StatusResponse {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(string, tag = "2")]
    healthz: String,
    #[prost(string, tag = "3")]
    key_id: String,
}

#[derive(Clone, PartialEq, Message)]
struct Data {
    #[prost(bytes = "vec", tag = "1")]
    bytes: Vec<u8>,
    /// The key's name in answers to Encrypt.
    #[prost(string, tag = "2")]
    second: String,
    /// The key's name in requests to Decrypt.
    #[prost(string, tag = "3")]
    third: String,
}

#[derive(Clone, PartialEq, Message)]
struct EncryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    key_id: String,
    #[prost(map = "string, bytes", tag = "3")]
    annotations: HashMap<String, Vec<u8>>,
}

/// What the service does, changeable while it runs.
#[derive(Clone, Debug)]
pub struct KmsBehaviour {
    /// The key it seals with, and tells in `Status`.
    pub key_id: String,
    /// What `Status` says; `ok` for healthy.
    pub healthz: String,
    /// Calls of Encrypt and Decrypt so far.
    pub calls: usize,
    /// Keys that it no longer opens anything with.
    pub destroyed: Vec<String>,
}

/// A running service.
#[derive(Clone)]
pub struct KmsPlugin(pub Arc<Mutex<KmsBehaviour>>);

impl KmsPlugin {
    /// Serves on `socket` until the runtime ends.
    pub fn start(socket: &Path, key_id: &str) -> Self {
        let behaviour =
            KmsBehaviour { key_id: key_id.to_owned(), healthz: "ok".to_owned(), calls: 0, destroyed: Vec::new() };
        let plugin = Self(Arc::new(Mutex::new(behaviour)));
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket).expect("bound");
        let serving = plugin.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let plugin = serving.clone();
                let service = service_fn(move |request| plugin.clone().answer(request));
                let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(connection), service);
                tokio::spawn(connection);
            }
        });
        plugin
    }

    /// Changes what it does.
    pub fn change(&self, change: impl FnOnce(&mut KmsBehaviour)) {
        change(&mut self.0.lock().expect("unpoisoned"));
    }

    /// Seals with this key from now on.
    pub fn set_key(&self, key_id: &str) {
        self.change(|behaviour| key_id.clone_into(&mut behaviour.key_id));
    }

    async fn answer(
        self,
        request: Request<Incoming>,
    ) -> Result<Response<impl hyper::body::Body<Data = Bytes, Error = Infallible>>, Infallible> {
        let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let data = Data::decode(body.slice(5.min(body.len())..)).unwrap_or_default();
        let (message, status) = self.serve(&method, data);
        let mut frame = vec![0];
        frame.extend_from_slice(&(message.len() as u32).to_be_bytes());
        frame.extend_from_slice(&message);
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", status.parse().expect("a number"));
        trailers.insert("grpc-message", "refused".parse().expect("text"));
        let frames = [Ok(Frame::data(Bytes::from(frame))), Ok(Frame::trailers(trailers))];
        let response = Response::builder().header("content-type", "application/grpc");
        Ok(response.body(StreamBody::new(futures::stream::iter(frames))).expect("a response"))
    }

    fn serve(&self, method: &str, data: Data) -> (Vec<u8>, &'static str) {
        let mut behaviour = self.0.lock().expect("unpoisoned");
        let key_id = behaviour.key_id.clone();
        match method {
            "Status" => {
                let healthz = behaviour.healthz.clone();
                (StatusResponse { version: "v2".into(), healthz, key_id }.encode_to_vec(), "0")
            }
            "Encrypt" => {
                behaviour.calls += 1;
                let ciphertext = mixed(&data.bytes, &key_id);
                let annotations = HashMap::from([("version.kms.example".to_owned(), b"1".to_vec())]);
                (EncryptResponse { ciphertext, key_id, annotations }.encode_to_vec(), "0")
            }
            "Decrypt" if behaviour.destroyed.contains(&data.third) => (Vec::new(), "5"),
            "Decrypt" => {
                behaviour.calls += 1;
                let bytes = mixed(&data.bytes, &data.third);
                (Data { bytes, second: String::new(), third: String::new() }.encode_to_vec(), "0")
            }
            _ => (Vec::new(), "12"),
        }
    }
}

fn mixed(bytes: &[u8], key: &str) -> Vec<u8> {
    bytes.iter().zip(key.bytes().cycle()).map(|(byte, key)| byte ^ key ^ 0x5a).collect()
}
