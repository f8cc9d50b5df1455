//! A client of `api.Registry`, for our server and for opm's.

use bailiwick_catalog::serve::messages::{Bundle, ChannelEntry, Package, PackageName, Texts};
use http::uri::PathAndQuery;
use prost::Message;
use tonic::Request;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic_prost::ProstCodec;

pub struct Client(Channel);

pub type Outcome<T> = Result<T, (tonic::Code, String)>;

impl Client {
    /// Connects, waiting until somebody listens.
    pub async fn connect(port: u16) -> Self {
        let endpoint = Channel::from_shared(format!("http://127.0.0.1:{port}")).unwrap();
        for _ in 0..600 {
            if let Ok(channel) = endpoint.connect().await {
                return Client(channel);
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        panic!("nobody listens on {port}");
    }

    fn grpc(&self) -> Grpc<Channel> {
        Grpc::new(self.0.clone()).max_decoding_message_size(64 << 20)
    }

    async fn unary<M: Message + Default + 'static>(&self, method: &str, texts: [&str; 3]) -> Outcome<M> {
        let mut grpc = self.grpc();
        grpc.ready().await.unwrap();
        let codec: ProstCodec<Texts, M> = ProstCodec::default();
        let answer = grpc.unary(Request::new(request(texts)), path(method), codec).await;
        answer.map(tonic::Response::into_inner).map_err(|status| (status.code(), status.message().to_owned()))
    }

    async fn streaming<M: Message + Default + 'static>(&self, method: &str, texts: [&str; 3]) -> Outcome<Vec<M>> {
        let mut grpc = self.grpc();
        grpc.ready().await.unwrap();
        let codec: ProstCodec<Texts, M> = ProstCodec::default();
        let refused = |status: tonic::Status| (status.code(), status.message().to_owned());
        let answer = grpc.server_streaming(Request::new(request(texts)), path(method), codec).await;
        let mut stream = answer.map_err(refused)?.into_inner();
        let mut messages = Vec::new();
        while let Some(message) = stream.message().await.map_err(refused)? {
            messages.push(message);
        }
        Ok(messages)
    }

    pub async fn list_packages(&self) -> Vec<String> {
        let names: Vec<PackageName> = self.streaming("ListPackages", [""; 3]).await.unwrap();
        let mut names: Vec<String> = names.into_iter().map(|it| it.name).collect();
        names.sort();
        names
    }

    pub async fn get_package(&self, name: &str) -> Outcome<Package> {
        self.unary("GetPackage", [name, "", ""]).await
    }

    pub async fn get_bundle(&self, package: &str, channel: &str, name: &str) -> Outcome<Bundle> {
        self.unary("GetBundle", [package, channel, name]).await
    }

    pub async fn bundle(&self, method: &str, texts: [&str; 3]) -> Outcome<Bundle> {
        self.unary(method, texts).await
    }

    pub async fn entries(&self, method: &str, texts: [&str; 3]) -> Outcome<Vec<ChannelEntry>> {
        let mut entries: Vec<ChannelEntry> = self.streaming(method, texts).await?;
        entries.sort_by_key(|it| format!("{it:?}"));
        Ok(entries)
    }

    pub async fn list_bundles(&self) -> Vec<Bundle> {
        let mut bundles: Vec<Bundle> = self.streaming("ListBundles", [""; 3]).await.unwrap();
        bundles.sort_by_key(|it| (it.package_name.clone(), it.channel_name.clone(), it.csv_name.clone()));
        bundles
    }
}

fn request([first, second, third]: [&str; 3]) -> Texts {
    Texts { first: first.to_owned(), second: second.to_owned(), third: third.to_owned(), fourth: String::new() }
}

fn path(method: &str) -> PathAndQuery {
    format!("/api.Registry/{method}").parse().unwrap()
}
