//! States from which the fair continuation is known to succeed.
//!
//! A continuation is deterministic: when it reaches a state that another one has passed, its result is known.

use std::collections::HashSet;
use std::sync::Mutex;

/// The digests of these states.
#[derive(Debug, Default)]
pub(crate) struct LiveStates(Mutex<HashSet<u64>>);

impl LiveStates {
    pub(crate) fn contains(&self, digest: u64) -> bool {
        self.0.lock().expect("a lock holder panicked").contains(&digest)
    }

    pub(crate) fn extend(&self, digests: Vec<u64>) {
        self.0.lock().expect("a lock holder panicked").extend(digests);
    }
}
