//! The clocks of a server: one that never goes back, counted from its start, and the calendar.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pole_oracle::Time;

/// Counts from the start of the server, and goes on while the machine is suspended.
///
/// `Instant` stands still in suspend: a server that wakes up would believe in leases that the others ended hours ago.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Duration,
}

impl Clock {
    /// It is zero now.
    #[must_use]
    pub(crate) fn start() -> Self {
        Self { start: since_boot() }
    }

    /// The time since the start.
    #[must_use]
    pub(crate) fn now(&self) -> Time {
        Time(u64::try_from(self.uptime().as_nanos()).unwrap_or(u64::MAX))
    }

    /// The same moment for the timers of the operating system, which do stand still in suspend.
    #[must_use]
    pub(crate) fn instant(&self, time: Time) -> Instant {
        Instant::now() + Duration::from_nanos((time - self.now()).0)
    }

    /// How long the server has been up.
    #[must_use]
    pub(crate) fn uptime(&self) -> Duration {
        since_boot().saturating_sub(self.start)
    }
}

#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Elsewhere there is no such clock that is as cheap: servers must not be suspended there.
#[cfg(not(target_os = "linux"))]
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// What the calendar says, in milliseconds since 1970.
#[must_use]
pub(crate) fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_clock_counts_what_the_kernel_counts_since_boot() {
        let boot = |text: String| text.split('.').next().and_then(|seconds| seconds.parse::<u64>().ok());
        let uptime = || boot(std::fs::read_to_string("/proc/uptime").expect("Linux")).expect("a number");
        let before = uptime();
        let ours = since_boot().as_secs();
        assert!((before..=uptime()).contains(&ours), "{ours} is not the uptime of the machine");
    }

    #[test]
    fn a_moment_of_the_clock_is_the_same_moment_for_timers() {
        let clock = Clock::start();
        let later = clock.now() + pole_election::Span::from_ms(5_000);
        let ahead = clock.instant(later).saturating_duration_since(Instant::now());
        assert!(ahead > Duration::from_secs(4) && ahead <= Duration::from_secs(5), "{ahead:?}");
    }
}
