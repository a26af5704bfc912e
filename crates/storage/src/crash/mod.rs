//! Crashes at every step: what remains after any prefix of the file operations must open and be a legal history.
//!
//! Random operations are performed on real files, and every change of a file is recorded. For each prefix of the
//! record, the tests build what a power failure could leave (all of it, only what was synced, or any part of the rest,
//! sector by sector and name by name), open that, and compare. The same is done for the changes that opening itself
//! made.

mod faults;
mod image;
mod io_errors;
mod random_operations;

pub(crate) use faults::Faults;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::volume::Effect;

/// The changes made to the files, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace(Option<Arc<Mutex<Vec<Effect>>>>);

impl Trace {
    pub(crate) fn recording() -> Self {
        Self(Some(Arc::default()))
    }

    pub(crate) fn record(&self, effect: impl FnOnce() -> Effect) {
        if let Some(trace) = &self.0 {
            trace.lock().unwrap().push(effect());
        }
    }

    fn effects(&self) -> Vec<Effect> {
        self.0.as_ref().unwrap().lock().unwrap().clone()
    }

    fn len(&self) -> usize {
        self.0.as_ref().unwrap().lock().unwrap().len()
    }
}

/// A temporary directory, removed on drop.
#[derive(Debug)]
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("pole-storage-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        // In memory if possible: thousands of directories are created, and none has to survive anything.
        let memory = PathBuf::from("/dev/shm");
        let path = if memory.is_dir() { memory } else { std::env::temp_dir() }.join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A seeded random number generator (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number in `0..end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    pub(crate) fn flip(&mut self) -> bool {
        self.below(2) == 0
    }
}
