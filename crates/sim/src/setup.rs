//! The parameters of a run, drawn from a seed by swarm testing.
//!
//! With every fault always enabled most runs look alike and some combinations never happen; a random subset with random
//! rates reaches further (Groce et al., "Swarm testing", 2012).

use bytes::Bytes;
use pole_node::Config;
use pole_oracle::{ResignConfig, Spec};
use pole_topology::{Link as Line, Topology};
use pole_tree::{Members, Server};
use pole_types::{Membership, ServerId, Span, Voter, Voters};

use super::disk::Timing;
use super::faults::FaultKind;
use super::network::Settings;
use super::{MS, SECOND};
use crate::Rng;

/// All parameters of a run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The seed of all random numbers.
    pub seed: u64,
    /// The number of servers, observers included.
    pub servers: usize,
    /// Which of them vote, and how much each vote counts.
    pub members: Membership,
    /// Whether the members change at run time. Then any two servers may have links.
    pub changes_members: bool,
    /// The length of the safety phase, in nanoseconds.
    pub length: u64,
    /// The faults that may happen; empty: none.
    pub faults: Vec<FaultKind>,
    /// The mean time between two faults, in nanoseconds.
    pub fault_every: u64,
    /// Whether the servers hold the tree of the service; otherwise the key-value machine.
    pub tree: bool,
    /// The number of clients.
    pub clients: usize,
    /// The mean time between two requests of a client, in nanoseconds.
    pub think_time: u64,
    /// The largest number of outstanding requests of a client.
    pub depth_max: u64,
    /// Whether a client sends as many requests as it may at once, then pauses as long as they would have taken one by
    /// one.
    pub bursts: bool,
    /// Whether a client sends further requests while a sync is outstanding.
    pub pipelined_syncs: bool,
    /// The oracle, as a value of `pole.oracle`.
    pub oracle: String,
    /// The largest clock drift in either direction, in parts per million.
    pub drift_ppm: u64,
    /// The duration of one step of a server, in nanoseconds.
    pub step_cost: u64,
    /// The data centres of the servers and the links between them; none: as `line` says.
    pub topology: Option<Topology>,
    /// The load of the clients in percent of the topology's load; 0: `clients` ordinary clients instead.
    pub load_percent: u32,
    /// The padding of each write, in bytes.
    pub payload_bytes: usize,
    /// The time between two measurements.
    pub heartbeat: Span,
    /// When the leader resigns; none: the short times that suit a short run, if `tuning` enables it.
    pub resign: Option<ResignConfig>,
    /// What a follower's clients must gain before it counts acknowledgements itself; none: it never does.
    pub direct_acks: Option<Span>,
    pub(crate) line: LineKind,
    pub(crate) network: Settings,
    pub(crate) disk: Timing,
    pub(crate) tuning: Tuning,
}

/// The links between the servers, if there is no topology.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LineKind {
    /// All links are equal.
    Even(Line),
    /// Servers are spread over this many sites, with round trips of up to `rtt_max` between sites.
    Spread { sites: u64, rtt_max: u64 },
}

/// Server settings that seeds vary.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    pub(crate) snapshot_every: u64,
    pub(crate) retain_bytes: usize,
    pub(crate) piece_bytes: usize,
    pub(crate) pieces_in_flight: usize,
    pub(crate) outstanding_max: usize,
    pub(crate) counter_max: u32,
    pub(crate) resign: bool,
    /// How long a server keeps client connections without a leader.
    pub(crate) patience: Span,
}

impl Setup {
    /// An ensemble on a topology, without faults or clients.
    #[must_use]
    pub fn on(topology: Topology, seed: u64) -> Self {
        let mut setup = Self::lan(seed, topology.servers().count());
        setup.topology = Some(topology);
        setup
    }

    /// An ensemble on a LAN, without faults or clients: round trips of 0.1 ms, an fsync of 0.5 ms.
    #[must_use]
    pub fn lan(seed: u64, servers: usize) -> Self {
        let line = Line {
            rtt_ns: MS / 10,
            jitter_ppm: 20_000,
            loss_ppm: 0,
            bandwidth_bps: 1_000_000_000,
            window_bytes: 4 << 20,
        };
        Self {
            seed,
            servers,
            members: Voters::new(ids(servers)).into(),
            changes_members: false,
            length: 10 * SECOND,
            faults: Vec::new(),
            fault_every: SECOND,
            tree: false,
            clients: 0,
            think_time: 50 * MS,
            depth_max: 1,
            bursts: false,
            pipelined_syncs: true,
            oracle: "history".to_owned(),
            drift_ppm: 0,
            step_cost: 2_000,
            topology: None,
            load_percent: 0,
            payload_bytes: 0,
            heartbeat: Span::from_ms(1_000),
            resign: None,
            direct_acks: None,
            line: LineKind::Even(line),
            network: Settings {
                lost_per_mille: 0,
                doubled_per_mille: 0,
                broken_per_100k: 0,
                fins_lost_per_mille: 0,
                transport_timeout: 5 * SECOND,
                redial: MS / 5,
            },
            disk: Timing { append: 10_000, fsync: MS / 2, jitter: 0 },
            tuning: Tuning {
                snapshot_every: 100_000,
                retain_bytes: 256 << 20,
                piece_bytes: 256 << 10,
                pieces_in_flight: 16,
                outstanding_max: 1_000,
                counter_max: u32::MAX - (1 << 20),
                resign: false,
                patience: Span::from_ms(10_000),
            },
        }
    }

    /// Sets the duration of an fsync, in nanoseconds.
    pub fn set_fsync(&mut self, fsync: u64) {
        self.disk.fsync = fsync;
    }

    /// Allows recoveries of any length: servers keep their whole logs in memory, so that they never send snapshots, and
    /// keep their clients for a day.
    pub fn allow_long_recovery(&mut self) {
        self.tuning.retain_bytes = usize::MAX;
        self.tuning.patience = Span::from_ms(24 * 3_600_000);
    }

    /// The random setup of a seed, with this many voters. Some seeds have observers besides, or unequal votes.
    #[must_use]
    pub fn random(seed: u64, servers: usize, length: u64) -> Self {
        let mut rng = Rng::new(seed).fork("setup", 0);
        let members = random_members(&mut rng.fork("members", 0), servers);
        let servers = members.iter().count();
        let mut setup = Self::lan(seed, servers);
        setup.members = members;
        setup.changes_members = rng.fork("changes", 0).per_mille(250);
        setup.length = length;
        setup.faults = FaultKind::ALL.iter().copied().filter(|_| rng.per_mille(500)).collect();
        if setup.faults.is_empty() {
            setup.faults.push(*rng.pick(FaultKind::ALL));
        }
        if setup.changes_members {
            setup.faults.push(FaultKind::ChangeMembers);
        }
        setup.fault_every = *rng.pick(&[400, 1_000, 1_600, 2_400]) * MS;
        setup.clients = rng.between(5, 9) as usize;
        // The total request rate hardly depends on the number of clients.
        setup.think_time = *rng.pick(&[20, 40, 60]) * MS * setup.clients as u64 / 8;
        setup.depth_max = *rng.pick(&[1, 2, 4, 8]);
        setup.bursts = rng.per_mille(500);
        setup.oracle = random_oracle(&mut rng, servers);
        setup.drift_ppm = *rng.pick(&[0, 0, 100, 1_000]);
        setup.step_cost = *rng.pick(&[1_000, 5_000, 20_000]);
        if rng.per_mille(600) {
            setup.line = LineKind::Spread { sites: rng.between(2, 4), rtt_max: rng.between(1, 80) * MS };
        }
        setup.network = Settings {
            lost_per_mille: *rng.pick(&[0, 0, 1, 10, 50]),
            doubled_per_mille: *rng.pick(&[0, 0, 5, 50]),
            broken_per_100k: *rng.pick(&[0, 0, 1, 10]),
            fins_lost_per_mille: *rng.pick(&[0, 0, 20, 200]),
            transport_timeout: rng.between(1, 8) * SECOND,
            redial: *rng.pick(&[MS / 5, 5 * MS, 50 * MS]),
        };
        setup.disk = Timing {
            append: 10_000,
            fsync: *rng.pick(&[MS / 10, MS / 2, 2 * MS, 8 * MS]),
            jitter: *rng.pick(&[0, 300, 900]),
        };
        setup.tuning = Tuning {
            snapshot_every: *rng.pick(&[20, 100, 500, 100_000]),
            retain_bytes: *rng.pick(&[2 << 10, 32 << 10, 256 << 20]),
            piece_bytes: *rng.pick(&[200, 4 << 10, 256 << 10]),
            pieces_in_flight: 16,
            outstanding_max: *rng.pick(&[1, 4, 1_000]),
            counter_max: *rng.pick(&[100, 1_000, u32::MAX - (1 << 20), u32::MAX - (1 << 20)]),
            resign: rng.per_mille(500),
            patience: setup.tuning.patience,
        };
        setup.direct_acks =
            *rng.fork("direct", 0).pick(&[None, Some(Span::ZERO), Some(Span::ZERO), Some(Span::from_ms(1))]);
        // Narrow at times, but never so narrow that transferring a history takes longer than clients wait.
        let least = WINDOW_BYTES_MIN / setup.tuning.piece_bytes;
        setup.tuning.pieces_in_flight = (*rng.fork("window", 0).pick(&[1, 3, 16])).max(least);
        // A request may come after those of all clients. Few at a time over long links take longer than clients wait.
        let rtt_max = match setup.line {
            LineKind::Even(line) => line.rtt_ns,
            LineKind::Spread { rtt_max, .. } => rtt_max,
        };
        let ahead = setup.clients as u64 * setup.depth_max;
        let least = (ahead * rtt_max).div_ceil(QUEUE_TIME_MAX) as usize;
        setup.tuning.outstanding_max = setup.tuning.outstanding_max.max(least);
        setup
    }

    /// # Panics
    /// If `oracle` does not parse.
    pub(crate) fn build_oracle(&self) -> Box<dyn pole_oracle::Oracle> {
        Spec::parse(&self.oracle).and_then(|spec| spec.build()).expect("an oracle by a known name")
    }

    /// The content of `/zookeeper/config`, if the members can change.
    pub(crate) fn description(&self) -> Bytes {
        let text = self.changes_members.then(|| describe(&self.members));
        text.map(|text| format!("{text}version=0").into()).unwrap_or_default()
    }

    pub(crate) fn config(&self, server: usize, boot: u32) -> Config {
        let mut config = Config::new(ServerId(server as u64 + 1), self.members.clone());
        config.incarnation = boot;
        config.heartbeat = self.heartbeat;
        config.snapshot_every = self.tuning.snapshot_every;
        config.retain_bytes = self.tuning.retain_bytes;
        config.limits.piece_bytes = self.tuning.piece_bytes;
        config.limits.pieces_in_flight = self.tuning.pieces_in_flight;
        config.limits.counter_max = self.tuning.counter_max;
        config.limits.joiners = self.changes_members;
        config.outstanding_max = self.tuning.outstanding_max;
        config.resign.enabled = self.tuning.resign;
        // A run lasts sixty seconds: with the default times no leader would ever resign.
        config.resign.hold = Span::from_ms(1_000);
        config.resign.cooldown = Span::from_ms(4_000);
        config.resign.max_per_hour = 1_000;
        if let Some(resign) = self.resign {
            config.resign = resign;
        }
        config.patience = self.tuning.patience;
        config.direct_acks = self.direct_acks;
        config
    }

    /// The line between each pair of servers.
    pub(crate) fn lines(&self) -> Vec<Vec<Line>> {
        let mut rng = Rng::new(self.seed).fork("lines", 0);
        let Self { servers, line, .. } = *self;
        if let Some(topology) = &self.topology {
            let between = |a: usize, b: usize| topology.link(a as u64 + 1, b as u64 + 1).unwrap_or(Line::LOOPBACK);
            return (0..servers).map(|a| (0..servers).map(|b| between(a, b)).collect()).collect();
        }
        let near = match line {
            LineKind::Even(line) => return vec![vec![line; servers]; servers],
            LineKind::Spread { .. } => Line {
                rtt_ns: MS / 10,
                jitter_ppm: 20_000,
                loss_ppm: 0,
                bandwidth_bps: 1_000_000_000,
                window_bytes: 4 << 20,
            },
        };
        let LineKind::Spread { sites, rtt_max } = line else { return Vec::new() };
        let site: Vec<_> = (0..servers).map(|_| rng.below(sites)).collect();
        let rtt: Vec<Vec<_>> = (0..sites).map(|_| (0..sites).map(|_| rng.between(MS / 2, rtt_max)).collect()).collect();
        let between = |a: usize, b: usize| {
            let (low, high) = (site[a].min(site[b]) as usize, site[a].max(site[b]) as usize);
            if low == high {
                near
            } else {
                Line { rtt_ns: rtt[low][high], jitter_ppm: 100_000, bandwidth_bps: 100_000_000, ..near }
            }
        };
        (0..servers).map(|a| (0..servers).map(|b| between(a, b)).collect()).collect()
    }
}

fn ids(servers: usize) -> impl Iterator<Item = ServerId> {
    (1..=servers as u64).map(ServerId)
}

/// Most often voters with equal votes and nothing else; sometimes observers, or weights and groups.
fn random_members(rng: &mut Rng, voters: usize) -> Membership {
    let observers = if rng.per_mille(250) { rng.between(1, 3) as usize } else { 0 };
    let weighted = rng.per_mille(150);
    let groups = if weighted { rng.between(1, 4) } else { 1 };
    let voter = |id: ServerId| {
        let weight = if weighted { rng.between(0, 4) as u32 } else { 1 };
        (id, Voter { weight, group: id.0 % groups })
    };
    let all = Voters::weighted(ids(voters).map(voter));
    // Without any weight there is no quorum.
    let all = if all.is_quorum(all.iter()) { all } else { Voters::new(ids(voters)) };
    Membership::new(all, ids(voters + observers))
}

fn random_oracle(rng: &mut Rng, servers: usize) -> String {
    let name =
        *rng.pick(&["history", "request", "consensus", "latency", "worst-case", "rotating", "recovery", "preference"]);
    match name {
        "preference" => {
            let mut ids: Vec<_> = (1..=servers).map(|id| id.to_string()).collect();
            for at in (1..ids.len()).rev() {
                ids.swap(at, rng.below(at as u64 + 1) as usize);
            }
            format!("preference={}", ids.join(","))
        }
        name => name.to_owned(),
    }
}

/// The smallest window of a transfer: any history of a seed is transferred within a few round trips.
const WINDOW_BYTES_MIN: usize = 64 << 10;

/// How long the requests of all clients may take one after another.
const QUEUE_TIME_MAX: u64 = SECOND;
/// The members as lines of a configuration file. Their addresses are made up: the simulated network knows servers by id.
pub(crate) fn describe(members: &Membership) -> String {
    let voters = members.voters();
    let server = |id: ServerId, role| (id, Server::parse(&format!("s{id}:1:2:{role};3")).expect("a valid line"));
    let votes = voters.iter().filter_map(|id| Some((id, voters.get(id)?))).filter(|_| !voters.is_majority());
    let observers = members.observers().iter().map(|id| server(*id, "observer"));
    let servers = voters.iter().map(|id| server(id, "participant")).chain(observers).collect();
    Members { servers, votes: votes.collect() }.lines()
}
