//! auth, sasl and whoAmI: who is at the other end of a connection.

use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;

use crate::record::record;

record! {
    /// auth. Its reply is a header.
    pub struct AuthPacket {
        /// Always 0 so far; nobody reads it.
        pub kind: i32,
        /// The scheme; an unknown one ends the connection.
        pub scheme: String,
        /// What the scheme wants to see, such as `user:password`.
        pub auth: Option<Bytes>,
    }
}

record! {
    /// sasl: a step of the exchange.
    pub struct SaslRequest {
        /// The mechanism's own bytes.
        pub token: Option<Bytes>,
    }
}

record! {
    /// Its reply.
    pub struct SaslResponse {
        /// The mechanism's own bytes.
        pub token: Option<Bytes>,
    }
}

record! {
    /// The reply to whoAmI, whose request is a header.
    pub struct WhoAmIResponse {
        /// The identities of the connection.
        pub client_info: Vec<ClientInfo>,
    }
}

record! {
    /// An identity, without its secret.
    pub struct ClientInfo {
        /// The scheme.
        pub auth_scheme: String,
        /// The user, the address, the subject.
        pub user: String,
    }
}
