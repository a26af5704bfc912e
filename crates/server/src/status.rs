//! What everyone may know about the server without asking its node: its role, and what it has counted.

use std::sync::atomic::{AtomicU64, AtomicUsize};

use parking_lot::Mutex;
use pole_election::{Epoch, ServerId};
use pole_oracle::Time;

use tokio::sync::Notify;

use crate::tally::Tally;

/// Counters and the present role.
#[derive(Debug, Default)]
pub(crate) struct Status {
    role: Mutex<Role>,
    pub(crate) role_changed: Notify,
    pub(crate) connections: AtomicUsize,
    /// Connections that were not taken in.
    pub(crate) refused: AtomicU64,
    /// Connections that were closed because they took too much.
    pub(crate) limited: AtomicU64,
    pub(crate) tally: Tally,
    /// Elections that this server took part in.
    pub(crate) elections: AtomicU64,
    /// Leaders that it followed or was.
    pub(crate) leader_changes: AtomicU64,
    /// Leaders that gave way in order.
    pub(crate) hand_overs: AtomicU64,
    /// Times that its clients were closed because its state was replaced.
    pub(crate) installed: AtomicU64,
    /// Connections closed by that.
    pub(crate) closed_by_snapshot: AtomicU64,
}

/// Where the server stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// It has not begun.
    #[default]
    Starting,
    /// It looks for a leader since this moment.
    Looking { since: Time },
    /// It serves under a leader, which it may be itself.
    Serving { leader: ServerId, epoch: Epoch },
}

impl Status {
    pub(crate) fn role(&self) -> Role {
        *self.role.lock()
    }

    pub(crate) fn set_role(&self, role: Role) {
        *self.role.lock() = role;
        self.role_changed.notify_waiters();
    }
}
