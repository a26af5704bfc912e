//! The server's side of SASL, and of its mechanism DIGEST-MD5 (RFC 2831), as Apache's server and its clients use it.
//!
//! A server has one mechanism, and a client has to know which: the tokens do not say. The other one is in `gssapi`.
//!
//! # DIGEST-MD5
//!
//! A client sends an empty token and gets a challenge with a nonce. Its second token proves that it knows the password,
//! and the reply to that proves the same of the server. There is one attempt on each connection. As in Apache, the realm
//! is `zk-sasl-md5` and the service `zookeeper` on every server, and nothing is encrypted or signed afterwards (`auth`).
//!
//! The server keeps a hash of each password. Somebody who has that hash can pass for the user, here as with every server
//! of this mechanism, and somebody who records an exchange can try passwords: a network that is not trusted needs TLS too.
//!
//! The nonce comes from the driver, so a step is a function of its arguments. What becomes of the result is decided in
//! `authentication`.

mod directives;
mod gssapi;
mod principal;
#[cfg(test)]
pub(super) mod tests;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;
use md5::{Digest as _, Md5};

use directives::Directives;
pub use gssapi::{GssapiCall, GssapiResult, SECURITY_LAYERS};
pub(super) use gssapi::{GssapiExchange, GssapiStep};
pub use principal::KerberosNames;

/// How clients prove who they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaslMechanism {
    /// With a password, which the server knows too.
    DigestMd5(SaslUsers),
    /// With a ticket of Kerberos.
    Gssapi(KerberosNames),
}

/// Random bytes that make each challenge different. In hexadecimal they are as long as the nonces of Java.
pub type Nonce = [u8; 20];

/// The users that may authenticate.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SaslUsers(BTreeMap<String, Key>);

/// The hash of user, realm and password.
type Key = [u8; 16];

impl SaslUsers {
    /// Takes the names and passwords of users.
    pub fn new<'a>(users: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self(users.into_iter().map(|(user, password)| (user.into(), key(user, password))).collect())
    }
}

/// Shows no hash: it is as good as the password.
impl fmt::Debug for SaslUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// How far a client's attempt is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum SaslExchange {
    /// No token has arrived.
    #[default]
    New,
    /// The client has this nonce, in hexadecimal.
    Challenged(Vec<u8>),
    /// The attempt has succeeded or failed.
    Over,
}

/// The answer to a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SaslStep {
    /// The client has to answer this.
    Challenge(Bytes),
    /// The client has proved to be this user.
    Proved {
        user: String,
        /// The proof that the server knows the password too, where the mechanism has one.
        reply: Option<Bytes>,
    },
}

/// Why a client's attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaslError {
    #[error("the token is too long")]
    TooLong,
    #[error("the token is not a list of directives: {0}")]
    Malformed(&'static str),
    #[error("the directive {0} occurs twice")]
    Repeated(&'static str),
    #[error("the directive {0} is missing or wrong")]
    Wrong(&'static str),
    #[error("the user is unknown or the password wrong")]
    Credentials,
    #[error("Kerberos does not accept the token")]
    Kerberos,
    #[error("the security layer that the client chose {0}")]
    SecurityLayer(&'static str),
    #[error("the principal of the client is not NAME@REALM or NAME/HOST@REALM")]
    Principal,
    #[error("a connection has one attempt")]
    Over,
    #[error("the system has no random numbers")]
    NoRandomNumbers,
}

impl SaslStep {
    /// The answer to the last token of a principal.
    pub(super) fn principal(principal: &str, names: &KerberosNames) -> Result<Self, SaslError> {
        let user = names.user(principal).ok_or(SaslError::Principal)?;
        Ok(Self::Proved { user, reply: None })
    }
}

impl SaslExchange {
    /// Takes a token of the client. `nonce` is called for the first one.
    pub(super) fn step(
        &mut self,
        token: &[u8],
        users: &SaslUsers,
        nonce: impl FnOnce() -> Option<Nonce>,
    ) -> Result<SaslStep, SaslError> {
        let state = core::mem::replace(self, Self::Over);
        if token.len() > TOKEN_BYTES_MAX {
            return Err(SaslError::TooLong);
        }
        match state {
            // A client may try to go on with an earlier nonce. That is answered like an empty token (RFC 2831, 2.2).
            Self::New => {
                let nonce = hex(&nonce().ok_or(SaslError::NoRandomNumbers)?);
                let parts: [&[u8]; 5] =
                    [b"realm=\"", REALM, b"\",nonce=\"", &nonce, b"\",charset=utf-8,algorithm=md5-sess"];
                let challenge = parts.concat().into();
                *self = Self::Challenged(nonce);
                Ok(SaslStep::Challenge(challenge))
            }
            Self::Challenged(nonce) => check(&Directives::parse(token)?, &nonce, users),
            Self::Over => Err(SaslError::Over),
        }
    }
}

/// Checks the client's answer to a challenge.
fn check(given: &Directives, nonce: &[u8], users: &SaslUsers) -> Result<SaslStep, SaslError> {
    let is = |value: &Option<Vec<u8>>, expected: &[u8]| value.as_ref().is_none_or(|value| value == expected);
    let required = |value: &'_ Option<Vec<u8>>, name| value.clone().ok_or(SaslError::Wrong(name));
    let user = String::from_utf8(required(&given.username, "username")?).map_err(|_| SaslError::Wrong("username"))?;
    let uri = required(&given.digest_uri, "digest-uri")?;
    let response = required(&given.response, "response")?;
    let client_nonce = required(&given.cnonce, "cnonce")?;
    for (is_right, name) in [
        (given.realm.as_deref() == Some(REALM), "realm"),
        (given.nonce.as_deref() == Some(nonce), "nonce"),
        (uri.eq_ignore_ascii_case(URI), "digest-uri"),
        (is(&given.nc, NONCE_COUNT), "nc"),
        (is(&given.qop, QOP), "qop"),
        (is(&given.charset, b"utf-8"), "charset"),
    ] {
        if !is_right {
            return Err(SaslError::Wrong(name));
        }
    }
    // An unknown user takes as long as a wrong password.
    let known = users.0.get(&user);
    let key = known.copied().unwrap_or_default();
    let proof = |method: &[u8]| proof(&key, nonce, &client_nonce, given.authzid.as_deref(), &[method, b":", &uri]);
    let is_right = is_same(&response, &proof(b"AUTHENTICATE"));
    if !is_right || known.is_none() {
        return Err(SaslError::Credentials);
    }
    Ok(SaslStep::Proved { user, reply: Some([b"rspauth=", &proof(b"")[..]].concat().into()) })
}

/// The proof of a password: `response-value` of RFC 2831, 2.1.2.1.
fn proof(key: &Key, nonce: &[u8], client_nonce: &[u8], authzid: Option<&[u8]>, a2: &[&[u8]]) -> Vec<u8> {
    let mut a1 = Vec::from([&key[..], b":", nonce, b":", client_nonce]);
    if let Some(authzid) = authzid {
        a1.extend([&b":"[..], authzid]);
    }
    let (a1, a2) = (hex(&md5(&a1)), hex(&md5(a2)));
    let parts: [&[u8]; 11] = [&a1, b":", nonce, b":", NONCE_COUNT, b":", client_nonce, b":", QOP, b":", &a2];
    hex(&md5(&parts))
}

fn key(user: &str, password: &str) -> Key {
    md5(&[&encoded(user), b":", REALM, b":", &encoded(password)])
}

/// The characters as they are hashed: in ISO 8859-1 if that has all of them, otherwise in UTF-8.
fn encoded(text: &str) -> Vec<u8> {
    let latin: Result<Vec<u8>, _> = text.chars().map(u8::try_from).collect();
    latin.unwrap_or_else(|_| text.into())
}

fn md5(parts: &[&[u8]]) -> [u8; 16] {
    let mut hash = Md5::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

/// The bytes in lower-case hexadecimal.
fn hex(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| b"0123456789abcdef"[usize::from(digit)]).collect()
}

/// Compares in constant time, so that the duration does not reveal how much was right.
fn is_same(shown: &[u8], expected: &[u8]) -> bool {
    let differing = shown.iter().zip(expected).fold(0, |seen, (a, b)| seen | (a ^ b));
    shown.len() == expected.len() && differing == 0
}

/// The realm, which Apache's clients and servers have fixed.
const REALM: &[u8] = b"zk-sasl-md5";
/// The service and its host, likewise.
const URI: &[u8] = b"zookeeper/zk-sasl-md5";
/// A nonce is used once.
const NONCE_COUNT: &[u8] = b"00000001";
/// Authentication only.
const QOP: &[u8] = b"auth";
/// The limit of the RFC for an answer.
const TOKEN_BYTES_MAX: usize = 4096;
