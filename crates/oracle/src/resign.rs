//! When a leader resigns: only for someone who is better by enough, for long enough, and not too often.
//!
//! In: `now`, the leader's own before-resignation rank, those of the others, the pause that a hand-over would cost.
//! Out: a `Decision` with its reason. Why so hesitant: a leader that moves at every fluctuation costs more than the best
//! place ever saves, and when all scores fall together (scenario 32) the first to notice must not run.
//! Holds: never more than `max_per_hour` resignations in an hour, and never two within the cool-down, which doubles with
//! each resignation of the last hour; the worst that a successor scored during the hold time is better by both margins
//! than the best that we did. (Better at each look is too weak: of noise that happens by luck, every few hours.)
//! Not here: the hand-over (`zab`), fresh scores (`Measurements::candidates`), what an advantage is (`Oracle`).
//!
//! What is weighed: a move saves `saved` on each of the rate × horizon requests to come; it costs each of the rate ×
//! pause requests that arrive in the pause up to the whole pause. So it pays if saved × horizon > pause × pause; the rate
//! stands on both sides, except that without requests there is nothing to save at all.

use alloc::collections::{BTreeMap, VecDeque};
use core::fmt;

use pole_election::{Rank, Score, ServerId, Span};

use crate::oracle::{Advantage, Oracle};
use crate::time::Time;

/// The keys `pole.resign` and `pole.resign.*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResignConfig {
    /// `pole.resign`: off means never.
    pub enabled: bool,
    /// `.marginPercent`: how much better than our own score another's must be.
    pub margin_percent: u64,
    /// `.marginMs`: and by how much waiting, where the oracle scores waiting.
    pub margin: Span,
    /// `.holdMs`: how long another must stay better, without a gap.
    pub hold: Span,
    /// `.cooldownMs`: the least time between two resignations, and from taking the lead to giving it up.
    pub cooldown: Span,
    /// `.maxPerHour`: the budget.
    pub max_per_hour: u32,
    /// Over what time a move must pay for its pause. Not a key: the cool-down's default, the least that a new leader stays.
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

/// What the leader sees when it considers.
#[derive(Clone, Copy)]
pub struct Situation<'a> {
    /// The oracle in force.
    pub oracle: &'a dyn Oracle,
    /// Our own rank before resignation, fresh.
    pub own: &'a Rank,
    /// The ranks of the others, fresh and under the same configuration: [`crate::Measurements::candidates`].
    pub candidates: &'a BTreeMap<ServerId, Rank>,
    /// How long clients would wait during the hand-over: a few round trips.
    pub pause: Span,
    /// Write requests of the whole ensemble, in thousandths a second.
    pub rate_milli: u64,
}

/// To stay or to resign, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Lead on.
    Stay {
        /// Why.
        reason: StayReason,
    },
    /// Hand over.
    Resign {
        /// To whom.
        to: ServerId,
        /// What it is worth.
        advantage: Advantage,
        /// How long the successor has been better.
        held: Span,
        /// What it is expected to cost.
        pause: Span,
    },
}

/// Why a leader stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StayReason {
    /// `pole.resign=off`.
    Off,
    /// Our own score is unknown: nothing to compare with. The election, not the resignation, is for a leader in trouble.
    OwnUnknown,
    /// Nobody has a better score.
    NobodyBetter,
    /// Somebody is better, but not by both margins.
    WithinMargin {
        /// The best of them.
        best: ServerId,
        /// By how much.
        advantage: Advantage,
    },
    /// Somebody is better by enough, but not yet for long enough.
    Holding {
        /// The one who has been better for longest.
        candidate: ServerId,
        /// For how much longer.
        remaining: Span,
    },
    /// Too soon after the last change.
    CoolingDown {
        /// For how much longer.
        remaining: Span,
    },
    /// The resignations of this hour are used up.
    BudgetSpent {
        /// How many there were.
        resigned: u32,
    },
    /// No requests: nothing to gain.
    Idle,
    /// The pause costs more than the move saves within the horizon.
    NotWorthThePause {
        /// What each request would wait less.
        saved: Span,
        /// What the move would cost.
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

/// The policy of one server. Every server keeps one and tells it of every hand-over that it learns of, so that the budget
/// and the cool-down are the ensemble's and two leaders cannot spend them in turn.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resignation {
    config: ResignConfig,
    /// Resignations of the last hour, newest last.
    resigned: VecDeque<Time>,
    leading_since: Option<Time>,
    /// Who has been better, since when, and how close it came.
    better: BTreeMap<ServerId, Streak>,
    /// When we last looked, and under which oracle: scores of two oracles do not make one streak.
    last_look: Option<(Time, u64)>,
}

/// A time during which one candidate was better than we were, by both margins, all looks taken together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Streak {
    since: Time,
    /// The worst that the candidate scored.
    worst: Score,
    /// The best that we scored.
    own: Score,
}

impl Resignation {
    /// A policy with no past.
    #[must_use]
    pub fn new(config: ResignConfig) -> Self {
        Self { config, resigned: VecDeque::new(), leading_since: None, better: BTreeMap::new(), last_look: None }
    }

    /// Another configuration; the past still counts.
    pub fn configure(&mut self, config: ResignConfig) {
        self.config = config;
    }

    /// This server is established as leader: it stays at least a cool-down, whatever the gossip of the moment says.
    pub fn took_the_lead(&mut self, now: Time) {
        self.leading_since = Some(now);
        self.better.clear();
        self.last_look = None;
    }

    /// A leader resigned, this server or, as heard, another.
    pub fn noted(&mut self, now: Time) {
        self.prune(now);
        if self.resigned.len() == NOTED_MAX {
            self.resigned.pop_front();
        }
        self.resigned.push_back(now);
        self.better.clear();
        self.last_look = None;
    }

    /// Looks once, as leader, at every measurement heartbeat. After `Resign` the caller hands over and calls
    /// [`Resignation::noted`] when that begins, even if it fails later: a failed attempt cools down too.
    pub fn consider(&mut self, now: Time, situation: &Situation<'_>) -> Decision {
        self.prune(now);
        let best = self.look(now, situation);
        let decided = self.decide(now, situation, best);
        decided.unwrap_or_else(|reason| Decision::Stay { reason })
    }

    fn decide(&self, now: Time, situation: &Situation<'_>, best: Option<Best>) -> Result<Decision, StayReason> {
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
        self.weigh(situation, advantage)?;
        Ok(Decision::Resign { to, advantage, held, pause: situation.pause })
    }

    /// Continues or begins the streaks of those who are better by both margins, ends the others, and returns the best
    /// that is better at all.
    fn look(&mut self, now: Time, situation: &Situation<'_>) -> Option<Best> {
        // "Continuously" is a claim about every look; after a gap in looking nothing is known of the time between.
        let oracle = situation.oracle.fingerprint();
        let unbroken =
            |(last, under): (Time, u64)| now - last <= Span(self.config.hold.0 / 2).max(GAP) && under == oracle;
        if !self.last_look.replace((now, oracle)).is_some_and(unbroken) {
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
        best_of(better).map(|(id, (_, advantage))| Best { id, advantage })
    }

    /// The best of those who have been better for the whole hold time. Not simply the best of all: one that comes and
    /// goes would keep the leader from a steady second.
    fn held(
        &self,
        now: Time,
        situation: &Situation<'_>,
        best: &Best,
    ) -> Result<(ServerId, Span, Advantage), StayReason> {
        let Rank::Known(own) = situation.own else { return Err(StayReason::OwnUnknown) };
        let Some((candidate, oldest)) = self.better.iter().min_by_key(|(_, streak)| streak.since) else {
            return Err(StayReason::WithinMargin { best: best.id, advantage: best.advantage });
        };
        let held = |id: &ServerId| self.better.get(id).map(|streak| now - streak.since);
        let mut ripe = better_than(own, situation);
        ripe.retain(|id, _| held(id).is_some_and(|span| span >= self.config.hold));
        let remaining = Span(self.config.hold.0.saturating_sub((now - oldest.since).0));
        let holding = StayReason::Holding { candidate: *candidate, remaining };
        let (id, (_, advantage)) = best_of(ripe).ok_or(holding)?;
        Ok((id, held(&id).unwrap_or(Span::ZERO), advantage))
    }

    /// Whether a move pays for its pause: see the head of this file.
    fn weigh(&self, situation: &Situation<'_>, advantage: Advantage) -> Result<(), StayReason> {
        let Some(saved) = advantage.saved else { return Ok(()) };
        if situation.rate_milli == 0 {
            return Err(StayReason::Idle);
        }
        let gain = u128::from(saved.0) * u128::from(self.config.horizon.0);
        let cost = u128::from(situation.pause.0) * u128::from(situation.pause.0);
        if gain > cost { Ok(()) } else { Err(StayReason::NotWorthThePause { saved, pause: situation.pause }) }
    }

    /// What is left of the cool-down: it runs from the last resignation and from taking the lead, and doubles with every
    /// resignation of the last hour beyond the first.
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
    /// Both margins: relative always, absolute where waiting is scored.
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

/// The best of those with a better score.
struct Best {
    id: ServerId,
    advantage: Advantage,
}

type Betters<'a> = BTreeMap<ServerId, (&'a Score, Advantage)>;

/// The best score, of equals the higher id: as the election would choose.
fn best_of(better: Betters<'_>) -> Option<(ServerId, (&Score, Advantage))> {
    better.into_iter().min_by(|(a, (a_score, _)), (b, (b_score, _))| (a_score, b).cmp(&(b_score, a)))
}

/// Everyone with a valid score that is better than `own`, and what it is worth.
fn better_than<'a>(own: &Score, situation: &Situation<'a>) -> Betters<'a> {
    let known = situation.candidates.iter().filter_map(|(id, rank)| match rank {
        Rank::Known(score) => Some((*id, score)),
        Rank::Unknown => None,
    });
    let better = known.filter(|(_, score)| *score < own && situation.oracle.validate(score).is_ok());
    better.map(|(id, score)| (id, (score, situation.oracle.advantage(own, score)))).collect()
}

/// Thousandths, shown as per cent.
struct Percent(u64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} %", self.0 / 10, self.0 % 10)
    }
}

const HOUR: Span = Span::from_ms(3_600_000);

/// A leader that looked this recently looked continuously, however short the hold time.
const GAP: Span = Span::from_ms(3_000);

/// Resignations remembered of one hour: a budget above this is no budget.
const NOTED_MAX: usize = 1_000;
