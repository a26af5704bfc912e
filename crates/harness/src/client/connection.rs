//! One connection to one server: frames out in batches, frames in as they come.

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
    arrived: BytesMut,
    deframer: Deframer,
    /// Frames to be sent with the next [`Self::flush`].
    out: Writer,
}

impl Connection {
    /// Opens a new session, or resumes the one in the request. A refusal to resume is [`Error::Expired`].
    pub async fn open(
        address: SocketAddr,
        request: &ConnectRequest,
        limit: Duration,
    ) -> Result<(Self, ConnectResponse), Error> {
        timeout(limit, Self::introduce(address, request)).await.map_err(|_| Error::Silent(limit))?
    }

    async fn introduce(address: SocketAddr, request: &ConnectRequest) -> Result<(Self, ConnectResponse), Error> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let arrived = BytesMut::with_capacity(BUFFER_BYTES);
        let deframer = Deframer::new(REPLY_BYTES_MAX);
        let mut connection =
            Self { stream, arrived, deframer, out: Writer::over(BytesMut::with_capacity(BUFFER_BYTES)) };
        connection.out.frame(|writer| request.write(writer));
        connection.flush().await?;
        let response = ConnectResponse::decode(connection.frame().await?)?;
        if response.timeout <= 0 { Err(Error::Expired) } else { Ok((connection, response)) }
    }

    /// Appends a request to what will be sent.
    pub fn send(&mut self, xid: i32, request: &Request) {
        self.out.frame(|writer| {
            RequestHeader { xid, op: request.op().number() }.write(writer);
            request.write(writer);
        });
    }

    /// Appends a request that was made by `template`.
    pub fn send_again(&mut self, xid: i32, template: &[u8]) {
        self.out.frame(|writer| {
            writer.int(xid);
            writer.raw(template);
        });
    }

    /// Sends what was appended, in one system call if the socket takes it.
    pub async fn flush(&mut self) -> Result<(), Error> {
        if !self.out.is_empty() {
            self.stream.write_all(&self.out.take()).await?;
        }
        Ok(())
    }

    /// The next frame, when it is there. May be dropped while it waits; nothing is lost.
    pub async fn frame(&mut self) -> Result<Bytes, Error> {
        loop {
            if let Some(frame) = self.deframer.next(&mut self.arrived)? {
                return Ok(frame);
            }
            self.fill().await?;
        }
    }

    /// Waits for more bytes.
    pub async fn fill(&mut self) -> Result<(), Error> {
        self.arrived.reserve(ROOM_BYTES_MIN);
        match self.stream.read_buf(&mut self.arrived).await? {
            0 => Err(Error::Closed),
            _ => Ok(()),
        }
    }

    /// The header of the next reply that has arrived whole; its body is dropped unread. For loads, where only numbers
    /// and codes matter and every allocation would be the generator's share of the machine.
    pub fn skip(&mut self) -> Result<Option<ReplyHeader>, Error> {
        let Some(declared) = self.arrived.first_chunk().copied().map(i32::from_be_bytes) else { return Ok(None) };
        let length = usize::try_from(declared).ok().filter(|length| (HEADER_BYTES..=REPLY_BYTES_MAX).contains(length));
        let Some(length) = length else {
            return Err(Error::Length { declared, least: HEADER_BYTES, most: REPLY_BYTES_MAX });
        };
        if self.arrived.len() < LENGTH_BYTES + length {
            return Ok(None);
        }
        self.arrived.advance(LENGTH_BYTES);
        let header = ReplyHeader {
            xid: i32::from_be_bytes(*self.arrived.first_chunk().expect("a header has arrived")),
            zxid: i64::from_be_bytes(*self.arrived[4..].first_chunk().expect("a header has arrived")),
            err: code(i32::from_be_bytes(*self.arrived[12..].first_chunk().expect("a header has arrived"))),
        };
        self.arrived.advance(length);
        Ok(Some(header))
    }
}

/// A code that nobody knows is a broken server, not a broken client.
fn code(number: i32) -> ErrorCode {
    ErrorCode::from_number(number).unwrap_or(ErrorCode::SystemError)
}

/// A request without its number, for [`Connection::send_again`].
pub(super) fn template(request: &Request) -> Bytes {
    let mut writer = Writer::new();
    writer.int(request.op().number());
    request.write(&mut writer);
    writer.into_bytes()
}

/// Header and body of a reply to this operation.
pub(super) fn decode(frame: Bytes, op: OpCode) -> Result<(ReplyHeader, Option<Reply>), Error> {
    let mut reader = pole_jute::Reader::new(frame);
    let header = ReplyHeader::read(&mut reader)?;
    let body = if header.err == ErrorCode::Ok { Some(Reply::decode(op, &mut reader)?) } else { None };
    Ok((header, body))
}

/// Only the number of a reply: it says to which operation it belongs, before the body can be read.
pub(super) fn xid_of(frame: &Bytes) -> Result<i32, Error> {
    Ok(i32::take(&mut pole_jute::Reader::new(frame.clone()), pole_jute::Place::new("ReplyHeader", "xid"))?)
}

const LENGTH_BYTES: usize = 4;

/// Number, zxid and code.
const HEADER_BYTES: usize = 16;

/// Holds all replies to the requests that a session of our loads has outstanding.
const BUFFER_BYTES: usize = 64 << 10;

/// One read takes at least so much if it is there.
const ROOM_BYTES_MIN: usize = 16 << 10;

/// A list of many children is longer than what servers take.
const REPLY_BYTES_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection on which these bytes have arrived, and nothing more will.
    async fn after(bytes: &[u8]) -> Connection {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        Connection { stream, arrived: bytes.into(), deframer: Deframer::default(), out: Writer::new() }
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
        let mut connection = after(&stream).await;
        let first = connection.skip().unwrap().unwrap();
        assert_eq!((first.xid, first.zxid, first.err), (1, 9, ErrorCode::Ok));
        assert_eq!(connection.skip().unwrap().map(|header| header.err), Some(ErrorCode::NoNode));
        assert_eq!(connection.skip().unwrap(), None);
    }

    #[tokio::test]
    async fn a_length_that_no_reply_has_is_refused() {
        for declared in [-1, 0, 15, i32::MAX] {
            let refused = after(&i32::to_be_bytes(declared)).await.skip();
            assert!(matches!(refused, Err(Error::Length { declared: got, .. }) if got == declared), "{refused:?}");
        }
    }
}
