//! The algorithm of one candidate, as a value: an [`Event`] and the time go in, [`Effect`]s come out.
//!
//! Reading order: `event` (inputs and outputs), `lease` (the own leased record), `campaign` (from a vacancy to a
//! take-over), `leading` (the duties of a leader, and how a term ends).
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
mod leading;
mod lease;
mod slots;
mod watches;

use std::collections::BTreeSet;

use pole_election::Span;
use pole_oracle::{ResignConfig, Time, fingerprint};

pub use event::{Answer, Effect, Event, Op, OpId, YieldReason};

use crate::challenge::Challenge;
use crate::record::{Candidate, Cause, FORMAT, ID_MAX, Leader, Record, Succession};
use crate::score::{ORACLE_MAX, OracleTag};
use crate::store::{Entry, Error, Granted, LeaseId, Renewed, Revision, Target};
use crate::timing::{InvalidTiming, Timing};
use crate::token::Token;
use campaign::Wait;
use event::Slot;
use leading::{Term, Yielding};
use lease::{Kind, OwnLease, backoff};
use slots::Slots;
use watches::Watches;

/// The configuration of a candidate.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The candidate's id, unique in the election, at most [`ID_MAX`] bytes.
    pub id: String,
    /// What computes the scores.
    pub oracle: OracleTag,
    /// The spans.
    pub timing: Timing,
    /// Who wins.
    pub strategy: Strategy,
    /// When a leader hands over to a better candidate.
    pub resign: ResignConfig,
    /// Takes part, but never leads.
    pub never: bool,
    /// [`Promises::early`](crate::promises::Promises::early) of the store.
    pub early: Span,
    /// A random number for each start of the candidate, which makes its lease ids unique.
    pub incarnation: u64,
    /// The wall clock at time zero, in milliseconds, for display only.
    pub wall_ms: u64,
}

impl Settings {
    /// The settings of a candidate with that id; everything else by default.
    #[must_use]
    pub fn new(id: impl Into<String>, incarnation: u64) -> Self {
        Self {
            id: id.into(),
            oracle: OracleTag { name: "custom".to_owned(), version: 0 },
            timing: Timing::default(),
            strategy: Strategy::BestScore,
            resign: ResignConfig::default(),
            never: false,
            early: Span::ZERO,
            incarnation,
            wall_ms: 0,
        }
    }

    /// Checks the values that a user may set.
    ///
    /// # Errors
    /// The first wrong one.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        self.timing.check()?;
        match () {
            () if self.id.is_empty() || self.id.len() > ID_MAX => Err(InvalidSettings::Id { got: self.id.len() }),
            () if self.oracle.name.len() > ORACLE_MAX => Err(InvalidSettings::Oracle { got: self.oracle.name.len() }),
            () if self.timing.usable(self.timing.ttl, self.early).0 < self.timing.ttl.0 / 2 => {
                Err(InvalidSettings::Early { ttl: self.timing.ttl, early: self.early })
            }
            () => Ok(()),
        }
    }
}

/// Why a candidate cannot take part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum InvalidSettings {
    #[error(transparent)]
    Timing(#[from] InvalidTiming),
    #[error("the id of a candidate has 1 to {ID_MAX} bytes, got {got}")]
    Id { got: usize },
    #[error("the name of an oracle has at most {ORACLE_MAX} bytes, got {got}")]
    Oracle { got: usize },
    #[error("{store} grants a time-to-live of at least {least}, got {ttl}")]
    Ttl { store: &'static str, ttl: Span, least: Span },
    #[error("a time-to-live of {ttl} is too short for a store that may end a lease {early} early")]
    Early { ttl: Span, early: Span },
}

/// Who wins an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// The best score, with a succession list.
    BestScore,
    /// The first candidate that notices the vacancy, as in most libraries. Scores do not matter.
    FirstCome,
}

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
    /// A candidate that knows nothing yet and does not stand for election before [`Event::Stand`].
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
            Event::Stand(stand) => {
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

    /// Publishes, replaces or renews the own lease.
    fn plan_lease(&mut self, now: Time) {
        let ready = !self.leader.is_unknown() && (!self.succession.is_unknown() || self.is_first_come());
        if matches!(self.role, Role::Left) || self.slots.is_busy(Slot::Lease) || !ready || self.has_overstayed(now) {
            return;
        }
        let kind = self.wanted_kind();
        if self.lease.should_publish(now, kind) && !self.has_term() {
            let lease = self.lease.next_id();
            self.lease.publishing = Some((lease, kind));
            self.renewing_content = Some(self.content);
            let ttl = match kind {
                Kind::Active => self.settings.timing.ttl,
                Kind::Idle => self.settings.timing.idle_ttl,
            };
            return self.send(now, Slot::Lease, Op::Publish { lease, record: self.own.encode(), ttl });
        }
        let Some(held) = &self.lease.held else { return };
        let changed = held.content != self.content;
        let eager = self.eager_at().is_some_and(|at| now >= at);
        if held.renewal_due(now) || eager {
            let lease = held.id;
            self.renewing_content = changed.then_some(self.content);
            let record = changed.then(|| self.own.encode());
            self.send(now, Slot::Lease, Op::Renew { lease, record });
        }
    }

    /// When a change of our record is published before the next renewal is due. Those who are not near wait, so that ten
    /// thousand changing scores are not ten thousand writes.
    fn eager_at(&self) -> Option<Time> {
        let held = self.lease.held.as_ref().filter(|held| held.content != self.content)?;
        let eager = held.kind == Kind::Active || held.content < self.urgent || self.is_vacant();
        eager.then(|| held.sent + self.settings.timing.stagger)
    }

    /// Whether the application does not stop, so that the lease is no longer renewed.
    fn has_overstayed(&self, now: Time) -> bool {
        matches!(&self.role, Role::Yielding(yielding) if !yielding.released && now >= yielding.until)
    }

    /// Whether our lease stands in the leader record, so that it must not be replaced.
    fn has_term(&self) -> bool {
        let written = matches!(&self.role, Role::Yielding(yielding) if yielding.write.is_some());
        written || matches!(self.role, Role::Leading(_) | Role::Taking)
    }

    /// Short leases are for those who lead, may lead soon, or are few.
    fn wanted_kind(&self) -> Kind {
        let soon = match &self.role {
            Role::Leading(_) | Role::Taking => true,
            Role::Yielding(yielding) => yielding.write.is_some(),
            Role::Waiting(wait) => wait.is_for_take(),
            Role::Following | Role::Looking | Role::Left => false,
        };
        let active = !self.own.never && (soon || self.is_first_come() || self.is_near());
        if active { Kind::Active } else { Kind::Idle }
    }

    /// Whether we are on the succession list, or should be.
    fn is_near(&self) -> bool {
        let belongs = |succession: &Succession| {
            let length = self.settings.timing.list_length;
            let listed = succession.list.iter().any(|one| one.id == self.own.id);
            listed || crate::rank::belongs(&succession.list, &self.own, length)
        };
        self.succession.record().is_some_and(belongs)
    }

    fn is_first_come(&self) -> bool {
        self.settings.strategy == Strategy::FirstCome
    }

    /// Reads what is uncertain or was not heard of for long.
    fn plan_reads(&mut self, now: Time) {
        if self.read_leader_at.is_some_and(|at| now >= at) && !self.slots.is_busy(Slot::Leader) {
            self.read_leader_at = None;
            self.learnt_at_read = self.learnt;
            self.send(now, Slot::Leader, Op::Read(Target::Leader));
        }
        let Some(holder) = self.other_holder() else { return };
        if now >= self.check_at && !self.slots.is_busy(Slot::Holder) {
            self.check_at = now + self.check_interval();
            self.checked = Some(holder);
            self.send(now, Slot::Holder, Op::Read(Target::Lease(holder)));
            if !self.watches.is_active(Target::Succession)
                && !self.slots.is_busy(Slot::Succession)
                && !self.is_first_come()
            {
                self.send(now, Slot::Succession, Op::Read(Target::Succession));
            }
        }
    }

    /// Those near the leader look often, all others seldom, each at another time.
    fn check_interval(&self) -> Span {
        let timing = &self.settings.timing;
        let base = if self.is_near() || self.is_first_come() { timing.ttl } else { timing.idle_ttl };
        base.saturating_add(self.jitter(Span(base.0 / 8)))
    }

    /// The lease of a leader other than us that has not resigned and is not known to be gone.
    fn other_holder(&self) -> Option<LeaseId> {
        let leader = self.leader.record().filter(|leader| !leader.resigned)?;
        let ours = self.lease.held.as_ref().is_some_and(|held| held.id == leader.lease);
        (!ours && self.holder_gone != Some(leader.lease)).then_some(leader.lease)
    }

    fn wanted_watches(&self) -> BTreeSet<Target> {
        if matches!(self.role, Role::Left) {
            return BTreeSet::new();
        }
        let mut wanted = BTreeSet::from([Target::Leader]);
        let near = self.is_near();
        let leads = matches!(self.role, Role::Leading(_));
        let unlisted = !matches!(self.succession, Known::Present(..));
        if !self.is_first_come() && !leads && (near || unlisted || self.is_vacant()) {
            wanted.insert(Target::Succession);
        }
        let lost = self.leader.record().is_some_and(|leader| leader.id == self.own.id);
        if let Some(holder) = self.other_holder().filter(|_| near || lost || self.is_first_come()) {
            wanted.insert(Target::Lease(holder));
        }
        wanted
    }

    fn next_wake(&self, now: Time) -> Option<Time> {
        let lease = (!self.slots.is_busy(Slot::Lease)).then(|| self.lease.wake_at(self.wanted_kind())).flatten();
        let eager = self.eager_at();
        let check = self.other_holder().map(|_| self.check_at);
        let times = [self.score_until, self.priority_until, lease, eager, check, self.read_leader_at]
            .into_iter()
            .chain(self.role_wake())
            .chain([self.watches.wake_at()]);
        // What is due already waits for an answer or a watch, which comes as an event.
        times.flatten().filter(|at| *at > now).min()
    }

    fn role_wake(&self) -> [Option<Time>; 2] {
        let deadline = self.lease.held.as_ref().map(lease::Held::deadline);
        match &self.role {
            Role::Following | Role::Looking | Role::Taking | Role::Left => [None, None],
            Role::Waiting(wait) => [Some(wait.at), None],
            Role::Leading(term) => [deadline, Some(term.review_at)],
            Role::Yielding(yielding) => [deadline, Some(yielding.until)],
        }
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

    fn lease_gone(&mut self, lease: Option<LeaseId>) {
        if lease.is_some() && lease == self.other_holder() {
            self.holder_gone = lease;
        }
    }

    fn published(&mut self, now: Time, sent: Time, result: Result<Granted, Error>) {
        match result {
            Ok(granted) => {
                let ttl = Span(u64::try_from(granted.ttl.as_nanos()).unwrap_or(u64::MAX));
                let spans = (ttl, self.settings.timing.usable(ttl, self.settings.early));
                let content = self.renewing_content.take().unwrap_or(0);
                if let Some(old) = self.lease.granted(now, sent, spans, content) {
                    self.withdraw(now, old);
                }
            }
            Err(error) => {
                // It may have been created all the same; then it is not renewed and ends by itself.
                self.lease.failed(now, &self.settings.timing);
                self.trouble(error);
            }
        }
    }

    fn renewed(&mut self, now: Time, sent: Time, result: Result<Renewed, Error>) {
        match result {
            Ok(Renewed::Extended) => {
                let content = self.renewing_content.take();
                self.lease.renewed(sent, content);
                self.extend_term(now);
            }
            Ok(Renewed::Gone) => {
                let lost = self.lease.drop_held();
                self.lease_lost(now, lost);
            }
            Err(error) => {
                self.lease.failed(now, &self.settings.timing);
                self.trouble(error);
            }
        }
    }

    fn leader_read(&mut self, now: Time, result: Result<Option<Entry>, Error>) {
        match result {
            Ok(entry) => {
                self.leader_failures = 0;
                // A watch may have reported a newer state after the read was served.
                self.learn_leader(now, entry, self.learnt == self.learnt_at_read);
                if matches!(self.role, Role::Taking) {
                    // The swap was not applied, or somebody else came first.
                    self.role = Role::Following;
                }
            }
            Err(error) => {
                self.read_leader_later(now);
                self.trouble(error);
            }
        }
    }

    fn read_leader_later(&mut self, now: Time) {
        self.leader_failures = (self.leader_failures + 1).min(16);
        self.read_leader_at = Some(now + backoff(&self.settings.timing, self.leader_failures));
    }

    /// Takes in a state of the leader record. A watch may report a state that is older than one we know; such a state is
    /// believed only if a read confirms it (`certain`), because then the store has gone back.
    fn learn_leader(&mut self, now: Time, entry: Option<Entry>, certain: bool) {
        let new = match entry.map(|entry| Leader::decode(&entry.value).map(|record| (record, entry.revision))) {
            None => Known::Absent,
            Some(Ok((record, revision))) => Known::Present(record, revision),
            Some(Err(error)) => {
                self.trouble(error);
                Known::Unknown
            }
        };
        let age = |known: &Known<Leader>| known.record().map(|record| (record.token, record.resigned));
        if age(&new) < age(&self.leader) && !certain {
            self.read_leader_at = Some(now);
            return;
        }
        if age(&new) != age(&self.leader) || self.leader.is_unknown() && !new.is_unknown() {
            self.effects.push(Effect::Leader(new.record().cloned()));
            self.check_at = now + self.check_interval();
        }
        self.count_hand_over(now, new.record());
        self.set_leader(new);
        self.leader_changed(now);
    }

    fn set_leader(&mut self, leader: Known<Leader>) {
        self.learnt += 1;
        self.highest = self.highest.max(leader.record().map_or(Token::ZERO, |record| record.token));
        self.leader = leader;
    }

    /// Hand-overs of others count towards cool-down and budget. Our own was counted when it began.
    fn count_hand_over(&mut self, now: Time, record: Option<&Leader>) {
        let new = record.filter(|record| record.token > self.highest && record.reason.cause == Cause::HandedOver);
        if new.is_some_and(|record| record.history.first().is_none_or(|before| before.id != self.own.id)) {
            self.challenge.record_hand_over(now);
        }
    }

    /// Draws the consequences of a new leader record.
    fn leader_changed(&mut self, now: Time) {
        match &self.role {
            Role::Leading(_) => return self.term_record_changed(now),
            Role::Yielding(_) => return self.yielding_record_changed(),
            Role::Left => return,
            Role::Following | Role::Waiting(_) | Role::Looking | Role::Taking => {}
        }
        if self.is_named() {
            self.slots.forget(Slot::Leader);
            self.begin_term(now);
        } else if !self.is_vacant() {
            self.slots.forget(Slot::Leader);
            self.role = Role::Following;
        }
    }

    /// Whether the leader record names our lease in a term that we have not led yet.
    fn is_named(&self) -> bool {
        let (Some(leader), Some(held)) = (self.leader.record(), &self.lease.held) else { return false };
        leader.lease == held.id && !leader.resigned && leader.token > self.led
    }

    /// Whether somebody may take over.
    fn is_vacant(&self) -> bool {
        match &self.leader {
            Known::Unknown => false,
            Known::Absent => true,
            Known::Present(leader, _) => leader.resigned || self.holder_gone == Some(leader.lease),
        }
    }

    fn send(&mut self, now: Time, slot: Slot, op: Op) {
        let id = self.slots.begin(slot, now);
        self.effects.push(Effect::Store(id, op));
    }

    fn withdraw(&mut self, now: Time, lease: LeaseId) {
        self.send(now, Slot::Withdraw, Op::Withdraw(lease));
    }

    /// Gives up the own lease. The next one has another id.
    fn give_up_lease(&mut self, now: Time) {
        self.slots.forget(Slot::Lease);
        self.lease.publishing = None;
        if let Some(lease) = self.lease.drop_held() {
            self.withdraw(now, lease);
        }
    }

    fn trouble(&mut self, error: Error) {
        self.effects.push(Effect::Trouble(error));
    }

    /// A span below `most` that differs between candidates and between terms.
    fn jitter(&self, most: Span) -> Span {
        let hash = fingerprint(&format!("{}{}", self.own.id, self.highest));
        Span((u128::from(hash) * u128::from(most.0) >> 64) as u64)
    }
}

#[cfg(test)]
mod tests;
