//! Kerberos: performs the calls of a GSSAPI library that connections ask for.
//!
//! The exchange with a client is in `node`, which says what to call ([`GssapiCall`]). A call reads the key of the server and
//! writes the cache against replays, so it may wait for a disk. It runs on a thread where that harms nobody, a few calls at a
//! time, and within a time limit, after which the attempt of the client has failed.
//!
//! The library is one in C. It is linked with the feature `kerberos` only (`library`); without it a configuration that names
//! a principal ends the start (`absent`).

#[cfg(not(feature = "kerberos"))]
mod absent;
#[cfg(feature = "kerberos")]
mod library;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pole_node::{GssapiCall, GssapiResult};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

#[cfg(not(feature = "kerberos"))]
use absent as library;
pub(crate) use library::Context;
use library::Credential;

use crate::config::Kerberos;
use crate::log;

/// Why the server cannot use Kerberos.
#[derive(Debug, thiserror::Error)]
pub enum KerberosError {
    /// The program was built without the library.
    #[error(
        "{principal}: this program was built without Kerberos; build it with `--features kerberos`, which needs the \
         library of MIT or Heimdal"
    )]
    NotBuilt {
        /// The principal of the server.
        principal: String,
    },
    /// The library looks for keys elsewhere.
    #[error(
        "{principal}: the Kerberos library takes the keys from {found}, not from {}; set KRB5_KTNAME to it",
        keytab.display()
    )]
    OtherKeytab {
        /// The principal of the server.
        principal: String,
        /// The file of the configuration.
        keytab: PathBuf,
        /// The value of the variable.
        found: String,
    },
    /// The library refuses the principal, or has no key for it.
    #[error("{principal}: {why}")]
    Credential {
        /// The principal of the server.
        principal: String,
        /// What the library says.
        why: String,
    },
}

/// The environment variable that a GSSAPI library takes the name of a keytab from. There is no call for it that both
/// libraries have.
pub const KEYTAB_VARIABLE: &str = "KRB5_KTNAME";

/// The server's side of all security contexts.
#[derive(Debug)]
pub(crate) struct Acceptor {
    credential: Credential,
    permits: Arc<Semaphore>,
}

impl Acceptor {
    /// Finds the key of the principal.
    pub(crate) fn open(settings: &Kerberos) -> Result<Self, KerberosError> {
        let principal = || settings.principal.clone();
        if cfg!(feature = "kerberos")
            && let Some(keytab) = &settings.keytab
        {
            let found = std::env::var(KEYTAB_VARIABLE).unwrap_or_default();
            if keytab.as_os_str() != found.strip_prefix("FILE:").unwrap_or(&found) {
                let found = if found.is_empty() { "its default file".to_owned() } else { found };
                return Err(KerberosError::OtherKeytab { principal: principal(), keytab: keytab.clone(), found });
            }
        }
        let credential = Credential::acquire(&settings.principal)?;
        Ok(Self { credential, permits: Arc::new(Semaphore::new(CALLS_MAX)) })
    }

    /// Performs a call on the context of a connection. The context is lost if the call fails or takes too long; then the
    /// attempt of the client is over anyway.
    pub(crate) async fn call(&self, context: &mut Option<Context>, call: GssapiCall) -> GssapiResult {
        let mut used = context.take().unwrap_or_else(|| Context::new(&self.credential));
        let run = async {
            // A call that takes longer than its client waits keeps its permit, so that there are never more threads.
            let permit = Arc::clone(&self.permits).acquire_owned().await;
            let run = move || {
                let result = used.call(call);
                drop(permit);
                (used, result)
            };
            spawn_blocking(run).await.map_err(|error| error.to_string())
        };
        match timeout(CALL_TIME_MAX, run).await {
            Ok(Ok((used, Ok(result)))) => {
                *context = Some(used);
                result
            }
            Ok(Ok((_, Err(why))) | Err(why)) => failed(&why),
            Err(_) => failed(&format!("no answer of the library within {CALL_TIME_MAX:?}")),
        }
    }
}

fn failed(why: &str) -> GssapiResult {
    log::kerberos_failed(why);
    GssapiResult::Failed
}

/// Calls at a time. One takes less than a millisecond if the disk is quick.
const CALLS_MAX: usize = 4;

/// A call that takes longer waits for a disk that hangs.
const CALL_TIME_MAX: Duration = Duration::from_secs(10);
