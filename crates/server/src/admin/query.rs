//! Runs a query on the node's thread and waits for its result.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::driver::Driver;
use crate::mailbox::Command;
use crate::shared::Shared;

/// Runs `query` on the node's thread between two turns. Returns `None` if the node did not answer in time or has ended.
pub(crate) async fn query<T: Send + 'static>(
    shared: &Shared,
    query: impl FnOnce(&mut Driver) -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = oneshot::channel();
    // The receiver may have timed out by then.
    shared.mailbox.post(Command::Query(Box::new(move |driver| drop(sender.send(query(driver))))));
    timeout(ANSWER_LIMIT, receiver).await.ok()?.ok()
}

/// A turn takes milliseconds, unless the machine is suspended or swapping.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
