//! The status of the server that can be read without asking the node: its role and its counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use parking_lot::Mutex;
use pole_types::{Epoch, ServerId, Span, Time};

use tokio::sync::Notify;

use crate::limits::LimitHits;
use crate::metrics::{Counters, ProposalSizes, Summaries};
use crate::peer::PeerCounters;
use crate::tally::Tally;

#[derive(Debug, Default)]
pub(crate) struct Status {
    role: Mutex<Role>,
    pub(crate) role_changed: Notify,
    pub(crate) connections: AtomicUsize,
    /// Refused client connections.
    pub(crate) refused: AtomicU64,
    pub(crate) limits: LimitHits,
    pub(crate) tally: Tally,
    pub(crate) summaries: Summaries,
    pub(crate) counters: Counters,
    /// `None` before this server has proposed anything.
    pub(crate) proposal_sizes: Mutex<Option<ProposalSizes>>,
    /// TLS handshakes of clients under way.
    pub(crate) handshakes: AtomicUsize,
    /// Elections in which this server took part.
    pub(crate) elections: AtomicU64,
    /// Leaders that this server followed or was itself.
    pub(crate) leader_changes: AtomicU64,
    /// Orderly hand-overs of the leadership.
    pub(crate) hand_overs: AtomicU64,
    /// How often the state was replaced by a snapshot of the leader.
    pub(crate) installed: AtomicU64,
    /// The cool-down of four-letter words that ask for another leader.
    pub(crate) leader_requests: CoolDown,
    /// Counters of the ports for other servers.
    pub(crate) peers: Arc<PeerCounters>,
    /// Writes to the log that took longer than `fsync.warningthresholdms`.
    pub(crate) slow_writes: AtomicU64,
    /// Client connections closed because the state was replaced.
    pub(crate) closed_by_snapshot: AtomicU64,
}

/// Enforces a minimum pause between two actions.
#[derive(Debug, Default)]
pub(crate) struct CoolDown(Mutex<Option<Time>>);

impl CoolDown {
    /// Returns whether the action may happen now. If so, the pause begins anew.
    pub(crate) fn admit(&self, now: Time, pause: Span) -> bool {
        let mut last = self.0.lock();
        let may = last.is_none_or(|last| now - last >= pause);
        if may {
            *last = Some(now);
        }
        may
    }
}

/// The role of the server in the ensemble: a copy for other threads of what the node's agreement knows. The node itself,
/// and what runs on its thread, asks `Node::serving`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// The node has not started yet.
    #[default]
    Starting,
    /// There has been no leader since this time.
    Looking { since: Time },
    /// The server serves under a leader, possibly itself.
    Serving { leader: ServerId, epoch: Epoch },
}

impl Status {
    /// Resets the statistics that `srst` resets.
    pub(crate) fn reset_statistics(&self) {
        self.tally.reset();
        self.summaries.reset();
        self.counters.reset();
        *self.proposal_sizes.lock() = None;
    }

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
