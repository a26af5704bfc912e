//! Limits events that anyone who can reach a port can cause at will: only the first lines of each period are written.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Logs an event of a client with this level, name and fields, unless there were too many of that name and level.
macro_rules! rate_limited {
    ($level:ident, $event:literal, $($fields:tt)*) => {
        if tracing::enabled!(target: $crate::log::target::CLIENT, $crate::log::repeats::level!($level)) {
            let (may_log, left_out) = $crate::log::repeats::admit(stringify!($level), $event);
            if left_out > 0 {
                tracing::$level!(target: $crate::log::target::CLIENT, left_out, $event);
            }
            if may_log {
                tracing::$level!(target: $crate::log::target::CLIENT, $($fields)*, $event);
            }
        }
    };
}

/// The level of a macro of `tracing`.
macro_rules! level {
    (debug) => {
        tracing::Level::DEBUG
    };
    (info) => {
        tracing::Level::INFO
    };
    (warn) => {
        tracing::Level::WARN
    };
}

pub(super) use {level, rate_limited};

/// Returns whether the event may be logged, and how many were left out in the previous period, once per period.
pub(super) fn admit(level: &'static str, event: &'static str) -> (bool, u64) {
    REPEATS.lock().entry((level, event)).or_default().admit(Instant::now())
}

/// The count of one event in the current period.
#[derive(Debug, Default)]
struct Repeats {
    since: Option<Instant>,
    count: u64,
}

impl Repeats {
    fn admit(&mut self, now: Instant) -> (bool, u64) {
        let mut left_out = 0;
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= PERIOD) {
            left_out = self.count.saturating_sub(LINES_MAX);
            *self = Self { since: Some(now), count: 0 };
        }
        self.count += 1;
        (self.count <= LINES_MAX, left_out)
    }
}

static REPEATS: Mutex<BTreeMap<(&'static str, &'static str), Repeats>> = Mutex::new(BTreeMap::new());

/// Lines of one event per [`PERIOD`]; further ones are only counted.
const LINES_MAX: u64 = 20;

const PERIOD: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_flood_the_first_lines_of_each_period_are_logged_and_the_rest_counted() {
        let (mut repeats, start) = (Repeats::default(), Instant::now());
        let logged = (0..1_000).filter(|_| repeats.admit(start).0).count() as u64;
        assert_eq!(logged, LINES_MAX);
        assert_eq!(repeats.admit(start + PERIOD), (true, 1_000 - LINES_MAX));
        assert_eq!(repeats.admit(start + PERIOD), (true, 0));
    }
}
