//! `GET /v1/events`: server-sent events for the dashboard.
//!
//! One task makes a snapshot once a second and encodes it; all streams share the bytes, so that ten dashboards cost
//! hardly more than one. The task ends with the last stream.
//!
//! A stream takes the newest snapshot when it can send: a slow reader misses some, and nothing is queued for it. A reader
//! that takes nothing at all is cut off by [`super::listener`].

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use parking_lot::Mutex;
use pole_api::{Capabilities, Clients, Election, Ensemble, Measured, Scores, Snapshot};
use pole_types::Time;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::access::{check_nodes, check_watch};
use super::error::ApiError;
use super::listener::RemoteAddress;
use super::v1::health_of;
use super::{elections, scores, v1};
use crate::clock::wall_ms;
use crate::driver::Driver;
use crate::metrics::{Distribution, Summary};
use crate::question::{Question, ask};
use crate::shared::Shared;
use crate::tally::RequestKind;

pub(crate) async fn events(
    State(shared): State<Arc<Shared>>,
    Extension(publisher): Extension<Arc<Publisher>>,
    ConnectInfo(RemoteAddress(from, encryption)): ConnectInfo<RemoteAddress>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    check_watch(&shared, &headers)?;
    let permit = Arc::clone(&publisher.permits).try_acquire_owned();
    let permit = permit.map_err(|_| ApiError::conflict(format!("{STREAMS_MAX} dashboards are open: close one")))?;
    let actions: &[&str] = if shared.settings.config.admin.actions { &["oracle", "transfer"] } else { &[] };
    let capabilities = Capabilities {
        server: Some(shared.settings.me.0),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        actions: actions.iter().map(|action| (*action).to_owned()).collect(),
        nodes: check_nodes(&shared, from, encryption.is_on(), &headers).is_ok(),
    };
    let first = [RETRY.as_bytes(), &event("capabilities", &capabilities)].concat();
    let stream = EventStream {
        updates: publisher.subscribe(&shared),
        first: Some(first.into()),
        elections_sent: None,
        _permit: permit,
    };
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(unfold(stream, EventStream::next))).into_response())
}

/// Makes snapshots while somebody watches.
pub(crate) struct Publisher {
    latest: watch::Sender<Published>,
    /// Whether the task runs. Locked when a stream begins and when the task ends, so that no stream is left without it.
    is_running: Mutex<bool>,
    permits: Arc<Semaphore>,
}

/// The newest events, encoded.
#[derive(Clone, Default)]
struct Published {
    /// Empty before the first one.
    snapshot: Bytes,
    elections: Bytes,
    /// How often `elections` has changed.
    elections_number: u64,
}

impl Publisher {
    pub(crate) fn new() -> Self {
        let permits = Arc::new(Semaphore::new(STREAMS_MAX));
        Self { latest: watch::Sender::new(Published::default()), is_running: Mutex::new(false), permits }
    }

    fn subscribe(self: &Arc<Self>, shared: &Arc<Shared>) -> watch::Receiver<Published> {
        let mut is_running = self.is_running.lock();
        let mut updates = self.latest.subscribe();
        if *is_running {
            // The current snapshot is less than a second old.
            updates.mark_changed();
        } else {
            *is_running = true;
            tokio::spawn(Arc::clone(self).run(Arc::clone(shared)));
        }
        updates
    }

    async fn run(self: Arc<Self>, shared: Arc<Shared>) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut meter = Meter::new(&shared);
        let mut known = None;
        loop {
            ticks.tick().await;
            {
                let mut is_running = self.is_running.lock();
                if self.latest.receiver_count() == 0 {
                    *is_running = false;
                    return;
                }
            }
            // A node that does not answer has no snapshot. The page says how old its data is.
            let seen = known.clone();
            let Some(state) = ask(&shared, |reply| Question::Dashboard { seen, reply }).await else { continue };
            let snapshot = event("snapshot", &meter.snapshot(&shared, state.ensemble, state.scores));
            self.latest.send_modify(|published| {
                published.snapshot = snapshot.into();
                if let Some((fingerprint, elections)) = state.elections {
                    known = Some(fingerprint);
                    published.elections = event("elections", &elections).into();
                    published.elections_number += 1;
                }
            });
        }
    }
}

/// The state of the node that a snapshot contains.
pub(crate) struct DashboardState {
    ensemble: Ensemble,
    scores: Scores,
    /// `None` if they are those that the asker knows.
    elections: Option<(ElectionsFingerprint, Vec<Election>)>,
}

/// Differs when the list of elections has changed: the begin, the steps and the outcome of each.
pub(crate) type ElectionsFingerprint = Vec<(Time, usize, String)>;

impl DashboardState {
    pub(crate) fn of(driver: &Driver, seen: Option<&ElectionsFingerprint>) -> Self {
        let changes = driver.node.leadership_changes().take(ELECTIONS_MAX);
        let fingerprint: ElectionsFingerprint =
            changes.map(|change| (change.began, change.steps.len(), format!("{:?}", change.status))).collect();
        let is_new = seen != Some(&fingerprint);
        Self {
            ensemble: v1::ensemble_of(driver),
            scores: scores::scores_of(driver, pole_oracle::Moment::BeforeResignation),
            elections: is_new.then(|| (fingerprint, elections::elections_of(driver, ELECTIONS_MAX))),
        }
    }
}

/// Turns totals since the start into figures of the last interval.
struct Meter {
    at: Time,
    totals: Totals,
    is_first: bool,
}

struct Totals {
    reads: Distribution,
    writes: Distribution,
    fsync: Distribution,
}

impl Totals {
    fn of(shared: &Shared, now: Time) -> Self {
        let status = &shared.status;
        Self {
            reads: status.tally.latency(RequestKind::Read, now),
            writes: status.tally.latency(RequestKind::Update, now),
            fsync: status.summaries.distribution(Summary::SyncProcessorQueueFlushTime, now),
        }
    }
}

impl Meter {
    fn new(shared: &Shared) -> Self {
        let at = shared.clock.now();
        Self { at, totals: Totals::of(shared, at), is_first: true }
    }

    fn snapshot(&mut self, shared: &Shared, ensemble: Ensemble, scores: Scores) -> Snapshot {
        let now = shared.clock.now();
        let totals = Totals::of(shared, now);
        let interval_ms = if std::mem::take(&mut self.is_first) { 0 } else { (now - self.at).as_us() / 1000 };
        let before = std::mem::replace(&mut self.totals, totals);
        self.at = now;
        let measured = |now: &Distribution, before: &Distribution| measured(now, before, interval_ms);
        Snapshot {
            at_ms: wall_ms(),
            interval_ms,
            uptime_ms: u64::try_from(shared.clock.uptime().as_millis()).unwrap_or(u64::MAX),
            health: health_of(shared),
            ensemble,
            scores,
            reads: measured(&self.totals.reads, &before.reads),
            writes: measured(&self.totals.writes, &before.writes),
            fsync: measured(&self.totals.fsync, &before.fsync),
            clients: clients(shared),
        }
    }
}

/// The figures of the values that were recorded since `before`.
fn measured(now: &Distribution, before: &Distribution, interval_ms: u64) -> Measured {
    let Some(recent) = now.since(before).filter(|recent| recent.count > 0 && interval_ms > 0) else {
        return Measured::default();
    };
    let ms = |us: f64| us.round() / 1000.0;
    let quantile = |at| recent.quantile(at).map(|us| ms(us as f64));
    Measured {
        rate: (recent.count as f64 * 1e6 / interval_ms as f64).round() / 1000.0,
        mean_ms: Some(ms(recent.mean())),
        p50_ms: quantile(0.5),
        p99_ms: quantile(0.99),
    }
}

fn clients(shared: &Shared) -> Clients {
    let watches = shared.watches.lock().count() as u64;
    let tree = shared.tree.read();
    Clients {
        connections: shared.status.connections.load(Ordering::Relaxed) as u64,
        outstanding: shared.outstanding.load(Ordering::Relaxed) as u64,
        watches,
        sessions: tree.sessions().count() as u64,
        nodes: tree.node_count() as u64,
        ephemerals: tree.ephemerals_count() as u64,
        data_bytes: tree.approximate_data_bytes(),
    }
}

/// One reader.
struct EventStream {
    updates: watch::Receiver<Published>,
    first: Option<Bytes>,
    /// The number of the elections that were sent last.
    elections_sent: Option<u64>,
    _permit: OwnedSemaphorePermit,
}

impl EventStream {
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        if let Some(first) = self.first.take() {
            return Some((Ok(first), self));
        }
        loop {
            match timeout(HEARTBEAT, self.updates.changed()).await {
                Err(_) => return Some((Ok(Bytes::from_static(b":\n\n")), self)),
                Ok(Err(_)) => return None,
                Ok(Ok(())) => {}
            }
            let Published { snapshot, elections, elections_number } = self.updates.borrow_and_update().clone();
            if snapshot.is_empty() {
                continue;
            }
            let is_sent = self.elections_sent.replace(elections_number) == Some(elections_number);
            let bytes = if is_sent { snapshot } else { [elections, snapshot].concat().into() };
            return Some((Ok(bytes), self));
        }
    }
}

/// Encodes an event. JSON has no line breaks, which would end the data.
fn event(name: &str, data: &impl Serialize) -> Vec<u8> {
    let mut bytes = format!("event: {name}\ndata: ").into_bytes();
    if serde_json::to_writer(&mut bytes, data).is_err() {
        // The types have no keys that JSON cannot express, so this does not happen.
        return Vec::new();
    }
    bytes.extend_from_slice(b"\n\n");
    bytes
}

/// Between two snapshots. Reports of other servers arrive as often (`pole.heartbeatMs`).
const INTERVAL: Duration = Duration::from_secs(1);

/// Without events, a comment is sent this often, so that both ends notice when the other one is gone.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// A quarter of the connections of the admin server, so that probes and Prometheus always find room.
const STREAMS_MAX: usize = 16;

/// More elections than a page shows at once.
const ELECTIONS_MAX: usize = 50;

/// How soon a browser reconnects, in milliseconds.
const RETRY: &str = "retry: 1000\n\n";
