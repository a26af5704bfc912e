//! State of one round: the proposals received, which server holds which choice, and our own choice.
//!
//! Proposals and votes of this round come in already checked; each call reports whether our own proposal message has
//! changed. Every server climbs the same order of proposals, which is why an election ends.
//!
//! Invariants: our choice is no worse than any server's own proposal received; `demoted` only grows.
//!
//! Older and newer rounds, timers and the decision to end the round are in `electing` and `election`. The rules are in
//! `docs/election.md`.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::{Order, Proposal, Propose, Round};
use pole_types::ServerId;

/// One round, from the point of view of this server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ballot {
    pub(crate) round: Round,
    /// The proposal of this server for itself. Fixed for the round.
    pub(crate) own: Proposal,
    /// The best proposal known. It only improves, except that a demoted choice is replaced.
    pub(crate) choice: Proposal,
    /// The peers that have sent a message in this round, with the contents of the latest one.
    pub(crate) peers: BTreeMap<ServerId, PeerState>,
    /// Servers unable to lead: our own demotions and all demotions received in this round.
    pub(crate) demoted: BTreeSet<ServerId>,
}

/// The latest message of a peer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PeerState {
    /// Its proposal for itself. None if it has only voted; its vote is then no worse than its own proposal.
    pub(crate) own: Option<Proposal>,
    /// The candidate that it holds. None after a vote for another candidate.
    ///
    /// Only the id is kept, not the score: servers that name the same candidate elect the same server. Comparing whole
    /// proposals would split them over details, such as a score that one of them ranks unknown because it comes from
    /// another oracle (ZOOKEEPER-1732, -1817).
    pub(crate) holds: Option<ServerId>,
}

/// What a received proposal changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BallotChanges {
    /// This is the first message of the peer in this round.
    pub(crate) first: bool,
    /// Our choice has changed.
    pub(crate) adopted: bool,
    /// Demoted servers that were not known to be demoted before.
    pub(crate) demoted: BTreeSet<ServerId>,
    /// The sender's choice is worse than ours, or it does not know a demotion: it needs our proposal.
    pub(crate) behind: bool,
}

impl Ballot {
    pub(crate) fn new(round: Round, own: Proposal, demoted: BTreeSet<ServerId>) -> Self {
        Self { round, choice: own.clone(), own, peers: BTreeMap::new(), demoted }
    }

    pub(crate) fn order(&self) -> Order<'_> {
        Order::new(self.round, &self.demoted)
    }

    pub(crate) fn propose(&self) -> Propose {
        Propose { round: self.round, own: self.own.clone(), choice: self.choice.clone(), demoted: self.demoted.clone() }
    }

    /// Records a proposal of this round.
    pub(crate) fn record_proposal(&mut self, from: ServerId, propose: Propose) -> BallotChanges {
        let before = self.choice.clone();
        let Propose { own, choice, demoted, .. } = propose;
        let new: BTreeSet<ServerId> = demoted.difference(&self.demoted).copied().collect();
        let unaware = !self.demoted.is_subset(&demoted);
        // The latest own proposal replaces an older one: a restarted server may have a new score (scenario 30).
        let state = PeerState { own: Some(own.clone()), holds: Some(choice.id) };
        let first = self.peers.insert(from, state).is_none();
        self.demote(&new);
        self.improve(&choice);
        // Usually no better than the sender's choice, but if that choice is demoted here, the sender may be best.
        self.improve(&own);
        let behind = unaware || self.order().compare(&self.choice, &choice).is_gt();
        BallotChanges { first, adopted: self.order().compare(&before, &self.choice).is_ne(), demoted: new, behind }
    }

    /// Records a vote of this round. Returns whether our choice has changed.
    pub(crate) fn record_vote(&mut self, from: ServerId, choice: &Proposal) -> bool {
        let improved = self.improve(choice);
        if choice.id == self.choice.id {
            self.peers.entry(from).or_default().holds = Some(choice.id);
        } else {
            self.release(from);
        }
        improved
    }

    /// Clears the choice that the peer held in this round, after it has voted for something else (ZOOKEEPER-3109).
    pub(crate) fn release(&mut self, from: ServerId) {
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.holds = None;
        }
    }

    /// Adds demoted servers. If our choice is among them, the best of the own proposals received replaces it.
    pub(crate) fn demote(&mut self, ids: &BTreeSet<ServerId>) {
        self.demoted.extend(ids);
        if !ids.contains(&self.choice.id) {
            return;
        }
        let order = Order::new(self.round, &self.demoted);
        let best = self.own_proposals().map(|(_, own)| own).max_by(|a, b| order.compare(a, b));
        self.choice = best.unwrap_or(&self.own).clone();
    }

    /// Servers known to hold our choice, including this one.
    pub(crate) fn holders(&self) -> impl Iterator<Item = ServerId> + '_ {
        let peers = self.peers.iter().filter(|(_, peer)| peer.holds == Some(self.choice.id));
        peers.map(|(id, _)| *id).chain([self.own.id])
    }

    /// Servers that have sent a message in this round, including this one.
    pub(crate) fn participants(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.peers.keys().copied().chain([self.own.id])
    }

    /// The proposals of servers for themselves, including ours.
    pub(crate) fn own_proposals(&self) -> impl Iterator<Item = (ServerId, &Proposal)> + '_ {
        let peers = self.peers.iter().filter_map(|(id, peer)| Some((*id, peer.own.as_ref()?)));
        peers.chain([(self.own.id, &self.own)])
    }

    fn improve(&mut self, candidate: &Proposal) -> bool {
        let better = self.order().compare(candidate, &self.choice).is_gt();
        if better {
            self.choice = candidate.clone();
        }
        better
    }
}
