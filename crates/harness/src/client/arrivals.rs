//! Open-loop load: requests arrive at a given rate, whether or not the earlier ones are answered.
//!
//! The gaps between arrivals are exponentially distributed and drawn from a fixed seed, so every server gets the same
//! arrivals. A latency counts from the time at which the request was due, so a generator or a server that falls behind
//! cannot hide it. How late the requests were sent is measured too.
//!
//! Tokio's timers have a resolution of a millisecond, which is more than a write takes. The lanes therefore wait on a
//! timer of the kernel (`PreciseTimer`).

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use super::Error;
use super::load::{ANSWER_LIMIT, Lane, Runner, Tally, Window};
use crate::rng::Rng;

/// Sessions that are open, and the rate of the requests that arrive at each.
pub struct Arrivals {
    lanes: Vec<Runner>,
    per_lane: f64,
}

/// The result of a load with arrivals.
pub struct Measured {
    /// The replies to requests that were due within the window.
    pub tally: Tally,
    /// How late these requests were sent, in microseconds.
    pub lateness: Histogram<u64>,
}

impl Arrivals {
    /// Opens the session of every lane. `rate` is the number of requests per second over all lanes.
    pub async fn open(lanes: &[Lane], rate: u32) -> Result<Self, Error> {
        let mut opening = JoinSet::new();
        for lane in lanes {
            let lane = lane.clone();
            opening.spawn_local(async move { Runner::open(&lane).await });
        }
        let mut opened = Vec::new();
        while let Some(runner) = opening.join_next().await {
            opened.push(runner.expect("no task of ours panics")?);
        }
        let per_lane = f64::from(rate) / opened.len().max(1) as f64;
        Ok(Self { lanes: opened, per_lane })
    }

    /// Sends requests from now until the window ends, waits for the replies, and closes the sessions.
    pub async fn run(self, window: Window) -> Result<Measured, Error> {
        let start = Instant::now();
        let mut running = JoinSet::new();
        for (seed, runner) in (0..).zip(self.lanes) {
            let schedule =
                Schedule { next: start, gap: Duration::from_secs_f64(1.0 / self.per_lane), rng: Rng::new(seed) };
            running.spawn_local(run_lane(runner, schedule, window));
        }
        let all = async {
            let mut total = Measured { tally: Tally::new(), lateness: lateness() };
            while let Some(done) = running.join_next().await {
                let Measured { tally, lateness } = done.expect("no task of ours panics")?;
                total.tally.add(&tally);
                total.lateness.add(&lateness).expect("all have the same bounds");
            }
            Ok::<_, Error>(total)
        };
        match timeout_at((window.until + ANSWER_LIMIT).into(), all).await.map_err(|_| Error::Silent(ANSWER_LIMIT))?? {
            measured if measured.tally.replies == 0 => Err(Error::Silent(window.until - window.from)),
            measured => Ok(measured),
        }
    }
}

/// The times at which requests of one lane are due.
struct Schedule {
    next: Instant,
    /// The mean time between two requests.
    gap: Duration,
    rng: Rng,
}

impl Schedule {
    fn advance(&mut self) {
        // In (0, 1], so that its logarithm is finite.
        let uniform = (self.rng.below(RESOLUTION) + 1) as f64 / RESOLUTION as f64;
        self.next += self.gap.mul_f64(-uniform.ln());
    }
}

async fn run_lane(mut runner: Runner, mut schedule: Schedule, window: Window) -> Result<Measured, Error> {
    let timer = PreciseTimer::new()?;
    let mut late = lateness();
    let counts = |due: Instant| due >= window.from && due < window.until;
    schedule.advance();
    loop {
        let now = Instant::now();
        while schedule.next <= now && schedule.next < window.until {
            runner.send(schedule.next);
            if counts(schedule.next) {
                late.saturating_record((now - schedule.next).as_micros() as u64);
            }
            schedule.advance();
        }
        runner.connection.flush().await?;
        let is_over = schedule.next >= window.until;
        if is_over && runner.is_idle() {
            return Ok(Measured { tally: runner.close().await?, lateness: late });
        }
        tokio::select! {
            filled = runner.connection.fill() => filled?,
            waited = timer.wait_until(schedule.next), if !is_over => waited?,
        }
        runner.take_replies(counts)?;
    }
}

/// A timer with the resolution of the kernel's clock.
struct PreciseTimer {
    timer: AsyncFd<OwnedFd>,
}

impl PreciseTimer {
    #[expect(deprecated, reason = "its replacement is unsafe; `OwnedFd` keeps the descriptor open, as that one asks")]
    fn new() -> std::io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        Ok(Self { timer: AsyncFd::new(timer)? })
    }

    /// Waits until this time. Cancel-safe: the next call sets the timer anew.
    async fn wait_until(&self, due: Instant) -> std::io::Result<()> {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        timerfd_settime(
            self.timer.get_ref(),
            TimerfdTimerFlags::empty(),
            &Itimerspec { it_interval: zero, it_value: value },
        )?;
        loop {
            let mut ready = self.timer.readable().await?;
            let mut expirations = [0; 8];
            match ready.try_io(|timer| Ok(rustix::io::read(timer.get_ref(), &mut expirations)?)) {
                Ok(read) => return read.map(drop),
                Err(_would_block) => {}
            }
        }
    }
}

fn lateness() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENESS_US_MAX, 3).expect("the bounds are in order")
}

/// Steps of the random numbers behind the gaps.
const RESOLUTION: usize = 1 << 32;

/// Longer delays are recorded as this value.
const LATENESS_US_MAX: u64 = 60_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Failure;
    use crate::client::echo::Echo;
    use crate::client::{drive, set_data};

    #[test]
    fn requests_arrive_at_the_rate_and_every_one_is_answered() {
        let echo = Echo::start().unwrap();
        let lane = Lane { address: echo.address(), request: set_data("/a", b""), outstanding: 1 };
        let measured = drive(async {
            let arrivals =
                Arrivals::open(&[lane.clone(), lane], 1000).await.map_err(|why| Failure::Check(why.to_string()))?;
            let from = Instant::now();
            let window = Window { from, until: from + Duration::from_millis(500) };
            arrivals.run(window).await.map_err(|why| Failure::Check(why.to_string()))
        });
        let measured = measured.unwrap();
        // Poisson with a mean of 500: far beyond six standard deviations.
        assert!((350..650).contains(&measured.tally.replies), "{}", measured.tally.replies);
        assert_eq!(measured.lateness.len(), measured.tally.replies);
    }

    #[test]
    fn the_same_seed_gives_the_same_arrivals() {
        let start = Instant::now();
        let times = |seed| {
            let mut schedule = Schedule { next: start, gap: Duration::from_millis(1), rng: Rng::new(seed) };
            (0..100)
                .map(|_| {
                    schedule.advance();
                    schedule.next
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(times(3), times(3));
        assert_ne!(times(3), times(4));
    }
}
