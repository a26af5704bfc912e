//! Leading: find the best history of a quorum, bring the quorum level with it, then propose and commit.
//!
//! In: promises, acknowledgements. Out: questions, differences, proposals, commits.
//! Holds: at most one leader gathers a quorum of fresh promises for an epoch; nothing is proposed before a quorum has
//! the whole history durably; the leader counts itself by the same rules as any follower, when its disk has it.
//! Why peers have stages: a follower may arrive at any time, and each is brought level on its own.
//! Source: Zab (DSN 2011), phases 1 to 3; the pull, the hand-over and the higher epoch without an election are ours.

mod broadcast;
mod discovery;
mod handover;
mod synchronisation;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use pole_election::{Epoch, Round, ServerId, Voters, Zxid};

use crate::{Phase, Promise};

/// A leader's state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Leading {
    /// The round in which we were chosen.
    pub(crate) round: Round,
    /// Our epoch, once picked.
    pub(crate) epoch: Epoch,
    step: Step,
    /// Who promised it, in this order, until a history is chosen.
    promised: Vec<ServerId>,
    /// Our followers, and ourselves.
    pub(crate) peers: BTreeMap<ServerId, Peer>,
    /// Epochs that votes reported.
    reported: BTreeMap<ServerId, Epoch>,
    /// The highest epoch known to be promised by anyone.
    accepted_max: Epoch,
    /// How far the followers have been told of commits.
    announced: Zxid,
    /// Counts our questions to followers.
    pings: u64,
}

/// How far the leader has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Gathering,
    Promising,
    Pulling { source: ServerId },
    Synchronising,
    Established,
}

/// What the leader knows of one follower, or of itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Peer {
    stage: PeerStage,
    /// Whether it counts in quorums: a server that may have been wiped does so only after it was synchronised by an
    /// established leader.
    counts: bool,
    /// What it has durably, under our epoch.
    acked: Zxid,
    /// What it has been sent.
    sent: Zxid,
    /// The last of our questions that it answered as our follower.
    pong: u64,
    /// It promised by taking our hand-over, and so has the history up to here already.
    took_over: Option<Zxid>,
}

/// How far one follower has come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum PeerStage {
    /// It chose us.
    Greeted,
    /// It was asked for a promise.
    Asked,
    /// It promised.
    Promised(Promise),
    /// It is being sent our history.
    Transferring,
    /// It was sent all of our history.
    Synchronising,
    /// It has our history, durably.
    Level,
}

impl Leading {
    fn new(me: ServerId, round: Round, reported: BTreeMap<ServerId, Epoch>, accepted_max: Epoch) -> Self {
        let peers = BTreeMap::from([(me, Peer::new())]);
        let (epoch, announced) = (Epoch(0), Zxid::ZERO);
        Self {
            round,
            epoch,
            step: Step::Gathering,
            promised: Vec::new(),
            peers,
            reported,
            accepted_max,
            announced,
            pings: 0,
        }
    }

    /// A leader by hand-over: its epoch is given, its promise under way.
    pub(crate) fn taking_over(me: ServerId, round: Round, epoch: Epoch) -> Self {
        let mut leading = Self::new(me, round, BTreeMap::new(), epoch);
        leading.epoch = epoch;
        leading.step = Step::Promising;
        leading.peer(me).stage = PeerStage::Asked;
        leading
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.step {
            Step::Gathering => Phase::Gathering,
            Step::Promising => Phase::Promising,
            Step::Pulling { .. } => Phase::Pulling,
            Step::Synchronising => Phase::Synchronising,
            Step::Established => Phase::Established,
        }
    }

    /// Whom we pull from.
    pub(crate) fn source(&self) -> Option<ServerId> {
        match self.step {
            Step::Pulling { source } => Some(source),
            Step::Gathering | Step::Promising | Step::Synchronising | Step::Established => None,
        }
    }

    fn peer(&mut self, id: ServerId) -> &mut Peer {
        self.peers.entry(id).or_insert_with(Peer::new)
    }

    /// The servers that made a promise for this very question and may be counted. A server without a history may have
    /// been wiped, so beside one that has a history it does not count. Two cases are an ensemble that was interrupted
    /// at its very first start, and not a wiped minority: a quorum has no history, or all servers are here (then
    /// whatever was committed is here too).
    fn promises(&self, voters: &Voters) -> BTreeMap<ServerId, &Promise> {
        let fresh = self.peers.iter().filter_map(|(id, peer)| match &peer.stage {
            PeerStage::Promised(promise) if promise.fresh => Some((*id, promise)),
            PeerStage::Promised(_)
            | PeerStage::Greeted
            | PeerStage::Asked
            | PeerStage::Transferring
            | PeerStage::Synchronising
            | PeerStage::Level => None,
        });
        let all: BTreeMap<_, _> = fresh.collect();
        let blank = all.iter().filter(|(_, promise)| promise.blank).map(|(id, _)| *id);
        match voters.is_quorum(blank) || all.len() == voters.len() {
            true => all,
            false => all.into_iter().filter(|(_, promise)| !promise.blank).collect(),
        }
    }

    /// The servers that have our history durably and count.
    fn level(&self) -> impl Iterator<Item = (ServerId, &Peer)> {
        self.peers.iter().filter(|(_, p)| p.counts && p.stage == PeerStage::Level).map(|(id, p)| (*id, p))
    }
}

impl Peer {
    fn new() -> Self {
        Self { stage: PeerStage::Greeted, counts: true, acked: Zxid::ZERO, sent: Zxid::ZERO, pong: 0, took_over: None }
    }

    /// Whether it is sent our proposals.
    fn is_in_broadcast(&self) -> bool {
        matches!(self.stage, PeerStage::Synchronising | PeerStage::Level)
    }
}
