//! Clients during a move: sessions that hold ephemeral nodes and watches, and sessions that write.
//!
//! They run on a thread of their own, know the addresses of all servers from the beginning, and are told nothing of the
//! move. What they see is collected in [`Seen`].

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pole_jute::{CreateMode, ErrorCode};

use crate::Failure;
use crate::client::{Event, Refusal, Session, Timing, create, drive, get_data, set_data};

/// What the clients have seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Sessions that are over, with the reason. There should be none.
    pub(super) over: Vec<String>,
    /// Holders that have their ephemeral node and their watch.
    pub(super) holding: usize,
    /// Holders that have a connection now.
    pub(super) connected: usize,
    /// Events of the watch on [`SIGNAL`].
    pub(super) signals: usize,
    /// The last value of each writer that a server acknowledged.
    pub(super) acknowledged: Vec<u64>,
    /// All acknowledgements.
    pub(super) writes: u64,
    last: Option<Instant>,
    /// The longest time between two acknowledgements since [`Clients::reset`].
    pub(super) longest_gap: Duration,
}

impl Seen {
    /// Notes the result of a write. Returns whether the session goes on.
    fn wrote(&mut self, number: usize, value: u64, result: Result<(), Refusal>) -> bool {
        match result {
            Ok(()) => {
                let now = Instant::now();
                let gap = self.last.replace(now).map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
                self.longest_gap = self.longest_gap.max(gap);
                self.acknowledged[number] = value;
                self.writes += 1;
            }
            // It may be written or not; the next value shows.
            Err(Refusal::Lost) => {}
            Err(why) => {
                self.over.push(format!("writer {number}: {why:?}"));
                return false;
            }
        }
        true
    }
}

/// The clients.
pub(super) struct Clients {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    paused: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), Failure>>>,
}

impl Clients {
    /// Starts them. The parents of their nodes have to exist.
    pub(super) fn start(addresses: Vec<SocketAddr>, holders: usize) -> Self {
        let seen = Arc::new(Mutex::new(Seen { acknowledged: vec![0; WRITERS], ..Seen::default() }));
        let (stop, paused) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let run = Run { addresses, holders, seen: seen.clone(), stop: stop.clone(), paused: paused.clone() };
        let thread = std::thread::spawn(move || drive(run.all()));
        Self { seen, stop, paused, thread: Some(thread) }
    }

    pub(super) fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }

    /// Begins to measure the longest gap anew.
    pub(super) fn reset(&self) {
        let mut seen = lock(&self.seen);
        (seen.longest_gap, seen.last) = (Duration::ZERO, Some(Instant::now()));
    }

    /// Stops or continues the writes. What is under way when they stop is answered within the session timeout.
    pub(super) fn pause(&self, paused: bool) {
        self.paused.store(paused, Ordering::Relaxed);
        if !paused {
            self.reset();
        }
    }

    /// Waits until `holds`, and fails with `what` after a minute.
    pub(super) fn wait(&self, what: &str, holds: impl Fn(&Seen) -> bool) -> Result<Seen, Failure> {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            let seen = self.seen();
            if !seen.over.is_empty() {
                return Err(Failure::Check(format!("sessions are over: {}", seen.over.join("; "))));
            }
            if holds(&seen) {
                return Ok(seen);
            }
            if Instant::now() > deadline {
                return Err(Failure::Check(format!("no end of waiting for {what}; the clients have seen {seen:?}")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends them.
    pub(super) fn end(mut self) -> Result<Seen, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().map_err(|_| Failure::Check("the thread of the clients panicked".to_owned()))??;
        }
        Ok(self.seen())
    }
}

struct Run {
    addresses: Vec<SocketAddr>,
    holders: usize,
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    paused: Arc<AtomicBool>,
}

impl Run {
    async fn all(self) -> Result<(), Failure> {
        let run = std::rc::Rc::new(self);
        for number in 0..run.holders {
            tokio::task::spawn_local(run.clone().hold(number));
        }
        for number in 0..WRITERS {
            tokio::task::spawn_local(run.clone().write(number));
        }
        while !run.stop.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    fn open(&self, number: usize) -> (Session, tokio::sync::mpsc::UnboundedReceiver<Event>) {
        let timing = Timing {
            session_timeout: SESSION_TIMEOUT,
            silence_max: SESSION_TIMEOUT / 3,
            reconnect_pause: Duration::from_millis(20),
        };
        // The first addresses are those of the servers that run.
        Session::open(self.addresses.clone(), number % 3, timing)
    }

    /// Holds an ephemeral node and a watch until the end.
    async fn hold(self: std::rc::Rc<Self>, number: usize) {
        let (session, mut events) = self.open(number);
        let node = create(&format!("{HELD}/s{number}"), b"held", CreateMode::Ephemeral);
        let watch = get_data(SIGNAL, true);
        let (created, watched) = (session.ask(node).await, session.ask(watch).await);
        if created.is_err() || watched.is_err() {
            lock(&self.seen).over.push(format!("holder {number}: {created:?}, {watched:?}"));
            return;
        }
        lock(&self.seen).holding += 1;
        let mut connected = false;
        while let Some(event) = events.recv().await {
            let mut seen = lock(&self.seen);
            match event {
                Event::Connected(_) if !connected => {
                    connected = true;
                    seen.connected += 1;
                }
                Event::Disconnected(..) if connected => {
                    connected = false;
                    seen.connected -= 1;
                }
                Event::Watch(event) if event.path == SIGNAL => {
                    seen.signals += 1;
                    drop(seen);
                    // A watch fires once.
                    drop(session.ask(get_data(SIGNAL, true)));
                }
                Event::Expired => seen.over.push(format!("holder {number} has expired")),
                Event::WatchOvertaken(path) => seen.over.push(format!("holder {number} read {path} before its event")),
                Event::Connected(_) | Event::Disconnected(..) | Event::Watch(_) | Event::ConnectFailed { .. } => {}
            }
        }
    }

    /// Writes ascending numbers to a node of its own.
    async fn write(self: std::rc::Rc<Self>, number: usize) {
        let (session, _events) = self.open(number);
        let path = writer_path(number);
        match session.ask(create(&path, b"0", CreateMode::Persistent)).await {
            Ok(_) | Err(Refusal::Code(ErrorCode::NodeExists, _)) => {}
            Err(why) => lock(&self.seen).over.push(format!("writer {number}: {why:?}")),
        }
        for value in 1_u64.. {
            while self.paused.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let result = session.ask(set_data(&path, value.to_string().as_bytes())).await;
            let goes_on = lock(&self.seen).wrote(number, value, result.map(drop));
            if !goes_on {
                return;
            }
            tokio::time::sleep(WRITE_PAUSE).await;
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn writer_path(number: usize) -> String {
    format!("{ROOT}/writer{number}")
}

/// The parent of everything.
pub(super) const ROOT: &str = "/move";
/// The parent of the ephemeral nodes.
pub(super) const HELD: &str = "/move/held";
/// The node that all holders watch.
pub(super) const SIGNAL: &str = "/move/signal";

pub(super) const WRITERS: usize = 4;

/// A load that leaves time for everything else on two cores.
const WRITE_PAUSE: Duration = Duration::from_millis(5);

/// Longer than any pause that is allowed, and shorter than what Apache grants with its default tick.
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);

const WAIT_MAX: Duration = Duration::from_secs(60);
