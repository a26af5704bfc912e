//! What the threads of `pole up` know together: the state that the dashboard shows, and who leads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pole_api::UpState;
use tokio::sync::watch;

/// A handle; clones share the content.
#[derive(Clone)]
pub(crate) struct Board(Arc<watch::Sender<Content>>);

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Content {
    pub(crate) state: UpState,
    /// The leader and its epoch; none while there is no leader.
    pub(crate) leader: Option<(u64, u64)>,
}

impl Board {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Content::default())))
    }

    pub(crate) fn content(&self) -> Content {
        self.0.borrow().clone()
    }

    /// Changes the content. Others are woken only if it differs.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Content)) {
        self.0.send_if_modified(|content| {
            let before = content.clone();
            change(content);
            *content != before
        });
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Content> {
        self.0.subscribe()
    }

    /// Waits until the condition holds, on a thread without a runtime. Returns whether it did in time.
    pub(crate) fn wait_until(&self, limit: Duration, mut is_met: impl FnMut(&Content) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        let mut updates = self.watch();
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() else { return false };
        runtime.block_on(async {
            let met = updates.wait_for(|content| is_met(content));
            tokio::time::timeout_at(deadline.into(), met).await.is_ok_and(|met| met.is_ok())
        })
    }
}
