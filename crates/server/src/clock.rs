//! The clocks of a server: a monotonic one that starts at zero, and wall-clock time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pole_types::Time;

/// Counts from the start of the server, including time in which the machine is suspended.
///
/// `Instant` does not advance during suspend: a server that wakes up would rely on leases that expired hours ago.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Duration,
}

impl Clock {
    #[must_use]
    pub(crate) fn start() -> Self {
        Self { start: since_boot() }
    }

    #[must_use]
    pub(crate) fn now(&self) -> Time {
        Time(u64::try_from(self.uptime().as_nanos()).unwrap_or(u64::MAX))
    }

    /// The same time for the timers of the operating system, which do not advance during suspend.
    #[must_use]
    pub(crate) fn instant(&self, time: Time) -> Instant {
        Instant::now() + Duration::from_nanos((time - self.now()).0)
    }

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

/// Other systems have no clock of this kind that is as cheap: a server must not be suspended there.
#[cfg(not(target_os = "linux"))]
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Wall-clock time in milliseconds since 1970.
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
        let later = clock.now() + pole_types::Span::from_ms(5_000);
        let ahead = clock.instant(later).saturating_duration_since(Instant::now());
        assert!(ahead > Duration::from_secs(4) && ahead <= Duration::from_secs(5), "{ahead:?}");
    }
}
