//! The load of `pole up --load`: clients at each server that write and read at a fixed rate.
//!
//! Writes are due at even intervals, whether or not the earlier ones are answered (open loop), so a pause of the service
//! shows in the latency and not in fewer requests. As many reads are made on connections of their own, one after the
//! other: on the same connection a read would wait for the writes before it.
//!
//! A client connects to the server that is nearest to its home. When a connection breaks, the client connects to the
//! next one and sends the writes without an answer again, as an application with a retry policy would: they set the
//! data of a node of its own, so repeating one changes nothing. It goes back home as soon as its server accepts
//! connections. A write counts as failed if it gets an error, or no answer in [`ANSWER_LIMIT`].

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use pole_api::UpLoad;
use pole_client::asynchronous::Connection;
use pole_client::{Error, connect_request, create, get_data, set_data};
use pole_jute::{CreateMode, ErrorCode, Request};
use tokio::sync::watch;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

use super::board::Board;
use super::plan::Plan;

/// Sets the load. Dropping it ends the load.
#[derive(Clone)]
pub(crate) struct Load(watch::Sender<Target>);

/// How much load there is, and where.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Target {
    /// Writes per second in all.
    pub(crate) rate: f64,
    pub(crate) site: Option<String>,
}

impl Load {
    /// Starts the thread of all clients, which are idle until a load is set.
    pub(crate) fn start(plan: &Plan, board: &Board) -> io::Result<Self> {
        let (sender, targets) = watch::channel(Target::default());
        let homes: Vec<Home> = plan.ids().map(|id| Home::new(plan, id)).collect();
        let board = board.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("load".into()).spawn(move || {
            runtime.block_on(LocalSet::new().run_until(run(homes, targets, board)));
        })?;
        Ok(Self(sender))
    }

    pub(crate) fn set(&self, target: Target) {
        self.0.send_replace(target);
    }
}

/// Where a client stands.
#[derive(Clone)]
struct Home {
    id: u64,
    site: String,
    /// Addresses of all servers, nearest first; its own is the first.
    servers: Vec<SocketAddr>,
    /// The number of servers in the same site, and in all.
    neighbours: f64,
    all: f64,
}

impl Home {
    fn new(plan: &Plan, id: u64) -> Self {
        let mut others: Vec<u64> = plan.ids().collect();
        others.sort_by_key(|other| (plan.topology().rtt(id, *other).unwrap_or(u64::MAX), *other != id, *other));
        let address = |id| SocketAddr::from((Ipv4Addr::LOCALHOST, plan.ports(id).client));
        let neighbours = plan.ids().filter(|other| plan.site(*other) == plan.site(id)).count();
        Self {
            id,
            site: plan.site(id).to_owned(),
            servers: others.iter().map(|id| address(*id)).collect(),
            neighbours: neighbours as f64,
            all: plan.ids().count() as f64,
        }
    }

    /// The node that the clients of this server write to.
    fn path(&self) -> String {
        format!("/load/clients-of-{}", self.id)
    }

    /// The writes per second that are due here.
    fn share(&self, target: &Target) -> f64 {
        match &target.site {
            None => target.rate / self.all,
            Some(site) if *site == self.site => target.rate / self.neighbours,
            Some(_) => 0.0,
        }
    }
}

/// What became of the writes since the last report.
#[derive(Default)]
struct Counts {
    done: u64,
    repeated: u64,
    failed: u64,
    took: Duration,
}

type SharedCounts = std::rc::Rc<std::cell::RefCell<Counts>>;

async fn run(homes: Vec<Home>, mut targets: watch::Receiver<Target>, board: Board) {
    let counts = SharedCounts::default();
    for home in homes {
        let client = Client {
            due: Instant::now(),
            waiting: VecDeque::new(),
            share: 0.0,
            targets: targets.clone(),
            counts: counts.clone(),
            home,
        };
        spawn_local(read(client.home.clone(), targets.clone()));
        spawn_local(client.run());
    }
    let mut reports = interval(REPORT_INTERVAL);
    reports.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = Instant::now();
    loop {
        let is_over = tokio::select! {
            _ = reports.tick() => false,
            changed = targets.changed() => changed.is_err(),
        };
        if is_over {
            return;
        }
        let (now, target) = (Instant::now(), targets.borrow_and_update().clone());
        let Counts { done, repeated, failed, took } = counts.take();
        let seconds = (now - last).as_secs_f64();
        last = now;
        board.update(|content| {
            let UpLoad { done: all_done, repeated: all_repeated, failed: all_failed, .. } = content.state.load;
            content.state.load = UpLoad {
                rate: target.rate,
                site: target.site,
                done_rate: (done as f64 / seconds.max(0.001)).round(),
                mean_ms: (done > 0).then(|| (took.as_secs_f64() * 1e5 / done as f64).round() / 100.0),
                done: all_done + done,
                repeated: all_repeated + repeated,
                failed: all_failed + failed,
            };
        });
    }
}

/// Whether a server accepts sessions. One without a quorum accepts connections, but no sessions.
async fn is_ready(address: SocketAddr) -> bool {
    let opened = Connection::open(address, &connect_request(SESSION_TIMEOUT), PROBE_LIMIT).await;
    let Ok((mut connection, _)) = opened else { return false };
    connection.send(WRITE, &Request::CloseSession);
    connection.flush().await.is_ok()
}

async fn open(address: SocketAddr) -> Option<Connection> {
    let opened = Connection::open(address, &connect_request(SESSION_TIMEOUT), CONNECT_LIMIT).await;
    opened.ok().map(|(connection, _)| connection)
}

/// Reads at the nearest server, at the rate of the writes at most.
async fn read(home: Home, mut targets: watch::Receiver<Target>) {
    loop {
        let share = home.share(&targets.borrow_and_update());
        if share <= 0.0 {
            if targets.changed().await.is_err() {
                return;
            }
            continue;
        }
        let mut connection = None;
        for address in &home.servers {
            connection = open(*address).await;
            if connection.is_some() {
                break;
            }
        }
        let Some(mut connection) = connection else {
            sleep(RETRY).await;
            continue;
        };
        let mut due = interval(Duration::from_secs_f64(1.0 / share));
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // A new connection after every change of the load also brings the client home.
        while !targets.has_changed().unwrap_or(true) {
            due.tick().await;
            connection.send(READ, &get_data(&home.path(), false));
            let answered = async { connection.flush().await.and(connection.frame().await) };
            if !timeout(SILENCE_MAX, answered).await.is_ok_and(|answer| answer.is_ok()) {
                break;
            }
        }
    }
}

struct Client {
    home: Home,
    targets: watch::Receiver<Target>,
    counts: SharedCounts,
    /// Writes per second.
    share: f64,
    /// When the next write is due.
    due: Instant,
    /// Writes without an answer, oldest first, by the time at which they were due.
    waiting: VecDeque<Instant>,
}

/// Why a client left a connection.
enum Left {
    /// The load has ended.
    Over,
    /// There is nothing to do here now.
    Idle,
    /// Its own server accepts connections again.
    Home,
}

impl Client {
    async fn run(mut self) {
        loop {
            self.share = self.home.share(&self.targets.borrow_and_update());
            if self.share <= 0.0 {
                if self.targets.changed().await.is_err() {
                    return;
                }
                self.due = Instant::now();
                continue;
            }
            let Some((at, connection)) = self.connect().await else {
                self.give_up_late();
                sleep(RETRY).await;
                continue;
            };
            if let Ok(Left::Over) = self.serve(connection, at == 0).await {
                return;
            }
        }
    }

    /// Connects to the nearest server that accepts a session.
    async fn connect(&mut self) -> Option<(usize, Connection)> {
        for (at, address) in self.home.servers.clone().into_iter().enumerate() {
            self.give_up_late();
            let Some(mut connection) = open(address).await else { continue };
            for request in
                [create("/load", b"", CreateMode::Persistent), create(&self.home.path(), b"", CreateMode::Persistent)]
            {
                connection.send(0, &request);
            }
            // The nodes may exist already.
            let made = async {
                connection.flush().await?;
                connection.frame().await?;
                connection.frame().await
            };
            if timeout(CONNECT_LIMIT, made).await.is_ok_and(|made| made.is_ok()) {
                return Some((at, connection));
            }
        }
        None
    }

    /// Writes on one connection until it breaks.
    async fn serve(&mut self, mut connection: Connection, is_home: bool) -> Result<Left, Error> {
        self.counts.borrow_mut().repeated += self.waiting.len() as u64;
        for _ in 0..self.waiting.len() {
            connection.send(WRITE, &self.write());
        }
        let mut home_probe = interval(HOME_PROBE);
        // Set when the client is about to go home: nothing new is sent, and the answers are awaited.
        let mut is_leaving = false;
        let mut heard = Instant::now();
        loop {
            let now = Instant::now();
            let mut sent = 0;
            while self.share > 0.0
                && !is_leaving
                && self.due <= now
                && self.waiting.len() < WAITING_MAX
                && sent < BATCH_MAX
            {
                connection.send(WRITE, &self.write());
                self.waiting.push_back(self.due);
                self.due += Duration::from_secs_f64(1.0 / self.share);
                sent += 1;
            }
            connection.flush().await?;
            if self.waiting.is_empty() && is_leaving {
                return Ok(Left::Home);
            }
            if self.waiting.is_empty() && self.share <= 0.0 {
                return Ok(Left::Idle);
            }
            let silent_at = heard + SILENCE_MAX;
            let may_send = self.share > 0.0 && !is_leaving && self.waiting.len() < WAITING_MAX;
            let next = if may_send { self.due.min(silent_at) } else { silent_at };
            tokio::select! {
                frame = connection.frame() => {
                    heard = Instant::now();
                    self.receive(frame?, heard)?;
                }
                () = sleep_until(next) => {
                    if Instant::now() >= silent_at {
                        return Err(Error::Silent(SILENCE_MAX));
                    }
                }
                changed = self.targets.changed() => {
                    if changed.is_err() {
                        return Ok(Left::Over);
                    }
                    self.share = self.home.share(&self.targets.borrow_and_update());
                    self.due = self.due.max(Instant::now());
                }
                _ = home_probe.tick(), if !is_home && !is_leaving => {
                    is_leaving = is_ready(self.home.servers[0]).await;
                }
            }
        }
    }

    fn write(&self) -> Request {
        set_data(&self.home.path(), &[b'.'; WRITE_BYTES])
    }

    /// Counts a reply.
    fn receive(&mut self, frame: bytes::Bytes, now: Instant) -> Result<(), Error> {
        let mut reader = pole_jute::Reader::new(frame);
        let header = <pole_jute::ReplyHeader as pole_jute::Record>::read(&mut reader)?;
        let Some(due) = self.waiting.pop_front() else { return Ok(()) };
        let mut counts = self.counts.borrow_mut();
        if header.err == ErrorCode::Ok {
            counts.done += 1;
            counts.took += now.saturating_duration_since(due);
        } else {
            counts.failed += 1;
        }
        Ok(())
    }

    /// Drops writes that have waited for too long.
    fn give_up_late(&mut self) {
        while self.waiting.front().is_some_and(|due| due.elapsed() > ANSWER_LIMIT) {
            self.waiting.pop_front();
            self.counts.borrow_mut().failed += 1;
        }
    }
}

/// How often the figures are reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// As in the experiments of the paper.
const WRITE_BYTES: usize = 1_000;
/// Replies come in the order of the requests, so their numbers do not matter.
const WRITE: i32 = 1;
const READ: i32 = 2;
/// More writes than are under way at the highest rate over the longest link. Further ones wait until they are answered.
const WAITING_MAX: usize = 2_000;
/// Writes sent at once after a pause.
const BATCH_MAX: usize = 200;
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// A server without a quorum accepts the connection and answers nothing.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// With a load there are replies all the time, unless a server is paused or an election is under way.
const SILENCE_MAX: Duration = Duration::from_secs(3);
const HOME_PROBE: Duration = Duration::from_secs(2);
/// Long enough to commit the opening of a session over the longest link.
const PROBE_LIMIT: Duration = Duration::from_millis(500);
/// Pause before all servers are tried again.
const RETRY: Duration = Duration::from_millis(50);
/// An application would report an error to its user by then.
const ANSWER_LIMIT: Duration = Duration::from_secs(15);
