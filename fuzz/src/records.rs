//! Targets `frames`, `requests` and `replies`: the protocol between clients and servers.
//!
//! Property: everything that can be decoded can be encoded and decoded again with the same result.

use bytes::{Bytes, BytesMut};
use pole_jute::{
    ConnectRequest, ConnectResponse, Deframer, OpCode, Reader, Record, Reply, ReplyHeader, Request, RequestHeader,
    Writer, four_letter_word,
};

/// The input is a stream of frames from a client: a connect request, then requests. It arrives in two parts, and the
/// position of the split must make no difference.
pub(crate) fn frames(input: &[u8]) {
    let Some((&split, stream)) = input.split_first() else { return };
    let _ = four_letter_word(stream);
    let deframer = Deframer::default();
    let split = usize::from(split).min(stream.len());
    let mut arrived = BytesMut::from(&stream[..split]);
    let (mut frames, first) = read_all(deframer, &mut arrived);
    let mut refused = first;
    if refused.is_none() {
        arrived.extend_from_slice(&stream[split..]);
        let (more, last) = read_all(deframer, &mut arrived);
        frames.extend(more);
        refused = last;
    }
    let whole = read_all(deframer, &mut BytesMut::from(stream));
    assert_eq!((&frames, refused), (&whole.0, whole.1), "the split at {split} makes a difference");

    let mut frames = frames.into_iter();
    if let Some(first) = frames.next() {
        record::<ConnectRequest>(first);
    }
    for frame in frames {
        let mut reader = Reader::new(frame);
        let Ok(header) = RequestHeader::read(&mut reader) else { continue };
        if let Ok(op) = header.operation() {
            request(op, reader);
        }
    }
}

/// The input is an operation code in one byte, and the body of a request.
pub(crate) fn requests(input: &[u8]) {
    if let Some((op, reader)) = operation(input) {
        request(op, reader);
    }
}

/// The input is an operation code in one byte, and the body of a reply. The body is also decoded as a reply header
/// and as a connect response.
pub(crate) fn replies(input: &[u8]) {
    let Some((op, mut reader)) = operation(input) else { return };
    record::<ReplyHeader>(reader.clone().rest());
    record::<ConnectResponse>(reader.clone().rest());
    let Ok(reply) = Reply::decode(op, &mut reader) else { return };
    let mut writer = Writer::new();
    reply.write(&mut writer);
    let again = Reply::decode(op, &mut Reader::new(writer.into_bytes()));
    assert_eq!(again.as_ref(), Ok(&reply));
}

fn request(op: OpCode, mut reader: Reader) {
    let Ok(request) = Request::decode(op, &mut reader) else { return };
    let mut writer = Writer::new();
    request.write(&mut writer);
    let again = Request::decode(op, &mut Reader::new(writer.into_bytes()));
    assert_eq!(again.as_ref(), Ok(&request));
}

fn record<R: Record + PartialEq + std::fmt::Debug>(bytes: Bytes) {
    if let Ok(record) = R::decode(bytes) {
        assert_eq!(R::decode(record.encode()).as_ref(), Ok(&record));
    }
}

/// Decodes the operation code. All codes fit into a signed byte.
fn operation(input: &[u8]) -> Option<(OpCode, Reader)> {
    let (&number, body) = input.split_first()?;
    let op = OpCode::from_number(i32::from(number.cast_signed()))?;
    Some((op, Reader::new(Bytes::copy_from_slice(body))))
}

/// All complete frames, and the error that ends the stream.
fn read_all(deframer: Deframer, arrived: &mut BytesMut) -> (Vec<Bytes>, Option<pole_jute::FrameError>) {
    let mut frames = Vec::new();
    loop {
        match deframer.next(arrived) {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => return (frames, None),
            Err(refused) => return (frames, Some(refused)),
        }
    }
}
