//! The clients that an attack must not hurt: sessions at every server that write and read all the time.
//!
//! They run on a thread of their own. What they saw is taken phase by phase: idle, under attack, afterwards.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pole_jute::{CreateMode, Request};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep, timeout};

use crate::Failure;
use crate::client::{self, Event, Session, Timing, drive};

/// The clients, until they are told to stop.
pub(super) struct Innocents {
    shared: Shared,
    thread: JoinHandle<Result<(), Failure>>,
}

/// What they saw since the last look.
#[derive(Clone, Debug, Default)]
pub(super) struct Phase {
    /// The longest that a request took, or has taken so far.
    pub(super) longest: Duration,
    /// What was asked then, and where.
    pub(super) what: String,
    /// Requests with an answer.
    pub(super) answered: u64,
    /// Connections lost, sessions expired, requests refused.
    pub(super) complaints: Vec<String>,
}

impl Innocents {
    /// Opens all sessions and waits until each has written once.
    pub(super) fn start(servers: &[SocketAddr], newcomers: bool) -> Result<Self, Failure> {
        let shared = Shared::default();
        let (servers, sessions) = (servers.to_vec(), servers.len() * SESSIONS_PER_SERVER);
        let theirs = shared.clone();
        let thread = std::thread::spawn(move || drive(all(servers, newcomers, theirs)));
        let innocents = Self { shared, thread };
        let deadline = Instant::now() + START_LIMIT;
        while innocents.shared.lock().begun < sessions {
            if innocents.thread.is_finished() || Instant::now() > deadline {
                innocents.stop()?;
                return Err(Failure::Check(format!("not all clients have a session after {START_LIMIT:?}")));
            }
            std::thread::sleep(STEP);
        }
        innocents.phase();
        Ok(innocents)
    }

    /// What they saw since the last call. A request that waits counts in both phases, in each for its part.
    pub(super) fn phase(&self) -> Phase {
        let now = Instant::now();
        let mut state = self.shared.lock();
        let waiting: Vec<(String, Instant)> = state.waiting.values().cloned().collect();
        for (what, since) in waiting {
            state.took(&what, now.saturating_duration_since(since));
        }
        for (_, since) in state.waiting.values_mut() {
            *since = now;
        }
        std::mem::take(&mut state.phase)
    }

    /// Ends them.
    pub(super) fn stop(self) -> Result<(), Failure> {
        self.shared.lock().stop = true;
        self.thread.join().unwrap_or_else(|_| Err(Failure::Check("the thread of the innocent clients panicked".into())))
    }
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    phase: Phase,
    /// Requests under way, by the number of the client.
    waiting: BTreeMap<usize, (String, Instant)>,
    /// Sessions that have written once.
    begun: usize,
    stop: bool,
}

impl State {
    fn took(&mut self, what: &str, took: Duration) {
        if took > self.phase.longest {
            self.phase.longest = took;
            what.clone_into(&mut self.phase.what);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic of another thread is told when it is joined.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn stops(&self) -> bool {
        self.lock().stop
    }

    fn asked(&self, client: usize, what: String) {
        self.lock().waiting.insert(client, (what, Instant::now()));
    }

    fn answered(&self, client: usize, complaint: Option<String>) {
        let mut state = self.lock();
        if let Some((what, since)) = state.waiting.remove(&client) {
            state.took(&what, since.elapsed());
        }
        state.phase.answered += 1;
        state.phase.complaints.extend(complaint);
    }

    fn complain(&self, what: String) {
        let mut state = self.lock();
        if !state.stop {
            state.phase.complaints.push(what);
        }
    }
}

async fn all(servers: Vec<SocketAddr>, newcomers: bool, shared: Shared) -> Result<(), Failure> {
    for (index, server) in servers.iter().enumerate() {
        for session in 0..SESSIONS_PER_SERVER {
            let client = index * SESSIONS_PER_SERVER + session;
            tokio::task::spawn_local(steady(client, index + 1, *server, shared.clone()));
        }
    }
    if newcomers {
        tokio::task::spawn_local(come_and_go(servers, shared.clone()));
    }
    while !shared.stops() {
        sleep(STEP).await;
    }
    Ok(())
}

/// One session that writes and reads in turn, one request at a time.
async fn steady(client: usize, server: usize, address: SocketAddr, shared: Shared) {
    let (session, events) = Session::open(vec![address], 0, TIMING);
    tokio::task::spawn_local(listen(client, server, events, shared.clone()));
    let path = format!("/innocent-{client}");
    if let Err(why) = session.ask(client::create(&path, b"", CreateMode::Persistent)).await {
        shared.complain(format!("client {client} at server {server} cannot begin: {why:?}"));
    }
    shared.lock().begun += 1;
    for turn in 0_u64.. {
        if shared.stops() {
            return;
        }
        let (what, request) = match turn % 2 {
            0 => ("write", client::set_data(&path, turn.to_string().as_bytes())),
            _ => ("read", client::get_data(&path, false)),
        };
        shared.asked(client, format!("a {what} at server {server}"));
        let refused = session.ask(request).await.err();
        shared.answered(client, refused.map(|why| format!("a {what} of client {client} at server {server}: {why:?}")));
        sleep(PAUSE).await;
    }
}

async fn listen(client: usize, server: usize, mut events: UnboundedReceiver<Event>, shared: Shared) {
    while let Some(event) = events.recv().await {
        match event {
            Event::Connected(_) | Event::Watch(_) | Event::Overtaken(_) => (),
            Event::Disconnected(_, why) => shared.complain(format!("client {client} lost server {server}: {why}")),
            Event::NotTaken(_) => shared.complain(format!("client {client} was not taken by server {server}")),
            Event::Expired => shared.complain(format!("the session of client {client} at server {server} expired")),
        }
    }
}

/// New sessions, one after the other: a server that serves only those it has serves nobody for long.
async fn come_and_go(servers: Vec<SocketAddr>, shared: Shared) {
    let me = servers.len() * SESSIONS_PER_SERVER;
    for turn in 0.. {
        if shared.stops() {
            return;
        }
        let index = turn % servers.len();
        let what = format!("a new session at server {}", index + 1);
        shared.asked(me, what.clone());
        let visit = async {
            let (session, _events) = Session::open(vec![servers[index]], 0, TIMING);
            let read = session.ask(client::get_data("/", false)).await;
            let _ = session.ask(Request::CloseSession).await;
            read
        };
        let complaint = match timeout(NEWCOMER_LIMIT, visit).await {
            Ok(Ok(_)) => None,
            Ok(Err(why)) => Some(format!("{what}: {why:?}")),
            Err(_) => Some(format!("{what}: not within {NEWCOMER_LIMIT:?}")),
        };
        shared.answered(me, complaint);
        sleep(NEWCOMER_PAUSE).await;
    }
}

/// Enough to meet every thread of a server that serves clients.
const SESSIONS_PER_SERVER: usize = 3;

/// Between two requests of a session: some hundred requests a second in all, so that no pause of a tenth of a second is missed
/// and the machine is left to the servers.
const PAUSE: Duration = Duration::from_millis(20);

const NEWCOMER_PAUSE: Duration = Duration::from_millis(300);
const NEWCOMER_LIMIT: Duration = Duration::from_secs(5);

const STEP: Duration = Duration::from_millis(10);
const START_LIMIT: Duration = Duration::from_secs(20);

/// A client that gives up its server only when its session is over: whatever else breaks a connection is the server's doing.
const TIMING: Timing = Timing {
    session_timeout: Duration::from_secs(10),
    silence_max: Duration::from_secs(10),
    reconnect_pause: Duration::from_millis(100),
};
