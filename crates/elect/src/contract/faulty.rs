//! A client of a store whose connection can be cut: what it sends is lost, and nothing reaches it any more.
//!
//! For the store this is a client that crashed; for the client, a partition. It works on every store without a proxy.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use crate::promises::Promises;
use crate::store::{BoxFuture, Entry, Error, Granted, LeaseId, Leased, Renewed, Store, Swap, Swapped, Target, Watch};

/// A store with a connection that can be cut and mended.
pub struct Faulty {
    inner: Arc<dyn Store>,
    cut: watch::Sender<bool>,
    leases: Mutex<Vec<LeaseId>>,
}

impl Faulty {
    /// A client with a working connection.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, cut: watch::channel(false).0, leases: Mutex::default() }
    }

    /// Loses everything from now on, in both directions.
    pub fn cut(&self) {
        self.cut.send_replace(true);
    }

    /// Ends the cut. Operations and watches that were lost stay lost.
    pub fn mend(&self) {
        self.cut.send_replace(false);
    }

    /// Ends all leases of this client behind its back, as an operator or an expiry would.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn end_leases(&self) -> Result<(), Error> {
        let leases = std::mem::take(&mut *self.leases.lock().unwrap_or_else(PoisonError::into_inner));
        for lease in leases {
            self.inner.withdraw(lease).await?;
        }
        Ok(())
    }

    /// The operation, if the connection is there from its beginning to its end.
    async fn through<T>(&self, operation: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let mut cut = self.cut.subscribe();
        tokio::select! {
            biased;
            () = until(&mut cut, true) => std::future::pending().await,
            result = operation => result,
        }
    }
}

impl Store for Faulty {
    fn promises(&self) -> Promises {
        self.inner.promises()
    }

    fn read(&self, target: Target) -> BoxFuture<'_, Result<Option<Entry>, Error>> {
        Box::pin(self.through(self.inner.read(target)))
    }

    fn swap(&self, swap: Swap) -> BoxFuture<'_, Result<Swapped, Error>> {
        Box::pin(self.through(self.inner.swap(swap)))
    }

    fn publish(&self, lease: LeaseId, record: Bytes, ttl: Duration) -> BoxFuture<'_, Result<Granted, Error>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner).push(lease);
        Box::pin(self.through(self.inner.publish(lease, record, ttl)))
    }

    fn renew(&self, lease: LeaseId, record: Option<Bytes>) -> BoxFuture<'_, Result<Renewed, Error>> {
        Box::pin(self.through(self.inner.renew(lease, record)))
    }

    fn withdraw(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.through(self.inner.withdraw(lease)))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Leased>, Error>> {
        Box::pin(self.through(self.inner.list()))
    }

    fn watch(&self, target: Target) -> BoxFuture<'_, Result<Box<dyn Watch>, Error>> {
        Box::pin(async move {
            let inner = self.through(self.inner.watch(target)).await?;
            let watch: Box<dyn Watch> = Box::new(FaultyWatch { inner, cut: self.cut.subscribe() });
            Ok(watch)
        })
    }
}

struct FaultyWatch {
    inner: Box<dyn Watch>,
    cut: watch::Receiver<bool>,
}

impl Watch for FaultyWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Entry>, Error>> {
        Box::pin(async move {
            tokio::select! {
                biased;
                () = until(&mut self.cut, true) => {}
                result = self.inner.next() => return result,
            }
            // A broken connection is noticed when the network is back, not before.
            until(&mut self.cut, false).await;
            Err(Error::Unavailable("the connection was cut".to_owned()))
        })
    }
}

/// Waits for a state of the connection. The sender lives as long as the client.
async fn until(cut: &mut watch::Receiver<bool>, state: bool) {
    let _ = cut.wait_for(|cut| *cut == state).await;
}
