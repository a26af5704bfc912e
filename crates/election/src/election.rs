//! The election of one server: POLE's Algorithm 1 as a value.
//!
//! In: calls for an election, messages, expired timers, links. Out: [`Output`]s, to be carried out in order.
//! Why: the leader should be the server that serves the clients best, as its application scores it.
//! Holds: with timely links all live servers elect the best; the result does not depend on who calls; a late server
//! adopts the incumbent; whatever is lost, doubled, late or out of order does no harm. At most one leader *works*,
//! since a leader needs a quorum of followers: that part is the service's.
//! Not here: failure detection, what a leader does, clocks, dice.
//! Source: PAPER.md, section 2; Becker, Junqueira, Serafini (2011), Algorithm 1.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::mem;

use crate::ballot::Ballot;
use crate::electing::{Campaign, Electing, Wait, validate};
use crate::incumbent::incumbent;
use crate::interface::Incumbent;
use crate::links::Links;
use crate::message::{INPUT_NAME_MAX, INPUTS_MAX, ROUND_MAX};
use crate::trail::{Because, Step};
use crate::{
    Assessment, Cause, Config, Elected, Epoch, Error, Host, Message, Output, Proposal, Propose, Rank, Record, Round,
    ServerId, Timer, Vote, Voters,
};

/// The election, from the point of view of one server.
///
/// - Commands of the service: [`start`](Self::start), [`established`](Self::established), [`adopt`](Self::adopt),
///   [`demote`](Self::demote).
/// - Events: [`receive`](Self::receive), [`expired`](Self::expired), [`score_ready`](Self::score_ready),
///   [`link_up`](Self::link_up), [`greet`](Self::greet), [`link_down`](Self::link_down).
/// - Questions: [`leader`](Self::leader), [`choice`](Self::choice), [`round`](Self::round),
///   [`is_electing`](Self::is_electing).
///
/// Nothing happens before the first `start`. After it, events may come in any order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Election {
    config: Config,
    /// The round that we are in, or in which our leader was chosen. Volatile: a restart begins at zero.
    round: Round,
    stage: Stage,
    /// A leader was established since the last `start`, or there was none yet: the next round starts with no failures.
    settled: bool,
    /// The wait for the first score is behind us.
    scored: bool,
    /// Servers that we found unable to lead, with the rounds that this is still to last.
    demotions: BTreeMap<ServerId, u32>,
    links: Links,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Never called.
    Idle,
    /// Called, but not yet scored.
    Scoring(Scoring),
    Electing(Box<Electing>),
    Chosen(Chosen),
}

/// The wait for the first score. We say nothing yet, but listen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Scoring {
    campaign: Campaign,
    /// The latest proposals of the highest round heard, which is `Election::round` by then.
    heard: BTreeMap<ServerId, Propose>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Chosen {
    choice: Proposal,
    established: Option<Epoch>,
}

impl Election {
    /// An election that waits for its first [`start`](Self::start).
    ///
    /// # Panics
    /// If this server is not among the voters: it could neither propose nor be believed.
    #[must_use]
    pub fn new(config: Config) -> Self {
        assert!(config.voters.contains(config.me), "server {} is not among the voters", config.me);
        Self {
            config,
            round: Round::default(),
            stage: Stage::Idle,
            settled: true,
            scored: false,
            demotions: BTreeMap::new(),
            links: Links::default(),
        }
    }

    /// new_election(): the service has no leader, or gives up the one it has.
    pub fn start(&mut self, cause: Cause, host: &mut impl Host, out: &mut Vec<Output>) {
        let given_up = if cause == Cause::LeaderLost { self.leader() } else { None };
        self.cancel_timers(out);
        self.round = next_round(self.round, self.settled);
        self.settled = false;
        let mut campaign = Campaign::new(cause, given_up);
        campaign.trail.push(Step::Started { round: self.round });
        match host.assess(self.round.epoch) {
            None if !self.scored && self.config.voters.len() > 1 => {
                campaign.trail.push(Step::AwaitedScore);
                self.stage = Stage::Scoring(Scoring { campaign, heard: BTreeMap::new() });
                out.push(Output::Arm { timer: Timer::Score, after: self.config.first_score_wait });
            }
            assessment => self.begin(campaign, assessment, BTreeMap::new(), host, out),
        }
        self.invariants();
    }

    /// A quorum talks and cannot agree, as when oracles reject each other's scores: the next round, which counts as one
    /// more failure, so that after a few of them scores decide nothing.
    fn escalate(&mut self, host: &mut impl Host, out: &mut Vec<Output>) {
        let Stage::Electing(electing) = mem::replace(&mut self.stage, Stage::Idle) else { return };
        electing.cancel_timers(out);
        self.round = next_round(self.round, false);
        let mut campaign = electing.campaign;
        campaign.trail.push(Step::Started { round: self.round });
        let assessment = host.assess(self.round.epoch);
        self.begin(campaign, assessment, BTreeMap::new(), host, out);
    }

    /// A message of a peer.
    ///
    /// # Errors
    /// If the sender is a stranger or a field is out of bounds; then nothing of the message was taken over.
    pub fn receive(
        &mut self,
        from: ServerId,
        message: Message,
        host: &mut impl Host,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        message.check(from, self.config.me, &self.config.voters)?;
        match message {
            Message::Propose(propose) => self.receive_propose(from, propose, host, out),
            Message::Vote(vote) => self.receive_vote(from, vote, host, out),
        }
        self.conclude(host, out);
        self.invariants();
        Ok(())
    }

    /// A timer has run out. One that was cancelled, or is of an earlier election, does no harm.
    pub fn expired(&mut self, timer: Timer, host: &mut impl Host, out: &mut Vec<Output>) {
        match (timer, &mut self.stage) {
            (Timer::Wait, Stage::Electing(electing)) => electing.wait_expired(&self.config, &self.links, host, out),
            (Timer::Retry, Stage::Electing(electing)) if electing.is_stalemate(&self.config) => {
                self.escalate(host, out)
            }
            (Timer::Retry, Stage::Electing(electing)) => electing.retry(&self.config, out),
            (Timer::Score, Stage::Scoring(_)) => self.end_scoring(true, host, out),
            (Timer::Wait | Timer::Retry, Stage::Idle | Stage::Scoring(_) | Stage::Chosen(_))
            | (Timer::Score, Stage::Idle | Stage::Electing(_) | Stage::Chosen(_)) => return,
        }
        self.conclude(host, out);
        self.invariants();
    }

    /// Measurements have arrived, perhaps enough for the first score.
    pub fn score_ready(&mut self, host: &mut impl Host, out: &mut Vec<Output>) {
        self.end_scoring(false, host, out);
        self.invariants();
    }

    /// The election link to the peer is up. Worth a [`greet`](Self::greet).
    pub fn link_up(&mut self, peer: ServerId) {
        if self.config.voters.contains(peer) {
            self.links.up(peer);
        }
    }

    /// Proposes to one peer, if we elect. For a link that has just opened: what was sent before is lost, and the retry
    /// may be far away.
    pub fn greet(&self, peer: ServerId, out: &mut Vec<Output>) {
        if let Stage::Electing(electing) = &self.stage
            && peer != self.config.me
            && self.config.voters.contains(peer)
        {
            electing.send(peer, out);
        }
    }

    /// The election link to the peer has closed, or could not be opened.
    pub fn link_down(&mut self, peer: ServerId, host: &mut impl Host, out: &mut Vec<Output>) {
        let closed = self.links.down(peer);
        if let (true, Stage::Electing(electing)) = (closed, &mut self.stage) {
            electing.campaign.trail.push(Step::LinkClosed { peer });
        }
        self.conclude(host, out);
        self.invariants();
    }

    /// The leader chosen is established in this epoch of the agreement: our votes say so from now on, and the rounds
    /// that failed before are forgotten.
    pub fn established(&mut self, epoch: Epoch) {
        if let Stage::Chosen(chosen) = &mut self.stage {
            chosen.established = Some(epoch);
            self.settled = true;
        }
    }

    /// Hand-over: this server leads from now on, without an election. One that is running is cancelled; its timers may
    /// still expire, which does no harm. A stranger, or an impossible round, is not adopted.
    pub fn adopt(&mut self, round: Round, choice: Proposal) {
        if self.config.voters.contains(choice.id) && round.epoch <= ROUND_MAX {
            self.round = round;
            self.stage = Stage::Chosen(Chosen { choice, established: None });
        }
    }

    /// The server was found unable to lead. Lasts for three rounds; while we elect, the running one is the first of
    /// them, and all are told at once.
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

    /// The leader, from its election until the next `start`.
    #[must_use]
    pub fn leader(&self) -> Option<ServerId> {
        match &self.stage {
            Stage::Chosen(chosen) => Some(chosen.choice.id),
            Stage::Idle | Stage::Scoring(_) | Stage::Electing(_) => None,
        }
    }

    /// The best proposal known in this round; the one elected, when there is a leader.
    #[must_use]
    pub fn choice(&self) -> Option<&Proposal> {
        match &self.stage {
            Stage::Idle | Stage::Scoring(_) => None,
            Stage::Electing(electing) => Some(&electing.ballot.choice),
            Stage::Chosen(chosen) => Some(&chosen.choice),
        }
    }

    /// The round that we are in, or in which our leader was chosen.
    #[must_use]
    pub fn round(&self) -> Round {
        self.round
    }

    /// The round after this one, if a leader was established in this one: that of a hand-over.
    #[must_use]
    pub fn next_round(&self) -> Round {
        next_round(self.round, true)
    }

    /// Whether an election was called and has not ended, be it only that we wait for a score.
    #[must_use]
    pub fn is_electing(&self) -> bool {
        match self.stage {
            Stage::Scoring(_) | Stage::Electing(_) => true,
            Stage::Idle | Stage::Chosen(_) => false,
        }
    }

    /// The servers that vote.
    #[must_use]
    pub fn voters(&self) -> &Voters {
        &self.config.voters
    }

    /// This server.
    #[must_use]
    pub fn me(&self) -> ServerId {
        self.config.me
    }

    fn receive_propose(&mut self, from: ServerId, propose: Propose, host: &mut impl Host, out: &mut Vec<Output>) {
        match &mut self.stage {
            Stage::Idle => {}
            Stage::Scoring(scoring) => {
                if propose.round > self.round {
                    self.round = propose.round;
                    scoring.heard.clear();
                }
                if propose.round == self.round {
                    scoring.heard.insert(from, propose);
                }
            }
            Stage::Electing(electing) => match propose.round.cmp(&self.round) {
                // Told, but not counted: a stale round says nothing about the sender's score in this one.
                Ordering::Less => electing.send(from, out),
                Ordering::Equal => electing.propose(from, propose, &self.config, host, out),
                Ordering::Greater => self.take_over(from, propose, host, out),
            },
            Stage::Chosen(Chosen { choice, established }) => {
                // Whatever its round: a stable leader is not given up because somebody else elects.
                let vote = Vote { round: self.round, choice: choice.clone(), established: *established };
                out.push(Output::Send { to: from, message: Message::Vote(vote) });
            }
        }
    }

    fn receive_vote(&mut self, from: ServerId, vote: Vote, host: &mut impl Host, out: &mut Vec<Output>) {
        let campaign = match &mut self.stage {
            Stage::Idle | Stage::Chosen(_) => return,
            Stage::Scoring(scoring) => &mut scoring.campaign,
            Stage::Electing(electing) => &mut electing.campaign,
        };
        campaign.remember(from, &vote);
        if let Some(incumbent) = incumbent(&self.config.voters, &campaign.votes) {
            self.join(incumbent, host, out);
        } else if let Stage::Electing(electing) = &mut self.stage {
            electing.vote(from, vote, &self.config, host, out);
        }
    }

    /// A newer round: ours is forgotten, with all that was heard in it.
    fn take_over(&mut self, from: ServerId, propose: Propose, host: &mut impl Host, out: &mut Vec<Output>) {
        let Stage::Electing(electing) = mem::replace(&mut self.stage, Stage::Idle) else { return };
        if matches!(electing.wait, Wait::Running(_)) {
            out.push(Output::Cancel(Timer::Wait));
        }
        let mut campaign = electing.campaign;
        campaign.votes.clear();
        campaign.trail.push(Step::TookOver { from, round: propose.round });
        self.round = propose.round;
        let assessment = host.assess(self.round.epoch);
        self.begin(campaign, assessment, BTreeMap::from([(from, propose)]), host, out);
    }

    /// The first score has come, or will not come in time: begin, in the highest round heard.
    fn end_scoring(&mut self, too_late: bool, host: &mut impl Host, out: &mut Vec<Output>) {
        if !matches!(self.stage, Stage::Scoring(_)) {
            return;
        }
        let assessment = host.assess(self.round.epoch);
        if assessment.is_none() && !too_late {
            return;
        }
        let Stage::Scoring(mut scoring) = mem::replace(&mut self.stage, Stage::Idle) else { return };
        if assessment.is_none() {
            scoring.campaign.trail.push(Step::Unscored);
        }
        if !too_late {
            out.push(Output::Cancel(Timer::Score));
        }
        self.begin(scoring.campaign, assessment, scoring.heard, host, out);
    }

    /// Begins a round: our own proposal, those heard already, then P to all.
    fn begin(
        &mut self,
        campaign: Campaign,
        assessment: Option<Assessment>,
        heard: BTreeMap<ServerId, Propose>,
        host: &mut impl Host,
        out: &mut Vec<Output>,
    ) {
        self.scored = true;
        let own = self.own_proposal(assessment, host, out);
        let ballot = Ballot::new(self.round, own, self.spend_demotions());
        let mut electing = Electing::new(campaign, ballot);
        for (from, propose) in heard {
            electing.count(from, propose, host, out);
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
        // Kept within the limits here, or every peer would refuse us.
        inputs.truncate(INPUTS_MAX);
        inputs.iter_mut().for_each(|input| shorten(&mut input.name));
        own = Proposal { rank, version, fingerprint, inputs, ..own };
        // Judged as peers will judge it: a score that only we believe in would keep us from ever agreeing with them.
        if let Err(reason) = validate(&own, host) {
            own.rank = Rank::Unknown;
            out.push(Output::Invalid { from: self.config.me, reason });
        }
        own
    }

    /// The demotions that this round begins with; each has one round less to last.
    fn spend_demotions(&mut self) -> BTreeSet<ServerId> {
        let active = self.demotions.keys().copied().collect();
        self.demotions.values_mut().for_each(|rounds| *rounds -= 1);
        self.demotions.retain(|_, rounds| *rounds > 0);
        active
    }

    /// Ends the election if it can end, else starts the election timer if a quorum has proposed.
    fn conclude(&mut self, host: &mut impl Host, out: &mut Vec<Output>) {
        let Stage::Electing(electing) = &mut self.stage else { return };
        match electing.decision(&self.config, &self.links, host) {
            Some(because) => self.elect(because, host, out),
            None => electing.arm_wait(&self.config, &self.links, host, out),
        }
    }

    /// Our choice is the leader.
    fn elect(&mut self, because: Because, host: &mut impl Host, out: &mut Vec<Output>) {
        let Stage::Electing(mut electing) = mem::replace(&mut self.stage, Stage::Idle) else { return };
        electing.cancel_timers(out);
        electing.campaign.trail.push(Step::Decided(because));
        let Electing { campaign, ballot, .. } = *electing;
        let holders: BTreeSet<ServerId> = ballot.holders().collect();
        let mut standings: BTreeMap<_, _> =
            ballot.owns().filter(|(id, _)| holders.contains(id)).map(|(id, own)| (id, own.standing)).collect();
        standings.insert(self.config.me, host.standing());
        let record = Record::of(&ballot, &self.config.voters, campaign.cause, because, &campaign.trail);
        out.push(Output::Elected(Elected { leader: ballot.choice.id, round: self.round, standings, record }));
        self.stage = Stage::Chosen(Chosen { choice: ballot.choice, established: None });
    }

    /// Another server leads already: follow it, in its round.
    fn join(&mut self, incumbent: Incumbent, host: &mut impl Host, out: &mut Vec<Output>) {
        self.cancel_timers(out);
        let (mut campaign, mut participants) = match mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Idle | Stage::Chosen(_) => return,
            Stage::Scoring(scoring) => (scoring.campaign, BTreeSet::from([self.config.me])),
            Stage::Electing(electing) => {
                let Electing { campaign, ballot, .. } = *electing;
                (campaign, ballot.participants().collect())
            }
        };
        participants.extend(campaign.votes.keys());
        campaign.trail.push(Step::Decided(Because::Incumbent));
        self.round = incumbent.round;
        let standings = BTreeMap::from([(self.config.me, host.standing())]);
        let (cause, voters) = (campaign.cause, &self.config.voters);
        let record = Record::of_incumbent(&incumbent, voters, participants, cause, &campaign.trail);
        let Incumbent { round, choice, established } = incumbent;
        out.push(Output::Elected(Elected { leader: choice.id, round, standings, record }));
        self.settled |= established.is_some();
        self.stage = Stage::Chosen(Chosen { choice, established });
    }

    fn cancel_timers(&self, out: &mut Vec<Output>) {
        match &self.stage {
            Stage::Idle | Stage::Chosen(_) => {}
            Stage::Scoring(_) => out.push(Output::Cancel(Timer::Score)),
            Stage::Electing(electing) => electing.cancel_timers(out),
        }
    }

    /// What holds after every step. An assertion that fails is a bug of ours, whatever a peer has sent.
    fn invariants(&self) {
        assert!(
            self.round.epoch >= 1 || matches!(self.stage, Stage::Idle | Stage::Chosen(_)),
            "a round without a start"
        );
        let Stage::Electing(electing) = &self.stage else { return };
        let ballot = &electing.ballot;
        assert_eq!(ballot.round, self.round, "the table is of another round than the server");
        assert!(!ballot.heard.contains_key(&self.config.me), "heard ourselves");
        if cfg!(debug_assertions) {
            let order = ballot.order();
            for (id, own) in ballot.owns() {
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

/// How long a server that could not lead is passed over. Long enough that another is tried, short enough that a passing
/// fault is forgiven.
pub const DEMOTION_ROUNDS: u32 = 3;
