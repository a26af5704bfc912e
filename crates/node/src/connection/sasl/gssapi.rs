//! The server's side of SASL GSSAPI (RFC 4752), which is Kerberos, as Apache's server uses it.
//!
//! The client's first token begins the exchange. Tokens go through a security context until it is established. Then the
//! server offers security layers, of which it has none, in a wrapped message of four bytes, and the client's answer says
//! what it chose. A reply without a token is the end. As in Apache, the principal of the context is the user, whatever other
//! identity the answer asks for.
//!
//! The context is one of a library, which reads files and may wait for them. So a step does not call it: it returns the
//! [`GssapiCall`] that is due, the driver performs it where it may block, and its [`GssapiResult`] is the next input. There is
//! one call at a time. The names of users are in `principal`.

use alloc::string::String;

use bytes::Bytes;

use super::SaslError;

/// A call of the library that a driver has to perform on the security context of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GssapiCall {
    /// Give the token of the client to the context, which accepts. If the context is established then, also wrap
    /// [`SECURITY_LAYERS`], without encryption.
    Accept(Bytes),
    /// Unwrap a message of the client.
    Unwrap(Bytes),
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GssapiResult {
    /// The context needs another token of the client, which needs this one for it.
    Continued(Bytes),
    /// The context is established.
    Established {
        /// For the client, unless it is empty.
        token: Bytes,
        /// The name of the client.
        principal: String,
        /// [`SECURITY_LAYERS`], wrapped.
        layers: Bytes,
    },
    /// The message, whose integrity was verified.
    Unwrapped(Bytes),
    /// The library refused the token or failed. The driver knows why.
    Failed,
}

/// The security layers that the server offers: none, so the largest message under such a layer has no bytes.
pub const SECURITY_LAYERS: [u8; 4] = [NO_LAYER, 0, 0, 0];

/// How far a client's attempt is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::connection) struct GssapiExchange(State);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    /// The context is not established.
    #[default]
    Accepting,
    /// It is established. The client has to ask for the offer of layers.
    Established { principal: String, layers: Bytes },
    /// The client has the offer.
    Offered { principal: String },
    /// The attempt has succeeded or failed, or a call is being performed.
    Over,
}

/// What a token or a result leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::connection) enum GssapiStep {
    /// The driver has to perform this call.
    Call(GssapiCall),
    /// The client has to answer this.
    Challenge(Bytes),
    /// The client has proved to be this principal.
    Proved(String),
}

impl GssapiExchange {
    /// Takes a token of the client.
    pub(in crate::connection) fn take(&mut self, token: Bytes) -> Result<GssapiStep, SaslError> {
        if token.len() > TOKEN_BYTES_MAX {
            self.0 = State::Over;
            return Err(SaslError::TooLong);
        }
        match core::mem::replace(&mut self.0, State::Over) {
            State::Accepting => {
                self.0 = State::Accepting;
                Ok(GssapiStep::Call(GssapiCall::Accept(token)))
            }
            State::Established { principal, layers } if token.is_empty() => {
                self.0 = State::Offered { principal };
                Ok(GssapiStep::Challenge(layers))
            }
            State::Established { .. } => Err(SaslError::SecurityLayer("is not offered yet")),
            State::Offered { principal } => {
                self.0 = State::Offered { principal };
                Ok(GssapiStep::Call(GssapiCall::Unwrap(token)))
            }
            State::Over => Err(SaslError::Over),
        }
    }

    /// Takes the result of the call that is due.
    pub(in crate::connection) fn called(&mut self, result: GssapiResult) -> Result<GssapiStep, SaslError> {
        match (core::mem::replace(&mut self.0, State::Over), result) {
            (State::Accepting, GssapiResult::Continued(token)) => {
                self.0 = State::Accepting;
                Ok(GssapiStep::Challenge(token))
            }
            (State::Accepting, GssapiResult::Established { token, principal, layers }) if token.is_empty() => {
                self.0 = State::Offered { principal };
                Ok(GssapiStep::Challenge(layers))
            }
            (State::Accepting, GssapiResult::Established { token, principal, layers }) => {
                self.0 = State::Established { principal, layers };
                Ok(GssapiStep::Challenge(token))
            }
            (State::Offered { principal }, GssapiResult::Unwrapped(choice)) => {
                check_choice(&choice)?;
                Ok(GssapiStep::Proved(principal))
            }
            _ => Err(SaslError::Kerberos),
        }
    }
}

/// Checks which layer the client chose: a byte for the layer, three for the size of messages under it, and the name of
/// another identity, if it asks for one. As in Java, neither of these matters without a layer.
fn check_choice(choice: &[u8]) -> Result<(), SaslError> {
    match choice.first_chunk() {
        Some([NO_LAYER, _, _, _]) => Ok(()),
        Some([_, _, _, _]) => Err(SaslError::SecurityLayer("is none that the server offers")),
        None => Err(SaslError::SecurityLayer("has less than four bytes")),
    }
}

/// The bit of no security layer.
const NO_LAYER: u8 = 1;

/// The largest token that Windows makes, whose tickets list the groups of a user.
const TOKEN_BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn bytes(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    fn established(token: &'static str) -> GssapiResult {
        GssapiResult::Established { token: bytes(token), principal: "bob@A".into(), layers: bytes("layers") }
    }

    /// An exchange in which the client has the offer of layers.
    fn offered() -> GssapiExchange {
        let mut exchange = GssapiExchange::default();
        assert_eq!(exchange.take(bytes("one")), Ok(GssapiStep::Call(GssapiCall::Accept(bytes("one")))));
        assert_eq!(exchange.called(established("")), Ok(GssapiStep::Challenge(bytes("layers"))));
        exchange
    }

    fn choose(choice: &[u8]) -> Result<GssapiStep, SaslError> {
        let mut exchange = offered();
        assert_eq!(exchange.take(bytes("choice")), Ok(GssapiStep::Call(GssapiCall::Unwrap(bytes("choice")))));
        let proved = exchange.called(GssapiResult::Unwrapped(Bytes::copy_from_slice(choice)));
        assert_eq!(exchange.take(Bytes::new()), Err(SaslError::Over), "one attempt");
        proved
    }

    /// RFC 4752, 3.1: as Java's client does it, which does not ask the server for a proof.
    #[test]
    fn a_context_without_a_last_token_is_followed_by_the_offer_at_once() {
        assert_eq!(choose(&[1, 0, 0, 0]), Ok(GssapiStep::Proved("bob@A".into())));
    }

    /// RFC 4752, 3.1: the client acknowledges the last token of the context with an empty one.
    #[test]
    fn the_offer_waits_until_the_client_has_taken_the_last_token_of_the_context() {
        let mut exchange = GssapiExchange::default();
        exchange.take(bytes("one")).expect("a call");
        assert_eq!(exchange.called(GssapiResult::Continued(bytes("more"))), Ok(GssapiStep::Challenge(bytes("more"))));
        assert_eq!(exchange.take(bytes("two")), Ok(GssapiStep::Call(GssapiCall::Accept(bytes("two")))));
        assert_eq!(exchange.called(established("proof")), Ok(GssapiStep::Challenge(bytes("proof"))));
        let mut early = exchange.clone();
        assert_eq!(early.take(bytes("choice")), Err(SaslError::SecurityLayer("is not offered yet")));
        assert_eq!(exchange.take(Bytes::new()), Ok(GssapiStep::Challenge(bytes("layers"))));
        assert_eq!(exchange.take(bytes("choice")), Ok(GssapiStep::Call(GssapiCall::Unwrap(bytes("choice")))));
    }

    #[test]
    fn the_client_may_choose_no_layer_only() {
        let other = Err(SaslError::SecurityLayer("is none that the server offers"));
        for choice in [[0, 0, 0, 0], [2, 0, 255, 255], [4, 0, 255, 255], [3, 0, 0, 0], [255, 0, 0, 0]] {
            assert_eq!(choose(&choice), other, "{choice:?}");
        }
        for short in [&[][..], &[1], &[1, 0, 0]] {
            assert_eq!(choose(short), Err(SaslError::SecurityLayer("has less than four bytes")), "{short:?}");
        }
    }

    /// Java's clients name a size, and kazoo asks for the identity that it has anyway.
    #[test]
    fn a_size_and_another_identity_do_not_matter() {
        let choice: Vec<u8> = [&[1, 1, 0, 0][..], b"eve@A", &[0xff]].concat();
        assert_eq!(choose(&choice), Ok(GssapiStep::Proved("bob@A".into())));
    }

    #[test]
    fn what_the_library_refuses_ends_the_attempt() {
        let mut exchange = GssapiExchange::default();
        exchange.take(bytes("nonsense")).expect("a call");
        assert_eq!(exchange.called(GssapiResult::Failed), Err(SaslError::Kerberos));
        assert_eq!(exchange.take(bytes("one")), Err(SaslError::Over));
        let mut exchange = offered();
        exchange.take(bytes("forged")).expect("a call");
        assert_eq!(exchange.called(GssapiResult::Failed), Err(SaslError::Kerberos));
        let mut exchange = offered();
        assert_eq!(exchange.called(established("")), Err(SaslError::Kerberos), "a result of another call");
    }

    #[test]
    fn a_token_is_bounded() {
        let mut exchange = GssapiExchange::default();
        assert_eq!(exchange.take(Bytes::from(alloc::vec![0; TOKEN_BYTES_MAX + 1])), Err(SaslError::TooLong));
        assert_eq!(exchange.take(bytes("one")), Err(SaslError::Over));
        assert!(GssapiExchange::default().take(Bytes::from(alloc::vec![0; TOKEN_BYTES_MAX])).is_ok());
    }
}
