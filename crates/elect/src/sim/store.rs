//! The model store: what a linearizable store with transactions does, and nothing else.
//!
//! Time is the store's own clock. The caller removes leases that have ended before every operation.

use std::collections::BTreeMap;

use bytes::Bytes;
use pole_types::{Span, Time};

use crate::store::{Entry, LeaseId, Leased, Plain, Renewed, Revision, Swap, Swapped, Target};

#[derive(Debug, Default)]
pub(super) struct ModelStore {
    plain: BTreeMap<Plain, Entry>,
    leases: BTreeMap<LeaseId, ModelLease>,
    revision: u128,
}

#[derive(Debug)]
struct ModelLease {
    value: Bytes,
    ttl: Span,
    ends: Time,
}

impl ModelStore {
    pub(super) fn read(&self, target: Target) -> Option<Entry> {
        match target {
            Target::Leader => self.plain.get(&Plain::Leader).cloned(),
            Target::Succession => self.plain.get(&Plain::Succession).cloned(),
            Target::Lease(id) => {
                self.leases.get(&id).map(|lease| Entry { value: lease.value.clone(), revision: Revision(0) })
            }
        }
    }

    pub(super) fn swap(&mut self, swap: Swap) -> Swapped {
        if self.plain.get(&swap.record).map(|entry| entry.revision) != swap.expected {
            return Swapped::Conflict;
        }
        if swap.gone.is_some_and(|lease| self.leases.contains_key(&lease)) {
            return Swapped::StillHeld;
        }
        if swap.alive.is_some_and(|lease| !self.leases.contains_key(&lease)) {
            return Swapped::LeaseGone;
        }
        self.revision += 1;
        self.plain.insert(swap.record, Entry { value: swap.value, revision: Revision(self.revision) });
        Swapped::Done(Revision(self.revision))
    }

    /// The end of the new lease.
    pub(super) fn publish(&mut self, now: Time, lease: LeaseId, value: Bytes, ttl: Span) -> Time {
        let ends = now + ttl;
        self.leases.insert(lease, ModelLease { value, ttl, ends });
        ends
    }

    /// The new end of the lease, if it is there.
    pub(super) fn renew(&mut self, now: Time, id: LeaseId, value: Option<Bytes>) -> (Renewed, Option<Time>) {
        let Some(lease) = self.leases.get_mut(&id) else { return (Renewed::Gone, None) };
        lease.ends = now + lease.ttl;
        if let Some(value) = value {
            lease.value = value;
        }
        (Renewed::Extended, Some(lease.ends))
    }

    pub(super) fn withdraw(&mut self, lease: LeaseId) {
        self.leases.remove(&lease);
    }

    /// Ends a lease if its time has come.
    pub(super) fn expire(&mut self, now: Time, id: LeaseId) -> bool {
        let over = self.leases.get(&id).is_some_and(|lease| lease.ends <= now);
        over && self.leases.remove(&id).is_some()
    }

    pub(super) fn list(&self) -> Vec<Leased> {
        self.leases.iter().map(|(id, lease)| Leased { lease: *id, value: lease.value.clone() }).collect()
    }

    /// Some lease, for faults.
    pub(super) fn lease_at(&self, index: usize) -> Option<LeaseId> {
        let count = self.leases.len().max(1);
        self.leases.keys().nth(index % count).copied()
    }
}
