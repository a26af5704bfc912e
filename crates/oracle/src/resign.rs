//! Decides when a leader resigns: only for a server that is better by enough, for long enough, and not too often.
//!
//! The inputs are `now`, the leader's own before-resignation rank, the ranks of the others, and the pause that a
//! hand-over would cost. The output is a [`Decision`] with its reason. The policy is cautious because a leader that
//! moves at every fluctuation costs more than the best location saves, and because the first server to notice that all
//! scores get worse together (scenario 32) must not resign.
//!
//! Invariants:
//!
//! - There are at most `max_per_hour` resignations per hour, and never two within the cool-down, which doubles with
//!   each resignation of the last hour.
//! - The worst score of the successor during the hold time is better by both margins than our best score in it. Being
//!   better at each single evaluation is too weak: with noise that happens by chance every few hours.
//!
//! A hand-over saves `saved` on each of the rate × horizon requests to come, and costs up to the whole pause for each
//! of the rate × pause requests that arrive during the pause. So it pays off if saved × horizon > pause × pause. The
//! rate cancels out, except that without requests there is nothing to save.
//!
//! The hand-over is in `zab`, fresh scores come from `Measurements::candidates`, advantages from `Oracle`.

use alloc::collections::{BTreeMap, VecDeque};
use core::fmt;

use pole_election::{Rank, Score};
use pole_types::{ServerId, Span, Time};

use crate::oracle::{Advantage, Oracle};

/// Configuration of resignations, the keys `pole.resign` and `pole.resign.*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResignConfig {
    /// `pole.resign`: if off, the leader never resigns.
    pub enabled: bool,
    /// `.marginPercent`: the minimum advantage of another score, relative to our own.
    pub margin_percent: u64,
    /// `.marginMs`: the minimum advantage in waiting time, if the oracle scores waiting.
    pub margin: Span,
    /// `.holdMs`: how long another server must stay better, without interruption.
    pub hold: Span,
    /// `.cooldownMs`: the minimum time between two resignations, and between becoming leader and resigning.
    pub cooldown: Span,
    /// `.maxPerHour`: the maximum number of resignations per hour.
    pub max_per_hour: u32,
    /// The time within which a hand-over must pay for its pause. Not configurable: the default of the cool-down, which
    /// is the minimum time that a new leader stays.
    pub horizon: Span,
}

impl Default for ResignConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            margin_percent: 10,
            margin: Span::from_ms(1),
            hold: Span::from_ms(10_000),
            cooldown: Span::from_ms(60_000),
            max_per_hour: 6,
            horizon: Span::from_ms(60_000),
        }
    }
}

/// The input of one evaluation.
#[derive(Clone, Copy)]
pub struct Situation<'a> {
    /// The configured oracle.
    pub oracle: &'a dyn Oracle,
    /// Our own rank before resignation, fresh.
    pub own: &'a Rank,
    /// The ranks of the others, fresh and under the same configuration; see [`crate::Measurements::candidates`].
    pub candidates: &'a BTreeMap<ServerId, Rank>,
    /// The expected pause of clients during a hand-over: a few round trips.
    pub pause: Span,
    /// Write requests of the whole ensemble, in thousandths per second.
    pub rate_milli: u64,
}

/// Whether to stay or to resign, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Stay the leader.
    Stay {
        /// The reason.
        reason: StayReason,
    },
    /// Hand over the leadership.
    Resign {
        /// The successor.
        to: ServerId,
        /// How much better its score is.
        advantage: Advantage,
        /// How long it has been better.
        held: Span,
        /// The expected pause.
        pause: Span,
    },
}

/// Why a leader does not resign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StayReason {
    /// Resignation is disabled (`pole.resign=off`).
    Off,
    /// Our own score is unknown, so there is nothing to compare. A leader in trouble is replaced by an election
    /// instead.
    OwnUnknown,
    /// No other server has a better score.
    NobodyBetter,
    /// Another server is better, but not by both margins.
    WithinMargin {
        /// The best of these servers.
        best: ServerId,
        /// Its advantage.
        advantage: Advantage,
    },
    /// Another server is better by enough, but not for long enough.
    Holding {
        /// The server that has been better for longest.
        candidate: ServerId,
        /// The rest of the hold time.
        remaining: Span,
    },
    /// The last leader change was too recent.
    CoolingDown {
        /// The rest of the cool-down.
        remaining: Span,
    },
    /// The resignations of this hour are used up.
    BudgetSpent {
        /// The number of resignations in the last hour.
        resigned: u32,
    },
    /// There are no requests, so there is nothing to gain.
    Idle,
    /// The pause costs more than the hand-over saves within the horizon.
    NotWorthThePause {
        /// The time that each request would wait less.
        saved: Span,
        /// The expected pause.
        pause: Span,
    },
}

impl fmt::Display for StayReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("resignation is off"),
            Self::OwnUnknown => f.write_str("own score unknown"),
            Self::NobodyBetter => f.write_str("nobody has a better score"),
            Self::WithinMargin { best, advantage } => {
                write!(f, "server {best} is better by {}, within the margin", Percent(advantage.permille))
            }
            Self::Holding { candidate, remaining } => {
                write!(f, "server {candidate} is better, but must stay so for {remaining} more")
            }
            Self::CoolingDown { remaining } => write!(f, "cooling down for {remaining} more"),
            Self::BudgetSpent { resigned } => write!(f, "{resigned} resignations in the last hour are enough"),
            Self::Idle => f.write_str("no requests, nothing to gain"),
            Self::NotWorthThePause { saved, pause } => {
                write!(f, "saving {saved} a request is not worth a pause of {pause}")
            }
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stay { reason } => write!(f, "stay: {reason}"),
            Self::Resign { to, advantage, held, .. } => {
                write!(f, "resign to server {to}: better by {} for {held}", Percent(advantage.permille))?;
                advantage.saved.map_or(Ok(()), |saved| write!(f, ", saves {saved} a request"))
            }
        }
    }
}

/// The resignation policy of one server. Every server keeps one and records every resignation that it learns of, so
/// that the budget and the cool-down apply to the ensemble and two leaders cannot use them up in turn.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resignation {
    config: ResignConfig,
    /// Resignations of the last hour, newest last.
    resigned: VecDeque<Time>,
    leading_since: Option<Time>,
    /// The servers that have been better, each with its streak.
    better: BTreeMap<ServerId, Streak>,
    /// The time of the last evaluation and its oracle. A streak does not span two oracles.
    last_evaluation: Option<(Time, u64)>,
}

/// A period during which one candidate was better by both margins, over all evaluations together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Streak {
    since: Time,
    /// The worst score of the candidate.
    worst: Score,
    /// Our best score.
    own: Score,
}

impl Resignation {
    /// Creates a policy without any recorded resignation.
    #[must_use]
    pub fn new(config: ResignConfig) -> Self {
        Self { config, resigned: VecDeque::new(), leading_since: None, better: BTreeMap::new(), last_evaluation: None }
    }

    /// Replaces the configuration; recorded resignations still count.
    pub fn configure(&mut self, config: ResignConfig) {
        self.config = config;
    }

    /// Records that this server is established as the leader. It stays for at least a cool-down, whatever the gossip
    /// says.
    pub fn became_leader(&mut self, now: Time) {
        self.leading_since = Some(now);
        self.better.clear();
        self.last_evaluation = None;
    }

    /// Records a resignation of this leader or, as learnt from others, of another one.
    pub fn record_resignation(&mut self, now: Time) {
        self.prune(now);
        if self.resigned.len() == RESIGNATIONS_MAX {
            self.resigned.pop_front();
        }
        self.resigned.push_back(now);
        self.better.clear();
        self.last_evaluation = None;
    }

    /// Evaluates the situation as leader, once per measurement heartbeat. After `Resign` the caller hands over and
    /// calls [`Resignation::record_resignation`] when the hand-over begins, even if it fails later: a failed attempt
    /// counts as well.
    pub fn consider(&mut self, now: Time, situation: &Situation<'_>) -> Decision {
        self.prune(now);
        let best = self.update_streaks(now, situation);
        let decided = self.decide(now, situation, best);
        decided.unwrap_or_else(|reason| Decision::Stay { reason })
    }

    fn decide(
        &self,
        now: Time,
        situation: &Situation<'_>,
        best: Option<BestCandidate>,
    ) -> Result<Decision, StayReason> {
        let resigned = self.resigned.len() as u32;
        if !self.config.enabled {
            return Err(StayReason::Off);
        }
        if matches!(situation.own, Rank::Unknown) {
            return Err(StayReason::OwnUnknown);
        }
        let best = best.ok_or(StayReason::NobodyBetter)?;
        if resigned >= self.config.max_per_hour {
            return Err(StayReason::BudgetSpent { resigned });
        }
        let remaining = self.cooling_down(now);
        if remaining > Span::ZERO {
            return Err(StayReason::CoolingDown { remaining });
        }
        let (to, held, advantage) = self.held(now, situation, &best)?;
        self.check_pause_cost(situation, advantage)?;
        Ok(Decision::Resign { to, advantage, held, pause: situation.pause })
    }

    /// Continues or begins the streaks of servers that are better by both margins, ends all others, and returns the
    /// best server that is better at all.
    fn update_streaks(&mut self, now: Time, situation: &Situation<'_>) -> Option<BestCandidate> {
        // A streak requires regular evaluations; after a gap nothing is known about the time in between.
        let oracle = situation.oracle.fingerprint();
        let unbroken = |(last, under): (Time, u64)| {
            now - last <= Span(self.config.hold.0 / 2).max(EVALUATION_GAP_MIN) && under == oracle
        };
        if !self.last_evaluation.replace((now, oracle)).is_some_and(unbroken) {
            self.better.clear();
        }
        let Rank::Known(own) = situation.own else {
            self.better.clear();
            return None;
        };
        let better = better_than(own, situation);
        let mut old = core::mem::take(&mut self.better);
        for (id, (score, advantage)) in &better {
            if self.config.passes(*advantage) {
                let fresh = Streak { since: now, worst: (*score).clone(), own: own.clone() };
                let streak = old.remove(id).map(|streak| streak.with(score, own));
                let streak = streak.filter(|streak| self.config.passes(streak.advantage(situation.oracle)));
                self.better.insert(*id, streak.unwrap_or(fresh));
            }
        }
        best_of(better).map(|(id, (_, advantage))| BestCandidate { id, advantage })
    }

    /// Returns the best of the servers that have been better for the whole hold time. Not simply the best of all: a
    /// server that is better only now and then would keep the leader from a steady second.
    fn held(
        &self,
        now: Time,
        situation: &Situation<'_>,
        best: &BestCandidate,
    ) -> Result<(ServerId, Span, Advantage), StayReason> {
        let Rank::Known(own) = situation.own else { return Err(StayReason::OwnUnknown) };
        let Some((candidate, oldest)) = self.better.iter().min_by_key(|(_, streak)| streak.since) else {
            return Err(StayReason::WithinMargin { best: best.id, advantage: best.advantage });
        };
        let held = |id: &ServerId| self.better.get(id).map(|streak| now - streak.since);
        let mut eligible = better_than(own, situation);
        eligible.retain(|id, _| held(id).is_some_and(|span| span >= self.config.hold));
        let remaining = Span(self.config.hold.0.saturating_sub((now - oldest.since).0));
        let holding = StayReason::Holding { candidate: *candidate, remaining };
        let (id, (_, advantage)) = best_of(eligible).ok_or(holding)?;
        Ok((id, held(&id).unwrap_or(Span::ZERO), advantage))
    }

    /// Checks that a hand-over pays for its pause; see the module documentation.
    fn check_pause_cost(&self, situation: &Situation<'_>, advantage: Advantage) -> Result<(), StayReason> {
        let Some(saved) = advantage.saved else { return Ok(()) };
        if situation.rate_milli == 0 {
            return Err(StayReason::Idle);
        }
        let gain = u128::from(saved.0) * u128::from(self.config.horizon.0);
        let cost = u128::from(situation.pause.0) * u128::from(situation.pause.0);
        if gain > cost { Ok(()) } else { Err(StayReason::NotWorthThePause { saved, pause: situation.pause }) }
    }

    /// The rest of the cool-down. It runs from the last resignation or from becoming leader, and doubles with every
    /// resignation of the last hour after the first.
    fn cooling_down(&self, now: Time) -> Span {
        let doublings = self.resigned.len().saturating_sub(1).min(32) as u32;
        let cooldown = self.config.cooldown.saturating_mul(1 << doublings).min(HOUR.max(self.config.cooldown));
        let since = self.resigned.back().copied().max(self.leading_since);
        since.map_or(Span::ZERO, |since| Span(cooldown.0.saturating_sub((now - since).0)))
    }

    fn prune(&mut self, now: Time) {
        while self.resigned.front().is_some_and(|at| now - *at >= HOUR) {
            self.resigned.pop_front();
        }
    }
}

impl ResignConfig {
    /// Checks both margins: the relative one always, the absolute one if waiting is scored.
    fn passes(&self, advantage: Advantage) -> bool {
        let enough = advantage.permille > 0 && advantage.permille >= self.margin_percent.saturating_mul(10);
        enough && advantage.saved.is_none_or(|saved| saved >= self.margin)
    }
}

impl Streak {
    fn with(self, score: &Score, own: &Score) -> Self {
        Self { since: self.since, worst: self.worst.max(score.clone()), own: self.own.min(own.clone()) }
    }

    fn advantage(&self, oracle: &dyn Oracle) -> Advantage {
        if self.worst < self.own { oracle.advantage(&self.own, &self.worst) } else { Advantage::NONE }
    }
}

/// The best of the servers with a better score.
struct BestCandidate {
    id: ServerId,
    advantage: Advantage,
}

type BetterCandidates<'a> = BTreeMap<ServerId, (&'a Score, Advantage)>;

/// Picks the best score, among equals the higher id, as the election would.
fn best_of(better: BetterCandidates<'_>) -> Option<(ServerId, (&Score, Advantage))> {
    better.into_iter().min_by(|(a, (a_score, _)), (b, (b_score, _))| (a_score, b).cmp(&(b_score, a)))
}

/// The servers with a valid score better than `own`, and their advantage.
fn better_than<'a>(own: &Score, situation: &Situation<'a>) -> BetterCandidates<'a> {
    let known = situation.candidates.iter().filter_map(|(id, rank)| match rank {
        Rank::Known(score) => Some((*id, score)),
        Rank::Unknown => None,
    });
    let better = known.filter(|(_, score)| *score < own && situation.oracle.validate(score).is_ok());
    better.map(|(id, score)| (id, (score, situation.oracle.advantage(own, score)))).collect()
}

/// Thousandths, displayed in percent.
struct Percent(u64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} %", self.0 / 10, self.0 % 10)
    }
}

const HOUR: Span = Span::from_ms(3_600_000);

/// A gap up to this length never interrupts a streak, no matter how short the hold time is.
const EVALUATION_GAP_MIN: Span = Span::from_ms(3_000);

/// The maximum number of resignations kept; more than this per hour is no limit at all.
const RESIGNATIONS_MAX: usize = 1_000;
