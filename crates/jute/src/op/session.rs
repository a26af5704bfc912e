//! The handshake of a connection, which opens or resumes a session. It has no headers.
//!
//! Ping and closeSession consist of a header only.

use bytes::Bytes;

use crate::{Error, Place, Reader, Record, Value, Writer};

/// The first message of a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConnectRequest {
    /// Always 0.
    pub protocol_version: i32,
    /// The last zxid that the client has seen. A server that is behind it must not serve this client.
    pub last_zxid_seen: i64,
    /// The timeout requested by the client, in milliseconds.
    pub timeout: i32,
    /// The session to resume, or 0 for a new one.
    pub session_id: i64,
    /// The password of that session.
    pub passwd: Option<Bytes>,
    /// Whether the client accepts a read-only server. Old clients do not send this, and must not get it in the
    /// response.
    pub read_only: Option<bool>,
}

/// The server's reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConnectResponse {
    /// Always 0.
    pub protocol_version: i32,
    /// The negotiated timeout in milliseconds; 0 means that the session has expired.
    pub timeout: i32,
    /// The id of the session.
    pub session_id: i64,
    /// The password of the session, needed to resume it.
    pub passwd: Option<Bytes>,
    /// Whether this server is read-only; only for clients that have sent their flag.
    pub read_only: Option<bool>,
}

impl Record for ConnectRequest {
    const NAME: &'static str = "ConnectRequest";
    const BYTES_MIN: usize = 28;

    fn read(reader: &mut Reader) -> Result<Self, Error> {
        Ok(Self {
            protocol_version: reader.int(Place::new(Self::NAME, "protocol_version"))?,
            last_zxid_seen: reader.long(Place::new(Self::NAME, "last_zxid_seen"))?,
            timeout: reader.int(Place::new(Self::NAME, "timeout"))?,
            session_id: reader.long(Place::new(Self::NAME, "session_id"))?,
            passwd: reader.buffer(Place::new(Self::NAME, "passwd"))?,
            read_only: last_bool(reader, Place::new(Self::NAME, "read_only"))?,
        })
    }

    fn write(&self, writer: &mut Writer) {
        writer.int(self.protocol_version);
        writer.long(self.last_zxid_seen);
        writer.int(self.timeout);
        writer.long(self.session_id);
        self.passwd.put(writer);
        self.read_only.iter().for_each(|flag| writer.bool(*flag));
    }
}

impl Record for ConnectResponse {
    const NAME: &'static str = "ConnectResponse";
    const BYTES_MIN: usize = 20;

    fn read(reader: &mut Reader) -> Result<Self, Error> {
        Ok(Self {
            protocol_version: reader.int(Place::new(Self::NAME, "protocol_version"))?,
            timeout: reader.int(Place::new(Self::NAME, "timeout"))?,
            session_id: reader.long(Place::new(Self::NAME, "session_id"))?,
            passwd: reader.buffer(Place::new(Self::NAME, "passwd"))?,
            read_only: last_bool(reader, Place::new(Self::NAME, "read_only"))?,
        })
    }

    fn write(&self, writer: &mut Writer) {
        writer.int(self.protocol_version);
        writer.int(self.timeout);
        writer.long(self.session_id);
        self.passwd.put(writer);
        self.read_only.iter().for_each(|flag| writer.bool(*flag));
    }
}

/// Reads a flag that may be missing at the end of the frame.
fn last_bool(reader: &mut Reader, place: Place) -> Result<Option<bool>, Error> {
    if reader.left() == 0 { Ok(None) } else { reader.bool(place).map(Some) }
}
