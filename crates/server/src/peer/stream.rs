//! A connection as the links use it: plain TCP, or TLS over it.
//!
//! In: a socket. Out: a side to read and a side to write, each for one task of the same thread.
//! Why two kinds: a plain socket is written straight from the node's loop, without waking a task; TLS keeps state
//! between the two directions, so its task does all the writing.

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
    /// Appends what has arrived; 0 at the end of the stream.
    pub(super) async fn read(&mut self, into: &mut BytesMut) -> io::Result<usize> {
        match self {
            Self::Tls(stream) => stream.read_buf(into).await,
            Self::Plain(socket) => socket.read_buf(into).await,
        }
    }
}

/// What every socket between servers is set to.
pub(super) fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    SockRef::from(socket).set_tcp_user_timeout(Some(UNACKNOWLEDGED_LIMIT))?;
    Ok(())
}

/// Sets the congestion control for emulated wide areas: BBR's probing would show as pauses that no line has.
pub(super) fn prepare_for_delay(socket: &TcpStream) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    SockRef::from(socket).set_tcp_congestion(b"cubic")?;
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
    Ok(())
}

/// A connection to a machine that is gone or cut off is given up by the kernel after this time. Without it a link on which
/// only measurements travel would seem open for a quarter of an hour; and after a long cut TCP waits as long again before
/// it tries once more, while a new connection is tried five times a second.
const UNACKNOWLEDGED_LIMIT: Duration = Duration::from_secs(5);
