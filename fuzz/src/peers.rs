//! Target `peer`: messages between servers, after the handshake.
//!
//! Property: a frame is refused, or it is the canonical encoding of its message.

use bytes::{Bytes, BytesMut};
use pole_server::peer::codec;

/// The input is one frame without its length.
pub(crate) fn messages(input: &[u8]) {
    let Ok(message) = codec::decode(Bytes::copy_from_slice(input)) else { return };
    let mut written = BytesMut::new();
    codec::encode(&message, &mut written);
    assert_eq!(&written[LENGTH_BYTES..], input, "{message:?}");
}

const LENGTH_BYTES: usize = 4;
