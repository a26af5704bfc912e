//! What is the same for every server: from an [`Adapter`] to a [`Store`].
//!
//! An adapter has plain `async` methods and gets no record over the limit. [`Adapted`] checks the sizes before anything
//! is sent, and boxes the futures, so that the result can be used as `dyn Store`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::check_size;
use crate::promises::Promises;
use crate::store::{BoxFuture, Entry, Error, Granted, LeaseId, Leased, Renewed, Store, Swap, Swapped, Target, Watch};

/// The methods of [`Store`], for a client of one kind of server.
pub(super) trait Adapter: Send + Sync + 'static {
    type Watch: Watch + 'static;

    fn promises(&self) -> Promises;
    fn read(&self, target: Target) -> impl Future<Output = Result<Option<Entry>, Error>> + Send;
    fn swap(&self, swap: Swap) -> impl Future<Output = Result<Swapped, Error>> + Send;
    fn publish(
        &self,
        lease: LeaseId,
        record: Bytes,
        ttl: Duration,
    ) -> impl Future<Output = Result<Granted, Error>> + Send;
    fn renew(&self, lease: LeaseId, record: Option<Bytes>) -> impl Future<Output = Result<Renewed, Error>> + Send;
    fn withdraw(&self, lease: LeaseId) -> impl Future<Output = Result<(), Error>> + Send;
    fn list(&self) -> impl Future<Output = Result<Vec<Leased>, Error>> + Send;
    /// The watch shares the client.
    fn watch(self: &Arc<Self>, target: Target) -> impl Future<Output = Result<Self::Watch, Error>> + Send;
}

/// An adapter as a store.
pub(super) struct Adapted<A>(Arc<A>);

impl<A: Adapter> Adapted<A> {
    /// The adapter as the store that [`super::open`] returns.
    pub(super) fn store(adapter: A) -> Arc<dyn Store> {
        Arc::new(Self(Arc::new(adapter)))
    }
}

impl<A: Adapter> Store for Adapted<A> {
    fn promises(&self) -> Promises {
        self.0.promises()
    }

    fn read(&self, target: Target) -> BoxFuture<'_, Result<Option<Entry>, Error>> {
        Box::pin(self.0.read(target))
    }

    fn swap(&self, swap: Swap) -> BoxFuture<'_, Result<Swapped, Error>> {
        Box::pin(async move {
            check_size(&swap.value)?;
            self.0.swap(swap).await
        })
    }

    fn publish(&self, lease: LeaseId, record: Bytes, ttl: Duration) -> BoxFuture<'_, Result<Granted, Error>> {
        Box::pin(async move {
            check_size(&record)?;
            self.0.publish(lease, record, ttl).await
        })
    }

    fn renew(&self, lease: LeaseId, record: Option<Bytes>) -> BoxFuture<'_, Result<Renewed, Error>> {
        Box::pin(async move {
            record.as_ref().map_or(Ok(()), check_size)?;
            self.0.renew(lease, record).await
        })
    }

    fn withdraw(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.0.withdraw(lease))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Leased>, Error>> {
        Box::pin(self.0.list())
    }

    fn watch(&self, target: Target) -> BoxFuture<'_, Result<Box<dyn Watch>, Error>> {
        Box::pin(async move {
            let watch: Box<dyn Watch> = Box::new(self.0.watch(target).await?);
            Ok(watch)
        })
    }
}
