//! The table of one round: who proposed what, who holds which choice, and what is ours.
//!
//! In: proposals and votes of this round, already checked. Out: whether our own proposal message has changed.
//! Why: here the order is climbed; that the climb is the same everywhere is what makes the election end.
//! Holds: our choice is no worse than any own proposal heard; `demoted` only grows.
//! Not here: older and newer rounds, timers, when to end (`electing`).
//! Source: PAPER.md, section 2, "receive P", same round; "whoever's choice is demoted chooses again".

use alloc::collections::{BTreeMap, BTreeSet};

use crate::{Order, Proposal, Propose, Round, ServerId};

/// One round, as this server sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ballot {
    pub(crate) round: Round,
    /// Our proposal of ourselves. Fixed for the round.
    pub(crate) own: Proposal,
    /// The best that we know. Gets better, or is chosen again when it is demoted.
    pub(crate) choice: Proposal,
    /// The peers that have spoken in this round, by their latest message.
    pub(crate) heard: BTreeMap<ServerId, Heard>,
    /// Servers unable to lead: our own demotions and all those received in this round.
    pub(crate) demoted: BTreeSet<ServerId>,
}

/// What a peer said last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Heard {
    /// Its proposal of itself. None if it only voted: then its choice is no worse than that.
    pub(crate) own: Option<Proposal>,
    /// The candidate that it holds. None since it voted for another.
    ///
    /// Only who, not with which score: those who name the same server elect the same server. A comparison of whole
    /// proposals would split them over details, such as a score that one of them ranks unknown because it is another
    /// oracle's (ZOOKEEPER-1732, -1817).
    pub(crate) holds: Option<ServerId>,
}

/// What a proposal changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Absorbed {
    /// The first message of this peer in this round.
    pub(crate) first: bool,
    /// Our choice is another now.
    pub(crate) adopted: bool,
    /// Servers that we did not know to be demoted.
    pub(crate) demoted: BTreeSet<ServerId>,
    /// The sender's choice is worse than ours, or it lacks a demotion: it should hear from us.
    pub(crate) behind: bool,
}

impl Ballot {
    pub(crate) fn new(round: Round, own: Proposal, demoted: BTreeSet<ServerId>) -> Self {
        Self { round, choice: own.clone(), own, heard: BTreeMap::new(), demoted }
    }

    pub(crate) fn order(&self) -> Order<'_> {
        Order::new(self.round, &self.demoted)
    }

    pub(crate) fn propose(&self) -> Propose {
        Propose { round: self.round, own: self.own.clone(), choice: self.choice.clone(), demoted: self.demoted.clone() }
    }

    /// Counts a proposal of this round.
    pub(crate) fn absorb(&mut self, from: ServerId, propose: Propose) -> Absorbed {
        let before = self.choice.clone();
        let Propose { own, choice, demoted, .. } = propose;
        let new: BTreeSet<ServerId> = demoted.difference(&self.demoted).copied().collect();
        let unaware = !self.demoted.is_subset(&demoted);
        // The latest own proposal replaces an older one: a restarted server may score itself anew (scenario 30).
        let heard = Heard { own: Some(own.clone()), holds: Some(choice.id) };
        let first = self.heard.insert(from, heard).is_none();
        self.demote(&new);
        self.improve(&choice);
        // Usually no better than the sender's choice; but if that is demoted here, the sender itself may be best.
        self.improve(&own);
        let behind = unaware || self.order().compare(&self.choice, &choice).is_gt();
        Absorbed { first, adopted: self.order().compare(&before, &self.choice).is_ne(), demoted: new, behind }
    }

    /// Takes note of a vote of this round; says whether our choice has changed.
    pub(crate) fn vote(&mut self, from: ServerId, choice: &Proposal) -> bool {
        let improved = self.improve(choice);
        if choice.id == self.choice.id {
            self.heard.entry(from).or_default().holds = Some(choice.id);
        } else {
            self.release(from);
        }
        improved
    }

    /// The peer has voted for something else: whatever it held here, it holds no more (ZOOKEEPER-3109).
    pub(crate) fn release(&mut self, from: ServerId) {
        if let Some(heard) = self.heard.get_mut(&from) {
            heard.holds = None;
        }
    }

    /// Unites the sets and, if our choice is among the demoted, chooses again among the own proposals heard.
    pub(crate) fn demote(&mut self, ids: &BTreeSet<ServerId>) {
        self.demoted.extend(ids);
        if !ids.contains(&self.choice.id) {
            return;
        }
        let order = Order::new(self.round, &self.demoted);
        let best = self.owns().map(|(_, own)| own).max_by(|a, b| order.compare(a, b));
        self.choice = best.unwrap_or(&self.own).clone();
    }

    /// Servers known to hold our choice, we among them.
    pub(crate) fn holders(&self) -> impl Iterator<Item = ServerId> + '_ {
        let peers = self.heard.iter().filter(|(_, heard)| heard.holds == Some(self.choice.id));
        peers.map(|(id, _)| *id).chain([self.own.id])
    }

    /// Servers that have spoken in this round, we among them.
    pub(crate) fn participants(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.heard.keys().copied().chain([self.own.id])
    }

    /// All own proposals known, ours among them.
    pub(crate) fn owns(&self) -> impl Iterator<Item = (ServerId, &Proposal)> + '_ {
        let peers = self.heard.iter().filter_map(|(id, heard)| Some((*id, heard.own.as_ref()?)));
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
