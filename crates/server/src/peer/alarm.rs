//! Timers with a resolution of a fraction of a millisecond.
//!
//! The timers of the runtime tick in milliseconds, and an emulated link of 0.1 ms must not become one of 1 ms. Here one
//! thread waits for the earliest instant on a condition variable, whose timeout the kernel keeps to some 50 µs, and
//! wakes the tasks that are due. The thread starts with the first sleep and ends with the last handle.
//!
//! What is delayed is in `delay`.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use pole_types::Time;

/// A clock with precise timers. Clones share the thread.
#[derive(Clone, Debug)]
pub struct Alarm(Arc<Handle>);

/// Ends the thread when the last clone is dropped.
#[derive(Debug)]
struct Handle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    start: Instant,
    sleepers: Mutex<Sleepers>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Sleepers {
    by_instant: BTreeMap<(Time, u64), Waker>,
    /// Distinguishes sleepers with the same instant.
    next: u64,
    running: bool,
    ended: bool,
}

impl Alarm {
    /// Creates a clock that starts at zero.
    #[must_use]
    pub fn new() -> Self {
        let shared = Shared { start: Instant::now(), sleepers: Mutex::default(), changed: Condvar::new() };
        Self(Arc::new(Handle(Arc::new(shared))))
    }

    /// The time since the start.
    #[must_use]
    pub fn now(&self) -> Time {
        self.0.0.now()
    }

    /// Returns a future that is ready at that time or slightly later.
    #[must_use]
    pub fn sleep_until(&self, at: Time) -> Sleep {
        Sleep { shared: Arc::clone(&self.0.0), at, key: None }
    }
}

impl Default for Alarm {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_one();
    }
}

/// A pending sleep. Dropping it cancels it.
#[derive(Debug)]
pub struct Sleep {
    shared: Arc<Shared>,
    at: Time,
    key: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.shared.now() >= self.at {
            return Poll::Ready(());
        }
        let shared = Arc::clone(&self.shared);
        let mut sleepers = shared.lock();
        let key = *self.key.get_or_insert_with(|| {
            sleepers.next += 1;
            sleepers.next
        });
        let earliest = sleepers.by_instant.first_key_value().is_none_or(|((at, _), _)| self.at < *at);
        sleepers.by_instant.insert((self.at, key), context.waker().clone());
        if !sleepers.running {
            sleepers.running = true;
            let shared = Arc::clone(&shared);
            let thread = thread::Builder::new().name("alarm".into()).spawn(move || shared.run());
            thread.expect("the system has a thread for emulated delays");
        } else if earliest {
            shared.changed.notify_one();
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.shared.lock().by_instant.remove(&(self.at, key));
        }
    }
}

impl Shared {
    fn now(&self) -> Time {
        // Overflows after 584 years.
        Time(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// A waker that panics does not corrupt the map, so poisoning can be ignored.
    fn lock(&self) -> MutexGuard<'_, Sleepers> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The body of the thread: wakes the sleepers that are due.
    fn run(&self) {
        let mut sleepers = self.lock();
        while !sleepers.ended {
            let now = self.now();
            let Some(first) = sleepers.by_instant.first_entry() else {
                sleepers = self.changed.wait(sleepers).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let (at, _) = *first.key();
            if at <= now {
                let waker = first.remove();
                drop(sleepers);
                waker.wake();
                sleepers = self.lock();
            } else {
                let left = Duration::from_nanos((at - now).0);
                let woken = self.changed.wait_timeout(sleepers, left);
                sleepers = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on(sleep: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(sleep);
    }

    #[test]
    fn a_sleep_is_never_short_and_an_earlier_one_is_not_kept_by_a_later() {
        let alarm = Alarm::new();
        let (near, far) = (Time(3_000_000), Time(60_000_000_000));
        let mut long = alarm.sleep_until(far);
        block_on(async {
            let first_poll = std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut long).poll(context)));
            assert_eq!(first_poll.await, Poll::Pending);
            alarm.sleep_until(near).await;
        });
        assert!((near..far).contains(&alarm.now()));
    }

    #[test]
    fn a_sleep_that_is_dropped_is_forgotten() {
        let alarm = Alarm::new();
        let mut sleep = alarm.sleep_until(Time(60_000_000_000));
        let pending = Pin::new(&mut sleep).poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(pending, Poll::Pending);
        assert_eq!(alarm.0.0.lock().by_instant.len(), 1);
        drop(sleep);
        assert_eq!(alarm.0.0.lock().by_instant.len(), 0);
    }
}
