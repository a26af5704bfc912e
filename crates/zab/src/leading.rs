//! The leader role: find the best history of a quorum, bring the quorum to it, then propose and commit.
//!
//! Invariants:
//! - At most one leader gathers a quorum of fresh promises for an epoch.
//! - Nothing is proposed before a quorum has the whole history durably.
//! - The leader counts itself by the same rules as any follower: when its own disk has the data.
//!
//! Each peer has its own stage, because a follower may arrive at any time and is synchronised on its own.
//!
//! The phases are 1 to 3 of Zab (DSN 2011). The pull, the hand-over and reopening a higher epoch without an election
//! are our additions.

mod broadcast;
mod discovery;
mod handover;
mod synchronisation;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use pole_election::Round;
use pole_types::{Epoch, ServerId, Voters, Zxid};

use crate::direct::Listeners;
use crate::state::State;
use crate::{Output, Phase, Promise};

/// A leader's state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Leading {
    /// The round in which we were chosen.
    pub(crate) round: Round,
    /// Our epoch, once picked.
    pub(crate) epoch: Epoch,
    step: Step,
    /// The servers that promised the epoch, in order of arrival, until a history is chosen.
    promised: Vec<ServerId>,
    /// Our followers, and ourselves.
    pub(crate) peers: BTreeMap<ServerId, Peer>,
    /// The servers whose accepted epochs are known from votes and Hellos, until an epoch is picked.
    reported: BTreeSet<ServerId>,
    /// The highest epoch known to be promised by any server.
    accepted_max: Epoch,
    /// The last committed position announced to the followers.
    announced: Zxid,
    /// The sequence number of the last ping.
    pings: u64,
    listeners: Listeners,
}

/// The progress of the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Gathering,
    Promising,
    Pulling {
        source: ServerId,
    },
    /// `heard`: a quorum has answered us, and we adopt our epoch. What is promised ahead is enough to choose a history, but
    /// does not show that anybody hears us; a leader that nobody hears must not rank above the others afterwards.
    Synchronising {
        heard: bool,
    },
    Established,
}

/// The leader's state for one follower, or for itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Peer {
    stage: PeerStage,
    /// Whether it counts in quorums. A server that may have been wiped counts only after an established leader has
    /// synchronised it.
    counts: bool,
    /// Whether it has answered a message of this epoch.
    hears: bool,
    /// The last position that it has durably, under our epoch.
    acked: Zxid,
    /// The last position sent to it.
    sent: Zxid,
    /// The last ping that it answered as our follower.
    pong: u64,
    /// Set if it promised by accepting a hand-over: it already has the history up to here.
    took_over: Option<Zxid>,
}

/// The progress of one follower.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum PeerStage {
    /// Its Hello has arrived.
    Greeted,
    /// It has promised the epoch that it expects, and we have not opened one yet.
    PromisedAhead(Promise),
    /// It was asked for a promise.
    PromiseRequested,
    /// Its promise has arrived.
    Promised(Promise),
    /// It is being sent our history.
    Transferring,
    /// It was sent all of our history.
    Synchronising,
    /// It has our history, durably.
    Level,
}

impl Leading {
    /// Begins to lead, as the election decided. `accepted` are epochs reported by votes.
    pub(crate) fn new(
        state: &mut State,
        round: Round,
        accepted: impl IntoIterator<Item = (ServerId, Epoch)>,
        out: &mut Vec<Output>,
    ) -> Self {
        let mut reported = state.plausible(accepted);
        reported.insert(state.me, state.accepted_epoch);
        let accepted_max = reported.values().copied().max().unwrap_or_default();
        let mut leading = Self::gathering(state.me, round, reported.into_keys().collect(), accepted_max);
        leading.admit_waiting(state, out);
        leading.try_pick_epoch(state, out);
        leading
    }

    /// A leader by hand-over: its epoch is given, and its own promise is being written.
    pub(crate) fn taking_over(state: &mut State, round: Round, epoch: Epoch, out: &mut Vec<Output>) -> Self {
        let mut leading = Self::gathering(state.me, round, BTreeSet::new(), epoch);
        leading.epoch = epoch;
        leading.step = Step::Promising;
        leading.peer(state.me).stage = PeerStage::PromiseRequested;
        leading.admit_waiting(state, out);
        leading
    }

    fn gathering(me: ServerId, round: Round, reported: BTreeSet<ServerId>, accepted_max: Epoch) -> Self {
        Self {
            round,
            epoch: Epoch(0),
            step: Step::Gathering,
            promised: Vec::new(),
            peers: BTreeMap::from([(me, Peer::new())]),
            reported,
            accepted_max,
            announced: Zxid::ZERO,
            pings: 0,
            listeners: Listeners::default(),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.step {
            Step::Gathering => Phase::Gathering,
            Step::Promising | Step::Synchronising { heard: false } => Phase::Promising,
            Step::Pulling { .. } => Phase::Pulling,
            Step::Synchronising { heard: true } => Phase::Synchronising,
            Step::Established => Phase::Established,
        }
    }

    /// The server that we pull from.
    pub(crate) fn source(&self) -> Option<ServerId> {
        match self.step {
            Step::Pulling { source } => Some(source),
            Step::Gathering | Step::Promising | Step::Synchronising { .. } | Step::Established => None,
        }
    }

    /// Whether a quorum has adopted our history.
    pub(crate) fn is_established(&self) -> bool {
        self.step == Step::Established
    }

    /// Whether our history is chosen, so that followers may have adopted it.
    pub(crate) fn has_chosen_history(&self) -> bool {
        matches!(self.step, Step::Synchronising { .. } | Step::Established)
    }

    /// Our followers and the last position that each of them has acknowledged.
    pub(crate) fn followers(&self, me: ServerId) -> impl Iterator<Item = (ServerId, Zxid)> + '_ {
        self.peers.iter().filter(move |(id, _)| **id != me).map(|(id, peer)| (*id, peer.acked))
    }

    fn peer(&mut self, id: ServerId) -> &mut Peer {
        self.peers.entry(id).or_insert_with(Peer::new)
    }

    /// The fresh promises of voters that count. A server without a history may have been wiped, so it does not count beside
    /// servers that have one. There are two exceptions in which the ensemble was interrupted at its first start and no
    /// minority was wiped: a quorum has no history, or all voters have promised (then whatever was committed is among
    /// their histories). Neither holds once the members were changed: that is history, and these voters may not be the
    /// present ones. A wiped server that hears only of an old change, after which it was the only voter, would lead alone.
    fn promises(&self, state: &State) -> BTreeMap<ServerId, &Promise> {
        let voters = state.voters();
        let of_voters = self.peers.iter().filter(|(id, _)| voters.contains(**id));
        let fresh = of_voters.filter_map(|(id, peer)| match &peer.stage {
            PeerStage::Promised(promise) if promise.fresh => Some((*id, promise)),
            PeerStage::Promised(_)
            | PeerStage::Greeted
            | PeerStage::PromisedAhead(_)
            | PeerStage::PromiseRequested
            | PeerStage::Transferring
            | PeerStage::Synchronising
            | PeerStage::Level => None,
        });
        let all: BTreeMap<_, _> = fresh.collect();
        let blank = all.iter().filter(|(_, promise)| promise.blank).map(|(id, _)| *id);
        let is_first_start = state.members.version() == Zxid::ZERO;
        match is_first_start && (voters.is_quorum(blank) || all.len() == voters.len()) {
            true => all,
            false => all.into_iter().filter(|(_, promise)| !promise.blank).collect(),
        }
    }

    /// Whether a quorum of `voters` has our history and gets every proposal. How far each has acknowledged does not matter:
    /// the last transactions may be on their way.
    pub(crate) fn could_change_to(&self, voters: &Voters) -> bool {
        let level = self.peers.iter().filter(|(_, peer)| peer.stage == PeerStage::Level).map(|(id, _)| *id);
        self.is_established() && voters.is_quorum(level)
    }

    /// The servers that have our history durably and count in quorums.
    fn level(&self) -> impl Iterator<Item = (ServerId, &Peer)> {
        self.peers.iter().filter(|(_, p)| p.counts && p.stage == PeerStage::Level).map(|(id, p)| (*id, p))
    }
}

impl Peer {
    fn new() -> Self {
        Self {
            stage: PeerStage::Greeted,
            counts: true,
            hears: false,
            acked: Zxid::ZERO,
            sent: Zxid::ZERO,
            pong: 0,
            took_over: None,
        }
    }

    /// Whether it is sent our proposals.
    fn is_in_broadcast(&self) -> bool {
        matches!(self.stage, PeerStage::Synchronising | PeerStage::Level)
    }
}
