//! What everyone may know about the server without asking its node: its role, and what it has counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use parking_lot::Mutex;
use pole_election::{Epoch, ServerId, Span};
use pole_oracle::Time;

use tokio::sync::Notify;

use crate::limits::LimitHits;
use crate::peer::PeerCounters;
use crate::tally::Tally;

/// Counters and the present role.
#[derive(Debug, Default)]
pub(crate) struct Status {
    role: Mutex<Role>,
    pub(crate) role_changed: Notify,
    pub(crate) connections: AtomicUsize,
    /// Connections that were not taken in.
    pub(crate) refused: AtomicU64,
    /// How often clients ran into which limit.
    pub(crate) limits: LimitHits,
    pub(crate) tally: Tally,
    /// Elections that this server took part in.
    pub(crate) elections: AtomicU64,
    /// Leaders that it followed or was.
    pub(crate) leader_changes: AtomicU64,
    /// Leaders that gave way in order.
    pub(crate) hand_overs: AtomicU64,
    /// Times that its clients were closed because its state was replaced.
    pub(crate) installed: AtomicU64,
    /// When a four-letter word last asked for another leader.
    pub(crate) leader_words: CoolDown,
    /// What happened at the ports for other servers.
    pub(crate) peers: Arc<PeerCounters>,
    /// Connections closed by that.
    pub(crate) closed_by_snapshot: AtomicU64,
}

/// Lets something happen once in a while.
#[derive(Debug, Default)]
pub(crate) struct CoolDown(Mutex<Option<Time>>);

impl CoolDown {
    /// Whether it may happen now. If so, it counts as done.
    pub(crate) fn admit(&self, now: Time, pause: Span) -> bool {
        let mut last = self.0.lock();
        let may = last.is_none_or(|last| now - last >= pause);
        if may {
            *last = Some(now);
        }
        may
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cool_down_lets_one_through_and_the_next_after_its_pause() {
        let (cool_down, pause) = (CoolDown::default(), Span(10));
        let admitted: Vec<_> = (5..30).filter(|now| cool_down.admit(Time(*now), pause)).collect();
        assert_eq!(admitted, [5, 15, 25]);
    }
}
