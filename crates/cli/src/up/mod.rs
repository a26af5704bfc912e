//! `pole up`: an ensemble of real servers on this machine, to look at and to play with.
//!
//! In: a topology, a base port, an oracle. Out: one process for each server, a table when they serve, and one line for
//! each change until Ctrl-C.
//! Why processes and not threads: what one sees is what one deploys, and any of them can be killed.
//! Holds: every server ends with this process, however that ends: each watches the pipe that we hold. A temporary
//! directory is removed when its last server has ended.
//! Not here: files and ports (`plan`), one process (`child`), what a server says in its log (`line`).

mod child;
mod line;
mod place;
mod plan;
mod words;

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use crate::admin::Admin;
use crate::args::UpArgs;
use crate::failure::{Failure, Kind};
use crate::paint::Paint;
use crate::show;
use crate::signals::Signals;

pub(crate) use child::Child;
pub(crate) use line::Line;
pub(crate) use plan::Plan;
use words::Words;

/// Runs an ensemble until a signal ends it.
pub(crate) fn run(args: &UpArgs, paint: Paint) -> Result<(), Failure> {
    let words = Words::new(paint);
    let plan = Plan::new(args)?;
    plan.check_ports()?;
    plan.write_files()?;
    let (tell, happenings) = mpsc::channel();
    let signals = Signals::catch().map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))?;
    let signalled = tell.clone();
    signals.each(move || signalled.send(Happening::Signal).is_ok());
    let mut up = Up {
        plan: &plan,
        tell,
        happenings,
        servers: BTreeMap::new(),
        leader: None,
        lost: None,
        is_ready: false,
        words,
    };
    let ended = up.live(args.until_ready);
    up.stop();
    ended
}

/// Everything that can happen to us.
pub(crate) enum Happening {
    /// A server wrote this to its log.
    Said { id: u64, line: Line },
    /// A server's process has ended, or is about to.
    Ended { id: u64 },
    /// Somebody wants us to stop.
    Signal,
}

struct Up<'a> {
    plan: &'a Plan,
    tell: Sender<Happening>,
    happenings: Receiver<Happening>,
    servers: BTreeMap<u64, Server>,
    /// Of the newest epoch that was heard of.
    leader: Option<Leader>,
    /// Since when nobody leads.
    lost: Option<Instant>,
    /// Whether the table was printed.
    is_ready: bool,
    words: Words,
}

/// One server, through all its lives.
struct Server {
    /// None while it is down.
    child: Option<Child>,
    mode: Mode,
    /// Whether it ever served: what ends before that would end again.
    has_served: bool,
    /// Lives that ended since it last served.
    failures: u32,
    /// When it is to start again.
    due: Option<Instant>,
    /// What it said of the last election.
    elected: String,
    /// What it last said outside its log, which is why it ends.
    last_words: String,
}

/// Where a server stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Down,
    Looking,
    Leads { epoch: u64 },
    Follows { epoch: u64 },
}

struct Leader {
    id: u64,
    epoch: u64,
    why: String,
}

impl Up<'_> {
    /// From the start to the wish to stop.
    fn live(&mut self, until_ready: bool) -> Result<(), Failure> {
        for id in self.plan.ids() {
            let child = Child::start(self.plan, id, &self.tell)?;
            self.servers.insert(id, Server::new(child));
        }
        let deadline = Instant::now() + READY_LIMIT;
        while !self.all_serve() && Instant::now() < deadline {
            if !self.step(Some(deadline))? {
                return Ok(());
            }
        }
        self.ready()?;
        while !until_ready && self.step(None)? {}
        Ok(())
    }

    /// Waits for what happens next, and takes it in; false when we are to stop.
    fn step(&mut self, deadline: Option<Instant>) -> Result<bool, Failure> {
        match self.next(deadline) {
            Some(Happening::Signal) => return Ok(false),
            Some(Happening::Ended { id }) => self.ended(id)?,
            Some(Happening::Said { id, line }) => self.said(id, line),
            None => self.start_due()?,
        }
        Ok(true)
    }

    /// None when a server is due to start, or at the deadline.
    fn next(&self, deadline: Option<Instant>) -> Option<Happening> {
        let due = self.servers.values().filter_map(|server| server.due);
        let Some(until) = due.chain(deadline).min() else { return self.happenings.recv().ok() };
        self.happenings.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
    }

    fn said(&mut self, id: u64, line: Line) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        match line {
            Line::Electing => {
                server.mode = Mode::Looking;
                server.elected.clear();
                // A follower that looks for a leader may only have lost sight of it.
                if self.leader.as_ref().is_none_or(|leader| leader.id == id) {
                    self.lost.get_or_insert_with(Instant::now);
                }
            }
            Line::Elected { why } => server.elected = why,
            Line::Resigning { to } => {
                self.lost.get_or_insert_with(Instant::now);
                self.words.event(&format!("{} hands over to {}", self.plan.name(id), self.plan.name(to)));
            }
            Line::Serving { leader, epoch } if leader == id => {
                server.serves(Mode::Leads { epoch });
                self.leads(id, epoch);
            }
            Line::Serving { leader, epoch } => {
                if server.failures > 0 {
                    let (who, whom) = (self.plan.name(id), self.plan.name(leader));
                    let pid = server.pid().unwrap_or_default();
                    self.words.event(&format!("{who} is back, as process {pid}, and follows {whom}"));
                }
                server.serves(Mode::Follows { epoch });
            }
            Line::Links { what } => self.words.event(&format!("{}: {what}", self.plan.name(id))),
            Line::Plain { text } => server.last_words = text,
            Line::Leading { .. } | Line::Other => {}
        }
    }

    /// A leader serves: perhaps a new one.
    fn leads(&mut self, id: u64, epoch: u64) {
        if self.leader.as_ref().is_some_and(|leader| leader.epoch >= epoch) {
            return;
        }
        let pause = self.lost.take().map(|since| since.elapsed());
        let why = self.why(id);
        if self.is_ready {
            self.words.leads(&self.plan.name(id), epoch, pause, &why);
        }
        self.leader = Some(Leader { id, epoch, why });
    }

    /// Why this server leads: from its account of the election, or else from its log.
    fn why(&self, leader: u64) -> String {
        let elections = Admin::on_loopback(self.plan.ports(leader).admin).elections(1).and_then(|said| said.typed());
        match elections.as_deref() {
            Ok([newest, ..]) if newest.winner == Some(leader) => show::why(newest),
            Ok(_) | Err(_) => self.servers.get(&leader).map(|server| server.elected.clone()).unwrap_or_default(),
        }
    }

    /// A process has ended that was not to.
    fn ended(&mut self, id: u64) -> Result<(), Failure> {
        let Some(server) = self.servers.get_mut(&id) else { return Ok(()) };
        let Some(child) = server.child.take() else { return Ok(()) };
        let status = child.wait();
        if let Some(kind) = status.code().and_then(Kind::of_exit_code).filter(|_| !server.has_served) {
            return Err(Failure::new(kind, format!("{} does not start: {}", self.plan.name(id), server.last_words)));
        }
        if self.leader.as_ref().is_some_and(|leader| leader.id == id) && server.mode != Mode::Down {
            self.lost.get_or_insert_with(Instant::now);
        }
        server.mode = Mode::Down;
        server.failures += 1;
        let how = words::ended(status, &server.last_words);
        let name = self.plan.name(id);
        if server.failures > LIVES_MAX {
            self.words.event(&format!("{name} {how}; it is given up, look at {}", self.plan.log(id).display()));
        } else {
            let pause = PAUSE * server.failures;
            server.due = Some(Instant::now() + pause);
            self.words.event(&format!("{name} {how}; it starts again in {} s", pause.as_secs()));
        }
        Ok(())
    }

    fn start_due(&mut self) -> Result<(), Failure> {
        let now = Instant::now();
        for (id, server) in self.servers.iter_mut().filter(|(_, server)| server.due.is_some_and(|due| due <= now)) {
            server.child = Some(Child::start(self.plan, *id, &self.tell)?);
            (server.due, server.mode) = (None, Mode::Looking);
            server.last_words.clear();
        }
        Ok(())
    }

    fn all_serve(&self) -> bool {
        self.serving() == self.servers.len()
    }

    /// How many serve in the newest epoch.
    fn serving(&self) -> usize {
        let Some(Leader { epoch: newest, .. }) = self.leader else { return 0 };
        let serves = |mode| matches!(mode, Mode::Leads { epoch } | Mode::Follows { epoch } if epoch == newest);
        self.servers.values().filter(|server| serves(server.mode)).count()
    }

    fn ready(&mut self) -> Result<(), Failure> {
        let all = self.servers.len();
        let Some(leader) = self.leader.as_ref().filter(|_| self.serving() > all / 2) else {
            let text = format!(
                "{} of {all} servers serve after {} s, which is no quorum; the machine may be too busy, or look at {}",
                self.serving(),
                READY_LIMIT.as_secs(),
                self.plan.dir().display()
            );
            return Err(Failure::new(Kind::NoQuorum, text));
        };
        let rows: Vec<_> = self.servers.iter().map(|(id, server)| (*id, server.mode.name(), server.pid())).collect();
        self.words.ready(self.plan, &rows, leader.id, leader.epoch, &leader.why);
        self.is_ready = true;
        Ok(())
    }

    /// Ends all servers gently; those that do not end in time, or at a second signal, less so.
    fn stop(&mut self) {
        self.words.stopping();
        // The leader last: alone it has nobody to hand over to, and does not try.
        let leader = self.leader.as_ref().map(|leader| leader.id);
        self.end(|id| Some(id) != leader);
        self.end(|_| true);
    }

    fn end(&mut self, which: impl Fn(u64) -> bool) {
        let mut ending: BTreeMap<u64, Child> = BTreeMap::new();
        for (id, server) in self.servers.iter_mut().filter(|(id, _)| which(**id)) {
            ending.extend(server.child.take().map(|child| (*id, child)));
        }
        ending.values_mut().for_each(Child::ask_to_end);
        let deadline = Instant::now() + STOP_LIMIT;
        while !ending.is_empty() {
            match self.happenings.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Happening::Said { .. }) => {}
                Ok(Happening::Ended { id }) => drop(ending.remove(&id).map(Child::wait)),
                Ok(Happening::Signal) | Err(_) => return ending.into_values().for_each(Child::kill),
            }
        }
    }
}

impl Server {
    fn new(child: Child) -> Self {
        Self {
            child: Some(child),
            mode: Mode::Looking,
            has_served: false,
            failures: 0,
            due: None,
            elected: String::new(),
            last_words: String::new(),
        }
    }

    fn serves(&mut self, mode: Mode) {
        (self.mode, self.has_served, self.failures) = (mode, true, 0);
    }

    fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::pid)
    }
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Looking => "looking",
            Self::Leads { .. } => "leader",
            Self::Follows { .. } => "follower",
        }
    }
}

/// Servers are ready within a second or two; a machine that takes this long has other problems.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// A hand-over may take three seconds.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// Before a server starts again, times its failures: long enough to see how the others go on without it.
const PAUSE: Duration = Duration::from_secs(2);
/// How often a server may end before it serves again.
const LIVES_MAX: u32 = 5;
