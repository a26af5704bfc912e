//! One candidate of the simulation: its state machine, its clock, its guard and its application.

use pole_oracle::ResignConfig;
use pole_types::{Span, Time};

use super::random::Random;
use crate::election::{Election, Event, Settings, Strategy};
use crate::timing::Timing;
use crate::token::Token;

pub(super) struct Client {
    pub(super) id: String,
    /// None while it is crashed.
    pub(super) election: Option<Election>,
    /// Counts starts; what belongs to an earlier one is dropped.
    pub(super) start: u64,
    pub(super) clock: DriftingClock,
    pub(super) guard: Option<SimGuard>,
    /// Events that arrive while it is paused.
    pub(super) paused: Option<Vec<Event>>,
    /// Until when messages from and to the store are lost.
    pub(super) cut_until: u64,
    /// The number of the timer that counts.
    pub(super) timer: u64,
}

/// The guard of a term, as `guard::Hold` keeps it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SimGuard {
    pub(super) token: Token,
    /// On the client's clock; zero after the end.
    deadline: Time,
    /// Whether the application still works.
    pub(super) working: bool,
}

impl Client {
    pub(super) fn new(id: String, clock: DriftingClock) -> Self {
        Self { id, election: None, start: 0, clock, guard: None, paused: None, cut_until: 0, timer: 0 }
    }

    /// Starts, or starts again without memory.
    pub(super) fn boot(&mut self, timing: &Timing, strategy: Strategy, resign: ResignConfig) {
        self.start += 1;
        let incarnation = pole_oracle::fingerprint(&format!("{} {}", self.id, self.start));
        let settings =
            Settings { timing: timing.clone(), strategy, resign, ..Settings::new(self.id.clone(), incarnation) };
        self.election = Some(Election::new(settings).expect("the simulation has valid settings"));
        (self.guard, self.paused) = (None, None);
    }

    pub(super) fn crash(&mut self) {
        (self.election, self.guard, self.paused) = (None, None, None);
        self.start += 1;
    }

    /// Whether `is_leader` would be true in this process, now.
    pub(super) fn is_valid(&self, now: u64) -> bool {
        self.guard.is_some_and(|guard| self.clock.local(now) < guard.deadline)
    }

    pub(super) fn lead(&mut self, token: Token, deadline: Time) {
        self.guard = Some(SimGuard { token, deadline, working: true });
    }

    pub(super) fn extend(&mut self, now: u64, deadline: Time) {
        let valid = self.is_valid(now);
        if let Some(guard) = self.guard.as_mut().filter(|_| valid) {
            guard.deadline = guard.deadline.max(deadline);
        }
    }

    pub(super) fn end(&mut self) {
        if let Some(guard) = &mut self.guard {
            guard.deadline = Time(0);
        }
    }
}

/// A clock that gains or loses a constant part.
#[derive(Clone, Copy, Debug)]
pub(super) struct DriftingClock {
    zero: u64,
    /// Gained in a million.
    ppm: i64,
}

impl DriftingClock {
    pub(super) fn random(random: &mut Random) -> Self {
        let ppm = random.between(0, 2 * DRIFT_PPM_MAX) as i64 - DRIFT_PPM_MAX as i64;
        Self { zero: random.between(1, 1_000_000_000), ppm }
    }

    /// What the clock shows at a true time.
    pub(super) fn local(&self, now: u64) -> Time {
        let gained = i128::from(now) * i128::from(self.ppm) / 1_000_000;
        Time((i128::from(self.zero) + i128::from(now) + gained) as u64)
    }

    /// The first true time at which the clock shows `local` or later.
    pub(super) fn when(&self, local: Time) -> u64 {
        let since = i128::from(local.0) - i128::from(self.zero);
        let estimate = since * 1_000_000 / (1_000_000 + i128::from(self.ppm));
        let mut when = u64::try_from(estimate.max(1) - 1).unwrap_or(0);
        while self.local(when) < local {
            when += 1;
        }
        when
    }

    /// The true time after a span on this clock.
    pub(super) fn after(&self, now: u64, span: Span) -> u64 {
        self.when(self.local(now) + span)
    }
}

/// The largest drift of a clock. Two clocks differ by at most twice this, less than the bound of ten thousandths.
const DRIFT_PPM_MAX: u64 = 4_900;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drifting_clock_is_inverted_exactly() {
        let mut random = Random::new(1);
        for _ in 0..1000 {
            let clock = DriftingClock::random(&mut random);
            let local = Time(clock.zero + random.below(100_000_000_000));
            let when = clock.when(local);
            assert!(clock.local(when) >= local);
            assert!(when == 0 || clock.local(when - 1) < local);
        }
    }
}
