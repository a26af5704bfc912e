//! File descriptors: raises the limit of the process, and reserves some for the server itself.
//!
//! A server that cannot open a file must stop, so clients never get the last descriptors. The reserve covers the files
//! of the log and of snapshots, the links to other servers, the admin server, and one connection that is accepted only
//! to be refused.

use rustix::process::{Resource, getrlimit, setrlimit};
use tracing::warn;

use crate::log::target::SERVER;

/// Raises the soft limit of this process to the hard limit.
pub(crate) fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    let before = limit.current;
    limit.current = limit.maximum;
    if before != limit.current
        && let Err(error) = setrlimit(Resource::Nofile, limit)
    {
        warn!(target: SERVER, what = "cannot raise the limit (ulimit -n)", %error, "open_files");
    }
}

/// How many client connections leave enough descriptors for everything else.
pub(crate) fn for_clients() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let clients = limit.saturating_sub(RESERVED).max(CLIENTS_MIN);
    if clients < CLIENTS_WARNED {
        let what = format!("at most {clients} connections of clients fit (ulimit -n {limit})");
        warn!(target: SERVER, what, "open_files");
    }
    clients
}

/// Descriptors for everything but clients.
const RESERVED: usize = 256;

/// Clients that are admitted however few descriptors there are, since a server without clients is useless.
const CLIENTS_MIN: usize = 16;

/// Fewer connections than this are worth a warning.
const CLIENTS_WARNED: usize = 1_000;
