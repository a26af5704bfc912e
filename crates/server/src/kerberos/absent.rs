//! In place of `library` in a program without Kerberos: no credential can be had, so nothing else is ever called.

use pole_node::{GssapiCall, GssapiResult};

use super::KerberosError;

/// A credential that nobody has.
#[derive(Debug)]
pub(super) struct Credential(());

impl Credential {
    /// Fails.
    pub(super) fn acquire(principal: &str) -> Result<Self, KerberosError> {
        Err(KerberosError::NotBuilt { principal: principal.to_owned() })
    }
}

/// A context that nobody has.
#[derive(Debug)]
pub(crate) struct Context(());

impl Context {
    pub(super) fn new(_: &Credential) -> Self {
        Self(())
    }

    pub(super) fn call(&mut self, _: GssapiCall) -> Result<GssapiResult, String> {
        Err("this program was built without Kerberos".to_owned())
    }
}
