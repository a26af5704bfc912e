//! One connection to one server. Requests are sent in batches; replies are read as frames.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use pole_jute::{ConnectRequest, ConnectResponse, ReplyHeader, Request};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::{Error, Frames, decode_session};

/// A socket on which a session was opened or resumed.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    frames: Frames,
}

impl Connection {
    /// Opens a new session, or resumes the one in the request. Fails with [`Error::Expired`] if the server refuses to
    /// resume it, with [`Error::Io`] if no connection is made within `limit`, and with [`Error::Silent`] if there is one
    /// and nothing arrives on it for that long.
    pub async fn open(
        address: SocketAddr,
        request: &ConnectRequest,
        limit: Duration,
    ) -> Result<(Self, ConnectResponse), Error> {
        let connected = timeout(limit, TcpStream::connect(address)).await;
        let stream = connected.map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))??;
        timeout(limit, Self::handshake(stream, request)).await.map_err(|_| Error::Silent(limit))?
    }

    async fn handshake(stream: TcpStream, request: &ConnectRequest) -> Result<(Self, ConnectResponse), Error> {
        stream.set_nodelay(true)?;
        let mut connection = Self { stream, frames: Frames::with_capacity(BUFFER_BYTES) };
        connection.frames.connect(request);
        connection.flush().await?;
        let response = decode_session(connection.frame().await?)?;
        Ok((connection, response))
    }

    /// The bytes that are not sent yet, and those that are not used yet.
    pub fn frames(&mut self) -> &mut Frames {
        &mut self.frames
    }

    /// Appends a request to the output buffer.
    pub fn send(&mut self, xid: i32, request: &Request) {
        self.frames.send(xid, request);
    }

    /// Sends the output buffer, in one system call if the socket accepts all of it.
    pub async fn flush(&mut self) -> Result<(), Error> {
        let bytes = self.frames.take_output();
        if !bytes.is_empty() {
            self.stream.write_all(&bytes).await?;
        }
        Ok(())
    }

    /// Waits for the next frame. Cancel-safe: nothing is lost if the future is dropped.
    pub async fn frame(&mut self) -> Result<Bytes, Error> {
        loop {
            match self.frames.next_frame()? {
                Some(frame) => return Ok(frame),
                None => self.fill().await?,
            }
        }
    }

    /// Waits for more bytes from the server.
    pub async fn fill(&mut self) -> Result<(), Error> {
        let received = self.frames.input();
        received.reserve(READ_BYTES_MIN);
        match self.stream.read_buf(received).await? {
            0 => Err(Error::Closed),
            _ => Ok(()),
        }
    }

    /// The header of the next reply that has arrived completely; see [`Frames::skip_reply`].
    pub fn skip_reply(&mut self) -> Result<Option<ReplyHeader>, Error> {
        self.frames.skip_reply()
    }
}

/// Large enough for all replies that a session of our loads has outstanding.
const BUFFER_BYTES: usize = 64 << 10;

/// Free buffer space for each read from the socket.
const READ_BYTES_MIN: usize = 16 << 10;
