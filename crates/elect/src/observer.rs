//! Follows an election without taking part in it.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::record::{Leader, Record};
use crate::store::{Entry, Error, LeaseId, Store, Target};

/// Reports who leads, as the store sees it.
///
/// It watches the leader record and the lease that the record names, so that it hears of a leader that is gone before
/// another one takes over.
pub struct Observer {
    store: Arc<dyn Store>,
    leader_watch: Option<Reports>,
    lease_watch: Option<(LeaseId, Reports)>,
    leader: Option<Leader>,
    alive: bool,
    last: Option<Observed>,
}

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The leader record, none before the first election.
    pub leader: Option<Leader>,
    /// Whether the leader has not resigned and its lease is alive.
    pub alive: bool,
}

impl Observer {
    /// An observer of the election in that store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, leader_watch: None, lease_watch: None, leader: None, alive: false, last: None }
    }

    /// The present state, then each change of it. Intermediate states may be left out.
    ///
    /// # Errors
    /// If the store fails. The next call begins anew.
    pub async fn next(&mut self) -> Result<Observed, Error> {
        loop {
            let changed = self.change().await;
            if changed.is_err() {
                (self.leader_watch, self.lease_watch) = (None, None);
            }
            changed?;
            let alive = self.alive && self.leader.as_ref().is_some_and(|leader| !leader.resigned);
            let observed = Observed { leader: self.leader.clone(), alive };
            if self.last.as_ref() != Some(&observed) {
                self.last = Some(observed.clone());
                return Ok(observed);
            }
        }
    }

    /// Waits for one report of either watch.
    async fn change(&mut self) -> Result<(), Error> {
        let leader_watch = self.leader_watch.get_or_insert_with(|| Reports::of(&self.store, Target::Leader));
        let lease_report = async {
            match &mut self.lease_watch {
                Some((_, watch)) => watch.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            entry = leader_watch.next() => {
                let entry = entry?;
                self.learn(entry).await
            }
            entry = lease_report => {
                self.alive = entry?.is_some();
                Ok(())
            }
        }
    }

    async fn learn(&mut self, entry: Option<Entry>) -> Result<(), Error> {
        self.leader = entry.map(|entry| Leader::decode(&entry.value)).transpose()?;
        let lease = self.leader.as_ref().map(|leader| leader.lease);
        if lease != self.lease_watch.as_ref().map(|(lease, _)| *lease) {
            (self.lease_watch, self.alive) = (None, false);
            if let Some(lease) = lease {
                let mut watch = Reports::of(&self.store, Target::Lease(lease));
                self.alive = watch.next().await?.is_some();
                self.lease_watch = Some((lease, watch));
            }
        }
        Ok(())
    }
}

/// A watch in a task of its own, because waiting for its next state must not be cancelled.
struct Reports {
    receiver: mpsc::Receiver<Result<Option<Entry>, Error>>,
    task: JoinHandle<()>,
}

impl Reports {
    fn of(store: &Arc<dyn Store>, target: Target) -> Self {
        // One report waits for the observer, the next one in the watch itself, where it is replaced by newer ones.
        let (sender, receiver) = mpsc::channel(1);
        let store = store.clone();
        let task = tokio::spawn(async move {
            let mut watch = match store.watch(target).await {
                Ok(watch) => watch,
                Err(error) => return drop(sender.send(Err(error)).await),
            };
            loop {
                let report = watch.next().await;
                let failed = report.is_err();
                if sender.send(report).await.is_err() || failed {
                    return;
                }
            }
        });
        Self { receiver, task }
    }

    async fn next(&mut self) -> Result<Option<Entry>, Error> {
        let ended = || Err(Error::Unavailable("the watch has ended".to_owned()));
        self.receiver.recv().await.unwrap_or_else(ended)
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(all(test, feature = "mem"))]
mod tests {
    use super::*;
    use crate::Candidate;
    use crate::stores::MemStore;

    #[tokio::test]
    async fn an_observer_sees_a_leader_come_and_go() {
        let store: Arc<dyn Store> = Arc::new(MemStore::new());
        let mut observer = Observer::new(store.clone());
        assert_eq!(observer.next().await, Ok(Observed { leader: None, alive: false }));
        let candidate =
            Candidate::builder(store.clone(), "a").ttl(std::time::Duration::from_millis(200)).join().unwrap();
        let guard = candidate.campaign().await.unwrap();
        let seen = observer.next().await.unwrap();
        assert_eq!((seen.leader.map(|leader| leader.token), seen.alive), (Some(guard.token()), true));
        drop(guard);
        let seen = observer.next().await.unwrap();
        assert_eq!((seen.leader.map(|leader| leader.resigned), seen.alive), (Some(true), false));
    }
}
