//! The clients: sessions that live to the end and write all the time, and sessions that come and go.

use std::net::SocketAddr;
use std::time::Duration;

use pole_jute::{CreateMode, Request};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::history::Kind;
use super::ledger::Ledger;
use crate::Failure;
use crate::client::{self, Event, Refusal, Session, Timing, load};
use crate::dice::Dice;

/// Creates what the clients need and waits until every server has it.
pub(super) async fn prepare(servers: &[SocketAddr], sessions: usize) -> Result<(), Failure> {
    let top = ["/soak", "/soak/k", "/soak/q", "/soak/e"].map(str::to_owned);
    let queues = (0..sessions).map(queue);
    let parents = top.into_iter().chain(queues).map(|path| client::create(&path, b"", CreateMode::Persistent));
    let keys = (0..KEYS).map(|key| client::create(&path_of(key), b"0", CreateMode::Persistent));
    let failed = |why| Failure::Check(format!("cannot prepare the soak: {why}"));
    load::pour(servers[0], parents.chain(keys), 16, None).await.map_err(failed)?;
    for server in servers {
        load::once(*server, &client::sync()).await.map_err(failed)?;
    }
    Ok(())
}

/// One session that lives to the end.
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

    /// Writes at a steady pace, and now and then something else, until told to stop.
    pub(super) async fn work(self, pace: Duration, mut dice: Dice, stop: watch::Receiver<bool>) {
        let mut ticks = interval(pace);
        // What could not be written in time is not made up for later: the rate is a most, not a least.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while !*stop.borrow() {
            ticks.tick().await;
            if self.ledger.open(self.number) >= OPEN_MAX {
                continue;
            }
            if dice.one_in(50) {
                self.append();
            } else {
                self.write(dice.below(KEYS));
            }
            if dice.one_in(5) {
                self.read(dice.below(KEYS), dice.one_in(10));
            }
        }
    }

    /// Writes to a key. Returns nothing: the ledger learns what came of it.
    pub(super) fn write(&self, key: usize) {
        let value = self.ledger.fresh_value();
        self.note(Kind::Write { key, value }, client::set_data(&path_of(key), value.to_string().as_bytes()));
    }

    fn append(&self) {
        let value = self.ledger.fresh_value();
        let path = format!("{}/{value}-", queue(self.number));
        self.note(Kind::Append { value }, client::create(&path, b"", CreateMode::PersistentSequential));
    }

    fn read(&self, key: usize, synced: bool) {
        let kind = Kind::Read { key, synced };
        if !synced {
            return self.note(kind, client::get_data(&path_of(key), false));
        }
        let place = self.ledger.asked(self.number, kind);
        let (sync, read) = (self.session.ask(client::sync()), self.session.ask(client::get_data(&path_of(key), false)));
        let ledger = self.ledger.clone();
        tokio::task::spawn_local(async move {
            if sync.await.is_err() {
                ledger.not_synced(place);
            }
            ledger.settled(place, read.await);
        });
    }

    fn note(&self, kind: Kind, request: Request) {
        let place = self.ledger.asked(self.number, kind);
        let answer = self.session.ask(request);
        let ledger = self.ledger.clone();
        tokio::task::spawn_local(async move { ledger.settled(place, answer.await) });
    }

    async fn listen(self, mut events: mpsc::UnboundedReceiver<Event>) {
        while let Some(event) = events.recv().await {
            self.ledger.happened(self.number, &event);
            if let Event::Watch(event) = event
                && event.path == path_of(WATCHED)
            {
                tokio::task::spawn_local(self.clone().read_watched());
            }
        }
    }

    /// Reads the watched key and watches it again, until that has worked.
    async fn read_watched(self) {
        loop {
            let place = self.ledger.asked(self.number, Kind::Read { key: WATCHED, synced: false });
            let answer = self.session.ask(client::get_data(&path_of(WATCHED), true)).await;
            if let Ok(answer) = &answer {
                self.ledger.watched(self.number, answer);
            }
            let lost = matches!(answer, Err(Refusal::Lost));
            self.ledger.settled(place, answer);
            if !lost {
                return;
            }
        }
    }
}

/// Sessions that come, create an ephemeral node, and go: half say so, half just fall silent.
pub(super) async fn come_and_go(
    servers: Vec<SocketAddr>,
    ledger: Ledger,
    mut dice: Dice,
    stop: watch::Receiver<bool>,
) -> Vec<String> {
    let (witness, _) = Session::open(servers.clone(), 0, STEADY);
    let mut left_behind = Vec::new();
    for number in 0.. {
        if *stop.borrow() {
            break;
        }
        let path = format!("/soak/e/short-{number}");
        let (session, _) = Session::open(servers.clone(), dice.below(servers.len()), SHORT);
        let created = timeout(SHORT_LIMIT, session.ask(client::create(&path, b"", CreateMode::Ephemeral))).await;
        let created = created.ok().and_then(Result::ok).map(|answer| answer.zxid);
        ledger.ephemeral(path.clone(), created, false);
        if dice.one_in(2) {
            let closed = timeout(SHORT_LIMIT, session.ask(Request::CloseSession)).await;
            if matches!(closed, Ok(Ok(_))) && is_there(&witness, &path).await {
                left_behind.push(path);
            }
        }
        drop(session);
        sleep(SHORT_PAUSE).await;
    }
    left_behind
}

/// Whether another session still sees a node, after a sync. Without an answer: no.
async fn is_there(witness: &Session, path: &str) -> bool {
    let (sync, look) = (witness.ask(client::sync()), witness.ask(client::exists(path)));
    sync.await.is_ok() && look.await.is_ok()
}

/// The queue of a session.
pub(super) fn queue(session: usize) -> String {
    format!("/soak/q/{session}")
}

/// The node of a key.
pub(super) fn path_of(key: usize) -> String {
    format!("/soak/k/{key}")
}

/// Enough that keys are shared and each is written ten times a second.
pub(super) const KEYS: usize = 100;

/// The key that every session watches.
pub(super) const WATCHED: usize = 0;

/// A session without a server stops asking at so many requests.
const OPEN_MAX: usize = 64;

/// A session lives through every fault: its client gives up a silent server long before the session is over.
pub(super) const STEADY: Timing = Timing {
    session_timeout: Duration::from_secs(30),
    silence_max: Duration::from_secs(4),
    reconnect_pause: Duration::from_millis(20),
};

/// A session that is soon over when its client falls silent.
const SHORT: Timing = Timing {
    session_timeout: Duration::from_secs(4),
    silence_max: Duration::from_secs(2),
    reconnect_pause: Duration::from_millis(20),
};

const SHORT_LIMIT: Duration = Duration::from_secs(10);
const SHORT_PAUSE: Duration = Duration::from_secs(1);
