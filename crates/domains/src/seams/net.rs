//! Where packets for an address go, and from which address they leave.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The two internets, which are reported apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

/// A place that questions are asked from. What a server answers may depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VantagePoint {
    /// What people call it, e.g. `fra`.
    pub name: String,
    /// The source address of its IPv4 packets; the system chooses when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v4: Option<Ipv4Addr>,
    /// The source address of its IPv6 packets; the system chooses when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v6: Option<Ipv6Addr>,
}

impl VantagePoint {
    /// This machine, with addresses of the system's choice.
    pub fn here() -> Self {
        Self { name: "here".to_owned(), v4: None, v6: None }
    }
}

/// The network as seen from one vantage point. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Net {
    from: VantagePoint,
    routes: Arc<HashMap<SocketAddr, SocketAddr>>,
}

impl Default for Net {
    fn default() -> Self {
        Self::from(VantagePoint::here())
    }
}

impl From<VantagePoint> for Net {
    fn from(from: VantagePoint) -> Self {
        Self { from, routes: Arc::default() }
    }
}

impl Net {
    /// The same network, with packets for the keys of `routes` sent to the values: unit tests serve "198.41.0.4:53" on
    /// a loopback port.
    pub fn with_routes(mut self, routes: HashMap<SocketAddr, SocketAddr>) -> Self {
        self.routes = Arc::new(routes);
        self
    }

    /// The same network from another place.
    pub fn seen_from(&self, from: VantagePoint) -> Self {
        Self { from, routes: self.routes.clone() }
    }

    /// Where questions are asked from.
    pub fn vantage_point(&self) -> &VantagePoint {
        &self.from
    }

    /// Where a packet for `address` is really sent.
    pub fn route(&self, address: SocketAddr) -> SocketAddr {
        self.routes.get(&address).copied().unwrap_or(address)
    }

    /// The address a socket that talks to `target` is bound to.
    pub fn source(&self, target: SocketAddr) -> SocketAddr {
        let ip = match target {
            SocketAddr::V4(_) => IpAddr::V4(self.from.v4.unwrap_or(Ipv4Addr::UNSPECIFIED)),
            SocketAddr::V6(_) => IpAddr::V6(self.from.v6.unwrap_or(Ipv6Addr::UNSPECIFIED)),
        };
        SocketAddr::new(ip, 0)
    }
}
