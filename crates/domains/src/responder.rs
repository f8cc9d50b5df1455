//! A name server in the test's own process that answers as a script says: for what real servers cannot be made to do, such as
//! wrong ids, garbage and endless referrals.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::rdata::{A, CNAME, NS};
use hickory_proto::rr::{Name, RData, Record};
use jiff::Timestamp;
use tokio::net::UdpSocket;

use crate::engine::Engine;
use crate::seams::{FixedClock, Net, RootServer, Roots, VantagePoint};
use crate::transport::TransportOptions;
use crate::wire::parse_name;

/// The address that every server in a script has, as far as the DNS knows.
pub(crate) const ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 41, 0, 4);

/// Packets that answer a question.
type Script = dyn Fn(&Message) -> Vec<Vec<u8>> + Send + Sync;

/// An engine whose only root server is a script.
pub(crate) async fn engine(script: impl Fn(&Message) -> Vec<Vec<u8>> + Send + Sync + 'static) -> Engine {
    let address = serve(Arc::new(script)).await;
    let server = SocketAddr::new(IpAddr::V4(ADDRESS), 53);
    let net = Net::from(VantagePoint::here()).with_routes(HashMap::from([(server, address)]));
    let hints = vec![RootServer { name: "root.test.".to_owned(), addresses: vec![IpAddr::V4(ADDRESS)] }];
    let roots = Roots { hints, anchors: Vec::new(), ..Roots::internet() };
    let options = TransportOptions { patience: Duration::from_millis(400), sockets: 1, ..TransportOptions::default() };
    Engine::new(net, Arc::new(FixedClock(Timestamp::UNIX_EPOCH)), Arc::new(roots), options)
}

/// Serves until the test's runtime ends.
async fn serve(script: Arc<Script>) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a loopback port");
    let address = socket.local_addr().expect("a bound socket has an address");
    tokio::spawn(async move {
        let mut buffer = vec![0; 65_535];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let Some(Ok(question)) = buffer.get(..length).map(Message::from_vec) else { continue };
            for packet in script(&question) {
                let _ = socket.send_to(&packet, from).await;
            }
        }
    });
    address
}

/// An answer under construction.
pub(crate) struct Reply(pub(crate) Message);

impl Reply {
    /// An authoritative answer to the question, still empty.
    pub(crate) fn to(question: &Message) -> Self {
        let mut message = Message::new(question.metadata.id, MessageType::Response, OpCode::Query);
        message.metadata.authoritative = true;
        message.metadata.response_code = ResponseCode::NoError;
        message.add_queries(question.queries.iter().cloned());
        Self(message)
    }

    pub(crate) fn without_authority(mut self) -> Self {
        self.0.metadata.authoritative = false;
        self
    }

    pub(crate) fn answer(mut self, record: Record) -> Self {
        self.0.add_answer(record);
        self
    }

    /// Refers to one server whose address comes along.
    pub(crate) fn referral(mut self, zone: &str, server: &str, glue: Option<Ipv4Addr>) -> Self {
        self.0.metadata.authoritative = false;
        self.0.add_authority(Record::from_rdata(name(zone), 300, RData::NS(NS(name(server)))));
        if let Some(address) = glue {
            self.0.add_additional(Record::from_rdata(name(server), 300, RData::A(A(address))));
        }
        self
    }

    pub(crate) fn packet(self) -> Vec<u8> {
        self.0.to_vec().expect("the script's answer fits")
    }
}

pub(crate) fn name(text: &str) -> Name {
    parse_name(text).expect("the script's names are valid")
}

pub(crate) fn a(owner: &Name, last: u8) -> Record {
    Record::from_rdata(owner.clone(), 300, RData::A(A(Ipv4Addr::new(203, 0, 113, last))))
}

pub(crate) fn cname(owner: &Name, target: &str) -> Record {
    Record::from_rdata(owner.clone(), 300, RData::CNAME(CNAME(name(target))))
}
