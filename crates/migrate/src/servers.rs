//! The servers of Apache's ensemble, as its configuration names them.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use pole_types::ServerId;

/// A server of the ensemble that is copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApacheServer {
    /// The N of `server.N`.
    pub id: ServerId,
    /// Host names are resolved at every use: after a failure an address may have moved.
    pub host: String,
    /// Where a leader listens for learners. A server that does not lead does not listen there.
    pub quorum_port: u16,
    /// Where every server listens as long as it runs.
    pub election_port: u16,
    /// Host and port for clients.
    pub client: (String, u16),
    /// Whether it votes.
    pub votes: bool,
}

impl fmt::Display for ApacheServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {} ({})", self.id, self.host)
    }
}

/// Connects to the first address of a host that accepts.
pub(crate) fn connect(host: &str, port: u16, limit: Duration) -> io::Result<std::net::TcpStream> {
    let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs()?.take(ADDRESSES_MAX).collect();
    let mut last = io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address"));
    for address in addresses {
        match std::net::TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A host has a few addresses, and each may cost the whole limit.
const ADDRESSES_MAX: usize = 4;

/// The id under which a copy joins unless another one is given. Apache accepts an observer that its configuration does
/// not list, under any id; those of real servers are small. In a log of Apache it can be searched for.
pub const OBSERVER_ID: ServerId = ServerId(0x504f_4c45);
