//! A client that is nothing but bytes on a socket, with or without TLS.
//!
//! Unlike `client` it reads only when told to, sends what no library would, and blocks.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use pole_jute::{
    ConnectRequest, ConnectResponse, Deframer, ErrorCode, Reader, Record as _, ReplyHeader, Request, RequestHeader,
    Writer, Xid,
};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use socket2::SockRef;

/// One connection of an attacker.
pub(super) struct Raw {
    socket: Socket,
    arrived: BytesMut,
    last_xid: i32,
}

enum Socket {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Raw {
    /// Without TLS.
    pub(super) fn plain(address: SocketAddr) -> io::Result<Self> {
        Ok(Self::over(Socket::Plain(connect(address)?)))
    }

    /// With TLS; the handshake is done with the first byte that is sent.
    pub(super) fn tls(address: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<Self> {
        let name = address.ip().into();
        let connection = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        Ok(Self::over(Socket::Tls(Box::new(StreamOwned::new(connection, connect(address)?)))))
    }

    /// Another handle of the same connection without TLS, to read beside this one.
    pub(super) fn clone_plain(&self) -> io::Result<Self> {
        Ok(Self::over(Socket::Plain(self.stream().try_clone()?)))
    }

    fn over(socket: Socket) -> Self {
        Self { socket, arrived: BytesMut::new(), last_xid: 0 }
    }

    /// Opens a session. Being turned away is an error.
    pub(super) fn open_session(&mut self, timeout: Duration) -> io::Result<ConnectResponse> {
        self.send(&introduction(timeout))?;
        let response = ConnectResponse::decode(self.frame()?).map_err(io::Error::other)?;
        if response.timeout <= 0 {
            return Err(io::Error::other("no session was opened"));
        }
        Ok(response)
    }

    /// Sends these bytes.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes)?;
        self.socket.flush()
    }

    /// A frame with the next number.
    pub(super) fn numbered(&mut self, request: &Request) -> Bytes {
        self.last_xid += 1;
        frame(self.last_xid, request)
    }

    /// Asks one thing and waits for its answer. Events in between are dropped.
    pub(super) fn ask(&mut self, request: &Request) -> io::Result<ErrorCode> {
        let bytes = self.numbered(request);
        self.send(&bytes)?;
        self.answer()
    }

    /// Asks one thing that must be done.
    pub(super) fn must(&mut self, request: &Request) -> io::Result<()> {
        done(self.ask(request)?)
    }

    /// Waits for the next answer that is neither an event nor that to a ping.
    pub(super) fn answer(&mut self) -> io::Result<ErrorCode> {
        loop {
            let header = ReplyHeader::read(&mut Reader::new(self.frame()?)).map_err(io::Error::other)?;
            if header.xid > 0 {
                return Ok(header.err);
            }
        }
    }

    /// The next frame.
    pub(super) fn frame(&mut self) -> io::Result<Bytes> {
        let deframer = Deframer::new(FRAME_BYTES_MAX);
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            if let Some(frame) = deframer.next(&mut self.arrived).map_err(io::Error::other)? {
                return Ok(frame);
            }
            match self.socket.read(&mut piece)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.arrived.extend_from_slice(&piece[..count]),
            }
        }
    }

    /// How long a read or a write may take from now on.
    pub(super) fn limit(&self, limit: Duration) -> io::Result<()> {
        self.stream().set_read_timeout(Some(limit))?;
        self.stream().set_write_timeout(Some(limit))
    }

    /// The socket below.
    pub(super) fn stream(&self) -> &TcpStream {
        match &self.socket {
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

/// A socket that leaves nothing behind: it is reset when it is dropped, so that a hundred thousand of them in a row do not
/// use up the ports of the machine.
pub(super) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, ANSWER_LIMIT)?;
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.set_write_timeout(Some(ANSWER_LIMIT))?;
    Ok(stream)
}

/// An answer that says no, as an error.
pub(super) fn done(code: ErrorCode) -> io::Result<()> {
    if code == ErrorCode::Ok { Ok(()) } else { Err(io::Error::other(format!("refused: {code}"))) }
}

/// The first frame of a client that wants a new session.
pub(super) fn introduction(timeout: Duration) -> Bytes {
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0,
        timeout: timeout.as_millis() as i32,
        session_id: 0,
        passwd: Some(Bytes::from_static(&[0; 16])),
        read_only: Some(false),
    };
    let mut writer = Writer::new();
    writer.frame(|writer| request.write(writer));
    writer.into_bytes()
}

/// One request.
pub(super) fn frame(xid: i32, request: &Request) -> Bytes {
    let mut writer = Writer::new();
    writer.frame(|writer| {
        RequestHeader { xid, op: request.op().number() }.write(writer);
        request.write(writer);
    });
    writer.into_bytes()
}

/// An identity for the connection.
pub(super) fn add_auth(scheme: &str, auth: &[u8]) -> Bytes {
    let packet = pole_jute::AuthPacket { kind: 0, scheme: scheme.to_owned(), auth: Some(auth.to_vec().into()) };
    frame(Xid::AUTH, &Request::Auth(packet))
}

/// A server that needs longer for an answer to an attacker may do so; the attack goes on without it.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(15);

/// More than any answer that an attack waits for.
const FRAME_BYTES_MAX: usize = 64 << 20;

const PIECE_BYTES: usize = 64 << 10;
