//! State of a server during an election: the current round, and the decision when that round may end.
//!
//! Proposals and votes of peers, expired timers and link states come in; messages and the reason to end go out. The
//! election ends when waiting longer could not change the result. The election timer only bounds the wait for voters
//! that have not responded.
//!
//! Invariant: a server elects only a choice that a quorum, itself included, holds. (The printed algorithm ends on the
//! proposals of a quorum even if they differ.)
//!
//! Rounds older or newer than the current one, and the leader once chosen, are in `election`; the comparison of
//! proposals is in `order`. The rules are in `docs/election.md`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::ballot::{Ballot, BallotChanges};
use crate::links::Links;
use crate::trace::{ElectionTrace, EndReason, Step};
use crate::{
    Cause, Config, Host, Message, Output, Proposal, Propose, Rank, Round, Score, Timer, Vote, is_fallback, timing,
};
use pole_types::{ServerId, Span};

/// State that lasts from `Election::start` until a leader is chosen, across all rounds joined in between.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Campaign {
    pub(crate) cause: Cause,
    /// The leader whose loss caused the election. Nobody waits for it.
    pub(crate) lost_leader: Option<ServerId>,
    /// The latest vote of each peer, of any round.
    pub(crate) votes: BTreeMap<ServerId, Vote>,
    pub(crate) trace: ElectionTrace,
}

/// State of a server in one round.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Electing {
    pub(crate) campaign: Campaign,
    pub(crate) ballot: Ballot,
    pub(crate) wait: Wait,
    /// Retries in this round, counted up to [`timing::DOUBLINGS_MAX`].
    pub(crate) attempts: u32,
    /// Candidates whose invalid score was already reported in this round.
    reported_invalid: BTreeSet<ServerId>,
    /// Peers that were behind and have been answered since our last broadcast. One answer is enough: two servers that
    /// each consider the other behind must not answer each other without end.
    answered: BTreeSet<ServerId>,
}

/// State of the election timer. The timer starts once per round and is never re-armed by further messages (scenario
/// 20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wait {
    /// No quorum has proposed yet.
    NotStarted,
    /// Running for this total time, extensions included; never more than T.
    Running(Span),
    /// Expired: elect as soon as a quorum holds our choice.
    Expired,
}

impl Campaign {
    pub(crate) fn new(cause: Cause, lost_leader: Option<ServerId>) -> Self {
        Self { cause, lost_leader, votes: BTreeMap::new(), trace: ElectionTrace::default() }
    }

    /// Stores the peer's latest vote.
    pub(crate) fn remember(&mut self, from: ServerId, vote: &Vote) {
        let before = self.votes.insert(from, vote.clone());
        if before.is_none_or(|before| before.choice.id != vote.choice.id) {
            self.trace.push(Step::Voted { from, leader: vote.choice.id });
        }
    }

    /// A peer proposes in `round`: it no longer follows the leader that it voted for in an older one. Without this, votes
    /// that were delayed until after the leader's end would bring a server to follow it.
    pub(crate) fn forget_older_vote(&mut self, from: ServerId, round: Round) {
        if self.votes.get(&from).is_some_and(|vote| vote.round < round) {
            self.votes.remove(&from);
        }
    }
}

impl Electing {
    pub(crate) fn new(campaign: Campaign, ballot: Ballot) -> Self {
        Self {
            campaign,
            ballot,
            wait: Wait::NotStarted,
            attempts: 0,
            reported_invalid: BTreeSet::new(),
            answered: BTreeSet::new(),
        }
    }

    pub(crate) fn send_to_all(&mut self, config: &Config, out: &mut Vec<Output>) {
        self.answered.clear();
        config.voters.peers(config.me).for_each(|to| self.send(to, out));
    }

    pub(crate) fn send(&self, to: ServerId, out: &mut Vec<Output>) {
        out.push(Output::Send { to, message: Message::Propose(self.ballot.propose()) });
    }

    /// Receives a proposal of the current round. New information is broadcast; a sender that is behind gets an answer.
    pub(crate) fn receive_proposal(
        &mut self,
        from: ServerId,
        propose: Propose,
        config: &Config,
        host: &impl Host,
        out: &mut Vec<Output>,
    ) {
        self.campaign.forget_older_vote(from, propose.round);
        let changes = self.record_proposal(from, propose, host, out);
        if changes.adopted || !changes.demoted.is_empty() {
            self.send_to_all(config, out);
        } else if changes.behind && self.answered.insert(from) {
            self.send(from, out);
        }
    }

    /// Records a proposal of the current round without sending anything.
    pub(crate) fn record_proposal(
        &mut self,
        from: ServerId,
        mut propose: Propose,
        host: &impl Host,
        out: &mut Vec<Output>,
    ) -> BallotChanges {
        self.reject_invalid_score(from, &mut propose.own, host, out);
        self.reject_invalid_score(from, &mut propose.choice, host, out);
        let changes = self.ballot.record_proposal(from, propose);
        if changes.first {
            self.campaign.trace.push(Step::FirstProposal { from });
        }
        changes.demoted.iter().for_each(|id| self.campaign.trace.push(Step::Demoted { id: *id }));
        if changes.adopted {
            self.campaign.trace.push(Step::Adopted { from, choice: self.ballot.choice.id });
        }
        changes
    }

    /// Receives a vote. A vote of the current round for our choice, or for a better one, counts like a proposal: the
    /// peer has compared that choice with its own. Any other vote only clears the choice that the peer held in this
    /// round.
    pub(crate) fn receive_vote(
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
        self.reject_invalid_score(from, &mut choice, host, out);
        if self.ballot.record_vote(from, &choice) {
            self.campaign.trace.push(Step::Adopted { from, choice: choice.id });
            self.send_to_all(config, out);
        }
    }

    /// Demotes a server in this round, and broadcasts the demotion if it is new.
    pub(crate) fn demote(&mut self, id: ServerId, config: &Config, out: &mut Vec<Output>) {
        if !self.ballot.demoted.contains(&id) {
            self.ballot.demote(&BTreeSet::from([id]));
            self.campaign.trace.push(Step::Demoted { id });
            self.send_to_all(config, out);
        }
    }

    /// Returns the reason to end the election now, if there is one.
    pub(crate) fn decision(&self, config: &Config, links: &Links, host: &impl Host) -> Option<EndReason> {
        if !config.voters.is_quorum(self.ballot.holders()) {
            return None;
        }
        let me = config.me;
        if self.ballot.choice.id == me
            && self.followers(me).next().is_some()
            && config.voters.is_quorum(self.followers(me).chain([me]))
        {
            return Some(EndReason::Joined);
        }
        let mut reason = EndReason::AllResponded;
        for peer in self.silent(config) {
            // Each voter that has not responded needs a reason of its own; the record names the weakest one.
            let waited = (self.wait == Wait::Expired).then_some(EndReason::Waited);
            reason = reason.max(self.reason_not_to_wait(peer, links, host).or(waited)?);
        }
        Some(reason)
    }

    /// The other servers that have elected `me` in this round. They wait for it to lead; waiting longer for other voters
    /// would make them give it up.
    fn followers(&self, me: ServerId) -> impl Iterator<Item = ServerId> {
        let elected = move |vote: &Vote| vote.round == self.ballot.round && vote.choice.id == me;
        self.campaign.votes.iter().filter(move |(_, vote)| elected(vote)).map(|(id, _)| *id)
    }

    /// Starts the election timer, once per round, as soon as a quorum has proposed.
    pub(crate) fn arm_wait(&mut self, config: &Config, links: &Links, host: &impl Host, out: &mut Vec<Output>) {
        if self.wait != Wait::NotStarted || !config.voters.is_quorum(self.ballot.participants()) {
            return;
        }
        let round_trips = self.awaited(config, links, host).map(|peer| host.round_trip(peer));
        // A round trip that is not known must win over all known ones, hence the fold.
        let slowest = round_trips.reduce(|a, b| Some(a?.max(b?))).flatten();
        let wait = timing::wait(config, self.ballot.round, slowest);
        self.wait = Wait::Running(wait);
        self.campaign.trace.push(Step::QuorumProposed { wait });
        out.push(Output::Arm { timer: Timer::Wait, after: wait });
    }

    /// Handles the expired election timer. A voter that has answered with a vote of an older round is alive and still
    /// follows a leader that others have given up; its round trip does not tell when it will notice. It gets the rest
    /// of T, once, or the result would depend on which server started the election first.
    pub(crate) fn wait_expired(&mut self, config: &Config, links: &Links, host: &impl Host, out: &mut Vec<Output>) {
        let Wait::Running(waited) = self.wait else { return };
        let (holders, is_quorum) = (self.ballot.holders().count(), config.voters.is_quorum(self.ballot.holders()));
        if waited < config.timeout && self.awaited(config, links, host).any(|peer| self.votes_in_older_round(peer)) {
            let by = Span(config.timeout.0 - waited.0);
            self.wait = Wait::Running(config.timeout);
            self.campaign.trace.push(Step::WaitExtended { by });
            out.push(Output::Arm { timer: Timer::Wait, after: by });
        } else {
            self.wait = Wait::Expired;
            self.campaign.trace.push(Step::WaitExpired { holders });
        }
        if !is_quorum {
            self.send_to_all(config, out);
        }
    }

    pub(crate) fn retry(&mut self, config: &Config, out: &mut Vec<Output>) {
        self.attempts = (self.attempts + 1).min(timing::DOUBLINGS_MAX);
        self.campaign.trace.push(Step::Retried);
        self.send_to_all(config, out);
        self.arm_retry(config, out);
    }

    /// Whether proposals were sent again because no quorum took part in this round.
    pub(crate) fn lacks_quorum(&self) -> bool {
        self.attempts > 0 && self.wait == Wait::NotStarted
    }

    /// Whether a quorum takes part but has not agreed after several retries.
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

    /// Voters that have sent no message in this round.
    fn silent<'a>(&'a self, config: &'a Config) -> impl Iterator<Item = ServerId> + 'a {
        config.voters.peers(config.me).filter(|peer| !self.ballot.peers.contains_key(peer))
    }

    /// Silent voters that are worth waiting for.
    fn awaited<'a>(
        &'a self,
        config: &'a Config,
        links: &'a Links,
        host: &'a impl Host,
    ) -> impl Iterator<Item = ServerId> + 'a {
        self.silent(config).filter(|peer| self.reason_not_to_wait(*peer, links, host).is_none())
    }

    /// Returns why this silent voter need not be waited for, or None if it must be.
    fn reason_not_to_wait(&self, peer: ServerId, links: &Links, host: &impl Host) -> Option<EndReason> {
        if self.campaign.lost_leader == Some(peer) || links.is_closed(peer) {
            return Some(EndReason::Gone);
        }
        // Gossip is about scores. It says nothing when history decides, or when the choice is demoted while the peer
        // is not.
        let by_score = !is_fallback(self.ballot.round) && self.ballot.order().able(&self.ballot.choice);
        (by_score && host.ranks_below(peer, &self.ballot.choice)).then_some(EndReason::Gossip)
    }

    fn votes_in_older_round(&self, peer: ServerId) -> bool {
        self.campaign.votes.get(&peer).is_some_and(|vote| vote.round < self.ballot.round)
    }

    /// Ranks an invalid score as unknown. Its sender still counts.
    fn reject_invalid_score(
        &mut self,
        from: ServerId,
        proposal: &mut Proposal,
        host: &impl Host,
        out: &mut Vec<Output>,
    ) {
        let Err(reason) = validate(proposal, host) else { return };
        proposal.rank = Rank::Unknown;
        if self.reported_invalid.insert(proposal.id) {
            out.push(Output::Invalid { from, reason });
        }
    }
}

/// Checks that a score can be compared at all, and that the oracle could have produced it.
pub(crate) fn validate(proposal: &Proposal, host: &impl Host) -> Result<(), String> {
    let Rank::Known(score) = &proposal.rank else { return Ok(()) };
    let id = proposal.id;
    match score.components().len() {
        // An empty score would compare as the best of all.
        0 => Err(format!("score of server {id} is empty")),
        1..=Score::COMPONENTS_MAX => {
            host.validate(proposal).map_err(|reason| format!("score of server {id}: {reason}"))
        }
        count => Err(format!("score of server {id} has {count} components, at most {}", Score::COMPONENTS_MAX)),
    }
}
