//! A connection between servers, either plain TCP or TLS, split into a read side and a write side.
//!
//! A plain socket is written to directly by the node's thread, without waking a task. TLS shares state between the two
//! directions, so its task does all the writing.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio_rustls::TlsStream;

/// A connection before and during its handshake.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

#[derive(Debug)]
pub(super) enum ReadSide {
    Plain(OwnedReadHalf),
    Tls(ReadHalf<Box<TlsStream<TcpStream>>>),
}

#[derive(Debug)]
pub(super) enum WriteSide {
    Plain(Rc<OwnedWriteHalf>),
    Tls(WriteHalf<Box<TlsStream<TcpStream>>>),
}

impl Stream {
    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }

    pub(super) fn into_sides(self) -> (ReadSide, WriteSide) {
        match self {
            Self::Plain(socket) => {
                let (read, write) = socket.into_split();
                (ReadSide::Plain(read), WriteSide::Plain(Rc::new(write)))
            }
            Self::Tls(stream) => {
                let (read, write) = tokio::io::split(stream);
                (ReadSide::Tls(read), WriteSide::Tls(write))
            }
        }
    }
}

impl ReadSide {
    /// Reads and appends to `into`. Returns 0 at the end of the stream.
    pub(super) async fn read(&mut self, into: &mut BytesMut) -> io::Result<usize> {
        match self {
            Self::Tls(stream) => stream.read_buf(into).await,
            Self::Plain(socket) => socket.read_buf(into).await,
        }
    }
}

/// Sets the options of a socket between servers.
pub(super) fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    SockRef::from(socket).set_tcp_user_timeout(Some(UNACKNOWLEDGED_LIMIT))?;
    Ok(())
}

/// Sets the congestion control for emulated wide-area links: the probing of BBR would cause pauses that the emulated
/// link does not have.
pub(super) fn prepare_for_delay(socket: &TcpStream) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    SockRef::from(socket).set_tcp_congestion(b"cubic")?;
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
    Ok(())
}

/// The kernel closes a connection to an unreachable machine after this time. Without it a link that carries only
/// measurements would seem open for a quarter of an hour, and after a long partition TCP would wait as long again
/// before it retransmits, while a new connection is tried five times a second.
const UNACKNOWLEDGED_LIMIT: Duration = Duration::from_secs(5);
