//! Writes at a steady rate for as long as the caller measures something else, with the time that each took.
//!
//! They are due at fixed times, whether or not earlier ones are answered, so a server that pauses cannot hide it. A
//! write whose connection broke is sent again, and counts until a server has acknowledged it. The sessions run on a
//! thread of their own; times are exact to about a millisecond.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pole_jute::{CreateMode, ErrorCode};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval_at};

use super::{Refusal, Session, Timing, create, drive, set_data};
use crate::Failure;

/// Running writers. Without [`Self::stop`] the thread ends with the program.
#[derive(Debug)]
pub struct Steady {
    shared: Arc<Shared>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Result<(), Failure>>,
}

impl Steady {
    /// Opens two sessions at every server, and waits until each has written once.
    pub fn start(servers: &[SocketAddr], writes_per_second: u32) -> Result<Self, Failure> {
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = oneshot::channel();
        let (servers, of_thread) = (servers.to_vec(), Arc::clone(&shared));
        let sessions = servers.len() * SESSIONS_PER_SERVER;
        let thread = std::thread::spawn(move || {
            drive(async {
                tokio::select! {
                    ended = write_all(servers, writes_per_second, of_thread) => ended,
                    _ = stopped => Ok(()),
                }
            })
        });
        let steady = Self { shared, stop, thread };
        drop(steady.shared.wait("a first write of every session", |state| state.ready == sessions)?);
        Ok(steady)
    }

    /// The longest time that a write took that was due in this interval. Waits until all of them are acknowledged.
    pub fn longest(&self, from: Instant, until: Instant) -> Result<Duration, Failure> {
        self.shared.longest(from, until)
    }

    /// The time from `since` to the first acknowledgement of a write that was due after it.
    pub fn next_write(&self, since: Instant) -> Result<Duration, Failure> {
        self.shared.next_write(since)
    }

    /// Ends the sessions, and fails if one had expired.
    pub fn stop(self) -> Result<(), Failure> {
        // An error means that the thread has ended, which `join` explains.
        let _ = self.stop.send(());
        self.thread.join().unwrap_or_else(|_| Err(Failure::Check("the thread of the steady writes panicked".into())))
    }
}

/// An acknowledged write.
#[derive(Clone, Copy, Debug)]
struct Write {
    due: Instant,
    acknowledged: Instant,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Sessions whose first write is acknowledged.
    ready: usize,
    /// In the order of their acknowledgements.
    done: Vec<Write>,
    /// When writes were due that are not acknowledged yet, with their session.
    waiting: BTreeSet<(Instant, usize)>,
    /// Why no further write is sent.
    failed: Option<String>,
}

impl Shared {
    fn longest(&self, from: Instant, until: Instant) -> Result<Duration, Failure> {
        let is_answered = |state: &State| !state.waiting.iter().any(|(due, _)| *due < until);
        let state = self.wait("the last write of an interval", is_answered)?;
        let within = state.done.iter().filter(|write| write.due >= from && write.due < until);
        let longest = within.map(|write| write.acknowledged - write.due).max();
        longest.ok_or_else(|| Failure::Check("no write was due in an interval that was measured".into()))
    }

    fn next_write(&self, since: Instant) -> Result<Duration, Failure> {
        let first = |state: &State| state.done.iter().rev().take_while(|write| write.acknowledged >= since).count();
        let recent =
            |state: &State| state.done[state.done.len() - first(state)..].iter().find(|w| w.due >= since).copied();
        let state = self.wait("a write after a signal", |state| recent(state).is_some())?;
        let write = recent(&state).expect("this is what was waited for");
        Ok(write.acknowledged - since)
    }

    fn wait(&self, what: &str, done: impl Fn(&State) -> bool) -> Result<MutexGuard<'_, State>, Failure> {
        let pending = |state: &mut State| state.failed.is_none() && !done(state);
        let waited = self.changed.wait_timeout_while(self.lock(), ANSWER_LIMIT, pending);
        let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        match &state.failed {
            Some(why) => Err(Failure::Check(why.clone())),
            None if waited.timed_out() => Err(Failure::Check(format!("{what}: not within {ANSWER_LIMIT:?}"))),
            None => Ok(state),
        }
    }
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic of another thread is reported when it is joined.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}

async fn write_all(servers: Vec<SocketAddr>, writes_per_second: u32, shared: Arc<Shared>) -> Result<(), Failure> {
    let sessions = servers.len() * SESSIONS_PER_SERVER;
    let gap = Duration::from_secs(1) * u32::try_from(sessions).unwrap_or(1) / writes_per_second.max(1);
    let mut running = JoinSet::new();
    for number in 0..sessions {
        let (session, _) = Session::open(servers.clone(), number, TIMING);
        let offset = gap * u32::try_from(number).unwrap_or(0) / u32::try_from(sessions).unwrap_or(1);
        running.spawn_local(write_at_rate(session, number, offset, gap, Arc::clone(&shared)));
    }
    // Only a failure ends a session.
    let ended = running.join_next().await;
    let why = ended.and_then(Result::ok).unwrap_or_else(|| "a session of the steady writes panicked".into());
    shared.change(|state| state.failed = Some(why.clone()));
    Err(Failure::Check(why))
}

/// Writes until the session is over. Returns the reason.
async fn write_at_rate(
    session: Session,
    number: usize,
    offset: Duration,
    gap: Duration,
    shared: Arc<Shared>,
) -> String {
    let path = format!("/steady-{number}");
    loop {
        match session.ask(create(&path, &[b'x'; PAYLOAD_BYTES], CreateMode::Persistent)).await {
            Ok(_) | Err(Refusal::Code(ErrorCode::NodeExists, _)) => break,
            Err(Refusal::Lost) => (),
            Err(why @ (Refusal::Code(..) | Refusal::Expired)) => return format!("a steady write was refused: {why:?}"),
        }
    }
    shared.change(|state| state.ready += 1);
    let mut writes = JoinSet::new();
    let mut pace = interval_at(tokio::time::Instant::now() + offset, gap);
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    loop {
        tokio::select! {
            due = pace.tick() => {
                let due = due.into_std();
                // Nobody is woken for this: it makes no condition true.
                shared.lock().waiting.insert((due, number));
                writes.spawn_local(write(session.clone(), path.clone(), due, number, Arc::clone(&shared)));
            }
            Some(ended) = writes.join_next() => {
                if let Ok(Err(why)) = ended {
                    return why;
                }
            }
        }
    }
}

async fn write(session: Session, path: String, due: Instant, number: usize, shared: Arc<Shared>) -> Result<(), String> {
    loop {
        match session.ask(set_data(&path, &[b'x'; PAYLOAD_BYTES])).await {
            Ok(_) => break,
            Err(Refusal::Lost) => (),
            Err(why @ (Refusal::Code(..) | Refusal::Expired)) => return Err(format!("a steady write failed: {why:?}")),
        }
    }
    shared.change(|state| {
        state.waiting.remove(&(due, number));
        state.done.push(Write { due, acknowledged: Instant::now() });
    });
    Ok(())
}

/// Clients that try again at once, because the servers are measured.
const TIMING: Timing = Timing {
    session_timeout: Duration::from_secs(40),
    silence_max: Duration::from_secs(15),
    reconnect_pause: Duration::from_millis(5),
};

const SESSIONS_PER_SERVER: usize = 2;
const PAYLOAD_BYTES: usize = 100;

/// No pause of a server that works takes this long.
const ANSWER_LIMIT: Duration = Duration::from_secs(90);

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(start: Instant, writes: &[(u64, u64)], waiting: &[u64]) -> Shared {
        let at = |ms: u64| start + Duration::from_millis(ms);
        let shared = Shared::default();
        shared.change(|state| {
            state.done = writes.iter().map(|(due, end)| Write { due: at(*due), acknowledged: at(*end) }).collect();
            state.waiting = waiting.iter().map(|due| (at(*due), 0)).collect();
        });
        shared
    }

    #[test]
    fn the_longest_write_is_one_that_was_due_in_the_interval() {
        let start = Instant::now();
        let until = start + Duration::from_millis(20);
        let measured = shared(start, &[(0, 3), (10, 14), (20, 99)], &[30]).longest(start, until);
        assert_eq!(measured, Ok(Duration::from_millis(4)));
        assert!(shared(start, &[(20, 99)], &[]).longest(start, until).is_err());
    }

    #[test]
    fn the_next_write_is_the_first_to_be_acknowledged_of_those_due_later() {
        let start = Instant::now();
        let measured =
            shared(start, &[(0, 6), (4, 7), (8, 9), (6, 12)], &[]).next_write(start + Duration::from_millis(5));
        assert_eq!(measured, Ok(Duration::from_millis(4)));
    }

    #[test]
    fn a_failure_ends_every_wait() {
        let start = Instant::now();
        let broken = shared(start, &[], &[0]);
        broken.change(|state| state.failed = Some("gone".into()));
        assert_eq!(broken.next_write(start), Err(Failure::Check("gone".into())));
    }
}
