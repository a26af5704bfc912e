//! Clocks that measure spans for the guard.
//!
//! The default is the time since boot *including* suspension (`CLOCK_BOOTTIME`). The monotonic clock of the standard
//! library stands still while a machine sleeps, and a leader that wakes up would believe in a lease that ended hours
//! ago. A virtual machine that is paused by its host may see neither clock move until a moment after it resumes; only
//! the fencing token protects from that.

use pole_types::Time;

/// A clock that never goes back. Its zero is arbitrary.
pub trait Clock: Send + Sync + 'static {
    /// The present.
    fn now(&self) -> Time;
}

/// The time since boot, including suspension.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> Time {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let id = rustix::time::ClockId::Boottime;
        // Counts suspension too on these systems.
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let id = rustix::time::ClockId::Monotonic;
        let time = rustix::time::clock_gettime(id);
        let (seconds, nanos) = (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_nsec).unwrap_or(0));
        Time(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
    }
}

/// tokio's clock, which tests can pause. It does not count suspension.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    zero: tokio::time::Instant,
}

impl TokioClock {
    /// A clock whose zero is now.
    #[must_use]
    pub fn start() -> Self {
        Self { zero: tokio::time::Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Time {
        // Not zero at the start: a deadline of zero means that there is none.
        Time(1 + u64::try_from(self.zero.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_does_not_go_back() {
        let first = BootClock.now();
        assert!(first > Time(0));
        assert!((0..1000).map(|_| BootClock.now()).is_sorted_by(|a, b| a >= &first && a <= b));
    }
}
