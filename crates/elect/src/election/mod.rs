//! The algorithm of one candidate, as a value: an [`Event`] and the time go in, [`Effect`]s come out.
//!
//! Reading order: `event` (inputs and outputs), `lease` (the own leased record), `campaign` (from a vacancy to a
//! take-over), `leading` (the duties of a leader, and how a term ends), `knowledge` and `upkeep` (what all do).
//!
//! ```text
//! Following ──vacant──> Waiting ──> (Looking ──> Waiting) ──> Taking ──swapped──> Leading
//!     ^                                                                              │
//!     └──────────────── released, and resigned in the record or lease gone ── Yielding <┘
//! ```
//!
//! Invariants:
//!
//! - A term begins only when the leader record names our lease, and that lease is certain to be alive
//!   ([`Effect::Lead`] carries a deadline that lies before its end).
//! - A token is led once. After [`Effect::Yield`] the record is marked as resigned, or the lease is given up.
//! - The record is marked as resigned only after [`Event::Released`].
//!
//! The driver carries out the effects in order; it knows the store, this module does not. Neither knows how scores are
//! computed.

mod campaign;
mod event;
mod knowledge;
mod leading;
mod lease;
mod settings;
mod slots;
mod upkeep;
mod watches;

use std::collections::BTreeSet;

use pole_oracle::fingerprint;
use pole_types::{Span, Time};

pub use event::{Answer, Effect, Event, Op, OpId, YieldReason};
pub use settings::{InvalidSettings, Settings, Strategy};

use crate::challenge::Challenge;
use crate::record::{Candidate, FORMAT, Leader, Succession};
use crate::store::{Entry, Error, LeaseId, Revision, Target};
use crate::timing::Timing;
use crate::token::Token;
use campaign::Wait;
use event::Slot;
use leading::{Term, Yielding};
use lease::{Kind, OwnLease};
use slots::Slots;
use watches::Watches;

/// One candidate.
#[derive(Clone, Debug)]
pub struct Election {
    settings: Settings,
    /// What we publish about ourselves, and a number that changes with it.
    own: Candidate,
    content: u64,
    /// The last content that the others must know soon: whether we stand, and whether there is a score.
    urgent: u64,
    score_until: Option<Time>,
    priority_until: Option<Time>,
    lease: OwnLease,
    /// The record that a renewal under way carries.
    renewing_content: Option<u64>,
    leader: Known<Leader>,
    succession: Known<Succession>,
    /// The last lease of a leader that was seen to be gone. It stays gone.
    holder_gone: Option<LeaseId>,
    /// The highest token ever seen.
    highest: Token,
    /// The highest token that we led under.
    led: Token,
    role: Role,
    /// The leader record of the swap under way.
    taking: Option<Leader>,
    /// The list of the swap under way.
    succession_sent: Option<Succession>,
    slots: Slots,
    watches: Watches,
    challenge: Challenge,
    /// When the leader record must be read because its state is uncertain.
    read_leader_at: Option<Time>,
    /// How often we learnt of a state of the leader record, now and when the read under way was sent.
    learnt: u64,
    learnt_at_read: u64,
    /// The lease that is being read.
    checked: Option<LeaseId>,
    /// When to look at the leader's lease, whatever the watches say.
    check_at: Time,
    leader_failures: u32,
    leaving: bool,
    wake: Option<Time>,
    effects: Vec<Effect>,
}

/// What we know of a plain record.
#[derive(Clone, Debug)]
enum Known<T> {
    /// Nothing, or a record that cannot be understood. No decision may depend on it.
    Unknown,
    /// There was none.
    Absent,
    /// This one.
    Present(T, Revision),
}

impl<T> Known<T> {
    fn record(&self) -> Option<&T> {
        match self {
            Self::Present(record, _) => Some(record),
            Self::Unknown | Self::Absent => None,
        }
    }

    fn revision(&self) -> Option<Revision> {
        match self {
            Self::Present(_, revision) => Some(*revision),
            Self::Unknown | Self::Absent => None,
        }
    }

    fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }
}

/// What the candidate is doing.
#[derive(Clone, Debug)]
enum Role {
    /// There is a leader, or we do not know yet.
    Following,
    /// Vacant, and it is not our turn yet.
    Waiting(Wait),
    /// Vacant, and we read the candidates.
    Looking,
    /// Our take-over is under way, or its result is unknown.
    Taking,
    /// We lead.
    Leading(Box<Term>),
    /// We led, and the application stops.
    Yielding(Box<Yielding>),
    /// We left the election.
    Left,
}

impl Election {
    /// A candidate that knows nothing yet and does not stand for election before [`Event::Eligible`].
    ///
    /// # Errors
    /// If the settings cannot work.
    pub fn new(settings: Settings) -> Result<Self, InvalidSettings> {
        settings.check()?;
        let own = Candidate {
            format: FORMAT,
            id: settings.id.clone(),
            score: None,
            oracle: settings.oracle.clone(),
            computed_ms: settings.wall_ms,
            score_ttl_ms: None,
            priority: 0,
            never: true,
        };
        Ok(Self {
            own,
            content: 1,
            urgent: 1,
            score_until: None,
            priority_until: None,
            lease: OwnLease::new(settings.incarnation),
            renewing_content: None,
            leader: Known::Unknown,
            succession: Known::Unknown,
            holder_gone: None,
            highest: Token::ZERO,
            led: Token::ZERO,
            role: Role::Following,
            taking: None,
            succession_sent: None,
            slots: Slots::default(),
            watches: Watches::default(),
            challenge: Challenge::new(settings.resign),
            read_leader_at: None,
            learnt: 0,
            learnt_at_read: 0,
            checked: None,
            check_at: Time(0),
            leader_failures: 0,
            leaving: false,
            wake: None,
            effects: Vec::new(),
            settings,
        })
    }

    /// Handles one event. The effects must be carried out in order, before the next event.
    pub fn step(&mut self, now: Time, event: Event) -> Vec<Effect> {
        match event {
            Event::Timer => {}
            Event::Answer(id, answer) => self.answered(now, id, answer),
            Event::Watched(target, entry) => self.watched(now, target, entry),
            Event::WatchFailed(target) => self.watches.fail(now, target, self.settings.timing.retry),
            Event::Score { value, ttl, computed_ms } => {
                self.score_until = ttl.map(|ttl| now + ttl);
                let score_ttl_ms = ttl.map(|ttl| ttl.as_us() / 1000);
                self.update_own(|own| {
                    (own.score, own.computed_ms, own.score_ttl_ms) = (value, computed_ms, score_ttl_ms)
                });
            }
            Event::Priority { value, ttl } => {
                self.priority_until = ttl.map(|ttl| now + ttl);
                self.update_own(|own| own.priority = value);
            }
            Event::Eligible(stand) => {
                let never = self.settings.never || !stand;
                self.update_own(|own| own.never = never);
            }
            Event::Resign { to } => self.resign(now, to),
            Event::Released(token) => self.released(now, token),
            Event::Leave => self.leaving = true,
        }
        self.plan(now);
        std::mem::take(&mut self.effects)
    }

    /// When the driver must send [`Event::Timer`], if nothing else happens before.
    #[must_use]
    pub fn wake_at(&self) -> Option<Time> {
        self.wake
    }

    /// The token and the deadline of our term, while we lead.
    #[must_use]
    pub fn term(&self) -> Option<(Token, Time)> {
        match &self.role {
            Role::Leading(term) => self.lease.held.as_ref().map(|held| (term.record.token, held.deadline())),
            Role::Following | Role::Waiting(_) | Role::Looking | Role::Taking | Role::Yielding(_) | Role::Left => None,
        }
    }

    /// The leader record as last seen.
    #[must_use]
    pub fn leader(&self) -> Option<&Leader> {
        self.leader.record()
    }

    /// The spans of the election.
    #[must_use]
    pub fn timing(&self) -> &Timing {
        &self.settings.timing
    }

    /// The highest token ever seen, to be remembered over a restart.
    #[must_use]
    pub fn highest(&self) -> Token {
        self.highest
    }

    /// Remembers a token of an earlier start, so that tokens increase even if the store has lost it.
    pub fn remember(&mut self, token: Token) {
        self.highest = self.highest.max(token);
    }

    fn update_own(&mut self, change: impl FnOnce(&mut Candidate)) {
        let before = (self.own.score, self.own.priority, self.own.never);
        change(&mut self.own);
        if (self.own.score, self.own.priority, self.own.never) != before {
            self.content += 1;
            if (self.own.score.is_some(), self.own.never) != (before.0.is_some(), before.2) {
                self.urgent = self.content;
            }
        }
    }

    /// Does whatever is due. Runs after every event, so that handlers only record what happened.
    fn plan(&mut self, now: Time) {
        if matches!(self.role, Role::Left) {
            self.wake = None;
            return;
        }
        self.expire_own(now);
        self.plan_term(now);
        self.plan_leaving(now);
        self.plan_campaign(now);
        self.plan_lease(now);
        self.plan_reads(now);
        let wanted = self.wanted_watches();
        self.watches.update(now, &wanted, &mut self.effects);
        self.wake = self.next_wake(now);
    }

    fn expire_own(&mut self, now: Time) {
        if self.score_until.is_some_and(|until| now >= until) {
            self.score_until = None;
            self.update_own(|own| own.score = None);
        }
        if self.priority_until.is_some_and(|until| now >= until) {
            self.priority_until = None;
            self.update_own(|own| own.priority = 0);
        }
    }

    fn plan_leaving(&mut self, now: Time) {
        if !self.leaving {
            return;
        }
        match &self.role {
            Role::Leading(_) => self.resign(now, None),
            Role::Yielding(_) | Role::Left => {}
            Role::Following | Role::Waiting(_) | Role::Looking | Role::Taking => {
                if let Some((lease, _)) = self.lease.publishing.take() {
                    self.withdraw(now, lease);
                }
                self.give_up_lease(now);
                self.watches.update(now, &BTreeSet::new(), &mut self.effects);
                self.role = Role::Left;
                self.effects.push(Effect::Left);
            }
        }
    }

    fn is_first_come(&self) -> bool {
        self.settings.strategy == Strategy::FirstCome
    }

    fn answered(&mut self, now: Time, id: OpId, answer: Answer) {
        let Some(sent) = self.slots.end(id) else { return };
        match (id.slot, answer) {
            (Slot::Lease, Answer::Publish(result)) => self.published(now, sent, result),
            (Slot::Lease, Answer::Renew(result)) => self.renewed(now, sent, result),
            (Slot::Leader, Answer::Read(result)) => self.leader_read(now, result),
            (Slot::Leader, Answer::Swap(result)) => self.leader_swapped(now, result),
            (Slot::Succession, Answer::Read(Ok(entry))) => self.learn_succession(now, entry),
            (Slot::Succession, Answer::Swap(result)) => self.succession_swapped(now, result),
            (Slot::List, Answer::List(result)) => self.listed(now, result),
            (Slot::Holder, Answer::Read(Ok(None))) => self.lease_gone(self.checked),
            (Slot::Holder | Slot::Succession, Answer::Read(_)) => {}
            (slot, answer) => unreachable!("{slot:?} got {answer:?}: the driver answers with the operation's kind"),
        }
    }

    fn watched(&mut self, now: Time, target: Target, entry: Option<Entry>) {
        match target {
            Target::Leader => self.learn_leader(now, entry, false),
            Target::Succession => self.learn_succession(now, entry),
            Target::Lease(lease) => {
                if entry.is_none() {
                    self.lease_gone(Some(lease));
                }
            }
        }
    }

    fn send(&mut self, now: Time, slot: Slot, op: Op) {
        let id = self.slots.begin(slot, now);
        self.effects.push(Effect::Store(id, op));
    }

    fn withdraw(&mut self, now: Time, lease: LeaseId) {
        self.send(now, Slot::Withdraw, Op::Withdraw(lease));
    }

    fn trouble(&mut self, error: Error) {
        self.effects.push(Effect::Trouble(error));
    }

    /// A span below `most` that differs between candidates and between terms.
    fn jitter(&self, most: Span) -> Span {
        let hash = fingerprint(&format!("{}{}", self.own.id, self.highest));
        Span(((u128::from(hash) * u128::from(most.0)) >> 64) as u64)
    }
}

#[cfg(test)]
mod tests;
