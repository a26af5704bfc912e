//! `pole up`: an ensemble of real servers on this machine, for experiments.
//!
//! Starts one process for each server, prints a table when they serve, and then one line for each change until
//! Ctrl-C. The servers are processes and not threads, so that the user sees what is deployed, and can kill any of
//! them.
//!
//! Invariant: every server ends with this process, however it ends, because each server watches a pipe that this
//! process holds. A temporary directory is removed after its last server has exited.
//!
//! Files and ports are in `plan`, one process is in `child`, and the parsing of a server's log is in `log_line`. The
//! dashboard, the load and the tour have threads of their own; what they want done (`action`) is done by the event loop,
//! and what they know together is on the `board`.

mod action;
mod board;
mod child;
mod console;
mod dashboard;
mod links;
mod load;
mod log_line;
mod plan;
mod tour;
mod work_dir;

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use pole_api::UpServer;

use crate::admin::Admin;
use crate::args::UpArgs;
use crate::failure::{Failure, Kind};
use crate::paint::Paint;
use crate::show;
use crate::signals::Signals;

use action::{Action, RATE_MAX, Reply};
use board::Board;
pub(crate) use child::Child;
use console::Console;
use links::Links;
use load::{Load, Target};
pub(crate) use log_line::LogLine;
pub(crate) use plan::Plan;
use tour::Tour;

/// Runs an ensemble until a signal ends it.
pub(crate) fn run(args: &UpArgs, paint: Paint) -> Result<(), Failure> {
    let console = Console::new(paint);
    let plan = Plan::new(args)?.with_extra_config(EXTRA_CONFIG);
    plan.check_ports()?;
    plan.write_files()?;
    let (sender, events) = mpsc::channel();
    let signals = Signals::catch().map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))?;
    let signalled = sender.clone();
    signals.on_each(move || signalled.send(Event::Signal).is_ok());
    let board = Board::new();
    let admin_ports: Vec<(u64, u16)> = plan.ids().map(|id| (id, plan.ports(id).admin)).collect();
    let dashboard = dashboard::start(plan.dashboard_port(), &admin_ports, &board, sender.clone());
    let load = Load::start(&plan, &board).map_err(|error| Failure::failed(format!("cannot start a load: {error}")))?;
    let mut up = Up {
        plan: &plan,
        links: Links::new(plan.topology()),
        load,
        board,
        dashboard: dashboard.map_err(|error| error.to_string()),
        sender,
        events,
        servers: BTreeMap::new(),
        leader: None,
        leaderless_since: None,
        is_ready: false,
        is_tour_over: false,
        console,
    };
    let result = up.run_until_signal(args);
    up.stop();
    result
}

/// An input to the event loop.
pub(crate) enum Event {
    /// A server wrote a line to its log.
    Logged { id: u64, line: LogLine },
    /// A server's process has exited, or is about to.
    Exited { id: u64 },
    /// The dashboard or the tour wants something done.
    Act { action: Action, reply: Reply },
    /// The tour has something to say.
    Tour { step: u32, of: u32, text: String },
    /// The tour has ended.
    TourOver,
    /// SIGTERM or SIGINT.
    Signal,
}

struct Up<'a> {
    plan: &'a Plan,
    links: Links,
    load: Load,
    board: Board,
    /// The reason if there is no dashboard.
    dashboard: Result<(), String>,
    sender: Sender<Event>,
    events: Receiver<Event>,
    servers: BTreeMap<u64, Server>,
    /// The leader of the newest epoch seen.
    leader: Option<Leader>,
    /// Set while there is no leader.
    leaderless_since: Option<Instant>,
    /// Whether the table was printed.
    is_ready: bool,
    is_tour_over: bool,
    console: Console,
}

/// One server, across restarts.
struct Server {
    /// None while it is down.
    child: Option<Child>,
    mode: Mode,
    /// Whether it ever served. A server that exits before that would exit again after a restart.
    has_served: bool,
    /// Exits since it last served.
    failures: u32,
    /// Why it is down or going down, if somebody wanted that.
    wish: Option<Wish>,
    is_paused: bool,
    restart_at: Option<Instant>,
    /// Its explanation of the last election.
    election_reason: String,
    /// The last output that was not a log line, which explains why it exited.
    last_output: String,
}

/// What should become of a process that ends on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    StayDown,
    StartAgain,
}

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
    /// Starts all servers and runs until a signal; with `until_ready`, only until they serve or the tour is over.
    fn run_until_signal(&mut self, args: &UpArgs) -> Result<(), Failure> {
        for id in self.plan.ids() {
            let child = Child::start(self.plan, id, &self.sender)?;
            self.servers.insert(id, Server::new(child));
        }
        let deadline = Instant::now() + READY_LIMIT;
        while !self.all_serve() && Instant::now() < deadline {
            if !self.step(Some(deadline))? {
                return Ok(());
            }
        }
        self.ready()?;
        if let Some(rate) = args.load {
            self.set_load(rate, None).map_err(|error| Failure::bad_input(format!("--load: {error}")))?;
        }
        if args.tour {
            let tour = Tour::new(self.plan, self.sender.clone(), self.board.clone());
            tour.ok_or_else(|| Failure::bad_input("--tour: the topology has only one site"))?.start();
        }
        let until_tour = args.tour && args.until_ready;
        while (!args.until_ready || until_tour) && self.step(None)? {
            if until_tour && self.is_tour_over {
                break;
            }
        }
        Ok(())
    }

    /// Waits for the next event and handles it; false after a signal.
    fn step(&mut self, deadline: Option<Instant>) -> Result<bool, Failure> {
        match self.next(deadline) {
            Some(Event::Signal) => return Ok(false),
            Some(Event::Exited { id }) => self.handle_exit(id)?,
            Some(Event::Logged { id, line }) => self.handle_line(id, line),
            Some(Event::Act { action, reply }) => {
                let outcome = self.act(action);
                // The caller may be gone, which changes nothing.
                let _ = reply.send(outcome);
            }
            Some(Event::Tour { step, of, text }) => self.console.tour(step, of, &text),
            Some(Event::TourOver) => self.is_tour_over = true,
            None => self.restart_due()?,
        }
        self.show();
        Ok(true)
    }

    /// None when a server is due to restart, or at the deadline.
    fn next(&self, deadline: Option<Instant>) -> Option<Event> {
        let due = self.servers.values().filter_map(|server| server.restart_at);
        let Some(until) = due.chain(deadline).min() else { return self.events.recv().ok() };
        self.events.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
    }

    /// Puts what the dashboard shows on the board.
    fn show(&self) {
        let server = |(id, server): (&u64, &Server)| UpServer {
            id: *id,
            site: self.plan.site(*id).to_owned(),
            state: server.state().to_owned(),
            pid: server.pid(),
            client: format!("127.0.0.1:{}", self.plan.ports(*id).client),
        };
        let servers = self.servers.iter().map(server).collect();
        let links = if cfg!(feature = "emulation") { self.links.list() } else { Vec::new() };
        let leads = |leader: &&Leader| {
            let server = self.servers.get(&leader.id);
            server.is_some_and(|server| server.mode == Mode::Leads { epoch: leader.epoch } && !server.is_paused)
        };
        let leader = self.leader.as_ref().filter(leads).map(|leader| (leader.id, leader.epoch));
        self.board.update(|content| {
            (content.state.servers, content.state.links, content.leader) = (servers, links, leader);
        });
    }

    fn act(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Kill(id) => self.kill(id),
            Action::Pause(id) => self.set_paused(id, true),
            Action::Resume(id) => self.set_paused(id, false),
            Action::Restart(id) => self.restart(id),
            Action::Load { rate, site } => self.set_load(rate, site),
            Action::Link { a, b, rtt_ms } => {
                self.links.set_rtt(&a, &b, rtt_ms)?;
                self.console.event(&format!("the round trip between {a} and {b} becomes {rtt_ms} ms"));
                self.write_links()
            }
            Action::Cut { site, is_cut } => {
                self.links.set_cut(&site, is_cut)?;
                let what = if is_cut { "is cut off from the other sites" } else { "is connected again" };
                self.console.event(&format!("{site} {what}"));
                self.write_links()
            }
        }
    }

    fn kill(&mut self, id: u64) -> Result<(), String> {
        let name = self.plan.name(id);
        let server = self.servers.get_mut(&id).ok_or_else(|| no_server(id))?;
        let child = server.child.as_mut().ok_or_else(|| format!("{name} is down already"))?;
        child.kill_now();
        (server.wish, server.is_paused) = (Some(Wish::StayDown), false);
        Ok(())
    }

    fn set_paused(&mut self, id: u64, is_paused: bool) -> Result<(), String> {
        let name = self.plan.name(id);
        let server = self.servers.get_mut(&id).ok_or_else(|| no_server(id))?;
        let child = server.child.as_mut().ok_or_else(|| format!("{name} is down"))?;
        child.set_paused(is_paused).map_err(|error| format!("{name}: {error}"))?;
        if is_paused && !server.is_paused && self.leader.as_ref().is_some_and(|leader| leader.id == id) {
            self.leaderless_since.get_or_insert_with(Instant::now);
        }
        server.is_paused = is_paused;
        self.console.event(&format!("{name} is {}", if is_paused { "paused" } else { "running again" }));
        Ok(())
    }

    fn restart(&mut self, id: u64) -> Result<(), String> {
        let server = self.servers.get_mut(&id).ok_or_else(|| no_server(id))?;
        server.wish = Some(Wish::StartAgain);
        match &mut server.child {
            None => server.restart_at = Some(Instant::now()),
            Some(child) => {
                // A paused process would not notice.
                let _ = child.set_paused(false);
                server.is_paused = false;
                child.ask_to_end();
            }
        }
        Ok(())
    }

    fn set_load(&self, rate: f64, site: Option<String>) -> Result<(), String> {
        if !(0.0..=RATE_MAX).contains(&rate) {
            return Err(format!("{rate} writes a second: expected a number from 0 to {RATE_MAX}"));
        }
        if let Some(site) = &site
            && !self.plan.ids().any(|id| self.plan.site(id) == site)
        {
            return Err(format!("there is no site {site}"));
        }
        let place = site.as_ref().map_or_else(|| "in all sites".to_owned(), |site| format!("in {site}"));
        self.console.event(&match rate {
            0.0 => "the load ends".to_owned(),
            _ => format!("clients {place} write {rate} times a second"),
        });
        self.load.set(Target { rate, site });
        Ok(())
    }

    fn write_links(&self) -> Result<(), String> {
        self.plan.write_topology(&self.links.text()).map_err(|error| error.to_string())
    }

    fn handle_line(&mut self, id: u64, line: LogLine) {
        let Some(server) = self.servers.get_mut(&id) else { return };
        match line {
            LogLine::Electing => {
                server.mode = Mode::Looking;
                server.election_reason.clear();
                // A follower that looks for a leader may only have lost contact with it.
                if self.leader.as_ref().is_none_or(|leader| leader.id == id) {
                    self.leaderless_since.get_or_insert_with(Instant::now);
                }
            }
            LogLine::Elected { why } => server.election_reason = why,
            LogLine::Resigning { to } => {
                self.leaderless_since.get_or_insert_with(Instant::now);
                self.console.event(&format!("{} hands over to {}", self.plan.name(id), self.plan.name(to)));
            }
            LogLine::Serving { leader, epoch } if leader == id => {
                server.serves(Mode::Leads { epoch });
                self.leads(id, epoch);
            }
            LogLine::Serving { leader, epoch } => {
                if server.failures > 0 {
                    let (who, whom) = (self.plan.name(id), self.plan.name(leader));
                    let pid = server.pid().unwrap_or_default();
                    self.console.event(&format!("{who} is back, as process {pid}, and follows {whom}"));
                }
                server.serves(Mode::Follows { epoch });
            }
            LogLine::Links { what } => self.console.event(&format!("{}: {what}", self.plan.name(id))),
            LogLine::Plain { text } => server.last_output = text,
            LogLine::Leading { .. } | LogLine::Other => {}
        }
    }

    /// Handles a server that serves as leader, possibly a new one.
    fn leads(&mut self, id: u64, epoch: u64) {
        if self.leader.as_ref().is_some_and(|leader| leader.epoch >= epoch) {
            return;
        }
        let pause = self.leaderless_since.take().map(|since| since.elapsed());
        let why = self.why(id);
        if self.is_ready {
            self.console.leads(&self.plan.name(id), epoch, pause, &why);
        }
        self.leader = Some(Leader { id, epoch, why });
    }

    /// The reason why this server leads: from its admin port, or else from its log.
    fn why(&self, leader: u64) -> String {
        let elections =
            Admin::on_loopback(self.plan.ports(leader).admin).elections(1).and_then(|response| response.typed());
        match elections.as_deref() {
            Ok([newest, ..]) if newest.winner == Some(leader) => show::why(newest),
            Ok(_) | Err(_) => {
                self.servers.get(&leader).map(|server| server.election_reason.clone()).unwrap_or_default()
            }
        }
    }

    /// Handles an unexpected exit.
    fn handle_exit(&mut self, id: u64) -> Result<(), Failure> {
        let Some(server) = self.servers.get_mut(&id) else { return Ok(()) };
        let Some(child) = server.child.take() else { return Ok(()) };
        let status = child.wait();
        if let Some(kind) = status.code().and_then(Kind::of_exit_code).filter(|_| !server.has_served) {
            return Err(Failure::new(kind, format!("{} does not start: {}", self.plan.name(id), server.last_output)));
        }
        if self.leader.as_ref().is_some_and(|leader| leader.id == id) && server.mode != Mode::Down {
            self.leaderless_since.get_or_insert_with(Instant::now);
        }
        server.mode = Mode::Down;
        server.is_paused = false;
        let wish = server.wish.take();
        if let Some(wish) = wish {
            let name = self.plan.name(id);
            server.failures = 1;
            match wish {
                Wish::StayDown => self.console.event(&format!("{name} was killed, and stays down until it is started")),
                Wish::StartAgain => {
                    self.console.event(&format!("{name} starts again"));
                    server.restart_at = Some(Instant::now());
                }
            }
            return Ok(());
        }
        server.failures += 1;
        let outcome = console::describe_exit(status, &server.last_output);
        let name = self.plan.name(id);
        if server.failures > RESTARTS_MAX {
            self.console.event(&format!("{name} {outcome}; it is given up, look at {}", self.plan.log(id).display()));
        } else {
            let pause = RESTART_DELAY * server.failures;
            server.restart_at = Some(Instant::now() + pause);
            self.console.event(&format!("{name} {outcome}; it starts again in {} s", pause.as_secs()));
        }
        Ok(())
    }

    fn restart_due(&mut self) -> Result<(), Failure> {
        let now = Instant::now();
        for (id, server) in
            self.servers.iter_mut().filter(|(_, server)| server.restart_at.is_some_and(|due| due <= now))
        {
            server.child = Some(Child::start(self.plan, *id, &self.sender)?);
            (server.restart_at, server.mode, server.wish) = (None, Mode::Looking, None);
            server.last_output.clear();
        }
        Ok(())
    }

    fn all_serve(&self) -> bool {
        self.serving() == self.servers.len()
    }

    /// The number of servers that serve in the newest epoch.
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
        self.console.ready(self.plan, &self.dashboard, &rows, leader.id, leader.epoch, &leader.why);
        self.is_ready = true;
        Ok(())
    }

    /// Stops all servers gracefully, and kills those that do not exit in time or before a second signal.
    fn stop(&mut self) {
        self.console.stopping();
        // The leader stops last: alone it has no server to hand over to, and does not try.
        let leader = self.leader.as_ref().map(|leader| leader.id);
        self.end(|id| Some(id) != leader);
        self.end(|_| true);
    }

    fn end(&mut self, filter: impl Fn(u64) -> bool) {
        let mut ending: BTreeMap<u64, Child> = BTreeMap::new();
        for (id, server) in self.servers.iter_mut().filter(|(id, _)| filter(**id)) {
            if let Some(mut child) = server.child.take() {
                // A paused process would not notice that it should end.
                let _ = child.set_paused(false);
                ending.insert(*id, child);
            }
        }
        ending.values_mut().for_each(Child::ask_to_end);
        let deadline = Instant::now() + STOP_LIMIT;
        while !ending.is_empty() {
            match self.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Logged { .. } | Event::Act { .. } | Event::Tour { .. } | Event::TourOver) => {}
                Ok(Event::Exited { id }) => drop(ending.remove(&id).map(Child::wait)),
                Ok(Event::Signal) | Err(_) => return ending.into_values().for_each(Child::kill),
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
            wish: None,
            is_paused: false,
            restart_at: None,
            election_reason: String::new(),
            last_output: String::new(),
        }
    }

    fn serves(&mut self, mode: Mode) {
        (self.mode, self.has_served, self.failures) = (mode, true, 0);
    }

    /// The state of the process, for the dashboard.
    fn state(&self) -> &'static str {
        match (&self.child, self.is_paused) {
            (None, _) => "down",
            (Some(_), true) => "paused",
            (Some(_), false) => "running",
        }
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

fn no_server(id: u64) -> String {
    format!("there is no server {id}")
}

/// A visitor should see the leader follow the load within seconds. In production that would be too often.
const EXTRA_CONFIG: &str = "pole.oracle.rateHalfLifeMs=2000\npole.resign.holdMs=3000\npole.resign.cooldownMs=8000\n\
                            pole.resign.maxPerHour=120\n";

/// Servers are ready within a second or two. A machine that takes this long has other problems.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// A hand-over may take three seconds.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// The delay before a restart, times the number of failures: long enough to see how the others continue without it.
const RESTART_DELAY: Duration = Duration::from_secs(2);
/// The number of exits in a row after which a server is not restarted.
const RESTARTS_MAX: u32 = 5;
