//! One connection to one server. Requests are sent in batches; replies are read as frames.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use pole_jute::{
    ConnectRequest, ConnectResponse, Deframer, ErrorCode, OpCode, Record as _, Reply, ReplyHeader, Request,
    RequestHeader, Value as _, Writer,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Error;

/// A socket on which a session was opened or resumed.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    received: BytesMut,
    deframer: Deframer,
    /// Frames that the next [`Self::flush`] sends.
    out: Writer,
}

impl Connection {
    /// Opens a new session, or resumes the one in the request. Fails with [`Error::Expired`] if the server refuses to
    /// resume it, and with [`Error::Silent`] after `limit`.
    pub async fn open(
        address: SocketAddr,
        request: &ConnectRequest,
        limit: Duration,
    ) -> Result<(Self, ConnectResponse), Error> {
        timeout(limit, Self::handshake(address, request)).await.map_err(|_| Error::Silent(limit))?
    }

    async fn handshake(address: SocketAddr, request: &ConnectRequest) -> Result<(Self, ConnectResponse), Error> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let received = BytesMut::with_capacity(BUFFER_BYTES);
        let deframer = Deframer::new(REPLY_BYTES_MAX);
        let mut connection =
            Self { stream, received, deframer, out: Writer::with_buffer(BytesMut::with_capacity(BUFFER_BYTES)) };
        connection.out.frame(|writer| request.write(writer));
        connection.flush().await?;
        let response = ConnectResponse::decode(connection.frame().await?)?;
        if response.timeout <= 0 { Err(Error::Expired) } else { Ok((connection, response)) }
    }

    /// Appends a request to the output buffer.
    pub fn send(&mut self, xid: i32, request: &Request) {
        self.out.frame(|writer| {
            RequestHeader { xid, op: request.op().number() }.write(writer);
            request.write(writer);
        });
    }

    /// Appends a request that was encoded by `template`.
    pub fn send_template(&mut self, xid: i32, template: &[u8]) {
        self.out.frame(|writer| {
            writer.int(xid);
            writer.raw(template);
        });
    }

    /// Sends the output buffer, in one system call if the socket accepts all of it.
    pub async fn flush(&mut self) -> Result<(), Error> {
        if !self.out.is_empty() {
            self.stream.write_all(&self.out.take()).await?;
        }
        Ok(())
    }

    /// Waits for the next frame. Cancel-safe: nothing is lost if the future is dropped.
    pub async fn frame(&mut self) -> Result<Bytes, Error> {
        loop {
            if let Some(frame) = self.deframer.next(&mut self.received)? {
                return Ok(frame);
            }
            self.fill().await?;
        }
    }

    /// Waits for more bytes from the server.
    pub async fn fill(&mut self) -> Result<(), Error> {
        self.received.reserve(READ_BYTES_MIN);
        match self.stream.read_buf(&mut self.received).await? {
            0 => Err(Error::Closed),
            _ => Ok(()),
        }
    }

    /// Returns the header of the next reply that has arrived completely and drops its body undecoded.
    ///
    /// Loads need only xids and error codes, and every allocation would add to the CPU cost of the generator.
    pub fn skip(&mut self) -> Result<Option<ReplyHeader>, Error> {
        let Some(declared) = self.received.first_chunk().copied().map(i32::from_be_bytes) else { return Ok(None) };
        let length = usize::try_from(declared).ok().filter(|length| (HEADER_BYTES..=REPLY_BYTES_MAX).contains(length));
        let Some(length) = length else {
            return Err(Error::Length { declared, least: HEADER_BYTES, most: REPLY_BYTES_MAX });
        };
        if self.received.len() < LENGTH_BYTES + length {
            return Ok(None);
        }
        self.received.advance(LENGTH_BYTES);
        let header = ReplyHeader {
            xid: i32::from_be_bytes(*self.received.first_chunk().expect("a header has arrived")),
            zxid: i64::from_be_bytes(*self.received[4..].first_chunk().expect("a header has arrived")),
            err: code(i32::from_be_bytes(*self.received[12..].first_chunk().expect("a header has arrived"))),
        };
        self.received.advance(length);
        Ok(Some(header))
    }
}

/// Maps an unknown error code to `SystemError`: it is a fault of the server, not of the client.
fn code(number: i32) -> ErrorCode {
    ErrorCode::from_number(number).unwrap_or(ErrorCode::SystemError)
}

/// Encodes a request without its xid, for [`Connection::send_template`].
pub(super) fn template(request: &Request) -> Bytes {
    let mut writer = Writer::new();
    writer.int(request.op().number());
    request.write(&mut writer);
    writer.into_bytes()
}

/// Decodes the header and the body of a reply to this operation. An error reply has no body.
pub(super) fn decode(frame: Bytes, op: OpCode) -> Result<(ReplyHeader, Option<Reply>), Error> {
    let mut reader = pole_jute::Reader::new(frame);
    let header = ReplyHeader::read(&mut reader)?;
    let body = if header.err == ErrorCode::Ok { Some(Reply::decode(op, &mut reader)?) } else { None };
    Ok((header, body))
}

/// Decodes only the xid of a reply. It determines the operation, which is needed to decode the body.
pub(super) fn xid_of(frame: &Bytes) -> Result<i32, Error> {
    Ok(i32::take(&mut pole_jute::Reader::new(frame.clone()), pole_jute::Place::new("ReplyHeader", "xid"))?)
}

const LENGTH_BYTES: usize = 4;

/// Xid, zxid and error code.
const HEADER_BYTES: usize = 16;

/// Large enough for all replies that a session of our loads has outstanding.
const BUFFER_BYTES: usize = 64 << 10;

/// Free buffer space for each read from the socket.
const READ_BYTES_MIN: usize = 16 << 10;

/// Larger than the request limit of servers, because a list of many children can be.
const REPLY_BYTES_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection that has received these bytes and receives nothing more.
    async fn connection_with(bytes: &[u8]) -> Connection {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        Connection { stream, received: bytes.into(), deframer: Deframer::default(), out: Writer::new() }
    }

    #[tokio::test]
    async fn headers_come_out_and_bodies_are_skipped() {
        let reply = |xid: i32, err: i32, body: &[u8]| {
            let mut writer = Writer::new();
            writer.frame(|writer| {
                writer.int(xid);
                writer.long(9);
                writer.int(err);
                writer.raw(body);
            });
            writer.into_bytes()
        };
        let mut stream = [reply(1, 0, b"body"), reply(2, -101, b"")].concat();
        stream.extend(&reply(3, 0, b"cut off")[..8]);
        let mut connection = connection_with(&stream).await;
        let first = connection.skip().unwrap().unwrap();
        assert_eq!((first.xid, first.zxid, first.err), (1, 9, ErrorCode::Ok));
        assert_eq!(connection.skip().unwrap().map(|header| header.err), Some(ErrorCode::NoNode));
        assert_eq!(connection.skip().unwrap(), None);
    }

    #[tokio::test]
    async fn an_impossible_length_is_refused() {
        for declared in [-1, 0, 15, i32::MAX] {
            let refused = connection_with(&i32::to_be_bytes(declared)).await.skip();
            assert!(matches!(refused, Err(Error::Length { declared: got, .. }) if got == declared), "{refused:?}");
        }
    }
}
