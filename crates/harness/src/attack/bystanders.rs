//! The bystanders: clients that an attack must not disturb. They have sessions at every server and write and read
//! all the time.
//!
//! They run on their own thread. Their observations are taken phase by phase: idle, during the attack, afterwards.

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

/// Running clients.
pub(super) struct Bystanders {
    shared: Shared,
    thread: JoinHandle<Result<(), Failure>>,
}

/// Observations of the bystanders in one phase.
#[derive(Clone, Debug, Default)]
pub(super) struct Phase {
    /// The longest time that a request took, or has been waiting so far.
    pub(super) longest: Duration,
    /// A description of that request and its server.
    pub(super) what: String,
    /// The number of requests with a reply.
    pub(super) answered: u64,
    /// Connections lost, sessions expired, requests refused.
    pub(super) problems: Vec<String>,
}

impl Bystanders {
    /// Opens all sessions and waits until each has written once.
    pub(super) fn start(servers: &[SocketAddr], new_sessions: bool) -> Result<Self, Failure> {
        let shared = Shared::default();
        let (servers, sessions) = (servers.to_vec(), servers.len() * SESSIONS_PER_SERVER);
        let thread_shared = shared.clone();
        let thread = std::thread::spawn(move || drive(run_clients(servers, new_sessions, thread_shared)));
        let bystanders = Self { shared, thread };
        let deadline = Instant::now() + START_LIMIT;
        while bystanders.shared.lock().ready < sessions {
            if bystanders.thread.is_finished() || Instant::now() > deadline {
                bystanders.stop()?;
                return Err(Failure::Check(format!("not all clients have a session after {START_LIMIT:?}")));
            }
            std::thread::sleep(STEP);
        }
        bystanders.phase();
        Ok(bystanders)
    }

    /// Ends the current phase and returns its observations. A request that is waiting counts in both phases, in each
    /// with the time that it waited there.
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

    /// Waits until this phase has as many answers as there are sessions, at most [`ANSWERS_LIMIT`]. Without this, an
    /// attack that takes less than [`PAUSE`] could end before any client has sent a request.
    pub(super) fn await_answers(&self) {
        let deadline = Instant::now() + ANSWERS_LIMIT;
        loop {
            let state = self.shared.lock();
            if state.phase.answered >= state.ready as u64 || Instant::now() > deadline {
                return;
            }
            drop(state);
            std::thread::sleep(STEP);
        }
    }

    /// Stops the clients and waits for their thread.
    pub(super) fn stop(self) -> Result<(), Failure> {
        self.shared.lock().stop = true;
        self.thread.join().unwrap_or_else(|_| Err(Failure::Check("the thread of the bystanders panicked".into())))
    }
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    phase: Phase,
    /// Requests in flight, by the number of the client.
    waiting: BTreeMap<usize, (String, Instant)>,
    /// The number of sessions that have written once.
    ready: usize,
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
        // A panic of another thread is reported when it is joined.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn is_stopping(&self) -> bool {
        self.lock().stop
    }

    fn request_sent(&self, client: usize, what: String) {
        self.lock().waiting.insert(client, (what, Instant::now()));
    }

    fn answered(&self, client: usize, problem: Option<String>) {
        let mut state = self.lock();
        if let Some((what, since)) = state.waiting.remove(&client) {
            state.took(&what, since.elapsed());
        }
        state.phase.answered += 1;
        state.phase.problems.extend(problem);
    }

    fn report_problem(&self, what: String) {
        let mut state = self.lock();
        if !state.stop {
            state.phase.problems.push(what);
        }
    }
}

async fn run_clients(servers: Vec<SocketAddr>, new_sessions: bool, shared: Shared) -> Result<(), Failure> {
    for (index, server) in servers.iter().enumerate() {
        for session in 0..SESSIONS_PER_SERVER {
            let client = index * SESSIONS_PER_SERVER + session;
            tokio::task::spawn_local(run_session(client, index + 1, *server, shared.clone()));
        }
    }
    if new_sessions {
        tokio::task::spawn_local(open_new_sessions(servers, shared.clone()));
    }
    while !shared.is_stopping() {
        sleep(STEP).await;
    }
    Ok(())
}

/// One session that writes and reads in turn, one request at a time.
async fn run_session(client: usize, server: usize, address: SocketAddr, shared: Shared) {
    let (session, events) = Session::open(vec![address], 0, TIMING);
    tokio::task::spawn_local(listen(client, server, events, shared.clone()));
    let path = format!("/bystander-{client}");
    if let Err(why) = session.ask(client::create(&path, b"", CreateMode::Persistent)).await {
        shared.report_problem(format!("client {client} at server {server} cannot begin: {why:?}"));
    }
    shared.lock().ready += 1;
    for turn in 0_u64.. {
        if shared.is_stopping() {
            return;
        }
        let (what, request) = match turn % 2 {
            0 => ("write", client::set_data(&path, turn.to_string().as_bytes())),
            _ => ("read", client::get_data(&path, false)),
        };
        shared.request_sent(client, format!("a {what} at server {server}"));
        let refused = session.ask(request).await.err();
        shared.answered(client, refused.map(|why| format!("a {what} of client {client} at server {server}: {why:?}")));
        sleep(PAUSE).await;
    }
}

async fn listen(client: usize, server: usize, mut events: UnboundedReceiver<Event>, shared: Shared) {
    while let Some(event) = events.recv().await {
        match event {
            Event::Connected(_) | Event::Watch(_) | Event::WatchOvertaken(_) => (),
            Event::Disconnected(_, why) => {
                shared.report_problem(format!("client {client} lost server {server}: {why}"))
            }
            Event::ConnectFailed { .. } => {
                shared.report_problem(format!("client {client} was not taken by server {server}"))
            }
            Event::Expired => {
                shared.report_problem(format!("the session of client {client} at server {server} expired"))
            }
        }
    }
}

/// Opens new sessions, one after the other: a server must not only serve those that it already has.
async fn open_new_sessions(servers: Vec<SocketAddr>, shared: Shared) {
    let client = servers.len() * SESSIONS_PER_SERVER;
    for turn in 0.. {
        if shared.is_stopping() {
            return;
        }
        let index = turn % servers.len();
        let what = format!("a new session at server {}", index + 1);
        shared.request_sent(client, what.clone());
        let short_session = async {
            let (session, _events) = Session::open(vec![servers[index]], 0, TIMING);
            let read = session.ask(client::get_data("/", false)).await;
            let _ = session.ask(Request::CloseSession).await;
            read
        };
        let problem = match timeout(NEW_SESSION_LIMIT, short_session).await {
            Ok(Ok(_)) => None,
            Ok(Err(why)) => Some(format!("{what}: {why:?}")),
            Err(_) => Some(format!("{what}: not within {NEW_SESSION_LIMIT:?}")),
        };
        shared.answered(client, problem);
        sleep(NEW_SESSION_PAUSE).await;
    }
}

/// Enough to use every client thread of a server.
const SESSIONS_PER_SERVER: usize = 3;

/// The pause between two requests of a session. In total these are some hundred requests per second: enough to notice
/// every pause of a tenth of a second, with little CPU time.
const PAUSE: Duration = Duration::from_millis(20);

const NEW_SESSION_PAUSE: Duration = Duration::from_millis(300);
const NEW_SESSION_LIMIT: Duration = Duration::from_secs(5);

/// As long as a session lasts without its server.
const ANSWERS_LIMIT: Duration = Duration::from_secs(10);

const STEP: Duration = Duration::from_millis(10);
const START_LIMIT: Duration = Duration::from_secs(20);

/// A client drops its connection only when its session would be over, so any earlier disconnect is caused by the
/// server.
const TIMING: Timing = Timing {
    session_timeout: Duration::from_secs(10),
    silence_max: Duration::from_secs(10),
    reconnect_pause: Duration::from_millis(100),
};
