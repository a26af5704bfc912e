//! Calls a GSSAPI library in C, of MIT or Heimdal, through the crate `libgssapi`.
//!
//! Calls block. Each runs on one context, which no other thread has meanwhile. All errors are texts for the log.

use bytes::Bytes;
use libgssapi::context::{CtxFlags, SecurityContext as _, ServerCtx};
use libgssapi::credential::{Cred, CredUsage};
use libgssapi::error::Error;
use libgssapi::name::Name;
use libgssapi::oid::{GSS_MECH_KRB5, GSS_NT_KRB5_PRINCIPAL, OidSet};
use pole_node::{GssapiCall, GssapiResult, SECURITY_LAYERS};

use super::KerberosError;

/// The key of the server's principal. The file of keys is read at each use, so a new key needs no restart.
#[derive(Debug)]
pub(super) struct Credential(Cred);

impl Credential {
    pub(super) fn acquire(principal: &str) -> Result<Self, KerberosError> {
        let acquire = || {
            let name = Name::new(principal.as_bytes(), Some(GSS_NT_KRB5_PRINCIPAL))?;
            // No other mechanism, and none that negotiates: in SASL, GSSAPI stands for Kerberos alone.
            let mechanisms = OidSet::singleton(GSS_MECH_KRB5)?;
            Cred::acquire(Some(&name), None, CredUsage::Accept, Some(&mechanisms))
        };
        let failed =
            |error: Error| KerberosError::Credential { principal: principal.to_owned(), why: error.to_string() };
        acquire().map(Self).map_err(failed)
    }
}

/// The server's side of the security context of one connection.
#[derive(Debug)]
pub(crate) struct Context(ServerCtx);

impl Context {
    pub(super) fn new(credential: &Credential) -> Self {
        Self(ServerCtx::new(Some(credential.0.clone())))
    }

    pub(super) fn call(&mut self, call: GssapiCall) -> Result<GssapiResult, String> {
        match call {
            GssapiCall::Accept(token) => self.accept(&token),
            GssapiCall::Unwrap(message) => {
                let unwrapped = self.0.unwrap(&message).map_err(|error| error.to_string())?;
                Ok(GssapiResult::Unwrapped(Bytes::copy_from_slice(&unwrapped)))
            }
        }
    }

    fn accept(&mut self, token: &[u8]) -> Result<GssapiResult, String> {
        let failed = |error: Error| error.to_string();
        let reply = self.0.step(token, None).map_err(failed)?;
        let token = reply.map(|reply| Bytes::copy_from_slice(&reply)).unwrap_or_default();
        if !self.0.is_complete() {
            return Ok(GssapiResult::Continued(token));
        }
        if self.0.flags().map_err(failed)?.contains(CtxFlags::GSS_C_ANON_FLAG) {
            return Err("the ticket is anonymous".to_owned());
        }
        let principal = self.0.source_name().and_then(|name| name.display_name()).map_err(failed)?;
        let principal = String::from_utf8(principal.to_vec()).map_err(|_| "the principal is not UTF-8".to_owned())?;
        let layers = self.0.wrap(false, &SECURITY_LAYERS).map_err(failed)?;
        Ok(GssapiResult::Established { token, principal, layers: Bytes::copy_from_slice(&layers) })
    }
}
