//! TLS for a client library that speaks plain TCP only: ports on loopback whose connections are carried on over TLS.
//!
//! The library for ZooKeeper has TLS with another cryptography library than ours, which needs cmake to build. So each
//! server gets a port of this process on 127.0.0.1, and the library connects to that.
//!
//! The port must not lend our client certificate to other users of this machine. A connection is carried on only if its
//! other end belongs to the same user as this process, which `/proc/net/tcp` says; where there is no such file, tunnels
//! are refused. Processes of the same user can read the key itself.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::io::{copy, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::tls;
use crate::store::Error;

/// Tunnels to all servers of a store. They end, with their connections, when this value is dropped.
pub(super) struct Tunnels {
    addresses: Vec<String>,
    _listeners: JoinSet<()>,
}

impl Tunnels {
    /// Opens a tunnel to each server (`host:port`). At least one of them must answer now, so that a wrong certificate is
    /// reported by its own message: the client library would only see a connection that closes.
    pub(super) async fn open(servers: Vec<String>, config: ClientConfig) -> Result<Self, Error> {
        let config = Arc::new(config);
        fs::metadata(SOCKETS).map_err(|why| Error::refused(format!("a TLS tunnel needs {SOCKETS}: {why}")))?;
        probe(&servers, &config).await?;
        let (mut addresses, mut listeners) = (Vec::new(), JoinSet::new());
        for server in servers {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(Error::unavailable)?;
            addresses.push(listener.local_addr().map_err(Error::unavailable)?.to_string());
            listeners.spawn(listen(listener, server, config.clone()));
        }
        Ok(Self { addresses, _listeners: listeners })
    }

    /// The addresses on loopback, one for each server, in the same order.
    pub(super) fn addresses(&self) -> &[String] {
        &self.addresses
    }
}

async fn probe(servers: &[String], config: &Arc<ClientConfig>) -> Result<(), Error> {
    let mut last = Error::refused("no server given");
    for server in servers {
        match tls::connect(server, Some(config)).await {
            Ok(_) => return Ok(()),
            Err(why) => last = why,
        }
    }
    Err(last)
}

async fn listen(listener: TcpListener, server: String, config: Arc<ClientConfig>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        let Ok((near, _)) = listener.accept().await else {
            // Out of descriptors, most likely.
            tokio::time::sleep(RETRY).await;
            continue;
        };
        let (server, config) = (server.clone(), config.clone());
        connections.spawn(async move {
            let _permit = permit;
            carry(near, &server, &config).await;
        });
    }
}

/// Carries bytes until one side closes. ZooKeeper never closes one direction alone.
async fn carry(near: TcpStream, server: &str, config: &Arc<ClientConfig>) {
    if !is_of_same_user(&near) {
        return;
    }
    // Without a connection to the server, the client library sees one that closes, and tries again.
    let Ok(far) = tls::connect(server, Some(config)).await else { return };
    // Small requests must not wait for the acknowledgement of the one before.
    let _ = near.set_nodelay(true);
    let ((mut near_read, mut near_write), (mut far_read, mut far_write)) = (split(near), split(far));
    tokio::select! {
        _ = copy(&mut near_read, &mut far_write) => {}
        _ = copy(&mut far_read, &mut near_write) => {}
    }
}

fn is_of_same_user(near: &TcpStream) -> bool {
    let (Ok(here), Ok(there)) = (near.local_addr(), near.peer_addr()) else { return false };
    let sockets = fs::read_to_string(SOCKETS).unwrap_or_default();
    let (ours, theirs) = (user_of(&sockets, here, there), user_of(&sockets, there, here));
    ours.is_some() && ours == theirs
}

/// The user of the socket with these addresses, in the table of the kernel: number, local and remote address, state, two
/// queues, timer, retransmissions, user.
fn user_of(sockets: &str, local: SocketAddr, remote: SocketAddr) -> Option<&str> {
    let (local, remote) = (kernel_address(local)?, kernel_address(remote)?);
    let line = sockets.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let found = line.into_iter().find(|words| words.get(1) == Some(&&*local) && words.get(2) == Some(&&*remote))?;
    found.get(7).copied()
}

/// An address as the kernel prints it: the four bytes of the host as one number of this machine, then the port.
fn kernel_address(address: SocketAddr) -> Option<String> {
    let SocketAddr::V4(address) = address else { return None };
    Some(format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port()))
}

const SOCKETS: &str = "/proc/net/tcp";

/// A candidate has two sessions; each has one connection, and for a moment another one when it moves to a new server.
const CONNECTIONS_MAX: usize = 64;

/// The time between attempts to accept a connection.
const RETRY: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_a_socket_is_found_in_the_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            \x20  0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 1 1 0\n\
            \x20  1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 2 1 0\n";
        let (a, b) = ("127.0.0.1:8080".parse().unwrap(), "127.0.0.1:50000".parse().unwrap());
        if cfg!(target_endian = "little") {
            assert_eq!((user_of(table, a, b), user_of(table, b, a)), (Some("1000"), Some("1001")));
        }
        assert_eq!(user_of(table, a, "127.0.0.1:50001".parse().unwrap()), None);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn an_own_connection_is_of_the_same_user() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        assert!(is_of_same_user(&accepted.unwrap().0));
        drop(client);
    }
}
