//! `mem://NAME`: a store in the memory of this process, for tests and for elections between tasks.
//!
//! All handles with the same name share one state, which is dropped with the last handle. `mem://` without a name is a
//! state of its own. Leases are judged by tokio's clock, so tests can run in paused time.
//!
//! A watch holds no queue: it waits for a notification of its record and compares the state with the last answer. The
//! end of a lease needs no task that removes it: every operation first drops what has expired, and a watch of a lease
//! also wakes at its end.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::check_size;
use crate::promises::{GoesBack, Judge, Promises};
use crate::store::{
    BoxFuture, Entry, Error, Granted, LIST_MAX, LeaseId, Leased, Plain, Renewed, Revision, Store, Swap, Swapped,
    Target, Watch,
};
use crate::url::{InvalidUrl, StoreUrl};

/// A handle of an in-process store. Clones share the state.
#[derive(Clone, Debug, Default)]
pub struct MemStore {
    shared: Arc<Shared>,
}

impl MemStore {
    /// A store of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The store of that name in this process.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
        stores.retain(|_, store| store.strong_count() > 0);
        let known = stores.get(name).and_then(Weak::upgrade);
        let shared = known.unwrap_or_default();
        stores.insert(name.to_owned(), Arc::downgrade(&shared));
        Self { shared }
    }

    /// The present content of the plain records, as a backup would keep it.
    #[must_use]
    pub fn image(&self) -> MemImage {
        MemImage { plain: self.shared.state().plain.clone() }
    }

    /// Goes back to an image: plain records as they were, no leases. As the restore of a backup in a real store.
    pub fn restore(&self, image: MemImage) {
        let mut state = self.shared.state();
        state.plain = image.plain;
        state.leases.clear();
        for notify in state.watched.values() {
            notify.notify_waiters();
        }
    }
}

/// The plain records of a [`MemStore`] at one time.
#[derive(Clone, Debug)]
pub struct MemImage {
    plain: BTreeMap<Plain, Entry>,
}

/// Opens `mem://NAME`.
pub(super) fn open(url: &StoreUrl) -> Result<MemStore, InvalidUrl> {
    url.check_options(&[])?;
    let host = url.hosts.first().map_or("", |host| host.name.as_str());
    match (host, url.path.as_str()) {
        ("", "") => Ok(MemStore::new()),
        (host, path) => Ok(MemStore::named(&format!("{host}/{path}"))),
    }
}

static STORES: LazyLock<Mutex<BTreeMap<String, Weak<Shared>>>> = LazyLock::new(Mutex::default);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
}

impl Shared {
    /// The state without expired leases.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.expire(Instant::now());
        state
    }
}

#[derive(Debug, Default)]
struct State {
    plain: BTreeMap<Plain, Entry>,
    leases: BTreeMap<LeaseId, MemLease>,
    /// The last revision that was given out.
    revision: u128,
    /// The watched records. An entry without watches is removed at the next change.
    watched: BTreeMap<Target, Arc<Notify>>,
}

#[derive(Debug)]
struct MemLease {
    value: Bytes,
    ttl: Duration,
    ends: Instant,
}

impl State {
    fn expire(&mut self, now: Instant) {
        let ended: Vec<LeaseId> =
            self.leases.iter().filter(|(_, lease)| lease.ends <= now).map(|(id, _)| *id).collect();
        for id in ended {
            self.leases.remove(&id);
            self.notify(Target::Lease(id));
        }
    }

    fn entry(&self, target: Target) -> Option<Entry> {
        match target {
            Target::Leader => self.plain.get(&Plain::Leader).cloned(),
            Target::Succession => self.plain.get(&Plain::Succession).cloned(),
            Target::Lease(id) => {
                self.leases.get(&id).map(|lease| Entry { value: lease.value.clone(), revision: Revision(0) })
            }
        }
    }

    fn swap(&mut self, swap: Swap) -> Swapped {
        let alive = |lease: Option<LeaseId>| lease.map(|id| self.leases.contains_key(&id));
        if self.plain.get(&swap.record).map(|entry| entry.revision) != swap.expected {
            return Swapped::Conflict;
        }
        if alive(swap.gone) == Some(true) {
            return Swapped::StillHeld;
        }
        if alive(swap.alive) == Some(false) {
            return Swapped::LeaseGone;
        }
        self.revision += 1;
        let revision = Revision(self.revision);
        self.plain.insert(swap.record, Entry { value: swap.value, revision });
        self.notify(swap.record.into());
        Swapped::Done(revision)
    }

    fn renew(&mut self, id: LeaseId, value: Option<Bytes>) -> Renewed {
        let Some(lease) = self.leases.get_mut(&id) else { return Renewed::Gone };
        lease.ends = Instant::now() + lease.ttl;
        if let Some(value) = value {
            lease.value = value;
            self.notify(Target::Lease(id));
        }
        Renewed::Extended
    }

    fn notify(&mut self, target: Target) {
        if let Some(notify) = self.watched.get(&target) {
            notify.notify_waiters();
            if Arc::strong_count(notify) == 1 {
                self.watched.remove(&target);
            }
        }
    }

    fn end_of(&self, target: Target) -> Option<Instant> {
        match target {
            Target::Lease(id) => self.leases.get(&id).map(|lease| lease.ends),
            Target::Leader | Target::Succession => None,
        }
    }
}

impl Store for MemStore {
    fn promises(&self) -> Promises {
        Promises {
            store: "mem",
            linearizable_reads: true,
            judge: Judge::StoreMonotonic,
            transactions: true,
            can_go_back: GoesBack::Restart,
            ttl_min: Duration::from_millis(1),
            ttl_max: Duration::from_secs(3600),
            early: Duration::ZERO,
            late_factor: 1,
            late: Duration::ZERO,
            note: "candidates of one process only; everything is lost with the process",
        }
    }

    fn read(&self, target: Target) -> BoxFuture<'_, Result<Option<Entry>, Error>> {
        Box::pin(async move { Ok(self.shared.state().entry(target)) })
    }

    fn swap(&self, swap: Swap) -> BoxFuture<'_, Result<Swapped, Error>> {
        Box::pin(async move {
            check_size(&swap.value)?;
            Ok(self.shared.state().swap(swap))
        })
    }

    fn publish(&self, lease: LeaseId, record: Bytes, ttl: Duration) -> BoxFuture<'_, Result<Granted, Error>> {
        Box::pin(async move {
            check_size(&record)?;
            let promises = self.promises();
            let ttl = ttl.clamp(promises.ttl_min, promises.ttl_max);
            let mut state = self.shared.state();
            if state.leases.len() == LIST_MAX {
                return Err(Error::TooLarge(format!("an election has at most {LIST_MAX} candidates")));
            }
            state.leases.insert(lease, MemLease { value: record, ttl, ends: Instant::now() + ttl });
            state.notify(Target::Lease(lease));
            Ok(Granted { ttl })
        })
    }

    fn renew(&self, lease: LeaseId, record: Option<Bytes>) -> BoxFuture<'_, Result<Renewed, Error>> {
        Box::pin(async move {
            record.as_ref().map_or(Ok(()), check_size)?;
            Ok(self.shared.state().renew(lease, record))
        })
    }

    fn withdraw(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let mut state = self.shared.state();
            state.leases.remove(&lease);
            state.notify(Target::Lease(lease));
            Ok(())
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Leased>, Error>> {
        Box::pin(async move {
            let state = self.shared.state();
            let leased = |(id, lease): (&LeaseId, &MemLease)| Leased { lease: *id, value: lease.value.clone() };
            Ok(state.leases.iter().map(leased).collect())
        })
    }

    fn watch(&self, target: Target) -> BoxFuture<'_, Result<Box<dyn Watch>, Error>> {
        Box::pin(async move {
            let notify = self.shared.state().watched.entry(target).or_default().clone();
            let watch: Box<dyn Watch> = Box::new(MemWatch { shared: self.shared.clone(), target, notify, last: None });
            Ok(watch)
        })
    }
}

struct MemWatch {
    shared: Arc<Shared>,
    target: Target,
    notify: Arc<Notify>,
    /// The last answer, none before the first.
    last: Option<Option<Entry>>,
}

impl Watch for MemWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Entry>, Error>> {
        Box::pin(async move {
            loop {
                // Registered before the state is read, so that no change is missed in between.
                let notified = self.notify.notified();
                let (entry, end) = {
                    let state = self.shared.state();
                    (state.entry(self.target), state.end_of(self.target))
                };
                if self.last.as_ref() != Some(&entry) {
                    self.last = Some(entry.clone());
                    return Ok(entry);
                }
                match end {
                    None => notified.await,
                    Some(end) => tokio::select! {
                        () = notified => {}
                        () = sleep_until(end) => {}
                    },
                }
            }
        })
    }
}
