//! Parts of the log that must not be purged because they are about to be read.

use pole_types::Zxid;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Positions above which the log is kept. Clones share the same list.
#[derive(Clone, Debug, Default)]
pub struct Pins(Arc<Mutex<BTreeMap<u64, Zxid>>>);

impl Pins {
    /// Keeps the log above `after` until `number` is released.
    pub fn keep(&self, number: u64, after: Zxid) {
        self.pins().insert(number, after);
    }

    /// Releases the part kept for `number`.
    pub fn release(&self, number: u64) {
        self.pins().remove(&number);
    }

    /// The lowest position above which the log must be kept.
    pub(crate) fn lowest(&self) -> Option<Zxid> {
        self.pins().values().copied().min()
    }

    fn pins(&self) -> MutexGuard<'_, BTreeMap<u64, Zxid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
