//! Asking the node's thread.
//!
//! In: a question. Out: its answer, within a time limit: a node that is busy for longer has other worries than us.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::driver::Driver;
use crate::mailbox::Letter;
use crate::shared::Shared;

/// Puts a question to the node between two of its turns. None: it did not answer in time, or has ended.
pub(crate) async fn look<T: Send + 'static>(
    shared: &Shared,
    question: impl FnOnce(&mut Driver) -> T + Send + 'static,
) -> Option<T> {
    let (tell, told) = oneshot::channel();
    // Whoever asked may be gone by then.
    shared.mailbox.post(Letter::Look(Box::new(move |driver| drop(tell.send(question(driver))))));
    timeout(LIMIT, told).await.ok()?.ok()
}

/// The node takes a turn within milliseconds; not while a machine is suspended or swaps.
const LIMIT: Duration = Duration::from_secs(2);
