//! How a client proves who it is: auth requests, SASL, and what happens to one that does not.
//!
//! Failures are answered as Apache 3.9 does: with an error, after which the connection is closed. The schemes are in
//! `tree`, the exchange of SASL in `sasl`.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use pole_jute::{AuthPacket, ErrorCode, Id, Reader, Record, SaslRequest, SaslResponse, Writer};
use pole_tree::{AuthFailed, AuthSettings, Caller, Watcher};

use super::sasl::{GssapiCall, GssapiResult, GssapiStep, SaslError, SaslMechanism, SaslStep};
use super::{CloseReason, Connection, ServerContext};

/// The operator's settings for authentication; `zoo.cfg` names them as given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authentication {
    /// Who the superusers are.
    pub providers: AuthSettings,
    /// The mechanism of SASL; `None` if clients cannot use it.
    pub sasl: Option<SaslMechanism>,
    /// `allowSaslFailedClients`: a failed attempt does not close the connection. Without effect if SASL is required.
    pub allow_sasl_failed: bool,
    /// `enforce.auth.schemes`: a client needs an identity of one of these for anything but authentication. Empty if it
    /// needs none.
    pub required_schemes: Vec<String>,
}

impl Authentication {
    /// Whether only clients that use SASL are served.
    fn requires_sasl(&self) -> bool {
        self.required_schemes.iter().any(|scheme| scheme == "sasl")
    }
}

impl Connection {
    /// Whether the client has the identities that the operator requires. The server's own requests need none.
    pub(super) fn has_required_identity(&self) -> bool {
        let required = &self.limits.authentication.required_schemes;
        required.is_empty()
            || self.caller.ids.iter().any(|id| required.contains(&id.scheme) || id.scheme == Caller::ADMIN_SCHEME)
    }

    /// Refuses a request of a client that has not authenticated. The connection is to be closed.
    pub(super) fn refuse_unauthenticated(&mut self, xid: i32) -> CloseReason {
        self.output.frame(xid, 0, ErrorCode::SessionClosedRequireSaslAuth.number(), &[]);
        self.counts.sent += 1;
        CloseReason::AuthenticationRequired
    }

    /// Adds an identity that the client proves. An unknown scheme or wrong credentials close the connection.
    pub(super) fn authenticate(
        &mut self,
        xid: i32,
        body: Bytes,
        server: &impl ServerContext,
    ) -> Result<(), CloseReason> {
        let packet = AuthPacket::read(&mut Reader::new(body))?;
        let settings = &self.limits.authentication.providers;
        let ids = match &packet.auth {
            // Apache cannot read such a request either.
            None if packet.scheme == "digest" => Err(AuthFailed),
            data => pole_tree::authenticate(&packet.scheme, data.as_deref().unwrap_or_default(), settings),
        };
        server.authenticated(&packet, ids.is_ok());
        if ids.is_err() && packet.scheme == "ensemble" && settings.ensemble_names.is_some() {
            // As in Apache the client gets no answer, so that it tries another server.
            return Err(CloseReason::OtherEnsemble);
        }
        let result = ids.map_err(|_| CloseReason::AuthenticationFailed).and_then(|ids| self.add_proved(ids, server));
        let code = if result.is_ok() { ErrorCode::Ok } else { ErrorCode::AuthFailed };
        self.output.frame(xid, 0, code.number(), &[]);
        self.counts.sent += 1;
        result
    }

    /// Takes a token of SASL. Without a mechanism there is nobody to prove, and the reply is empty, as in Apache.
    pub(super) fn take_sasl_token(
        &mut self,
        xid: i32,
        body: Bytes,
        server: &impl ServerContext,
    ) -> Result<(), CloseReason> {
        let token = SaslRequest::read(&mut Reader::new(body))?.token.unwrap_or_default();
        let settings = Arc::clone(&self.limits.authentication);
        let step = match &settings.sasl {
            Some(SaslMechanism::DigestMd5(users)) => self.sasl.step(&token, users, || server.nonce()).map(Some),
            Some(SaslMechanism::Gssapi(_)) => {
                let step = self.gssapi.take(token);
                return self.take_gssapi_step(xid, step, server);
            }
            None => Ok(None),
        };
        self.answer_sasl(xid, step, server)
    }

    /// The call of the GSSAPI library that is due; see the contract, 9.
    #[must_use]
    pub fn gssapi_call(&self) -> Option<&GssapiCall> {
        self.gssapi_call.as_ref().map(|(_, call)| call)
    }

    /// Takes the result of the call that was due.
    pub fn gssapi_called(&mut self, result: GssapiResult, server: &impl ServerContext) {
        let Some((xid, _)) = self.gssapi_call.take() else { return };
        if self.close_reason().is_some() {
            return;
        }
        let step = self.gssapi.called(result);
        if let Err(reason) = self.take_gssapi_step(xid, step, server) {
            self.close(reason);
        }
    }

    fn take_gssapi_step(
        &mut self,
        xid: i32,
        step: Result<GssapiStep, SaslError>,
        server: &impl ServerContext,
    ) -> Result<(), CloseReason> {
        let settings = Arc::clone(&self.limits.authentication);
        let step = match (step, &settings.sasl) {
            (Ok(GssapiStep::Call(call)), _) => {
                self.gssapi_call = Some((xid, call));
                return Ok(());
            }
            (Ok(GssapiStep::Challenge(token)), _) => Ok(SaslStep::Challenge(token)),
            (Ok(GssapiStep::Proved(principal)), Some(SaslMechanism::Gssapi(names))) => {
                SaslStep::principal(&principal, names)
            }
            (Ok(GssapiStep::Proved(_)), Some(SaslMechanism::DigestMd5(_)) | None) => Err(SaslError::Kerberos),
            (Err(error), _) => Err(error),
        };
        self.answer_sasl(xid, step.map(Some), server)
    }

    /// Answers a token, or nothing if there is no mechanism.
    fn answer_sasl(
        &mut self,
        xid: i32,
        step: Result<Option<SaslStep>, SaslError>,
        server: &impl ServerContext,
    ) -> Result<(), CloseReason> {
        let settings = Arc::clone(&self.limits.authentication);
        let (code, reply, result) = match step {
            Ok(None) => (ErrorCode::Ok, None, Ok(())),
            Ok(Some(SaslStep::Challenge(challenge))) => (ErrorCode::Ok, Some(challenge), Ok(())),
            Ok(Some(SaslStep::Proved { user, reply })) => {
                match self.add_proved(pole_tree::identities("sasl", &user, &settings.providers), server) {
                    Ok(()) => (ErrorCode::Ok, reply, Ok(())),
                    Err(reason) => (ErrorCode::AuthFailed, None, Err(reason)),
                }
            }
            Err(_) if settings.allow_sasl_failed && !settings.requires_sasl() => (ErrorCode::Ok, None, Ok(())),
            Err(error) => {
                let code = match settings.requires_sasl() {
                    true => ErrorCode::SessionClosedRequireSaslAuth,
                    false => ErrorCode::AuthFailed,
                };
                (code, None, Err(CloseReason::SaslFailed(error)))
            }
        };
        let mut body = Writer::new();
        SaslResponse { token: reply }.write(&mut body);
        self.output.frame(xid, 0, code.number(), &body.into_bytes());
        self.counts.sent += 1;
        result
    }

    /// Adds identities, up to a limit of their size.
    fn add_proved(&mut self, ids: Vec<Id>, server: &impl ServerContext) -> Result<(), CloseReason> {
        let new: Vec<Id> = ids.into_iter().filter(|id| !self.caller.ids.contains(id)).collect();
        let bytes: usize = self.caller.ids.iter().chain(&new).map(identity_bytes).sum();
        if bytes > self.limits.identity_bytes_max {
            return Err(CloseReason::TooManyIdentities);
        }
        self.caller.ids.extend(new);
        server.identify(Watcher(self.id.0), &self.caller);
        Ok(())
    }
}

/// The size of an identity in a forwarded request.
fn identity_bytes(id: &Id) -> usize {
    8 + id.scheme.len() + id.id.len()
}
