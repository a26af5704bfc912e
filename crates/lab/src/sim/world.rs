//! The world: one clock, one queue, and everything that hangs on them.

use std::collections::BTreeMap;

use pole_election::{Epoch, Record, Round, Zxid};
use pole_node::{Account, AttachAnswer, Event, Message, Timer};
use pole_zab::Phase;

use super::background::Work;
use super::faults::{FaultKind, Mending, Weather};
use super::hosts::Host;
use super::judge::{Judge, Verdict};
use super::network::{LinkId, Network};
use super::paced::{self, Sample};
use super::queue::Queue;
use super::stage::Sight;
use super::trace::Trace;
use super::workload::{Client, Told};
use super::zoo::{FromServer, Guest, ToServer};
use super::{MS, Mark, Report, Setup, Sink};
use crate::play::Recorder;
use crate::rng::Rng;

/// An ensemble and all around it.
pub struct World {
    pub(crate) setup: Setup,
    pub(crate) now: u64,
    pub(crate) queue: Queue<Happening>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) network: Network,
    pub(crate) clients: Vec<Client>,
    /// The clients of the service.
    pub(crate) guests: Vec<Guest>,
    /// When a clock last jumped.
    pub(crate) jumped: u64,
    pub(crate) weather: Weather,
    pub(crate) judge: Judge,
    pub(crate) trace: Trace,
    pub(crate) report: Report,
    /// Numbers the connections of clients.
    pub(crate) connections: u64,
    /// How servers answered requests for sessions, by connection, until the client hears of it.
    pub(crate) attachments: BTreeMap<u64, (Zxid, AttachAnswer)>,
    /// Draws where streams of bytes are cut.
    pub(crate) cuts: Rng,
    /// How the last election ended, as each server tells it.
    pub(crate) elected: BTreeMap<usize, Box<Record>>,
    /// Clients ask nothing new.
    pub(crate) draining: bool,
    /// No server hears what another says in an election.
    pub(crate) hushed: bool,
    /// What a script wants to tell of; none: no script looks.
    pub(crate) sights: Option<Vec<Sight>>,
    /// The record, if somebody watches.
    pub(crate) recorder: Option<Box<Recorder>>,
    /// The writes of an experiment.
    pub(crate) samples: Vec<Sample>,
}

/// What can happen.
#[derive(Debug)]
pub(crate) enum Happening {
    /// A server's process starts.
    Start(usize),
    /// A message arrives at an end of a link.
    Arrives { link: LinkId, end: usize, generation: u32, message: Message },
    /// An end of a link hears that the connection is open.
    Opened { link: LinkId, end: usize, generation: u32 },
    /// An end of a link hears that the connection is closed.
    Closed { link: LinkId, end: usize, generation: u32 },
    /// A connection that stalls may have stalled for too long.
    Stalled { link: LinkId, end: usize, generation: u32 },
    /// A connection breaks.
    Breaks { link: LinkId, generation: u32 },
    /// A link is dialled.
    Dial(LinkId),
    /// A timer of a server expires.
    Expires { server: usize, boot: u32, timer: Timer, arming: u64 },
    /// A server that was busy looks at its inbox.
    Wakes { server: usize, boot: u32 },
    /// The step of a disk has taken its time.
    Disk { server: usize, boot: u32 },
    /// Work beside a process has taken its time.
    Beside { server: usize, boot: u32, work: Work },
    /// Something of a client reaches a server.
    Client { server: usize, boot: u32, event: Event },
    /// Something of a server reaches a client.
    Told { client: usize, connection: u64, told: Told },
    /// A client looks at what to do next.
    Thinks { client: usize, thought: u64 },
    /// Something of a client of the service reaches a server.
    ReachesServer { server: usize, boot: u32, connection: u64, what: ToServer },
    /// Something of a server reaches a client of the service.
    ReachesClient { guest: usize, connection: u64, what: FromServer },
    /// A client of the service looks at what to do next.
    GuestThinks { guest: usize, thought: u64 },
    /// Something goes wrong.
    Fault,
    /// Something goes wrong with this server.
    Strike { server: usize, kind: FaultKind },
    /// Something is mended.
    Mended(Mending),
}

impl World {
    /// A world in which every server is about to start.
    #[must_use]
    pub fn new(setup: Setup, sink: Option<Sink>) -> Self {
        let mut world = Self::still(setup, sink);
        world.begin();
        world
    }

    /// A world in which nothing is about to happen.
    pub(crate) fn still(setup: Setup, sink: Option<Sink>) -> Self {
        let rng = Rng::new(setup.seed);
        let lines = setup.lines();
        let network = Network::new(setup.servers, setup.network, rng.fork("network", 0), |a, b| lines[a][b]);
        let hosts = (0..setup.servers).map(|s| Host::new(&setup, s, &rng)).collect();
        let clients = match &setup.topology {
            Some(topology) if setup.load_percent > 0 => paced::clients(&setup, topology, &rng),
            Some(_) | None if setup.tree => Vec::new(),
            Some(_) | None => (0..setup.clients).map(|c| Client::new(&setup, c, &rng)).collect(),
        };
        let guests = if setup.tree { setup.clients } else { 0 };
        let guests = (0..guests).map(|g| Guest::new(&setup, g, &rng)).collect();
        Self {
            now: 0,
            queue: Queue::new(),
            hosts,
            network,
            clients,
            guests,
            jumped: 0,
            weather: Weather::new(rng.fork("weather", 0)),
            judge: Judge::new(setup.servers, setup.tree),
            trace: Trace::new(sink),
            report: Report { seed: setup.seed, ..Report::default() },
            connections: 0,
            attachments: BTreeMap::new(),
            cuts: rng.fork("cuts", 0),
            elected: BTreeMap::new(),
            draining: false,
            hushed: false,
            sights: None,
            recorder: None,
            samples: Vec::new(),
            setup,
        }
    }

    pub(crate) fn begin(&mut self) {
        let mut rng = Rng::new(self.setup.seed).fork("begin", 0);
        for server in 0..self.hosts.len() {
            self.queue.push(rng.below(20 * MS), Happening::Start(server));
        }
        for link in 0..self.network.links.len() {
            self.dial_later(link, rng.below(30 * MS));
        }
        for client in 0..self.clients.len() {
            self.queue.push(rng.between(100 * MS, 400 * MS), Happening::Thinks { client, thought: 0 });
        }
        for guest in 0..self.guests.len() {
            self.queue.push(rng.between(100 * MS, 400 * MS), Happening::GuestThinks { guest, thought: 0 });
        }
        if !self.setup.faults.is_empty() {
            self.queue.push(500 * MS + rng.spread(self.setup.fault_every), Happening::Fault);
        }
    }

    /// Faults and clients, until the time is over or something is wrong.
    pub fn run_safety_phase(&mut self) {
        self.run_until(self.setup.length);
    }

    /// Everything that happens up to a time, unless something is wrong before.
    pub fn run_until(&mut self, until: u64) {
        while self.report.failure.is_none() {
            if !self.next(until) {
                self.now = self.now.max(until);
                return;
            }
        }
    }

    /// The next thing that happens up to a time. False if there is none.
    pub(crate) fn next(&mut self, until: u64) -> bool {
        let Some((at, happening)) = self.queue.pop(until) else { return false };
        self.now = at;
        if let Err(failure) = self.happens(happening) {
            self.fails(failure);
        }
        true
    }

    pub(crate) fn fails(&mut self, failure: String) {
        self.trace.line(self.now, 0, format_args!("FAILED: {failure}"));
        self.report.failure.get_or_insert(failure);
    }

    /// Writes acknowledged to clients so far.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.judge.service.as_ref().map_or(self.judge.promises.writes_acknowledged, |s| s.writes_acknowledged)
    }

    /// The election round in which a server is.
    #[must_use]
    pub fn round_of(&self, id: u64) -> Round {
        self.hosts
            .get(id as usize - 1)
            .and_then(|host| host.node.as_ref())
            .map(|n| n.election().round())
            .unwrap_or_default()
    }

    /// The epoch under which a server serves.
    #[must_use]
    pub fn epoch_of(&self, server: usize) -> Option<Epoch> {
        self.hosts.get(server)?.node.as_ref()?.zab().serving_epoch()
    }

    /// What a server can tell of the last election or hand-over.
    #[must_use]
    pub fn account_of(&self, id: u64) -> Option<Account> {
        self.hosts.get(id as usize - 1)?.node.as_ref()?.accounts().next().cloned()
    }

    /// The figures of the run.
    #[must_use]
    pub fn into_report(mut self) -> Report {
        self.report.virtual_ns = self.now;
        self.report.writes = self.writes();
        self.report.committed = self.judge.history.len() as u64;
        self.report
    }

    fn happens(&mut self, happening: Happening) -> Verdict {
        match happening {
            Happening::Start(server) => self.start(server),
            Happening::Arrives { link, end, generation, message } => self.arrives(link, end, generation, message),
            Happening::Opened { link, end, generation } => self.opened(link, end, generation),
            Happening::Closed { link, end, generation } => self.closed(link, end, generation),
            Happening::Stalled { link, end, generation } => self.stalled(link, end, generation),
            Happening::Breaks { link, generation } => self.breaks(link, generation),
            Happening::Dial(link) => self.dial(link),
            Happening::Expires { server, boot, timer, arming } => self.expires(server, boot, timer, arming),
            Happening::Wakes { server, boot } => self.wakes(server, boot),
            Happening::Disk { server, boot } => self.disk_step_ends(server, boot),
            Happening::Beside { server, boot, work } => self.beside(server, boot, work),
            Happening::Client { server, boot, event } => self.client_event(server, boot, event),
            Happening::Told { client, connection, told } => self.client_told(client, connection, told),
            Happening::Thinks { client, thought } => self.client_thinks(client, thought),
            Happening::ReachesServer { server, boot, connection, what } => {
                self.reaches_server(server, boot, connection, what)
            }
            Happening::ReachesClient { guest, connection, what } => self.reaches_client(guest, connection, what),
            Happening::GuestThinks { guest, thought } => self.guest_thinks(guest, thought),
            Happening::Fault => self.fault(),
            Happening::Strike { server, kind } => self.strike(server, kind),
            Happening::Mended(mending) => self.mended(mending),
        }
    }

    /// The established leader of the highest epoch, by index.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        let leads = |host: &Host| {
            let zab = host.node.as_ref()?.zab();
            (zab.phase() == Phase::Established).then(|| zab.standing().current_epoch)
        };
        let leaders: BTreeMap<_, _> =
            (0..self.hosts.len()).filter_map(|s| leads(&self.hosts[s]).map(|e| (e, s))).collect();
        leaders.into_values().next_back()
    }

    /// How many servers run.
    pub(crate) fn running(&self) -> usize {
        self.hosts.iter().filter(|host| host.node.is_some()).count()
    }

    pub(crate) fn note_majority(&mut self) {
        if self.running() < self.hosts.len() / 2 + 1 {
            self.report.marks.hit(Mark::MajorityDown);
        }
    }
}
