//! A catalog that somebody else serves: read through `api.Registry` into documents, so that from then on it is a catalog
//! like every other.

use std::collections::{BTreeMap, BTreeSet};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bailiwick_catalog::bundle::{Migration, migrate};
use bailiwick_catalog::fbc::{
    Bundle, Catalog, Channel, ChannelEntry, Deprecation, DeprecationEntry, Output, Package, Property, schema,
    write_catalog,
};
use bailiwick_catalog::oci::Guard;
use bailiwick_catalog::property::BUNDLE_OBJECT;
use bailiwick_catalog::serve::messages;
use base64::Engine as _;
use futures::future::BoxFuture;
use http::Uri;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tonic::client::Grpc;
use tonic::transport;
use tonic_prost::ProstCodec;
use tower_service::Service;

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the whole catalog may take: the largest are a few hundred megabytes.
const READ_TIMEOUT: Duration = Duration::from_secs(300);
/// The largest message: a bundle with its manifests.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// More bundles than any catalog there is has.
const BUNDLES_MAX: usize = 200_000;

/// The catalog at `host:port`, as documents, if its address may be called.
pub(crate) async fn read(address: &str, guard: Guard) -> Result<String, String> {
    let reading = async {
        let endpoint = transport::Endpoint::from_shared(format!("http://{address}"))
            .map_err(|error| format!("{address} is no address: {error}"))?;
        let channel = endpoint.connect_timeout(CONNECT_TIMEOUT).connect_with_connector(Connector { guard }).await;
        let channel = channel.map_err(|error| format!("{address}: {}", described(&error)))?;
        Reader { grpc: Grpc::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX) }.read().await
    };
    match tokio::time::timeout(READ_TIMEOUT, reading).await {
        Ok(result) => result,
        Err(_) => Err(format!("{address}: the catalog was not there within {} s", READ_TIMEOUT.as_secs())),
    }
}

fn described(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

/// Connects to what may be called.
struct Connector {
    guard: Guard,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = std::io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, std::io::Error>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), std::io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let guard = self.guard.clone();
        Box::pin(async move {
            let (host, port) = (uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(80));
            let addresses = guard.resolve(host, port).await?;
            let stream = TcpStream::connect(addresses.as_slice()).await?;
            let _ = stream.set_nodelay(true);
            Ok(TokioIo::new(stream))
        })
    }
}

struct Reader {
    grpc: Grpc<transport::Channel>,
}

impl Reader {
    async fn read(mut self) -> Result<String, String> {
        let mut catalog = Catalog::default();
        let mut channels: BTreeMap<(String, String), Channel> = BTreeMap::new();
        let mut bundles: BTreeMap<(String, String), Bundle> = BTreeMap::new();
        let mut packages = BTreeSet::new();
        // By package, then by what is deprecated.
        let mut deprecations: BTreeMap<String, BTreeMap<(&'static str, String), String>> = BTreeMap::new();
        for message in self.bundles().await? {
            packages.insert(message.package_name.clone());
            let key = (message.package_name.clone(), message.channel_name.clone());
            let channel = channels.entry(key).or_insert_with(|| Channel {
                name: message.channel_name.clone(),
                package: message.package_name.clone(),
                ..Channel::default()
            });
            channel.entries.push(ChannelEntry {
                name: message.csv_name.clone(),
                replaces: message.replaces.clone(),
                skips: message.skips.clone(),
                skip_range: message.skip_range.clone(),
            });
            if let Some(told) = &message.deprecation {
                let deprecated = deprecations.entry(message.package_name.clone()).or_default();
                deprecated.insert((schema::BUNDLE, message.csv_name.clone()), told.message.clone());
            }
            let key = (message.package_name.clone(), message.csv_name.clone());
            bundles.entry(key).or_insert_with(|| bundle(&message));
        }
        for name in packages {
            let package = self.package(&name).await?;
            for channel in &package.channels {
                let texts = [name.as_str(), &channel.name, &channel.csv_name];
                let head: messages::Bundle = self.unary("GetBundle", texts).await?;
                // What users are shown of the channel; the manifests are in the image.
                if let Some(known) = bundles.get_mut(&(name.clone(), channel.csv_name.clone()))
                    && !known.image.is_empty()
                    && !head.csv_json.is_empty()
                {
                    known.csv_json = head.csv_json;
                }
            }
            let channels = package.channels.iter().map(|it| (schema::CHANNEL, it.name.clone(), &it.deprecation));
            for (kind, of, told) in channels.chain([(schema::PACKAGE, String::new(), &package.deprecation)]) {
                if let Some(told) = told {
                    deprecations.entry(name.clone()).or_default().insert((kind, of), told.message.clone());
                }
            }
            let default_channel = package.default_channel_name;
            catalog.packages.push(Package { name, default_channel, ..Package::default() });
        }
        catalog.deprecations =
            deprecations.into_iter().map(|(package, entries)| deprecation(package, entries)).collect();
        catalog.channels = channels.into_values().collect();
        catalog.bundles = bundles.into_values().collect();
        migrate(&mut catalog, Migration::BundleObjectToCsvMetadata)?;
        Ok(write_catalog(&catalog, Output::Json))
    }

    async fn bundles(&mut self) -> Result<Vec<messages::Bundle>, String> {
        self.ready().await?;
        let codec: ProstCodec<messages::Texts, messages::Bundle> = ProstCodec::default();
        let request = tonic::Request::new(messages::Texts::default());
        let answer = self.grpc.server_streaming(request, path("ListBundles"), codec).await;
        let mut stream = answer.map_err(|status| refused("ListBundles", &status))?.into_inner();
        let mut found = Vec::new();
        while let Some(message) = stream.message().await.map_err(|status| refused("ListBundles", &status))? {
            found.push(message);
            if found.len() > BUNDLES_MAX {
                return Err(format!("the catalog has more than {BUNDLES_MAX} bundles"));
            }
        }
        Ok(found)
    }

    async fn package(&mut self, name: &str) -> Result<messages::Package, String> {
        self.unary("GetPackage", [name, "", ""]).await
    }

    async fn unary<M>(&mut self, method: &'static str, texts: [&str; 3]) -> Result<M, String>
    where
        M: prost::Message + Default + 'static,
    {
        self.ready().await?;
        let [first, second, third] = texts.map(str::to_owned);
        let request = messages::Texts { first, second, third, ..messages::Texts::default() };
        let codec: ProstCodec<messages::Texts, M> = ProstCodec::default();
        let answer = self.grpc.unary(tonic::Request::new(request), path(method), codec).await;
        Ok(answer.map_err(|status| refused(method, &status))?.into_inner())
    }

    async fn ready(&mut self) -> Result<(), String> {
        self.grpc.ready().await.map_err(|error| described(&error))
    }
}

fn refused(method: &str, status: &tonic::Status) -> String {
    format!("{method}: {}", status.message())
}

fn path(method: &'static str) -> PathAndQuery {
    let path = format!("/api.Registry/{method}");
    PathAndQuery::from_maybe_shared(path).expect("invariant: methods are words")
}

fn deprecation(package: String, entries: BTreeMap<(&'static str, String), String>) -> Deprecation {
    let entries = entries.into_iter();
    let entries =
        entries.map(|((kind, name), message)| DeprecationEntry { schema: kind.to_owned(), name, message }).collect();
    Deprecation { package, entries }
}

fn bundle(message: &messages::Bundle) -> Bundle {
    let properties = message.properties.iter();
    let properties = properties.map(|it| Property { kind: it.r#type.clone(), value: it.value.clone() });
    let objects = message.object.iter().map(|object| {
        let data = base64::engine::general_purpose::STANDARD.encode(object);
        Property { kind: BUNDLE_OBJECT.to_owned(), value: format!("{{\"data\":\"{data}\"}}") }
    });
    Bundle {
        name: message.csv_name.clone(),
        package: message.package_name.clone(),
        image: message.bundle_path.clone(),
        properties: properties.chain(objects).collect(),
        ..Bundle::default()
    }
}
