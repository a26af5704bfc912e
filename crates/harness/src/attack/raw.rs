//! A blocking client that gives an attack full control over the bytes on the socket, with or without TLS.
//!
//! Unlike `client`, it reads only on request and can send invalid input.

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
pub(super) struct RawClient {
    socket: Socket,
    received: BytesMut,
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
    pub(super) fn clone_plain(&self) -> io::Result<Self> {
        Ok(Self::over(Socket::Plain(self.stream().try_clone()?)))
    }

    fn over(socket: Socket) -> Self {
        Self { socket, received: BytesMut::new(), last_xid: 0 }
    }

    /// Opens a session. Fails if the server refuses it.
    pub(super) fn open_session(&mut self, timeout: Duration) -> io::Result<ConnectResponse> {
        self.send(&connect_frame(timeout))?;
        let response = ConnectResponse::decode(self.frame()?).map_err(io::Error::other)?;
        if response.timeout <= 0 {
            return Err(io::Error::other("no session was opened"));
        }
        Ok(response)
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes)?;
        self.socket.flush()
    }

    /// Encodes a request with the next xid.
    pub(super) fn encode_next(&mut self, request: &Request) -> Bytes {
        self.last_xid += 1;
        frame(self.last_xid, request)
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
        let deframer = Deframer::new(FRAME_BYTES_MAX);
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            if let Some(frame) = deframer.next(&mut self.received).map_err(io::Error::other)? {
                return Ok(frame);
            }
            match self.socket.read(&mut piece)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.received.extend_from_slice(&piece[..count]),
            }
        }
    }

    /// Sets the timeout of reads and writes.
    pub(super) fn set_timeout(&self, limit: Duration) -> io::Result<()> {
        self.stream().set_read_timeout(Some(limit))?;
        self.stream().set_write_timeout(Some(limit))
    }

    /// The TCP socket.
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

/// The connect request of a new session, as a frame.
pub(super) fn connect_frame(timeout: Duration) -> Bytes {
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

/// One request as a frame.
pub(super) fn frame(xid: i32, request: &Request) -> Bytes {
    let mut writer = Writer::new();
    writer.frame(|writer| {
        RequestHeader { xid, op: request.op().number() }.write(writer);
        request.write(writer);
    });
    writer.into_bytes()
}

/// A request that adds an identity to the connection, as a frame.
pub(super) fn add_auth(scheme: &str, auth: &[u8]) -> Bytes {
    let packet = pole_jute::AuthPacket { kind: 0, scheme: scheme.to_owned(), auth: Some(auth.to_vec().into()) };
    frame(Xid::AUTH, &Request::Auth(packet))
}

/// The default timeout of reads and writes. Servers may answer an attacker later; the attack goes on without the reply.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(15);

/// Larger than any reply that an attack waits for.
const FRAME_BYTES_MAX: usize = 64 << 20;

const PIECE_BYTES: usize = 64 << 10;
