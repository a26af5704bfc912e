//! What only an established leader has: requests to propose, syncs to confirm, sessions to expire, a hand-over.
//!
//! It exists from the moment in which a quorum has adopted our history until we lead no longer, and ends as a whole, so
//! that nothing of one leadership reaches the next.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use pole_types::{ServerId, SessionId, Time};

use crate::Request;
use crate::handover::Transfer;
use crate::inbox::Inbox;
use crate::lag::Pace;
use crate::sessions::Expiry;
use crate::syncs::Confirmations;
use crate::unreached::Unreached;

/// The state of an established leader.
pub(crate) struct Leadership {
    /// Requests not yet proposed.
    inbox: Inbox,
    /// How fast it may propose.
    pub(crate) pace: Pace,
    /// The size of the requests that may still be proposed in this turn. The last one may be larger.
    bytes_allowed: usize,
    /// The leader's own requests. A few of them at a time are proposed between those of clients.
    pub(crate) chores: VecDeque<Request>,
    /// How many of `chores` may still be proposed in this turn.
    chores_allowed: usize,
    /// When to scan next for what is due by the wall clock.
    pub(crate) chores_at: Time,
    /// Where that scan continues.
    pub(crate) chores_from: u32,
    pub(crate) confirmations: Confirmations,
    pub(crate) expiry: Expiry,
    pub(crate) transfer: Option<Transfer>,
    /// Voters that do not reach this server and look for a leader.
    pub(crate) unreached: Unreached,
    /// The followers that gain from direct acknowledgements of their requests, by the round trips of the last heartbeat.
    pub(crate) listeners: BTreeSet<ServerId>,
}

impl Leadership {
    /// Begins with the requests of our own clients that are not in the history.
    pub(crate) fn new(me: ServerId, unlogged: Vec<Request>, expiry: Expiry, chores_at: Time) -> Self {
        let mut inbox = Inbox::default();
        unlogged.into_iter().for_each(|request| inbox.push(me, request));
        Self {
            inbox,
            pace: Pace::default(),
            bytes_allowed: BYTES_PER_TURN_MAX,
            chores: VecDeque::new(),
            chores_allowed: 0,
            chores_at,
            chores_from: 0,
            confirmations: Confirmations::default(),
            expiry,
            transfer: None,
            unreached: Unreached::default(),
            listeners: BTreeSet::new(),
        }
    }

    /// A turn begins.
    pub(crate) fn begin_turn(&mut self) {
        self.chores_allowed = CHORES_PER_TURN_MAX;
        self.bytes_allowed = BYTES_PER_TURN_MAX;
    }

    /// Queues a request. The session counts as active when the request arrives, however long it waits to be proposed.
    pub(crate) fn submit(&mut self, from: ServerId, request: Request, now: Time) {
        self.expiry.touch(request.origin.session, now);
        self.inbox.push(from, request);
    }

    /// The number of requests of clients that are not proposed yet.
    pub(crate) fn unproposed(&self) -> usize {
        self.inbox.len()
    }

    /// Whether there is nothing to propose.
    pub(crate) fn is_idle(&self) -> bool {
        self.inbox.is_empty() && self.chores.is_empty()
    }

    /// The next request to propose, with the server that it came from: a few of our own, then those of clients.
    pub(crate) fn next_request(&mut self, me: ServerId) -> Option<(ServerId, Request)> {
        if let Some(left) = self.chores_allowed.checked_sub(1)
            && let Some(request) = self.chores.pop_front()
        {
            self.chores_allowed = left;
            return Some((me, request));
        }
        if self.is_exhausted() {
            return None;
        }
        let next = self.inbox.pop()?;
        self.bytes_allowed = self.bytes_allowed.saturating_sub(next.1.body.len());
        Some(next)
    }

    /// Whether no more requests of clients are to be proposed in this turn.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.bytes_allowed == 0
    }

    /// Whether new proposals wait for a hand-over.
    pub(crate) fn is_frozen(&self) -> bool {
        self.transfer.is_some_and(|transfer| transfer.frozen)
    }

    /// Drops what a follower sent over its older links. It will send that again.
    pub(crate) fn forget(&mut self, peer: ServerId) {
        self.unreached.forget(peer);
        self.inbox.forget(peer);
        self.confirmations.forget(peer);
    }

    /// Records activity of sessions.
    pub(crate) fn touch(&mut self, sessions: Vec<SessionId>, now: Time) {
        sessions.into_iter().for_each(|session| self.expiry.touch(session, now));
    }
}

/// The number of the leader's own requests proposed in one turn. It keeps ten thousand sessions that expire at once
/// from delaying the requests of clients.
const CHORES_PER_TURN_MAX: usize = 64;

/// The size of the requests of clients that are proposed in one turn: a few milliseconds of work. Messages of other servers
/// and timers are handled in between.
const BYTES_PER_TURN_MAX: usize = 256 << 10;
