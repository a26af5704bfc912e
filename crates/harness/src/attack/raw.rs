//! A blocking client that gives an attack full control over the bytes on the socket, with or without TLS.
//!
//! Unlike `client`, it reads only on request and can send invalid input.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pole_client::blocking::Connection;
use pole_client::{Error, connect_request, request_frame};
use pole_jute::{ConnectResponse, ErrorCode, Reader, Record as _, ReplyHeader, Request};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use socket2::SockRef;

/// One connection of an attacker.
pub(super) struct RawClient {
    connection: Connection<Socket>,
    last_xid: i32,
}

enum Socket {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl RawClient {
    /// Connects without TLS.
    pub(super) fn plain(address: SocketAddr) -> io::Result<Self> {
        Ok(Self::over(Socket::Plain(connect(address)?)))
    }

    /// Connects with TLS. The handshake is done when the first byte is sent.
    pub(super) fn tls(address: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<Self> {
        let name = address.ip().into();
        let connection = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        Ok(Self::over(Socket::Tls(Box::new(StreamOwned::new(connection, connect(address)?)))))
    }

    /// A second handle to the same connection without TLS, so that one thread can read while another writes.
    pub(super) fn clone_plain(&mut self) -> io::Result<Self> {
        Ok(Self::over(Socket::Plain(self.stream().try_clone()?)))
    }

    fn over(socket: Socket) -> Self {
        Self { connection: Connection::new(socket), last_xid: 0 }
    }

    /// Opens a session. Fails if the server refuses it.
    pub(super) fn open_session(&mut self, timeout: Duration) -> io::Result<ConnectResponse> {
        self.connection.open(&connect_request(timeout)).map_err(io_error)
    }

    /// Sends bytes, which need not be a request.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.connection.stream().write_all(bytes)?;
        self.connection.stream().flush()
    }

    /// Encodes a request with the next xid.
    pub(super) fn encode_next(&mut self, request: &Request) -> Bytes {
        self.last_xid += 1;
        request_frame(self.last_xid, request)
    }

    /// Sends a request and waits for the next reply. Watch events in between are dropped.
    pub(super) fn ask(&mut self, request: &Request) -> io::Result<ErrorCode> {
        let bytes = self.encode_next(request);
        self.send(&bytes)?;
        self.answer()
    }

    /// Like [`Self::ask`], but fails on an error reply.
    pub(super) fn expect_ok(&mut self, request: &Request) -> io::Result<()> {
        check_ok(self.ask(request)?)
    }

    /// Waits for the next reply with a positive xid, which is neither a watch event nor the reply to a ping.
    pub(super) fn answer(&mut self) -> io::Result<ErrorCode> {
        loop {
            let header = ReplyHeader::read(&mut Reader::new(self.frame()?)).map_err(io::Error::other)?;
            if header.xid > 0 {
                return Ok(header.err);
            }
        }
    }

    /// Waits for the next frame.
    pub(super) fn frame(&mut self) -> io::Result<Bytes> {
        self.connection.frame().map_err(io_error)
    }

    /// Sets the timeout of reads and writes.
    pub(super) fn set_timeout(&mut self, limit: Duration) -> io::Result<()> {
        self.stream().set_read_timeout(Some(limit))?;
        self.stream().set_write_timeout(Some(limit))
    }

    /// The TCP socket.
    pub(super) fn stream(&mut self) -> &TcpStream {
        match self.connection.stream() {
            Socket::Plain(stream) => stream,
            Socket::Tls(stream) => stream.get_ref(),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// Opens a socket that is reset when it is dropped. It leaves no TIME_WAIT state, so that a hundred thousand of them
/// in a row do not use up the ports of the machine.
pub(super) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, ANSWER_LIMIT)?;
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.set_write_timeout(Some(ANSWER_LIMIT))?;
    Ok(stream)
}

/// Turns an error reply into an error.
pub(super) fn check_ok(code: ErrorCode) -> io::Result<()> {
    if code == ErrorCode::Ok { Ok(()) } else { Err(io::Error::other(format!("refused: {code}"))) }
}

/// The error of a client as one of I/O. A server that closes the connection is the usual outcome of an attack.
fn io_error(why: Error) -> io::Error {
    match why {
        Error::Io(why) => why,
        Error::Closed => io::ErrorKind::UnexpectedEof.into(),
        Error::Silent(_)
        | Error::Expired
        | Error::Frame(_)
        | Error::Decode(_)
        | Error::Length { .. }
        | Error::Order { .. }
        | Error::Refused(_) => io::Error::other(why),
    }
}

/// The default timeout of reads and writes. Servers may answer an attacker later; the attack goes on without the reply.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(15);
