//! Where everybody writes down what happens: the history for the judge, and the counts for people.
//!
//! Holds: an operation has its place from the moment it is asked for; its outcome is `Unknown` until an answer comes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use pole_jute::Reply;

use super::connected::{Connected, Since};
use super::history::{At, Ephemeral, History, Kind, Op, Outcome, State, Value};
use crate::client::{Answer, Event, Refusal};
use crate::network::Place;

/// Shared by all tasks of the one thread.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    book: Rc<RefCell<Book>>,
    start: Instant,
}

#[derive(Debug, Default)]
struct Book {
    history: History,
    next_value: Value,
    /// Operations of each session without an outcome.
    open: Vec<usize>,
    /// Up to when each server is excused: it was signalled, or has only just recovered.
    excused: Vec<Excuse>,
    /// The last version that the watch of each session led to.
    watched: Vec<i32>,
    counts: Counts,
    last_acknowledged: At,
    /// Servers and links, in a soak with a network.
    connected: Option<Connected>,
    /// The pauses that are not expected, in a soak with a network.
    limits: Pause,
    /// The time since the last acknowledgement of a write, as far as it counts.
    pause: Pause,
    /// The server that each session is connected to.
    connected_to: Vec<Option<usize>>,
    /// What was done to servers and links of late, to explain a pause.
    faults: VecDeque<(At, String)>,
    /// When this program last ran, and the last times when it did not: it saw no acknowledgement then, and is to blame itself.
    ran: At,
    stalls: VecDeque<(At, At)>,
}

/// A time without an acknowledgement of a write.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pause {
    /// In which a majority was connected all the time.
    pub(super) connected: Duration,
    /// In which nothing was done to the leader either.
    pub(super) with_leader: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Excuse {
    #[default]
    None,
    /// Under a signal.
    Now,
    /// For a while yet.
    Until(At),
}

/// For people.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// Writes and appends with an answer that says yes.
    pub(super) acknowledged: u64,
    /// Writes and appends whose connection broke.
    pub(super) unknown: u64,
    /// Reads answered.
    pub(super) reads: u64,
    /// Events of watches.
    pub(super) watch_events: u64,
    /// Connections that broke though their server had got no signal.
    pub(super) innocent_errors: u64,
    /// The first of these, in words.
    pub(super) innocent_examples: Vec<String>,
    /// Connections that broke because their server had.
    pub(super) excused_errors: u64,
    /// Attempts to connect that a server without a signal did not take.
    pub(super) not_taken: u64,
    /// The longest time without an acknowledgement of a write.
    pub(super) longest_gap: Duration,
    /// For how long this program did not run when it should have: pauses do not count this.
    pub(super) stalled: Duration,
    /// The longest of either kind; only with a network.
    pub(super) longest: Pause,
}

impl Ledger {
    /// Empty.
    pub(super) fn new(sessions: usize, servers: usize) -> Self {
        let book = Book {
            open: vec![0; sessions],
            excused: vec![Excuse::None; servers],
            watched: vec![0; sessions],
            connected_to: vec![None; sessions],
            ..Book::default()
        };
        Self { book: Rc::new(RefCell::new(book)), start: Instant::now() }
    }

    /// From now on links count too, not only servers. Pauses longer than `limits` are described when they end.
    pub(super) fn with_network(&self, servers: usize, limits: Pause) {
        let mut book = self.book.borrow_mut();
        book.connected = Some(Connected::new(servers));
        book.limits = limits;
    }

    /// Has to be called every [`TICK`]: a call that comes late shows that this program, or the whole machine, stood still.
    pub(super) fn tick(&self) {
        let at = self.now();
        self.book.borrow_mut().tick(at);
    }

    /// Something was done to servers or links: it may explain a pause.
    pub(super) fn fault(&self, what: String) {
        let at = self.now();
        let faults = &mut self.book.borrow_mut().faults;
        faults.push_back((at, what));
        if faults.len() > FAULTS_KEPT {
            faults.pop_front();
        }
    }

    /// A link is disturbed.
    pub(super) fn disturbed(&self, one: Place, other: Place) {
        let at = self.now();
        self.book.borrow_mut().change(at, |connected| connected.disturb(one, other, at));
    }

    /// It is well again.
    pub(super) fn restored(&self, one: Place, other: Place) {
        let at = self.now();
        self.book.borrow_mut().change(at, |connected| connected.restore(one, other, at));
    }

    /// Who leads, as a server says; none if that is about to change.
    pub(super) fn leads(&self, leader: Option<usize>) {
        let at = self.now();
        let mut book = self.book.borrow_mut();
        let before = book.connected.as_ref().and_then(Connected::leader);
        book.change(at, |connected| connected.leads(leader, at));
        let after = book.connected.as_ref().and_then(Connected::leader);
        drop(book);
        if before != after {
            self.fault(after.map_or("no leader is left alone".to_owned(), |leader| {
                format!("server {} leads and is left alone", leader + 1)
            }));
        }
    }

    fn now(&self) -> At {
        self.start.elapsed().as_micros() as At
    }

    /// A value that was not used yet.
    pub(super) fn fresh_value(&self) -> Value {
        let mut book = self.book.borrow_mut();
        book.next_value += 1;
        book.next_value
    }

    /// Something is asked for now. Returns its place.
    pub(super) fn asked(&self, session: usize, kind: Kind) -> usize {
        let asked = self.now();
        let mut book = self.book.borrow_mut();
        if let Some(open) = book.open.get_mut(session) {
            *open += 1;
        }
        book.history.ops.push(Op { session, asked, kind, outcome: Outcome::Unknown });
        book.history.ops.len() - 1
    }

    /// The sync before a read failed: the read is one like any other.
    pub(super) fn not_synced(&self, place: usize) {
        let op = &mut self.book.borrow_mut().history.ops[place];
        if let Kind::Read { key, .. } = op.kind {
            op.kind = Kind::Read { key, synced: false };
        }
    }

    /// The answer to what was asked at `place`.
    pub(super) fn settled(&self, place: usize, answer: Result<Answer, Refusal>) {
        let at = self.now();
        let mut book = self.book.borrow_mut();
        let op = &mut book.history.ops[place];
        let (session, kind) = (op.session, op.kind);
        op.outcome = outcome(kind, answer, at);
        let (done, unknown) = (op.outcome.answered().is_some(), op.outcome == Outcome::Unknown);
        if let Some(open) = book.open.get_mut(session) {
            *open -= 1;
        }
        match kind {
            Kind::Read { .. } => book.counts.reads += u64::from(done),
            Kind::Write { .. } | Kind::Append { .. } => {
                book.counts.unknown += u64::from(unknown);
                if done {
                    book.acknowledged(at);
                }
            }
        }
    }

    /// Operations of a session without an outcome.
    pub(super) fn open(&self, session: usize) -> usize {
        self.book.borrow().open[session]
    }

    /// Of all sessions.
    pub(super) fn open_in_all(&self) -> usize {
        self.book.borrow().open.iter().sum()
    }

    /// Gaps count from now on.
    pub(super) fn begin(&self) {
        let at = self.now();
        let mut book = self.book.borrow_mut();
        book.last_acknowledged = at;
        book.counts.longest_gap = Duration::ZERO;
        book.counts.longest = Pause::default();
        book.pause = Pause::default();
        book.ran = at;
    }

    /// Something happened to a session that lives to the end.
    pub(super) fn happened(&self, session: usize, event: &Event) {
        let at = self.now();
        let mut book = self.book.borrow_mut();
        match event {
            Event::Connected(server) => book.connected_to[session] = Some(*server),
            Event::Disconnected(..) => book.connected_to[session] = None,
            Event::NotTaken(_) | Event::Overtaken(_) | Event::Watch(_) | Event::Expired => (),
        }
        match event {
            Event::Connected(_) => (),
            Event::Disconnected(server, _) if book.is_excused(session, *server, at) => book.counts.excused_errors += 1,
            Event::Disconnected(server, why) => {
                book.counts.innocent_errors += 1;
                if book.counts.innocent_examples.len() < EXAMPLES {
                    let seconds = Duration::from_micros(at).as_secs_f64();
                    let example = format!("{seconds:.3} s: session {session} at server {}: {why}", server + 1);
                    book.counts.innocent_examples.push(example);
                }
            }
            Event::NotTaken(server) => book.counts.not_taken += u64::from(!book.is_excused(session, *server, at)),
            Event::Overtaken(path) => book.history.overtaken.push((session, path.clone())),
            Event::Watch(_) => book.counts.watch_events += 1,
            Event::Expired => book.history.expired.push(session),
        }
    }

    /// The watch of a session led to this version.
    pub(super) fn watched(&self, session: usize, answer: &Answer) {
        if let Reply::GetData(reply) = &answer.reply {
            let watched = &mut self.book.borrow_mut().watched[session];
            *watched = reply.stat.version.max(*watched);
        }
    }

    /// The sessions whose watch has not led to this version.
    pub(super) fn not_watched(&self, version: i32) -> Vec<usize> {
        let book = self.book.borrow();
        book.watched.iter().enumerate().filter(|(_, seen)| **seen < version).map(|(session, _)| session).collect()
    }

    /// The greatest version of a key that was acknowledged or seen.
    pub(super) fn last_version(&self, key: usize) -> i32 {
        let book = self.book.borrow();
        let states = book.history.ops.iter().filter_map(|op| match (op.kind, &op.outcome) {
            (Kind::Write { key: of, .. } | Kind::Read { key: of, .. }, Outcome::State { state, .. }) if of == key => {
                Some(state.version)
            }
            (Kind::Write { .. } | Kind::Read { .. } | Kind::Append { .. }, _) => None,
        });
        states.max().unwrap_or(0)
    }

    /// A server is about to get a signal.
    pub(super) fn signalled(&self, server: usize) {
        self.book.borrow_mut().excused[server] = Excuse::Now;
        self.disturbed(Place::Server(server), Place::Server(server));
    }

    /// It serves again.
    pub(super) fn healed(&self, server: usize) {
        self.book.borrow_mut().excused[server] = Excuse::Until(self.now() + GRACE.as_micros() as At);
        self.fault(format!("server {} serves again", server + 1));
        self.restored(Place::Server(server), Place::Server(server));
    }

    /// An ephemeral node was created, perhaps.
    pub(super) fn ephemeral(&self, path: String, created: Option<i64>, lives: bool) {
        self.book.borrow_mut().history.ephemerals.push(Ephemeral { path, created, lives });
    }

    /// For people, as it stands.
    pub(super) fn counts(&self) -> Counts {
        self.book.borrow().counts.clone()
    }

    /// For the judge. The ledger is empty afterwards.
    pub(super) fn take_history(&self) -> History {
        std::mem::take(&mut self.book.borrow_mut().history)
    }
}

impl Pause {
    fn max(self, other: Self) -> Self {
        Self { connected: self.connected.max(other.connected), with_leader: self.with_leader.max(other.with_leader) }
    }
}

impl Book {
    fn acknowledged(&mut self, at: At) {
        self.counts.acknowledged += 1;
        let gap = Duration::from_micros(at.saturating_sub(self.last_acknowledged));
        if gap > WORTH_A_LINE {
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

    /// Changes what is known of servers and links. The pause so far counts under what was known before.
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

    /// How much of a time this program did not run.
    fn stalled(&self, from: At, to: At) -> At {
        self.stalls.iter().map(|(begin, end)| to.min(*end).saturating_sub(from.max(*begin))).sum()
    }

    fn count_pause(&mut self, at: At) {
        self.tick(at);
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

    /// Prints what was going on in a pause that ends now and was too long.
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
            "    sessions at each server: {sessions:?}; this program stood still for {} ms of it",
            self.stalled(self.last_acknowledged, at) / 1000
        );
        let from = self.last_acknowledged.saturating_sub(BEFORE_A_PAUSE.as_micros() as At);
        for (at, what) in self.faults.iter().filter(|(at, _)| *at >= from) {
            println!("    {:.3} s: {what}", seconds(*at));
        }
    }

    fn is_excused(&self, session: usize, server: usize, at: At) -> bool {
        if let Some(connected) = &self.connected {
            let site = Place::Site(session % SITES);
            return !connected.is_innocent(site, server, at, INNOCENT.as_micros() as At);
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
            // What is no number was written by nobody, and will be found to be so.
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

/// A server that stood still may find out only now that it was left behind.
const GRACE: Duration = Duration::from_secs(3);

/// In a soak with a network: the faults that could break a connection are over for longer than a client waits for a silent
/// server. Shorter than a session timeout, so it blames the servers for more than they promise.
const INNOCENT: Duration = Duration::from_secs(6);

/// The number of client locations, each with its own links to all servers. A session's number selects its location.
pub(super) const SITES: usize = 2;

/// So many errors are shown in words.
const EXAMPLES: usize = 5;

/// A gap that is not explained by an election, however unlucky.
const WORTH_A_LINE: Duration = Duration::from_secs(1);

/// Between two signs of life of this program.
pub(super) const TICK: Duration = Duration::from_millis(5);

/// Without one for so long, it stood still.
const STALL: Duration = Duration::from_millis(25);

/// So many faults are kept to explain a pause, and shown from so long before it.
const FAULTS_KEPT: usize = 100;
const BEFORE_A_PAUSE: Duration = Duration::from_secs(6);
