//! The clients: sessions that last until the end and write continuously, and short sessions.

use std::net::SocketAddr;
use std::time::Duration;

use pole_jute::{CreateMode, Request};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::history::Kind;
use super::ledger::Ledger;
use crate::Failure;
use crate::client::{self, Event, Refusal, Session, Timing, load};
use crate::rng::Rng;

/// Creates the nodes that the clients need and waits until every server has them.
pub(super) async fn prepare(servers: &[SocketAddr], sessions: usize) -> Result<(), Failure> {
    let top = ["/soak", "/soak/k", "/soak/q", "/soak/e"].map(str::to_owned);
    let queues = (0..sessions).map(queue);
    let parents = top.into_iter().chain(queues).map(|path| client::create(&path, b"", CreateMode::Persistent));
    let keys = (0..KEYS).map(|key| client::create(&path_of(key), b"0", CreateMode::Persistent));
    let failed = |why| Failure::Check(format!("cannot prepare the soak: {why}"));
    load::send_all(servers[0], parents.chain(keys), 16, None).await.map_err(failed)?;
    for server in servers {
        load::once(*server, &client::sync()).await.map_err(failed)?;
    }
    Ok(())
}

/// A session that lasts until the end.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    number: usize,
    session: Session,
    ledger: Ledger,
}

impl Writer {
    /// Opens the session, creates its ephemeral node and sets its watch.
    pub(super) async fn start(number: usize, servers: &[SocketAddr], ledger: &Ledger) -> Result<Self, Failure> {
        let (session, events) = Session::open(servers.to_vec(), number, STEADY);
        let writer = Self { number, session, ledger: ledger.clone() };
        let path = format!("/soak/e/live-{number}");
        let created = writer.session.ask(client::create(&path, b"", CreateMode::Ephemeral)).await;
        let created = created.map_err(|why| Failure::Check(format!("session {number} cannot begin: {why:?}")))?;
        ledger.ephemeral(path, Some(created.zxid), true);
        tokio::task::spawn_local(writer.clone().listen(events));
        tokio::task::spawn_local(writer.clone().read_watched());
        Ok(writer)
    }

    /// Writes at a steady rate, with some appends and reads, until stopped.
    pub(super) async fn work(self, pace: Duration, mut rng: Rng, stop: watch::Receiver<bool>) {
        let mut ticks = interval(pace);
        // Missed writes are not made up for later: the rate is an upper limit.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while !*stop.borrow() {
            ticks.tick().await;
            if self.ledger.open(self.number) >= OPEN_MAX {
                continue;
            }
            if rng.one_in(50) {
                self.append();
            } else {
                self.write(rng.below(KEYS));
            }
            if rng.one_in(5) {
                self.read(rng.below(KEYS), rng.one_in(10));
            }
        }
    }

    /// Writes to a key. The ledger records the outcome.
    pub(super) fn write(&self, key: usize) {
        let value = self.ledger.fresh_value();
        self.submit(Kind::Write { key, value }, client::set_data(&path_of(key), value.to_string().as_bytes()));
    }

    fn append(&self) {
        let value = self.ledger.fresh_value();
        let path = format!("{}/{value}-", queue(self.number));
        self.submit(Kind::Append { value }, client::create(&path, b"", CreateMode::PersistentSequential));
    }

    fn read(&self, key: usize, synced: bool) {
        let kind = Kind::Read { key, synced };
        if !synced {
            return self.submit(kind, client::get_data(&path_of(key), false));
        }
        let index = self.ledger.asked(self.number, kind);
        let (sync, read) = (self.session.ask(client::sync()), self.session.ask(client::get_data(&path_of(key), false)));
        let ledger = self.ledger.clone();
        tokio::task::spawn_local(async move {
            if sync.await.is_err() {
                ledger.not_synced(index);
            }
            ledger.settled(index, read.await);
        });
    }

    fn submit(&self, kind: Kind, request: Request) {
        let index = self.ledger.asked(self.number, kind);
        let answer = self.session.ask(request);
        let ledger = self.ledger.clone();
        tokio::task::spawn_local(async move { ledger.settled(index, answer.await) });
    }

    async fn listen(self, mut events: mpsc::UnboundedReceiver<Event>) {
        while let Some(event) = events.recv().await {
            self.ledger.event(self.number, &event);
            if let Event::Watch(event) = event
                && event.path == path_of(WATCHED)
            {
                tokio::task::spawn_local(self.clone().read_watched());
            }
        }
    }

    /// Reads the watched key and sets the watch again. Retries until there is a reply.
    async fn read_watched(self) {
        loop {
            let index = self.ledger.asked(self.number, Kind::Read { key: WATCHED, synced: false });
            let answer = self.session.ask(client::get_data(&path_of(WATCHED), true)).await;
            if let Ok(answer) = &answer {
                self.ledger.watched(self.number, answer);
            }
            let lost = matches!(answer, Err(Refusal::Lost));
            self.ledger.settled(index, answer);
            if !lost {
                return;
            }
        }
    }
}

/// Runs short sessions, one after the other, each with an ephemeral node. Half are closed, half are just dropped.
/// Returns the nodes that were still visible after their session was closed.
pub(super) async fn run_short_sessions(
    servers: Vec<SocketAddr>,
    ledger: Ledger,
    mut rng: Rng,
    stop: watch::Receiver<bool>,
) -> Vec<String> {
    let (witness, _) = Session::open(servers.clone(), 0, STEADY);
    let mut left_behind = Vec::new();
    for number in 0.. {
        if *stop.borrow() {
            break;
        }
        let path = format!("/soak/e/short-{number}");
        let (session, _) = Session::open(servers.clone(), rng.below(servers.len()), SHORT);
        let created = timeout(SHORT_LIMIT, session.ask(client::create(&path, b"", CreateMode::Ephemeral))).await;
        let created = created.ok().and_then(Result::ok).map(|answer| answer.zxid);
        ledger.ephemeral(path.clone(), created, false);
        if rng.one_in(2) {
            let closed = timeout(SHORT_LIMIT, session.ask(Request::CloseSession)).await;
            if matches!(closed, Ok(Ok(_))) && is_visible(&witness, &path).await {
                left_behind.push(path);
            }
        }
        drop(session);
        sleep(SHORT_PAUSE).await;
    }
    left_behind
}

/// Whether another session still sees a node, after a sync. False if there is no reply.
async fn is_visible(witness: &Session, path: &str) -> bool {
    let (sync, exists) = (witness.ask(client::sync()), witness.ask(client::exists(path)));
    sync.await.is_ok() && exists.await.is_ok()
}

/// The path of a session's queue.
pub(super) fn queue(session: usize) -> String {
    format!("/soak/q/{session}")
}

/// The path of a key.
pub(super) fn path_of(key: usize) -> String {
    format!("/soak/k/{key}")
}

/// Few enough that sessions share keys. At the default rate, each is written ten times per second.
pub(super) const KEYS: usize = 100;

/// The key that every session watches.
pub(super) const WATCHED: usize = 0;

/// A session without a server stops sending at this number of requests without an outcome.
const OPEN_MAX: usize = 64;

/// A session survives every fault, because its client drops a silent connection long before the session timeout.
pub(super) const STEADY: Timing = Timing {
    session_timeout: Duration::from_secs(30),
    silence_max: Duration::from_secs(4),
    reconnect_pause: Duration::from_millis(20),
};

/// A session that expires soon after its client has stopped.
const SHORT: Timing = Timing {
    session_timeout: Duration::from_secs(4),
    silence_max: Duration::from_secs(2),
    reconnect_pause: Duration::from_millis(20),
};

const SHORT_LIMIT: Duration = Duration::from_secs(10);
const SHORT_PAUSE: Duration = Duration::from_secs(1);
