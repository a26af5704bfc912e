//! The leases that one client has published, with what its adapter needs to renew each of them.
//!
//! An entry is made before the store has answered, so that a publication whose answer is lost can be renewed and
//! withdrawn. It is removed when the store says that the lease is gone. If the store never says so, because it cannot be
//! reached, nobody renews the lease any more: such entries are removed with the next publication. So an outage costs no
//! memory that is not given back.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::store::LeaseId;

/// The own leases, each with a value that belongs to the adapter.
pub(super) struct OwnLeases<T> {
    entries: Mutex<BTreeMap<LeaseId, Own<T>>>,
}

struct Own<T> {
    value: T,
    ttl: Duration,
    /// When it was published or renewed last.
    renewed: Instant,
}

impl<T: Clone> OwnLeases<T> {
    /// Adds a lease, or replaces its value. Forgets those that were not renewed for twice their time-to-live: a
    /// candidate gives a lease up before its time-to-live has passed, and never renews it again.
    pub(super) fn insert(&self, lease: LeaseId, ttl: Duration, value: T) {
        let now = Instant::now();
        let mut entries = self.entries();
        entries.retain(|_, own| now.duration_since(own.renewed) <= own.ttl.saturating_mul(2));
        entries.insert(lease, Own { value, ttl, renewed: now });
    }

    pub(super) fn get(&self, lease: LeaseId) -> Option<T> {
        self.entries().get(&lease).map(|own| own.value.clone())
    }

    /// Keeps the value of a renewal, unless the lease was withdrawn meanwhile.
    pub(super) fn renewed(&self, lease: LeaseId, value: T) {
        if let Some(own) = self.entries().get_mut(&lease) {
            (own.value, own.renewed) = (value, Instant::now());
        }
    }

    pub(super) fn remove(&self, lease: LeaseId) {
        self.entries().remove(&lease);
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<LeaseId, Own<T>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for OwnLeases<T> {
    fn default() -> Self {
        Self { entries: Mutex::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn leases_that_nobody_renews_are_forgotten() {
        let (own, ttl) = (OwnLeases::default(), Duration::from_secs(10));
        for number in 1..=3 {
            own.insert(LeaseId(number), ttl, "published");
        }
        own.remove(LeaseId(3));
        tokio::time::advance(ttl).await;
        own.renewed(LeaseId(2), "renewed");
        own.renewed(LeaseId(3), "withdrawn before");
        tokio::time::advance(ttl * 3 / 2).await;
        own.insert(LeaseId(4), ttl, "published");
        let known = [1, 2, 3, 4].map(|number| own.get(LeaseId(number)));
        assert_eq!(known, [None, Some("renewed"), None, Some("published")]);
    }
}
