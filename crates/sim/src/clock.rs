//! A server's own clock: monotonic, but it may run fast or slow and jump ahead.

#[derive(Clone, Debug)]
pub(crate) struct Clock {
    /// True time and local time at the last change of the rate or the offset.
    since: (u64, u64),
    /// Local nanoseconds per million true ones.
    rate: u64,
}

impl Clock {
    pub(crate) fn new(drift_ppm: i64, start: u64) -> Self {
        Self { since: (0, start), rate: (1_000_000 + drift_ppm) as u64 }
    }

    /// The local time at true time `now`.
    pub(crate) fn read(&self, now: u64) -> u64 {
        let (truth, own) = self.since;
        own + (u128::from(now - truth) * u128::from(self.rate) / 1_000_000) as u64
    }

    /// The true time at which the clock reads `own`, at least `now`.
    pub(crate) fn when(&self, own: u64, now: u64) -> u64 {
        let (truth, base) = self.since;
        let away = u128::from(own.saturating_sub(base)) * 1_000_000;
        (truth + away.div_ceil(u128::from(self.rate)) as u64).max(now)
    }

    /// Moves the clock ahead.
    pub(crate) fn jump(&mut self, now: u64, by: u64) {
        self.since = (now, self.read(now) + by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_runs_fast_reaches_its_time_early_and_a_jump_brings_it_nearer() {
        let mut clock = Clock::new(1_000, 50);
        assert_eq!(clock.read(1_000_000), 50 + 1_001_000);
        let when = clock.when(50 + 1_001_000, 0);
        assert_eq!(when, 1_000_000);
        clock.jump(0, 1_000);
        assert!(clock.when(50 + 1_001_000, 0) < when);
    }
}
