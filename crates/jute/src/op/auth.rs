//! auth, sasl and whoAmI: the identities of a connection.

use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;

use crate::record::record;

record! {
    /// An auth request. The reply has no body.
    pub struct AuthPacket {
        /// Always 0; never read.
        pub kind: i32,
        /// The scheme. An unknown one ends the connection.
        pub scheme: String,
        /// The credentials in the format of the scheme, such as `user:password`.
        pub auth: Option<Bytes>,
    }
}

record! {
    /// One step of a SASL exchange.
    pub struct SaslRequest {
        /// Data of the SASL mechanism.
        pub token: Option<Bytes>,
    }
}

record! {
    /// The reply to sasl.
    pub struct SaslResponse {
        /// Data of the SASL mechanism.
        pub token: Option<Bytes>,
    }
}

record! {
    /// The reply to whoAmI, whose request has no body.
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
        /// The user name, address or subject.
        pub user: String,
    }
}
