//! Lists for operators: connections, sessions, ephemeral nodes and watches.
//!
//! They are as long as clients make them, and monitoring may ask for them again and again. So a server makes one long list at a
//! time, on a thread of its own, visits what is behind a lock in small parts, and ends a list after [`LIST_BYTES_MAX`]. The
//! permit for it lasts until the list is sent, so memory holds one of them.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::timeout;

use crate::limits::Limit;
use crate::shared::Shared;

/// A list, and the permit for it. The next long list is made when the permit is dropped.
pub(crate) struct List<T> {
    pub(crate) content: T,
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

/// How much may still be listed.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes_left: usize,
    is_exhausted: bool,
}

impl Budget {
    fn new() -> Self {
        Self { bytes_left: LIST_BYTES_MAX, is_exhausted: false }
    }

    /// Takes the bytes of an entry. Returns false if the list ends before it.
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        let left = self.bytes_left.checked_sub(bytes).filter(|_| !self.is_exhausted);
        self.is_exhausted = left.is_none();
        self.bytes_left = left.unwrap_or(0);
        left.is_some()
    }

    /// What a reader is told if the list ended early.
    pub(crate) fn note(&self) -> Option<&'static str> {
        self.is_exhausted.then_some("the list is not complete: it ends after 8 MiB")
    }
}

/// Makes a list of about this many entries.
///
/// # Errors
/// If other long lists are made, and are not done soon.
pub(crate) async fn make<T: Send + 'static>(
    shared: &Arc<Shared>,
    entries: usize,
    list: impl FnOnce(&Arc<Shared>, &mut Budget) -> T + Send + 'static,
) -> Result<List<T>, Busy> {
    if entries <= SHORT_MAX {
        return Ok(List { content: list(shared, &mut Budget::new()), permit: None });
    }
    let permit = timeout(WAIT_MAX, Arc::clone(&shared.lists).acquire_owned()).await.ok().and_then(Result::ok);
    let Some(permit) = permit else {
        shared.status.limits.add(Limit::Lists, 1);
        return Err(Busy);
    };
    let shared = Arc::clone(shared);
    let make = move || {
        let mut budget = Budget::new();
        let content = list(&shared, &mut budget);
        shared.status.limits.add(Limit::Lists, u64::from(budget.is_exhausted));
        content
    };
    // A thread that ends with the list returns its memory; one of a pool would keep it.
    let (sender, made) = oneshot::channel();
    let thread = thread::Builder::new().name("list".to_owned());
    thread.spawn(move || drop(sender.send(make()))).map_err(|_| Busy)?;
    let content = made.await.map_err(|_| Busy)?;
    Ok(List { content, permit: Some(permit) })
}

/// Other lists are made.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("other long lists are being made; try again later")]
pub(crate) struct Busy;

/// The longest list, in bytes of text: about 75,000 watches.
const LIST_BYTES_MAX: usize = 8 << 20;
/// A list of up to this many entries takes about a millisecond and needs no permit.
const SHORT_MAX: usize = 1_000;
/// How long a list may wait for others.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Entries that are visited while a lock is held.
pub(crate) const ENTRIES_AT_ONCE: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_ends_when_its_bytes_are_used_up() {
        let mut budget = Budget::new();
        assert!(budget.take(LIST_BYTES_MAX - 10) && budget.take(10));
        assert_eq!(budget.note(), None);
        assert!(!budget.take(1) && !budget.take(0), "nothing follows what was left out");
        assert!(budget.note().is_some_and(|note| note.contains("not complete")));
    }

    #[tokio::test]
    async fn one_long_list_is_made_at_a_time_and_short_ones_do_not_wait() {
        let shared = Arc::new(Shared::configured(""));
        let first = make(&shared, SHORT_MAX + 1, |_, _| 1).await.expect("nothing else is made");
        assert_eq!(first.content, 1);
        let mut second = std::pin::pin!(make(&shared, SHORT_MAX + 1, |_, _| 2));
        assert!(timeout(Duration::from_millis(20), &mut second).await.is_err(), "the first is not sent yet");
        let short = make(&shared, SHORT_MAX, |_, _| 3).await.expect("a short one");
        assert!(short.permit.is_none());
        drop(first.permit);
        assert_eq!(second.await.expect("it is its turn").content, 2);
    }
}
