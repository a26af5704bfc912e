//! The bytes of one connection: requests become frames, and what arrived is split into replies.
//!
//! A driver sends [`Frames::take_output`], puts what it reads into [`Frames::input`], and then takes frames until
//! there is none. It may also send bytes of its own: nothing here depends on what was sent.

use bytes::{Buf, Bytes, BytesMut};
use pole_jute::{
    ConnectRequest, ConnectResponse, Deframer, ErrorCode, OpCode, Reader, Record as _, Reply, ReplyHeader, Request,
    RequestHeader, Writer,
};

use crate::Error;

/// Bytes received that are not used yet, and frames that are not sent yet.
#[derive(Debug, Default)]
pub struct Frames {
    received: BytesMut,
    out: Writer,
}

impl Frames {
    /// Reserves this many bytes in each direction, for a load generator that must not reallocate.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { received: BytesMut::with_capacity(bytes), out: Writer::with_buffer(BytesMut::with_capacity(bytes)) }
    }

    /// Appends the first message of a connection.
    pub fn connect(&mut self, request: &ConnectRequest) {
        self.out.frame(|writer| request.write(writer));
    }

    /// Appends a request.
    pub fn send(&mut self, xid: i32, request: &Request) {
        write_request(&mut self.out, xid, request);
    }

    /// Appends a request that was encoded by [`template`].
    pub fn send_template(&mut self, xid: i32, template: &[u8]) {
        self.out.frame(|writer| {
            writer.int(xid);
            writer.raw(template);
        });
    }

    /// Takes the bytes to send; empty if there are none.
    pub fn take_output(&mut self) -> Bytes {
        // Drivers call this on every turn, and splitting even an empty buffer costs an allocation.
        if self.out.is_empty() { Bytes::new() } else { self.out.take() }
    }

    /// The buffer to read into.
    pub fn input(&mut self) -> &mut BytesMut {
        &mut self.received
    }

    /// The next frame that has arrived completely, without its length.
    pub fn next_frame(&mut self) -> Result<Option<Bytes>, Error> {
        Ok(Deframer::new(REPLY_BYTES_MAX).next(&mut self.received)?)
    }

    /// Returns the header of the next reply that has arrived completely and drops its body undecoded.
    ///
    /// Loads need only xids and error codes, and every allocation would add to the CPU cost of the generator.
    pub fn skip_reply(&mut self) -> Result<Option<ReplyHeader>, Error> {
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

fn write_request(writer: &mut Writer, xid: i32, request: &Request) {
    writer.frame(|writer| {
        RequestHeader { xid, op: request.op().number() }.write(writer);
        request.write(writer);
    });
}

/// The first message of a connection, as a frame.
pub fn connect_frame(request: &ConnectRequest) -> Bytes {
    let mut writer = Writer::new();
    writer.frame(|writer| request.write(writer));
    writer.into_bytes()
}

/// A request, as a frame.
pub fn request_frame(xid: i32, request: &Request) -> Bytes {
    let mut writer = Writer::new();
    write_request(&mut writer, xid, request);
    writer.into_bytes()
}

/// Encodes a request without its xid, for [`Frames::send_template`].
pub fn template(request: &Request) -> Bytes {
    let mut writer = Writer::new();
    writer.int(request.op().number());
    request.write(&mut writer);
    writer.into_bytes()
}

/// Decodes the first frame of a connection. Fails with [`Error::Expired`] if the server refuses the session.
pub fn decode_session(frame: Bytes) -> Result<ConnectResponse, Error> {
    let response = ConnectResponse::decode(frame)?;
    if response.timeout <= 0 { Err(Error::Expired) } else { Ok(response) }
}

/// Decodes the header and the body of a reply to this operation. An error reply has no body.
pub fn decode_reply(frame: Bytes, op: OpCode) -> Result<(ReplyHeader, Option<Reply>), Error> {
    let mut reader = Reader::new(frame);
    let header = ReplyHeader::read(&mut reader)?;
    let body = if header.err == ErrorCode::Ok { Some(Reply::decode(op, &mut reader)?) } else { None };
    Ok((header, body))
}

const LENGTH_BYTES: usize = 4;

/// Xid, zxid and error code.
const HEADER_BYTES: usize = 16;

/// Larger than the request limit of servers, because a list of many children can be.
const REPLY_BYTES_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn received(bytes: &[u8]) -> Frames {
        Frames { received: bytes.into(), ..Frames::default() }
    }

    #[test]
    fn headers_come_out_and_bodies_are_skipped() {
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
        let mut frames = received(&stream);
        let first = frames.skip_reply().unwrap().unwrap();
        assert_eq!((first.xid, first.zxid, first.err), (1, 9, ErrorCode::Ok));
        assert_eq!(frames.skip_reply().unwrap().map(|header| header.err), Some(ErrorCode::NoNode));
        assert_eq!(frames.skip_reply().unwrap(), None);
    }

    #[test]
    fn an_impossible_length_is_refused() {
        for declared in [-1, 0, 15, i32::MAX] {
            let refused = received(&i32::to_be_bytes(declared)).skip_reply();
            assert!(matches!(refused, Err(Error::Length { declared: got, .. }) if got == declared), "{refused:?}");
        }
    }

    #[test]
    fn a_template_is_a_request_without_its_xid() {
        let request = crate::set_data("/a", b"data");
        let mut frames = Frames::default();
        frames.send_template(7, &template(&request));
        assert_eq!(frames.take_output(), request_frame(7, &request));
    }

    #[test]
    fn a_session_that_the_server_refuses_has_expired() {
        let response =
            ConnectResponse { protocol_version: 0, timeout: 0, session_id: 0, passwd: None, read_only: None };
        let refused = decode_session(response.encode());
        assert!(matches!(refused, Err(Error::Expired)), "{refused:?}");
    }
}
