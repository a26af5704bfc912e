//! TLS to another server on a blocking socket, for tools that follow an ensemble and are no server.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustls::{ClientConnection, StreamOwned};

use super::{PeerTls, server_name};

impl PeerTls {
    /// Encrypts a connection to this host. Reads and writes keep the time limits of the socket.
    ///
    /// # Errors
    /// If the handshake fails or takes longer than `limit`. The message says why a certificate is refused.
    pub fn connect(&self, mut socket: TcpStream, host: &str, limit: Duration) -> io::Result<impl Read + Write + use<>> {
        let name = server_name(host).map_err(io::Error::other)?;
        let mut connection = ClientConnection::new(self.connector.clone(), name).map_err(io::Error::other)?;
        let deadline = Instant::now() + limit;
        while connection.is_handshaking() {
            match connection.complete_io(&mut socket) {
                Ok(_) => {}
                // A read waits for as long as the socket is set up for.
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    if Instant::now() > deadline {
                        let what = format!("no end of the TLS handshake within {limit:?}");
                        return Err(io::Error::new(io::ErrorKind::TimedOut, what));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(io::Error::new(error.kind(), format!("TLS handshake: {error}"))),
            }
        }
        Ok(StreamOwned::new(connection, socket))
    }
}
