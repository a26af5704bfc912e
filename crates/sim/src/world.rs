//! The world: one clock, one event queue, and all state of a simulation.

use std::collections::BTreeMap;

use pole_election::{Record, Round};
use pole_node::{AttachAnswer, Event, LeadershipChange, Message, Timer};
use pole_types::{Epoch, Zxid};
use pole_zab::Phase;

use super::background::Work;
use super::checker::{CheckResult, Checker};
use super::faults::{FaultEnd, FaultGenerator, FaultKind};
use super::hosts::Host;
use super::network::{LinkId, Network};
use super::paced::{self, Sample};
use super::queue::Queue;
use super::scripting::{Observation, id};
use super::trace::Trace;
use super::workload::{Client, ServerMessage};
use super::zk::{FromServer, SimClient, ToServer};
use super::{MS, Mark, Report, Setup, Sink};
use crate::Rng;
use crate::recording::Recorder;

/// An ensemble with its network, clients, faults and checker.
pub struct World {
    pub(crate) setup: Setup,
    pub(crate) now: u64,
    pub(crate) queue: Queue<SimEvent>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) network: Network,
    pub(crate) clients: Vec<Client>,
    /// ZooKeeper clients, if the servers hold the tree.
    pub(crate) sim_clients: Vec<SimClient>,
    /// When the clock of any server last jumped.
    pub(crate) jumped: u64,
    pub(crate) faults: FaultGenerator,
    pub(crate) checker: Checker,
    pub(crate) trace: Trace,
    pub(crate) report: Report,
    /// The number of client connections opened so far; numbers the next one.
    pub(crate) connections: u64,
    /// The answers of servers to session requests, by connection, until the client has received them.
    pub(crate) attachments: BTreeMap<u64, (Zxid, AttachAnswer)>,
    /// Draws where byte streams are split.
    pub(crate) cuts: Rng,
    /// The last election record of each server.
    pub(crate) elected: BTreeMap<usize, Box<Record>>,
    /// Clients send no new requests.
    pub(crate) draining: bool,
    /// Election messages are dropped.
    pub(crate) election_muted: bool,
    /// What a script will print; none if no script runs.
    pub(crate) observations: Option<Vec<Observation>>,
    /// Records every step, if the run is watched.
    pub(crate) recorder: Option<Box<Recorder>>,
    /// The completed writes of an experiment.
    pub(crate) samples: Vec<Sample>,
}

/// An event of the simulation.
#[derive(Debug)]
pub(crate) enum SimEvent {
    /// A server's process starts.
    Start(usize),
    /// A message arrives at an end of a link.
    Arrives { link: LinkId, end: usize, generation: u32, message: Message },
    /// An end of a link learns that the connection is open.
    Opened { link: LinkId, end: usize, generation: u32 },
    /// An end of a link learns that the connection is closed.
    Closed { link: LinkId, end: usize, generation: u32 },
    /// A stalled connection may have reached the transport timeout.
    Stalled { link: LinkId, end: usize, generation: u32 },
    /// A connection breaks.
    Breaks { link: LinkId, generation: u32 },
    /// A link is dialled.
    Dial(LinkId),
    /// A timer of a server expires.
    TimerExpires { server: usize, boot: u32, timer: Timer, arming: u64 },
    /// A server that was busy works off its inbox.
    Wakes { server: usize, boot: u32 },
    /// A step of a disk ends.
    DiskStepEnds { server: usize, boot: u32 },
    /// A piece of background work ends.
    BackgroundDone { server: usize, boot: u32, work: Work },
    /// An event of a workload client arrives at a server.
    ClientEvent { server: usize, boot: u32, event: Event },
    /// A message of a server arrives at a workload client.
    ServerMessage { client: usize, connection: u64, message: ServerMessage },
    /// A workload client decides what to do next.
    ClientWakes { client: usize, wakeup: u64 },
    /// Input of a ZooKeeper client arrives at a server.
    ReachesServer { server: usize, boot: u32, connection: u64, input: ToServer },
    /// Output of a server arrives at a ZooKeeper client.
    ReachesClient { client: usize, connection: u64, input: FromServer },
    /// A ZooKeeper client decides what to do next.
    SimClientWakes { client: usize, wakeup: u64 },
    /// The next random fault is due.
    Fault,
    /// An ambush hits this server.
    Strike { server: usize, kind: FaultKind },
    /// A fault ends.
    FaultEnds(FaultEnd),
}

impl World {
    /// A world in which all servers, links and clients are about to start.
    #[must_use]
    pub fn new(setup: Setup, sink: Option<Sink>) -> Self {
        let mut world = Self::still(setup, sink);
        world.begin();
        world
    }

    /// A world with an empty event queue.
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
        let sim_clients = if setup.tree { setup.clients } else { 0 };
        let sim_clients = (0..sim_clients).map(|g| SimClient::new(&setup, g, &rng)).collect();
        Self {
            now: 0,
            queue: Queue::default(),
            hosts,
            network,
            clients,
            sim_clients,
            jumped: 0,
            faults: FaultGenerator::new(rng.fork("weather", 0)),
            checker: Checker::new(&setup),
            trace: Trace::new(sink),
            report: Report { seed: setup.seed, ..Report::default() },
            connections: 0,
            attachments: BTreeMap::new(),
            cuts: rng.fork("cuts", 0),
            elected: BTreeMap::new(),
            draining: false,
            election_muted: false,
            observations: None,
            recorder: None,
            samples: Vec::new(),
            setup,
        }
    }

    pub(crate) fn begin(&mut self) {
        let mut rng = Rng::new(self.setup.seed).fork("begin", 0);
        for server in 0..self.hosts.len() {
            self.queue.push(rng.below(20 * MS), SimEvent::Start(server));
        }
        for link in 0..self.network.links.len() {
            self.dial_later(link, rng.below(30 * MS));
        }
        for client in 0..self.clients.len() {
            self.queue.push(rng.between(100 * MS, 400 * MS), SimEvent::ClientWakes { client, wakeup: 0 });
        }
        for client in 0..self.sim_clients.len() {
            self.queue.push(rng.between(100 * MS, 400 * MS), SimEvent::SimClientWakes { client, wakeup: 0 });
        }
        if !self.setup.faults.is_empty() {
            self.queue.push(500 * MS + rng.spread(self.setup.fault_every), SimEvent::Fault);
        }
    }

    /// Runs clients and faults for `Setup::length`, or until an invariant breaks.
    pub fn run_safety_phase(&mut self) {
        self.run_until(self.setup.length);
    }

    /// Processes all events up to a time, or until an invariant breaks.
    pub fn run_until(&mut self, until: u64) {
        while self.report.failure.is_none() {
            if !self.next(until) {
                self.now = self.now.max(until);
                return;
            }
        }
    }

    /// Processes the next event if it is due by `until`. Returns whether there was one.
    pub(crate) fn next(&mut self, until: u64) -> bool {
        let Some((at, event)) = self.queue.pop(until) else { return false };
        self.now = at;
        if let Err(failure) = self.dispatch(event) {
            self.fail(failure);
        }
        true
    }

    pub(crate) fn fail(&mut self, failure: String) {
        self.trace.line(self.now, 0, format_args!("FAILED: {failure}"));
        self.report.failure.get_or_insert(failure);
    }

    /// Writes acknowledged to clients so far.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.checker.service.as_ref().map_or(self.checker.guarantees.writes_acknowledged, |s| s.writes_acknowledged)
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

    /// The last election or hand-over as a server saw it.
    #[must_use]
    pub fn last_leadership_change(&self, id: u64) -> Option<LeadershipChange> {
        self.hosts.get(id as usize - 1)?.node.as_ref()?.leadership_changes().next().cloned()
    }

    /// The figures of the run.
    #[must_use]
    pub fn into_report(mut self) -> Report {
        self.report.virtual_ns = self.now;
        self.report.writes = self.writes();
        self.report.committed = self.checker.history.len() as u64;
        self.report
    }

    fn dispatch(&mut self, event: SimEvent) -> CheckResult {
        match event {
            SimEvent::Start(server) => self.start(server),
            SimEvent::Arrives { link, end, generation, message } => self.arrives(link, end, generation, message),
            SimEvent::Opened { link, end, generation } => self.opened(link, end, generation),
            SimEvent::Closed { link, end, generation } => self.closed(link, end, generation),
            SimEvent::Stalled { link, end, generation } => self.stalled(link, end, generation),
            SimEvent::Breaks { link, generation } => self.breaks(link, generation),
            SimEvent::Dial(link) => self.dial(link),
            SimEvent::TimerExpires { server, boot, timer, arming } => self.timer_expires(server, boot, timer, arming),
            SimEvent::Wakes { server, boot } => self.wake(server, boot),
            SimEvent::DiskStepEnds { server, boot } => self.disk_step_ends(server, boot),
            SimEvent::BackgroundDone { server, boot, work } => self.background_done(server, boot, work),
            SimEvent::ClientEvent { server, boot, event } => self.client_event(server, boot, event),
            SimEvent::ServerMessage { client, connection, message } => {
                self.client_receives(client, connection, message)
            }
            SimEvent::ClientWakes { client, wakeup } => self.client_wakes(client, wakeup),
            SimEvent::ReachesServer { server, boot, connection, input } => {
                self.reaches_server(server, boot, connection, input)
            }
            SimEvent::ReachesClient { client, connection, input } => self.reaches_client(client, connection, input),
            SimEvent::SimClientWakes { client, wakeup } => self.sim_client_wakes(client, wakeup),
            SimEvent::Fault => self.fault(),
            SimEvent::Strike { server, kind } => self.strike(server, kind),
            SimEvent::FaultEnds(fault) => self.end_fault(fault),
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

    pub(crate) fn note_majority(&mut self) {
        let running = (0..self.hosts.len()).filter(|server| self.hosts[*server].node.is_some()).map(id);
        if !self.checker.members().voters().is_quorum(running) {
            self.report.marks.hit(Mark::MajorityDown);
        }
    }
}
