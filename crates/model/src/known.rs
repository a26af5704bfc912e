//! States from which the fair continuation is known to end well.
//!
//! A continuation is deterministic: when it meets a state that another has passed, its end is known.

use std::collections::HashSet;
use std::sync::Mutex;

/// The digests of such states.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<HashSet<u64>>);

impl Known {
    pub(crate) fn contains(&self, digest: u64) -> bool {
        self.0.lock().expect("nobody panics with it").contains(&digest)
    }

    pub(crate) fn extend(&self, digests: Vec<u64>) {
        self.0.lock().expect("nobody panics with it").extend(digests);
    }
}
