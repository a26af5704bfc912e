//! A server while it elects: the campaign since `new_election`, the round it is in, and when that round may end.
//!
//! In: proposals and votes of peers, expired timers, the state of links. Out: messages, and the reason to end.
//! Why: the election ends when waiting longer could not change the answer; the timer is for the silent only.
//! Holds: we elect only a choice that a quorum, we included, holds. (The printed algorithm ends on proposals of a
//! quorum even if they differ.)
//! Not here: rounds older or newer than ours, the leader once chosen (`election`); what is better (`order`).
//! Source: PAPER.md, section 2, "count j".

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::ballot::{Absorbed, Ballot};
use crate::links::Links;
use crate::trail::{Because, Step, Trail};
use crate::{
    Cause, Config, Host, Message, Output, Proposal, Propose, Rank, Score, ServerId, Span, Timer, Vote, is_fallback,
    timing,
};

/// What lasts from `new_election` until a leader is chosen, over all rounds taken over meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Campaign {
    pub(crate) cause: Cause,
    /// The leader whose loss called the election: nobody waits for it.
    pub(crate) given_up: Option<ServerId>,
    /// The latest vote of each peer, of whatever round.
    pub(crate) votes: BTreeMap<ServerId, Vote>,
    pub(crate) trail: Trail,
}

/// A server in a round.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Electing {
    pub(crate) campaign: Campaign,
    pub(crate) ballot: Ballot,
    pub(crate) wait: Wait,
    /// Retries in this round, counted up to [`timing::DOUBLINGS_MAX`].
    pub(crate) attempts: u32,
    /// Candidates whose invalid score was already told of in this round.
    flagged: BTreeSet<ServerId>,
    /// Peers that were behind and have been answered since we last spoke to all. Once is enough: two servers that each
    /// think the other behind, for whatever reason, must not answer each other without end.
    answered: BTreeSet<ServerId>,
}

/// The election timer. It starts once in a round and is never re-armed by chatter (scenario 20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wait {
    /// No quorum has proposed yet.
    NotYet,
    /// Running, or extended, for so long in all; never more than T.
    Running(Span),
    /// Run out: elect as soon as a quorum holds our choice.
    Over,
}

impl Campaign {
    pub(crate) fn new(cause: Cause, given_up: Option<ServerId>) -> Self {
        Self { cause, given_up, votes: BTreeMap::new(), trail: Trail::default() }
    }

    /// Remembers the peer's latest vote.
    pub(crate) fn remember(&mut self, from: ServerId, vote: &Vote) {
        let before = self.votes.insert(from, vote.clone());
        if before.is_none_or(|before| before.choice.id != vote.choice.id) {
            self.trail.push(Step::Voted { from, leader: vote.choice.id });
        }
    }
}

impl Electing {
    pub(crate) fn new(campaign: Campaign, ballot: Ballot) -> Self {
        Self { campaign, ballot, wait: Wait::NotYet, attempts: 0, flagged: BTreeSet::new(), answered: BTreeSet::new() }
    }

    pub(crate) fn send_to_all(&mut self, config: &Config, out: &mut Vec<Output>) {
        self.answered.clear();
        config.voters.peers(config.me).for_each(|to| self.send(to, out));
    }

    pub(crate) fn send(&self, to: ServerId, out: &mut Vec<Output>) {
        out.push(Output::Send { to, message: Message::Propose(self.ballot.propose()) });
    }

    /// Receives a proposal of our own round: whatever is news goes to all, whoever is behind gets an answer.
    pub(crate) fn propose(
        &mut self,
        from: ServerId,
        propose: Propose,
        config: &Config,
        host: &impl Host,
        out: &mut Vec<Output>,
    ) {
        let absorbed = self.count(from, propose, host, out);
        if absorbed.adopted || !absorbed.demoted.is_empty() {
            self.send_to_all(config, out);
        } else if absorbed.behind && self.answered.insert(from) {
            self.send(from, out);
        }
    }

    /// Counts a proposal of our own round, without a word to anyone.
    pub(crate) fn count(
        &mut self,
        from: ServerId,
        mut propose: Propose,
        host: &impl Host,
        out: &mut Vec<Output>,
    ) -> Absorbed {
        self.disarm(from, &mut propose.own, host, out);
        self.disarm(from, &mut propose.choice, host, out);
        let absorbed = self.ballot.absorb(from, propose);
        if absorbed.first {
            self.campaign.trail.push(Step::Heard { from });
        }
        absorbed.demoted.iter().for_each(|id| self.campaign.trail.push(Step::Demoted { id: *id }));
        if absorbed.adopted {
            self.campaign.trail.push(Step::Adopted { from, choice: self.ballot.choice.id });
        }
        absorbed
    }

    /// Receives a vote. One of our round for our choice, or a better one, counts as the peer's proposal would: it has
    /// compared that choice with its own. Any other vote only ends what the peer held here.
    pub(crate) fn vote(
        &mut self,
        from: ServerId,
        vote: Vote,
        config: &Config,
        host: &impl Host,
        out: &mut Vec<Output>,
    ) {
        if vote.round != self.ballot.round {
            self.ballot.release(from);
            return;
        }
        let mut choice = vote.choice;
        self.disarm(from, &mut choice, host, out);
        if self.ballot.vote(from, &choice) {
            self.campaign.trail.push(Step::Adopted { from, choice: choice.id });
            self.send_to_all(config, out);
        }
    }

    /// Demotes a server in this round, and tells all if that is news.
    pub(crate) fn demote(&mut self, id: ServerId, config: &Config, out: &mut Vec<Output>) {
        if !self.ballot.demoted.contains(&id) {
            self.ballot.demote(&BTreeSet::from([id]));
            self.campaign.trail.push(Step::Demoted { id });
            self.send_to_all(config, out);
        }
    }

    /// The reason to end the election now, if there is one.
    pub(crate) fn decision(&self, config: &Config, links: &Links, host: &impl Host) -> Option<Because> {
        if !config.voters.is_quorum(self.ballot.holders()) {
            return None;
        }
        let mut because = Because::AllHeard;
        for peer in self.silent(config) {
            // Each silent voter needs a reason of its own; the record names the weakest of them.
            let waited = (self.wait == Wait::Over).then_some(Because::Waited);
            because = because.max(self.absence(peer, links, host).or(waited)?);
        }
        Some(because)
    }

    /// The quorum has proposed: the others get a bounded time, once.
    pub(crate) fn arm_wait(&mut self, config: &Config, links: &Links, host: &impl Host, out: &mut Vec<Output>) {
        if self.wait != Wait::NotYet || !config.voters.is_quorum(self.ballot.participants()) {
            return;
        }
        let round_trips = self.awaited(config, links, host).map(|peer| host.round_trip(peer));
        // None, if one is not known, is less than all and must win, hence the fold.
        let slowest = round_trips.reduce(|a, b| Some(a?.max(b?))).flatten();
        let wait = timing::wait(config, self.ballot.round, slowest);
        self.wait = Wait::Running(wait);
        self.campaign.trail.push(Step::QuorumProposed { wait });
        out.push(Output::Arm { timer: Timer::Wait, after: wait });
    }

    /// The election timer has run out. A voter that has answered by a vote of an older round is alive and follows a
    /// leader that others have given up; its round trip says nothing about when it will notice. It gets the rest of T,
    /// once, or the result would depend on who called first.
    pub(crate) fn wait_expired(&mut self, config: &Config, links: &Links, host: &impl Host, out: &mut Vec<Output>) {
        let Wait::Running(waited) = self.wait else { return };
        let holders = self.ballot.holders().count();
        if waited < config.timeout && self.awaited(config, links, host).any(|peer| self.follows_elsewhere(peer)) {
            let by = Span(config.timeout.0 - waited.0);
            self.wait = Wait::Running(config.timeout);
            self.campaign.trail.push(Step::WaitExtended { by });
            out.push(Output::Arm { timer: Timer::Wait, after: by });
        } else {
            self.wait = Wait::Over;
            self.campaign.trail.push(Step::WaitExpired { holders });
        }
        if holders < config.voters.quorum() {
            self.send_to_all(config, out);
        }
    }

    pub(crate) fn retry(&mut self, config: &Config, out: &mut Vec<Output>) {
        self.attempts = (self.attempts + 1).min(timing::DOUBLINGS_MAX);
        self.campaign.trail.push(Step::Retried);
        self.send_to_all(config, out);
        self.arm_retry(config, out);
    }

    /// Whether a quorum talks and does not agree, retry after retry.
    pub(crate) fn is_stalemate(&self, config: &Config) -> bool {
        self.attempts >= timing::STALEMATE_RETRIES && config.voters.is_quorum(self.ballot.participants())
    }

    pub(crate) fn arm_retry(&self, config: &Config, out: &mut Vec<Output>) {
        let after = timing::retry(config, self.ballot.round, self.attempts);
        out.push(Output::Arm { timer: Timer::Retry, after });
    }

    pub(crate) fn cancel_timers(&self, out: &mut Vec<Output>) {
        if matches!(self.wait, Wait::Running(_)) {
            out.push(Output::Cancel(Timer::Wait));
        }
        out.push(Output::Cancel(Timer::Retry));
    }

    /// Voters that have not spoken in this round.
    fn silent<'a>(&'a self, config: &'a Config) -> impl Iterator<Item = ServerId> + 'a {
        config.voters.peers(config.me).filter(|peer| !self.ballot.heard.contains_key(peer))
    }

    /// Silent voters for whom it is worth waiting.
    fn awaited<'a>(
        &'a self,
        config: &'a Config,
        links: &'a Links,
        host: &'a impl Host,
    ) -> impl Iterator<Item = ServerId> + 'a {
        self.silent(config).filter(|peer| self.absence(*peer, links, host).is_none())
    }

    /// Why the silence of this voter need not be waited for.
    fn absence(&self, peer: ServerId, links: &Links, host: &impl Host) -> Option<Because> {
        if self.campaign.given_up == Some(peer) || links.is_closed(peer) {
            return Some(Because::Gone);
        }
        // Gossip is about scores: it says nothing when history decides, or when the choice is demoted and the peer,
        // whatever its score, is not.
        let by_score = !is_fallback(self.ballot.round) && self.ballot.order().able(&self.ballot.choice);
        (by_score && host.ranks_below(peer, &self.ballot.choice)).then_some(Because::Gossip)
    }

    fn follows_elsewhere(&self, peer: ServerId) -> bool {
        self.campaign.votes.get(&peer).is_some_and(|vote| vote.round < self.ballot.round)
    }

    /// An impossible score ranks as unknown, and its sender still counts.
    fn disarm(&mut self, from: ServerId, proposal: &mut Proposal, host: &impl Host, out: &mut Vec<Output>) {
        let Err(reason) = validate(proposal, host) else { return };
        proposal.rank = Rank::Unknown;
        if self.flagged.insert(proposal.id) {
            out.push(Output::Invalid { from, reason });
        }
    }
}

/// Whether a score can be compared at all, and whether the oracle could have produced it.
pub(crate) fn validate(proposal: &Proposal, host: &impl Host) -> Result<(), String> {
    let Rank::Known(score) = &proposal.rank else { return Ok(()) };
    let id = proposal.id;
    match score.components().len() {
        // It would compare as the best of all.
        0 => Err(format!("score of server {id} is empty")),
        1..=Score::COMPONENTS_MAX => {
            host.validate(proposal).map_err(|reason| format!("score of server {id}: {reason}"))
        }
        count => Err(format!("score of server {id} has {count} components, at most {}", Score::COMPONENTS_MAX)),
    }
}
