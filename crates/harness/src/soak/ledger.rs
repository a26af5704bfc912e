//! Records what happens in a soak: the history for `check`, and counts for the output.
//!
//! Invariant: an operation is in the history from the moment it is requested. Its outcome is `Unknown` until a reply
//! arrives.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use pole_jute::Reply;

use super::connected::{Connected, Since};
use super::history::{At, Ephemeral, History, Kind, Op, Outcome, State, Value};
use crate::client::{Answer, Event, Refusal};
use crate::network::Place;

/// A handle to the records, shared by all tasks of one thread.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    records: Rc<RefCell<Records>>,
    start: Instant,
}

#[derive(Debug, Default)]
struct Records {
    history: History,
    next_value: Value,
    /// The number of operations without an outcome, for each session.
    open: Vec<usize>,
    /// Whether disconnects from each server are excused, because it has a fault or has just recovered.
    excused: Vec<Excuse>,
    /// The last version of the watched key that each session has read after its watch fired.
    watched: Vec<i32>,
    counts: Counts,
    last_acknowledged: At,
    /// The state of servers and links. Only in a soak with a network.
    connected: Option<Connected>,
    /// The longest allowed pauses. Only in a soak with a network.
    limits: Pause,
    /// The part of the time since the last acknowledged write that counts.
    pause: Pause,
    /// The server that each session is connected to.
    connected_to: Vec<Option<usize>>,
    /// Recent faults of servers and links, to explain a pause.
    faults: VecDeque<(At, String)>,
    /// Whether gaps and pauses are measured.
    measuring: bool,
    /// When this program last ran.
    ran: At,
    /// The last intervals in which this program did not run. It could not see acknowledgements then.
    stalls: VecDeque<(At, At)>,
}

/// Times without an acknowledged write.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pause {
    /// The time in which a majority was connected.
    pub(super) connected: Duration,
    /// The time in which, in addition, the leader was undisturbed.
    pub(super) with_leader: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Excuse {
    #[default]
    None,
    /// The server has a fault.
    Now,
    /// The server has recovered, and is excused until this time.
    Until(At),
}

/// Counts for the output.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// Writes and appends with a successful reply.
    pub(super) acknowledged: u64,
    /// Writes and appends whose connection broke.
    pub(super) unknown: u64,
    /// Reads with a successful reply.
    pub(super) reads: u64,
    /// Watch events.
    pub(super) watch_events: u64,
    /// Disconnects without a fault of the server.
    pub(super) unexcused_errors: u64,
    /// Descriptions of the first of these.
    pub(super) unexcused_examples: Vec<String>,
    /// Disconnects with a fault of the server.
    pub(super) excused_errors: u64,
    /// Failed connection attempts to a server without a fault.
    pub(super) failed_connects: u64,
    /// The longest time without an acknowledged write.
    pub(super) longest_gap: Duration,
    /// The total time in which this program was stalled. It is not counted in pauses.
    pub(super) stalled: Duration,
    /// Slow writes of this program to the disk of the servers, and the slowest.
    pub(super) slow_writes: u64,
    pub(super) slowest_write: Duration,
    /// The longest pauses that count. Only with a network.
    pub(super) longest: Pause,
}

impl Ledger {
    pub(super) fn new(sessions: usize, servers: usize) -> Self {
        let records = Records {
            open: vec![0; sessions],
            excused: vec![Excuse::None; servers],
            watched: vec![0; sessions],
            connected_to: vec![None; sessions],
            ..Records::default()
        };
        Self { records: Rc::new(RefCell::new(records)), start: Instant::now() }
    }

    /// Enables the tracking of links. Pauses longer than `limits` are described when they end.
    pub(super) fn with_network(&self, servers: usize, limits: Pause) {
        let mut records = self.records.borrow_mut();
        records.connected = Some(Connected::new(servers));
        records.limits = limits;
    }

    /// Must be called every [`TICK`]. A late call shows that this program, or the whole machine, was stalled.
    pub(super) fn tick(&self) {
        let at = self.now();
        self.records.borrow_mut().tick(at);
    }

    /// Records the description of a fault, which may explain a pause.
    pub(super) fn fault(&self, what: String) {
        let at = self.now();
        let faults = &mut self.records.borrow_mut().faults;
        faults.push_back((at, what));
        if faults.len() > FAULTS_KEPT {
            faults.pop_front();
        }
    }

    /// A write of this program to the disk of the servers was slow.
    pub(super) fn slow_disk(&self, took: Duration) {
        self.fault(format!("a write of this program to the same disk took {} ms", took.as_millis()));
        let counts = &mut self.records.borrow_mut().counts;
        counts.slow_writes += 1;
        counts.slowest_write = counts.slowest_write.max(took);
    }

    /// A fault of a link begins.
    pub(super) fn disturbed(&self, one: Place, other: Place) {
        let at = self.now();
        self.records.borrow_mut().change(at, |connected| connected.disturb(one, other, at));
    }

    /// A fault of a link ends.
    pub(super) fn restored(&self, one: Place, other: Place) {
        let at = self.now();
        self.records.borrow_mut().change(at, |connected| connected.restore(one, other, at));
    }

    /// Sets the leader, as reported by a server. `None` if it is unknown or about to change.
    pub(super) fn leads(&self, leader: Option<usize>) {
        let at = self.now();
        let mut records = self.records.borrow_mut();
        let before = records.connected.as_ref().and_then(Connected::leader);
        records.change(at, |connected| connected.leads(leader, at));
        let after = records.connected.as_ref().and_then(Connected::leader);
        drop(records);
        if before != after {
            self.fault(after.map_or("no leader is left alone".to_owned(), |leader| {
                format!("server {} leads and is left alone", leader + 1)
            }));
        }
    }

    fn now(&self) -> At {
        self.start.elapsed().as_micros() as At
    }

    /// Returns a value that has not been used yet.
    pub(super) fn fresh_value(&self) -> Value {
        let mut records = self.records.borrow_mut();
        records.next_value += 1;
        records.next_value
    }

    /// Records a request. Returns its index in the history.
    pub(super) fn asked(&self, session: usize, kind: Kind) -> usize {
        let asked = self.now();
        let mut records = self.records.borrow_mut();
        if let Some(open) = records.open.get_mut(session) {
            *open += 1;
        }
        records.history.ops.push(Op { session, asked, kind, outcome: Outcome::Unknown });
        records.history.ops.len() - 1
    }

    /// The sync before a read failed, so the read may see an old value.
    pub(super) fn not_synced(&self, index: usize) {
        let op = &mut self.records.borrow_mut().history.ops[index];
        if let Kind::Read { key, .. } = op.kind {
            op.kind = Kind::Read { key, synced: false };
        }
    }

    /// Records the answer to the request with this index.
    pub(super) fn settled(&self, index: usize, answer: Result<Answer, Refusal>) {
        let at = self.now();
        let mut records = self.records.borrow_mut();
        let op = &mut records.history.ops[index];
        let (session, kind) = (op.session, op.kind);
        op.outcome = outcome(kind, answer, at);
        let (done, unknown) = (op.outcome.answered().is_some(), op.outcome == Outcome::Unknown);
        if let Some(open) = records.open.get_mut(session) {
            *open -= 1;
        }
        match kind {
            Kind::Read { .. } => records.counts.reads += u64::from(done),
            Kind::Write { .. } | Kind::Append { .. } => {
                records.counts.unknown += u64::from(unknown);
                if done {
                    records.acknowledged(at);
                }
            }
        }
    }

    /// The number of operations of a session without an outcome.
    pub(super) fn open(&self, session: usize) -> usize {
        self.records.borrow().open[session]
    }

    /// The number of operations of all sessions without an outcome.
    pub(super) fn open_in_all(&self) -> usize {
        self.records.borrow().open.iter().sum()
    }

    /// Starts the measurement of gaps and pauses.
    pub(super) fn begin(&self) {
        let at = self.now();
        let mut records = self.records.borrow_mut();
        records.last_acknowledged = at;
        records.counts.longest_gap = Duration::ZERO;
        records.counts.longest = Pause::default();
        records.pause = Pause::default();
        records.ran = at;
        records.measuring = true;
    }

    /// Ends the measurement of gaps and pauses.
    pub(super) fn end(&self) {
        self.records.borrow_mut().measuring = false;
    }

    /// Records an event of a session that lasts until the end.
    pub(super) fn event(&self, session: usize, event: &Event) {
        let at = self.now();
        let mut records = self.records.borrow_mut();
        match event {
            Event::Connected(server) => {
                records.connected_to[session] = Some(*server);
                records.change(at, |connected| connected.connect(session, site_of(session), *server, at));
            }
            Event::Disconnected(..) => records.connected_to[session] = None,
            Event::ConnectFailed { .. } | Event::WatchOvertaken(_) | Event::Watch(_) | Event::Expired => (),
        }
        match event {
            Event::Connected(_) => (),
            Event::Disconnected(server, _) if records.is_excused(session, *server, at) => {
                records.counts.excused_errors += 1
            }
            Event::Disconnected(server, why) => {
                records.counts.unexcused_errors += 1;
                if records.counts.unexcused_examples.len() < EXAMPLES {
                    let seconds = Duration::from_micros(at).as_secs_f64();
                    let example = format!("{seconds:.3} s: session {session} at server {}: {why}", server + 1);
                    records.counts.unexcused_examples.push(example);
                }
            }
            Event::ConnectFailed { server, .. } => {
                records.counts.failed_connects += u64::from(!records.is_excused(session, *server, at))
            }
            Event::WatchOvertaken(path) => records.history.overtaken.push((session, path.clone())),
            Event::Watch(_) => records.counts.watch_events += 1,
            Event::Expired => records.history.expired.push(session),
        }
    }

    /// A session has read this version of the watched key.
    pub(super) fn watched(&self, session: usize, answer: &Answer) {
        if let Reply::GetData(reply) = &answer.reply {
            let watched = &mut self.records.borrow_mut().watched[session];
            *watched = reply.stat.version.max(*watched);
        }
    }

    /// The sessions that have not read this version of the watched key.
    pub(super) fn not_watched(&self, version: i32) -> Vec<usize> {
        let records = self.records.borrow();
        records.watched.iter().enumerate().filter(|(_, seen)| **seen < version).map(|(session, _)| session).collect()
    }

    /// The highest version of a key that was acknowledged or seen.
    pub(super) fn last_version(&self, key: usize) -> i32 {
        let records = self.records.borrow();
        let states = records.history.ops.iter().filter_map(|op| match (op.kind, &op.outcome) {
            (Kind::Write { key: of, .. } | Kind::Read { key: of, .. }, Outcome::State { state, .. }) if of == key => {
                Some(state.version)
            }
            (Kind::Write { .. } | Kind::Read { .. } | Kind::Append { .. }, _) => None,
        });
        states.max().unwrap_or(0)
    }

    /// A fault of a server begins.
    pub(super) fn signalled(&self, server: usize) {
        self.records.borrow_mut().excused[server] = Excuse::Now;
        self.disturbed(Place::Server(server), Place::Server(server));
    }

    /// A server serves again.
    pub(super) fn recovered(&self, server: usize) {
        self.records.borrow_mut().excused[server] = Excuse::Until(self.now() + GRACE.as_micros() as At);
        self.fault(format!("server {} serves again", server + 1));
        self.restored(Place::Server(server), Place::Server(server));
    }

    /// Records an ephemeral node. `created` is `None` if its creation was not acknowledged.
    pub(super) fn ephemeral(&self, path: String, created: Option<i64>, lives: bool) {
        self.records.borrow_mut().history.ephemerals.push(Ephemeral { path, created, lives });
    }

    pub(super) fn counts(&self) -> Counts {
        self.records.borrow().counts.clone()
    }

    /// Returns the history for the check. It is empty afterwards.
    pub(super) fn take_history(&self) -> History {
        std::mem::take(&mut self.records.borrow_mut().history)
    }
}

impl Pause {
    fn max(self, other: Self) -> Self {
        Self { connected: self.connected.max(other.connected), with_leader: self.with_leader.max(other.with_leader) }
    }
}

impl Records {
    fn acknowledged(&mut self, at: At) {
        self.counts.acknowledged += 1;
        if !self.measuring {
            return;
        }
        let gap = Duration::from_micros(at.saturating_sub(self.last_acknowledged));
        if gap > GAP_SHOWN_MIN {
            let end = Duration::from_micros(at);
            println!("  no write for {:.3} s, until {:.3} s", gap.as_secs_f64(), end.as_secs_f64());
        }
        self.counts.longest_gap = self.counts.longest_gap.max(gap);
        self.count_pause(at);
        if self.connected.is_some() {
            self.describe_pause(at);
        }
        self.pause = Pause::default();
        self.last_acknowledged = at;
    }

    /// Changes the state of servers and links. The pause so far is counted with the state before.
    fn change(&mut self, at: At, change: impl FnOnce(&mut Connected)) {
        self.count_pause(at);
        if let Some(connected) = &mut self.connected {
            change(connected);
        }
    }

    fn tick(&mut self, at: At) {
        let before = std::mem::replace(&mut self.ran, at);
        if at - before > STALL.as_micros() as At {
            self.counts.stalled += Duration::from_micros(at - before);
            self.stalls.push_back((before, at));
            if self.stalls.len() > FAULTS_KEPT {
                self.stalls.pop_front();
            }
        }
    }

    /// How much of an interval this program was stalled.
    fn stalled(&self, from: At, to: At) -> At {
        self.stalls.iter().map(|(begin, end)| to.min(*end).saturating_sub(from.max(*begin))).sum()
    }

    fn count_pause(&mut self, at: At) {
        self.tick(at);
        if !self.measuring {
            return;
        }
        let Some(Since { group, leader }) = self.connected.as_ref().map(Connected::since) else { return };
        let last = self.last_acknowledged;
        let pause = |since: At| {
            let from = since.max(last).min(at);
            Duration::from_micros((at - from).saturating_sub(self.stalled(from, at)))
        };
        let now =
            Pause { connected: group.map_or(Duration::ZERO, pause), with_leader: leader.map_or(Duration::ZERO, pause) };
        self.pause = self.pause.max(now);
        self.counts.longest = self.counts.longest.max(now);
    }

    /// Prints the circumstances of a pause that ends now, if it was too long.
    fn describe_pause(&self, at: At) {
        let Self { pause, limits, .. } = self;
        if pause.connected <= limits.connected && pause.with_leader <= limits.with_leader {
            return;
        }
        let seconds = |at: At| Duration::from_micros(at).as_secs_f64();
        let (connected, with_leader) = (pause.connected.as_secs_f64(), pause.with_leader.as_secs_f64());
        println!(
            "  LONG PAUSE from {:.3} s to {:.3} s; of it {connected:.3} s with a connected majority, {with_leader:.3} s with a leader left alone",
            seconds(self.last_acknowledged),
            seconds(at)
        );
        let at_server = |server: usize| self.connected_to.iter().filter(|at| **at == Some(server)).count();
        let sessions: Vec<usize> = (0..self.excused.len()).map(at_server).collect();
        println!(
            "    sessions at each server: {sessions:?}; this program was stalled for {} ms of it",
            self.stalled(self.last_acknowledged, at) / 1000
        );
        let from = self.last_acknowledged.saturating_sub(BEFORE_A_PAUSE.as_micros() as At);
        for (at, what) in self.faults.iter().filter(|(at, _)| *at >= from) {
            println!("    {:.3} s: {what}", seconds(*at));
        }
    }

    fn is_excused(&self, session: usize, server: usize, at: At) -> bool {
        if let Some(connected) = &self.connected {
            return !connected.is_undisturbed(site_of(session), server, at, UNDISTURBED_MIN.as_micros() as At);
        }
        match self.excused[server] {
            Excuse::None => false,
            Excuse::Now => true,
            Excuse::Until(end) => at < end,
        }
    }
}

fn outcome(kind: Kind, answer: Result<Answer, Refusal>, answered: At) -> Outcome {
    let answer = match answer {
        Ok(answer) => answer,
        Err(Refusal::Lost | Refusal::Expired) => return Outcome::Unknown,
        Err(Refusal::Code(code, _)) => return Outcome::Refused(code.to_string()),
    };
    state_or_path(kind, answer, answered).unwrap_or_else(|| Outcome::Refused("a reply of another kind".into()))
}

fn state_or_path(kind: Kind, answer: Answer, answered: At) -> Option<Outcome> {
    let state = match (kind, answer.reply) {
        (Kind::Write { value, .. }, Reply::SetData(reply)) => {
            State { value, version: reply.stat.version, zxid: reply.stat.mzxid }
        }
        (Kind::Read { .. }, Reply::GetData(reply)) => {
            let text = String::from_utf8_lossy(reply.data.as_deref().unwrap_or_default()).into_owned();
            // Data that is not a number was never written, which the check reports.
            let value = text.parse().unwrap_or(Value::MAX);
            State { value, version: reply.stat.version, zxid: reply.stat.mzxid }
        }
        (Kind::Append { .. }, Reply::Create(reply)) => {
            return Some(Outcome::Appended { answered, zxid: answer.zxid, path: reply.path });
        }
        _ => return None,
    };
    Some(Outcome::State { answered, state })
}

/// A server that was stopped may notice only after it continues that it is no longer part of the quorum.
const GRACE: Duration = Duration::from_secs(3);

/// In a soak with a network, a disconnect counts if there was no fault for this time. It is longer than a client
/// waits for a silent server, and shorter than a session timeout, so it is stricter than what servers guarantee.
const UNDISTURBED_MIN: Duration = Duration::from_secs(6);

/// The number of client locations, each with its own links to all servers. A session's number selects its location.
pub(super) const SITES: usize = 2;

/// The number of unexcused errors that are described.
const EXAMPLES: usize = 5;

/// A gap longer than this is printed, because an election does not explain it.
const GAP_SHOWN_MIN: Duration = Duration::from_secs(1);

/// The interval of [`Ledger::tick`].
pub(super) const TICK: Duration = Duration::from_millis(5);

/// A longer time between two ticks counts as a stall.
const STALL: Duration = Duration::from_millis(25);

/// Sessions are spread over the client sites.
fn site_of(session: usize) -> Place {
    Place::Site(session % SITES)
}

/// The number of faults that are kept to explain a pause, and the time before it from which they are shown.
const FAULTS_KEPT: usize = 100;
const BEFORE_A_PAUSE: Duration = Duration::from_secs(6);
