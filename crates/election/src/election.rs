//! The election of one server: Algorithm 1 of the POLE paper as a state machine without I/O.
//!
//! Calls for an election, messages, expired timers and link changes come in. [`Output`]s come out and must be carried
//! out in order. The elected leader is the server that serves the clients best, as scored by its application.
//!
//! With timely links all live servers elect the best score, no matter which server starts the election. A late server
//! adopts the incumbent. Messages may be lost, duplicated, delayed or reordered. Several servers may consider
//! themselves elected, but at most one can work as a leader, because a leader needs a quorum of followers; the service
//! ensures that.
//!
//! Failure detection, the work of a leader, clocks and random numbers are elsewhere. The rules, and where they differ
//! from the printed algorithm (Becker, Junqueira, Serafini 2011), are in `docs/election.md`.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::mem;

use crate::asking::Asking;
use crate::ballot::Ballot;
use crate::electing::{Campaign, Electing, Wait, validate};
use crate::incumbent::{LoneVote, incumbent};
use crate::interface::Incumbent;
use crate::links::Links;
use crate::message::{INPUT_NAME_MAX, INPUTS_MAX, ROUND_MAX};
use crate::trace::{EndReason, Step};
use crate::{
    Assessment, Cause, Config, Elected, Error, Host, Message, Output, Proposal, Propose, Rank, Record, Round, Timer,
    Vote,
};
use pole_types::{Epoch, ServerId, Voters};

/// The election, from the point of view of one server.
///
/// - Commands of the service: [`start`](Self::start), [`established`](Self::established), [`adopt`](Self::adopt),
///   [`demote`](Self::demote), [`forget_demotions`](Self::forget_demotions).
/// - Events: [`receive`](Self::receive), [`expired`](Self::expired), [`score_ready`](Self::score_ready),
///   [`link_up`](Self::link_up), [`propose_to`](Self::propose_to), [`link_down`](Self::link_down).
/// - Queries: [`leader`](Self::leader), [`choice`](Self::choice), [`round`](Self::round),
///   [`is_electing`](Self::is_electing).
///
/// Nothing happens before the first `start`. After it, events may arrive in any order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Election {
    config: Config,
    /// The current round, or the one in which our leader was chosen. Volatile: a restarted server begins at zero.
    round: Round,
    stage: Stage,
    /// A leader was established since the last `start`, or `start` was never called: the next round begins with
    /// `failed` = 0.
    settled: bool,
    /// The wait for the first score is over, with or without a score.
    first_score_wait_done: bool,
    /// Servers that this server found unable to lead, with the number of rounds for which they stay demoted.
    demotions: BTreeMap<ServerId, u32>,
    /// Voters that proposed since this server has a leader: they look for one.
    seekers: BTreeSet<ServerId>,
    links: Links,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// `start` was never called.
    Idle,
    /// Started, but without a score yet.
    Scoring(Scoring),
    Electing(Box<Electing>),
    /// As an observer: started, and the leader is not known yet.
    Asking(Box<Asking>),
    Chosen(Chosen),
}

/// The wait for the first score. Nothing is sent yet, but messages are received.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Scoring {
    campaign: Campaign,
    /// The latest proposals of the highest round received, which is `Election::round` from then on.
    proposals: BTreeMap<ServerId, Propose>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Chosen {
    choice: Proposal,
    established: Option<Epoch>,
    /// Whether this server took part in the round that chose the leader. False for an incumbent and after a hand-over.
    elected: bool,
}

impl Election {
    /// Creates an election that does nothing until its first [`start`](Self::start).
    ///
    /// # Panics
    /// If this server is neither a voter nor an observer: peers would refuse its messages.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let is_member = config.changing || config.voters.contains(config.me) || config.observers.contains(&config.me);
        assert!(is_member, "server {} is neither among the voters nor among the observers", config.me);
        Self {
            config,
            round: Round::default(),
            stage: Stage::Idle,
            settled: true,
            first_score_wait_done: false,
            demotions: BTreeMap::new(),
            seekers: BTreeSet::new(),
            links: Links::default(),
        }
    }

    /// Starts an election (`new_election()` in the paper): the service has no leader, or gives up the one it has.
    pub fn start(&mut self, cause: Cause, host: &mut impl Host, out: &mut Vec<Output>) {
        self.start_in(next_round(self.round, self.settled), cause, host, out);
    }

    /// Starts an election in a round that another server began. The round must be higher than the current one; a lower
    /// one is replaced by the next.
    pub fn start_in(&mut self, round: Round, cause: Cause, host: &mut impl Host, out: &mut Vec<Output>) {
        let lost_leader = if cause == Cause::LeaderLost { self.leader() } else { None };
        self.cancel_timers(out);
        self.seekers.clear();
        let mut campaign = Campaign::new(cause, lost_leader);
        if !self.config.voters.contains(self.config.me) {
            // An observer begins no round: its own would be higher than that of the leader it looks for.
            self.stage = Stage::Asking(Box::new(Asking::new(campaign, &self.config, self.round, out)));
            return;
        }
        self.round = if round > self.round { round } else { next_round(self.round, self.settled) };
        self.settled = false;
        campaign.trace.push(Step::Started { round: self.round });
        match host.assess(self.round.epoch) {
            None if !self.first_score_wait_done && self.may_get_a_score() => {
                campaign.trace.push(Step::AwaitedScore);
                self.stage = Stage::Scoring(Scoring { campaign, proposals: BTreeMap::new() });
                out.push(Output::Arm { timer: Timer::Score, after: self.config.first_score_wait });
            }
            assessment => self.begin_round(campaign, assessment, BTreeMap::new(), host, out),
        }
        self.invariants();
    }

    /// Whether waiting for a score makes sense: there is a choice, and this server may be chosen.
    fn may_get_a_score(&self) -> bool {
        self.config.voters.len() > 1 && self.config.voters.may_lead(self.config.me)
    }

    /// Begins the next round because a quorum takes part and cannot agree, for example when oracles reject each
    /// other's scores. The round counts as one more failure; after a few failures history decides instead of scores.
    fn escalate(&mut self, host: &mut impl Host, out: &mut Vec<Output>) {
        let Stage::Electing(electing) = mem::replace(&mut self.stage, Stage::Idle) else { return };
        electing.cancel_timers(out);
        self.round = next_round(self.round, false);
        let mut campaign = electing.campaign;
        campaign.trace.push(Step::Started { round: self.round });
        let assessment = host.assess(self.round.epoch);
        self.begin_round(campaign, assessment, BTreeMap::new(), host, out);
    }

    /// Handles a message of a peer.
    ///
    /// # Errors
    /// If the sender is not a voter or a field is out of bounds. The state is then unchanged.
    pub fn receive(
        &mut self,
        from: ServerId,
        message: Message,
        host: &mut impl Host,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        match message.check(from, &self.config) {
            Ok(()) => {}
            Err(error) if self.config.changing && error.is_about_members() => {
                // A server that is not a member here may want to become one; it learns who leads.
                if from != self.config.me && !matches!(message, Message::Vote(_)) {
                    self.vote_to(from, out);
                }
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        match message {
            Message::Propose(propose) => self.receive_propose(from, propose, host, out),
            Message::Vote(vote) => self.receive_vote(from, vote, host, out),
            Message::Ask => self.vote_to(from, out),
        }
        self.conclude(host, out);
        self.invariants();
        Ok(())
    }

    /// Handles an expired timer. A timer that was cancelled, or that belongs to an earlier election, has no effect.
    pub fn expired(&mut self, timer: Timer, host: &mut impl Host, out: &mut Vec<Output>) {
        match (timer, &mut self.stage) {
            (Timer::Wait, Stage::Electing(electing)) => electing.wait_expired(&self.config, &self.links, host, out),
            (Timer::Retry, Stage::Electing(electing)) if electing.is_stalemate(&self.config) => {
                self.escalate(host, out)
            }
            (Timer::Retry, Stage::Electing(electing)) => electing.retry(&self.config, out),
            (Timer::Retry, Stage::Asking(asking)) => asking.retry(&self.config, self.round, out),
            (Timer::Score, Stage::Scoring(_)) => self.end_scoring(true, host, out),
            (Timer::Wait, Stage::Asking(_))
            | (Timer::Wait | Timer::Retry, Stage::Idle | Stage::Scoring(_) | Stage::Chosen(_))
            | (Timer::Score, Stage::Idle | Stage::Electing(_) | Stage::Asking(_) | Stage::Chosen(_)) => return,
        }
        self.conclude(host, out);
        self.invariants();
    }

    /// Reports that measurements have arrived, perhaps enough for the first score.
    pub fn score_ready(&mut self, host: &mut impl Host, out: &mut Vec<Output>) {
        self.end_scoring(false, host, out);
        self.invariants();
    }

    /// Reports that the election link to the peer is up. Usually followed by [`propose_to`](Self::propose_to).
    pub fn link_up(&mut self, peer: ServerId) {
        if self.config.changing || self.config.voters.contains(peer) || self.config.observers.contains(&peer) {
            self.links.up(peer);
        }
    }

    /// Sends our proposal, or our question as an observer, to one peer, if an election is running. Call this for a link
    /// that has just opened: earlier messages are lost, and the next retry may be far away.
    pub fn propose_to(&self, peer: ServerId, out: &mut Vec<Output>) {
        if peer == self.config.me || !self.config.voters.contains(peer) {
            return;
        }
        match &self.stage {
            Stage::Electing(electing) => electing.send(peer, out),
            Stage::Asking(_) => out.push(Output::Send { to: peer, message: Message::Ask }),
            Stage::Idle | Stage::Scoring(_) | Stage::Chosen(_) => {}
        }
    }

    /// Tells the servers that do not vote and whose link is up who leads; if this server leads, also the voters that have
    /// asked for a leader since it was chosen, whose next proposal may be seconds away. Call this when the leader is
    /// established.
    pub fn announce(&mut self, out: &mut Vec<Output>) {
        let leads = self.leader() == Some(self.config.me);
        let seekers = mem::take(&mut self.seekers);
        let is_told = |id: &ServerId| !self.config.voters.contains(*id) || leads && seekers.contains(id);
        self.links.all_up().filter(is_told).for_each(|id| self.vote_to(id, out));
    }

    /// Sets the members of the ensemble after a change of them. A running election begins again with the new ones.
    pub fn set_members(
        &mut self,
        voters: Voters,
        observers: BTreeSet<ServerId>,
        host: &mut impl Host,
        out: &mut Vec<Output>,
    ) {
        if (&voters, &observers) == (&self.config.voters, &self.config.observers) {
            return;
        }
        self.config.voters = voters;
        self.config.observers = observers;
        self.demotions.retain(|id, _| self.config.voters.contains(*id));
        let cause = match &self.stage {
            Stage::Idle | Stage::Chosen(_) => return,
            Stage::Scoring(scoring) => scoring.campaign.cause,
            Stage::Electing(electing) => electing.campaign.cause,
            Stage::Asking(asking) => asking.campaign.cause,
        };
        self.start(cause, host, out);
    }

    /// Reports that the election link to the peer has closed, or could not be opened.
    pub fn link_down(&mut self, peer: ServerId, host: &mut impl Host, out: &mut Vec<Output>) {
        let closed = self.links.down(peer);
        if let (true, Stage::Electing(electing)) = (closed, &mut self.stage) {
            electing.campaign.trace.push(Step::LinkClosed { peer });
        }
        self.conclude(host, out);
        self.invariants();
    }

    /// Reports that the chosen leader is established in this epoch of the agreement. Votes carry the epoch from now
    /// on, and the count of failed rounds is reset.
    pub fn established(&mut self, epoch: Epoch) {
        if let Stage::Chosen(chosen) = &mut self.stage {
            chosen.established = Some(epoch);
            self.settled = true;
        }
    }

    /// Makes this server follow `choice` without an election, for a hand-over. A running election is cancelled; its
    /// timers may still expire, without effect. A choice that is not a voter, or a round above `ROUND_MAX`, is
    /// ignored.
    pub fn adopt(&mut self, round: Round, choice: Proposal) {
        if self.config.voters.contains(choice.id) && round.epoch <= ROUND_MAX {
            self.round = round;
            self.stage = Stage::Chosen(Chosen { choice, established: None, elected: false });
        }
    }

    /// Reports that the server was found unable to lead. The demotion lasts for three rounds; during an election the
    /// current round is the first of them, and the demotion is broadcast at once.
    pub fn demote(&mut self, id: ServerId, host: &mut impl Host, out: &mut Vec<Output>) {
        if !self.config.voters.contains(id) {
            return;
        }
        self.demotions.insert(id, DEMOTION_ROUNDS);
        if let Stage::Electing(electing) = &mut self.stage {
            electing.demote(id, &self.config, out);
            self.demotions.insert(id, DEMOTION_ROUNDS - 1);
        }
        self.conclude(host, out);
        self.invariants();
    }

    /// Forgets which servers were found unable to lead. Call it when a leader has been established for a while: what was
    /// found before is no evidence any more. If all servers were demoted, scores alone would decide again.
    pub fn forget_demotions(&mut self) {
        self.demotions.clear();
    }

    /// Withdraws this server from the next round: it is demoted there, and in no later round. Call it before `start`.
    pub fn withdraw(&mut self) {
        self.demotions.entry(self.config.me).or_insert(1);
    }

    /// The leader, from the end of an election until the next `start`.
    #[must_use]
    pub fn leader(&self) -> Option<ServerId> {
        match &self.stage {
            Stage::Chosen(chosen) => Some(chosen.choice.id),
            Stage::Idle | Stage::Scoring(_) | Stage::Electing(_) | Stage::Asking(_) => None,
        }
    }

    /// The best proposal known in this round, or the one elected when there is a leader.
    #[must_use]
    pub fn choice(&self) -> Option<&Proposal> {
        match &self.stage {
            Stage::Idle | Stage::Scoring(_) | Stage::Asking(_) => None,
            Stage::Electing(electing) => Some(&electing.ballot.choice),
            Stage::Chosen(chosen) => Some(&chosen.choice),
        }
    }

    /// The current round, or the one in which the leader was chosen.
    #[must_use]
    pub fn round(&self) -> Round {
        self.round
    }

    /// The round that follows this one if a leader was established in it: the round of a hand-over.
    #[must_use]
    pub fn next_round(&self) -> Round {
        next_round(self.round, true)
    }

    /// Whether an election was started and has not ended, including the wait for the first score.
    #[must_use]
    pub fn is_electing(&self) -> bool {
        match self.stage {
            Stage::Scoring(_) | Stage::Electing(_) | Stage::Asking(_) => true,
            Stage::Idle | Stage::Chosen(_) => false,
        }
    }

    /// Whether the leader was elected in a round in which this server took part, and is not established yet. Servers
    /// that adopted an incumbent are not in the round that they would answer for.
    #[must_use]
    pub fn awaits_elected_leader(&self) -> bool {
        matches!(&self.stage, Stage::Chosen(Chosen { established: None, elected: true, .. }))
    }

    /// The servers that vote.
    #[must_use]
    pub fn voters(&self) -> &Voters {
        &self.config.voters
    }

    /// The id of this server.
    #[must_use]
    pub fn me(&self) -> ServerId {
        self.config.me
    }

    fn receive_propose(&mut self, from: ServerId, propose: Propose, host: &mut impl Host, out: &mut Vec<Output>) {
        match &mut self.stage {
            Stage::Idle | Stage::Asking(_) => {}
            Stage::Scoring(scoring) => {
                if propose.round > self.round {
                    self.round = propose.round;
                    scoring.proposals.clear();
                }
                scoring.campaign.forget_older_vote(from, propose.round);
                if propose.round == self.round {
                    scoring.proposals.insert(from, propose);
                }
            }
            Stage::Electing(electing) => match propose.round.cmp(&self.round) {
                // Answered, but not counted: a stale round says nothing about the sender's score in this one.
                Ordering::Less => electing.send(from, out),
                Ordering::Equal => electing.receive_proposal(from, propose, &self.config, host, out),
                Ordering::Greater => self.advance_to_round(from, propose, host, out),
            },
            // Answered for any round: a stable leader is not given up because another server holds an election.
            Stage::Chosen(_) => {
                self.seekers.insert(from);
                self.vote_to(from, out);
            }
        }
    }

    /// Sends our vote, if we have a leader.
    fn vote_to(&self, to: ServerId, out: &mut Vec<Output>) {
        if let Stage::Chosen(Chosen { choice, established, .. }) = &self.stage {
            let vote = Vote { round: self.round, choice: choice.clone(), established: *established };
            out.push(Output::Send { to, message: Message::Vote(vote) });
        }
    }

    fn receive_vote(&mut self, from: ServerId, vote: Vote, host: &mut impl Host, out: &mut Vec<Output>) {
        let (campaign, lacks_quorum) = match &mut self.stage {
            Stage::Idle | Stage::Chosen(_) => return,
            Stage::Scoring(scoring) => (&mut scoring.campaign, false),
            Stage::Electing(electing) => {
                let lacks_quorum = electing.lacks_quorum();
                (&mut electing.campaign, lacks_quorum)
            }
            Stage::Asking(asking) => {
                let lacks_quorum = asking.lacks_quorum();
                (&mut asking.campaign, lacks_quorum)
            }
        };
        campaign.remember(from, &vote);
        let lone = lacks_quorum.then(|| LoneVote { from, is_recent: host.is_recent(from) });
        if let Some(incumbent) = incumbent(&self.config.voters, &campaign.votes, self.config.me, self.round, lone) {
            self.follow_incumbent(incumbent, host, out);
        } else if let Stage::Electing(electing) = &mut self.stage {
            electing.receive_vote(from, vote, &self.config, host, out);
        }
    }

    /// Joins a newer round and forgets everything received in the current one.
    fn advance_to_round(&mut self, from: ServerId, propose: Propose, host: &mut impl Host, out: &mut Vec<Output>) {
        let Stage::Electing(electing) = mem::replace(&mut self.stage, Stage::Idle) else { return };
        if matches!(electing.wait, Wait::Running(_)) {
            out.push(Output::Cancel(Timer::Wait));
        }
        let mut campaign = electing.campaign;
        campaign.votes.clear();
        campaign.trace.push(Step::JoinedRound { from, round: propose.round });
        self.round = propose.round;
        let assessment = host.assess(self.round.epoch);
        self.begin_round(campaign, assessment, BTreeMap::from([(from, propose)]), host, out);
    }

    /// Begins the highest round received, once the first score has arrived or its timer has expired.
    fn end_scoring(&mut self, timed_out: bool, host: &mut impl Host, out: &mut Vec<Output>) {
        if !matches!(self.stage, Stage::Scoring(_)) {
            return;
        }
        let assessment = host.assess(self.round.epoch);
        if assessment.is_none() && !timed_out {
            return;
        }
        let Stage::Scoring(mut scoring) = mem::replace(&mut self.stage, Stage::Idle) else { return };
        if assessment.is_none() {
            scoring.campaign.trace.push(Step::Unscored);
        }
        if !timed_out {
            out.push(Output::Cancel(Timer::Score));
        }
        self.begin_round(scoring.campaign, assessment, scoring.proposals, host, out);
    }

    /// Begins a round: creates our own proposal, counts the proposals already received, then broadcasts ours.
    fn begin_round(
        &mut self,
        campaign: Campaign,
        assessment: Option<Assessment>,
        proposals: BTreeMap<ServerId, Propose>,
        host: &mut impl Host,
        out: &mut Vec<Output>,
    ) {
        self.first_score_wait_done = true;
        let own = self.own_proposal(assessment, host, out);
        let ballot = Ballot::new(self.round, own, self.next_round_demotions());
        let mut electing = Electing::new(campaign, ballot);
        for (from, propose) in proposals {
            electing.record_proposal(from, propose, host, out);
        }
        electing.send_to_all(&self.config, out);
        electing.arm_retry(&self.config, out);
        self.stage = Stage::Electing(Box::new(electing));
        self.conclude(host, out);
    }

    fn own_proposal(&self, assessment: Option<Assessment>, host: &mut impl Host, out: &mut Vec<Output>) -> Proposal {
        let mut own = Proposal {
            id: self.config.me,
            rank: Rank::Unknown,
            version: crate::Zxid::ZERO,
            fingerprint: 0,
            standing: host.standing(),
            inputs: Vec::new(),
        };
        let Some(Assessment { rank, version, fingerprint, mut inputs }) = assessment else { return own };
        // Kept within the limits here, or every peer would refuse the message.
        inputs.truncate(INPUTS_MAX);
        inputs.iter_mut().for_each(|input| shorten(&mut input.name));
        own = Proposal { rank, version, fingerprint, inputs, ..own };
        // Validated as peers will validate it: a score that only this server accepts would prevent agreement.
        if let Err(reason) = validate(&own, host) {
            own.rank = Rank::Unknown;
            out.push(Output::Invalid { from: self.config.me, reason });
        }
        own
    }

    /// Returns the demotions for the round that begins, and takes one round off each. Voters without weight are always
    /// demoted.
    fn next_round_demotions(&mut self) -> BTreeSet<ServerId> {
        let voters = &self.config.voters;
        let active = self.demotions.keys().copied().chain(voters.iter().filter(|id| !voters.may_lead(*id))).collect();
        self.demotions.values_mut().for_each(|rounds| *rounds -= 1);
        self.demotions.retain(|_, rounds| *rounds > 0);
        active
    }

    /// Ends the election if it can end; otherwise starts the election timer if a quorum has proposed.
    fn conclude(&mut self, host: &mut impl Host, out: &mut Vec<Output>) {
        let Stage::Electing(electing) = &mut self.stage else { return };
        match electing.decision(&self.config, &self.links, host) {
            Some(reason) => self.elect(reason, host, out),
            None => electing.arm_wait(&self.config, &self.links, host, out),
        }
    }

    /// Ends the election with our choice as the leader.
    fn elect(&mut self, reason: EndReason, host: &mut impl Host, out: &mut Vec<Output>) {
        let Stage::Electing(mut electing) = mem::replace(&mut self.stage, Stage::Idle) else { return };
        electing.cancel_timers(out);
        electing.campaign.trace.push(Step::Decided(reason));
        let Electing { campaign, ballot, .. } = *electing;
        let holders: BTreeSet<ServerId> = ballot.holders().collect();
        let mut standings: BTreeMap<_, _> =
            ballot.own_proposals().filter(|(id, _)| holders.contains(id)).map(|(id, own)| (id, own.standing)).collect();
        standings.insert(self.config.me, host.standing());
        let record = Record::of(&ballot, &self.config.voters, campaign.cause, reason, &campaign.trace);
        // The leader may be waiting for a voter that this server did not wait for.
        if ballot.choice.id != self.config.me && reason != EndReason::AllResponded {
            let vote = Vote { round: self.round, choice: ballot.choice.clone(), established: None };
            out.push(Output::Send { to: ballot.choice.id, message: Message::Vote(vote) });
        }
        out.push(Output::Elected(Elected { leader: ballot.choice.id, round: self.round, standings, record }));
        self.stage = Stage::Chosen(Chosen { choice: ballot.choice, established: None, elected: true });
    }

    /// Ends the election by following a leader that leads already, in its round.
    fn follow_incumbent(&mut self, incumbent: Incumbent, host: &mut impl Host, out: &mut Vec<Output>) {
        self.cancel_timers(out);
        let (mut campaign, mut participants) = match mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Idle | Stage::Chosen(_) => return,
            Stage::Scoring(scoring) => (scoring.campaign, BTreeSet::from([self.config.me])),
            Stage::Asking(asking) => (asking.campaign, BTreeSet::new()),
            Stage::Electing(electing) => {
                let Electing { campaign, ballot, .. } = *electing;
                (campaign, ballot.participants().collect())
            }
        };
        participants.extend(campaign.votes.keys());
        campaign.trace.push(Step::Decided(incumbent.reason));
        self.round = incumbent.round;
        let standings = BTreeMap::from([(self.config.me, host.standing())]);
        let (cause, voters) = (campaign.cause, &self.config.voters);
        let record = Record::of_incumbent(&incumbent, voters, participants, cause, &campaign.trace);
        let Incumbent { round, choice, established, .. } = incumbent;
        out.push(Output::Elected(Elected { leader: choice.id, round, standings, record }));
        self.settled |= established.is_some();
        self.stage = Stage::Chosen(Chosen { choice, established, elected: false });
    }

    fn cancel_timers(&self, out: &mut Vec<Output>) {
        match &self.stage {
            Stage::Idle | Stage::Chosen(_) => {}
            Stage::Scoring(_) => out.push(Output::Cancel(Timer::Score)),
            Stage::Asking(_) => out.push(Output::Cancel(Timer::Retry)),
            Stage::Electing(electing) => electing.cancel_timers(out),
        }
    }

    /// Checks what holds after every step. A failed assertion is a bug in this crate, no matter what a peer has sent.
    fn invariants(&self) {
        assert!(
            self.round.epoch >= 1 || matches!(self.stage, Stage::Idle | Stage::Asking(_) | Stage::Chosen(_)),
            "a round without a start"
        );
        let Stage::Electing(electing) = &self.stage else { return };
        let ballot = &electing.ballot;
        assert_eq!(ballot.round, self.round, "the ballot is of another round than the server");
        assert!(!ballot.peers.contains_key(&self.config.me), "a peer entry for this server");
        if cfg!(debug_assertions) {
            let order = ballot.order();
            for (id, own) in ballot.own_proposals() {
                assert!(
                    order.compare(own, &ballot.choice).is_le(),
                    "{id} is better than our choice {:?}",
                    ballot.choice
                );
            }
        }
    }
}

/// The round after this one. At the ceiling, which only a damaged message can bring near, `failed` grows instead, so
/// that rounds still advance and peers still accept them.
fn next_round(Round { epoch, failed }: Round, settled: bool) -> Round {
    if epoch >= ROUND_MAX {
        return Round { epoch: ROUND_MAX, failed: failed.saturating_add(1) };
    }
    Round { epoch: epoch + 1, failed: if settled { 0 } else { failed.saturating_add(1) } }
}

fn shorten(name: &mut String) {
    while name.len() > INPUT_NAME_MAX {
        name.pop();
    }
}

/// The number of rounds for which a demotion lasts: long enough that another server is tried, short enough that a
/// transient fault is forgiven.
pub const DEMOTION_ROUNDS: u32 = 3;
