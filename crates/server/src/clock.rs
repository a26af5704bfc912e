//! The clocks of a server: one that never goes back, counted from its start, and the calendar.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pole_oracle::Time;

/// Counts from the start of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    /// It is zero now.
    #[must_use]
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// The time since the start.
    #[must_use]
    pub(crate) fn now(&self) -> Time {
        Time(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// The same moment for the timers of the operating system.
    #[must_use]
    pub(crate) fn instant(&self, time: Time) -> Instant {
        self.start + Duration::from_nanos(time.0)
    }

    /// How long the server has been up.
    #[must_use]
    pub(crate) fn uptime(&self) -> Duration {
        self.start.elapsed()
    }
}

/// What the calendar says, in milliseconds since 1970.
#[must_use]
pub(crate) fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
