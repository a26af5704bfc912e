//! A case: the processes, the links between them, and what fails when.

use pole_topology::Topology;

use pole_sim::{MS, SECOND};

/// All parameters of a run.
#[derive(Clone, Debug)]
pub struct Case {
    /// The number of processes.
    pub n: usize,
    /// The seed of delays, losses, failure detection and random numbers.
    pub seed: u64,
    /// The links between the processes.
    pub lines: Lines,
    /// The leader that all follow at the start.
    pub leader: Option<usize>,
    /// The quality by which each process is elected: higher is better.
    pub attributes: Vec<u64>,
    /// What happens when, in nanoseconds; in this order where times are equal.
    pub occurrences: Vec<(u64, Occurrence)>,
    /// How crashes and partitions are detected.
    pub detector: Detector,
    /// The source of the processes' random numbers.
    pub random: RandomSource,
    /// Lost messages per thousand.
    pub lost_per_mille: u64,
    /// Duplicated messages per thousand.
    pub doubled_per_mille: u64,
    /// Messages per thousand that are late by up to `late_by`.
    pub late_per_mille: u64,
    /// The longest extra delay of a late message, in nanoseconds.
    pub late_by: u64,
    /// How long a process waits for an answer, in nanoseconds.
    pub timeout: u64,
    /// The duration of a lease, in nanoseconds.
    pub lease: u64,
    /// The time limit of the run, in nanoseconds.
    pub until: u64,
    /// The event limit of the run: an election that reaches it is considered not to terminate.
    pub events_max: usize,
    /// Whether the run ends as soon as all agree and no election message is in transit.
    pub ends_settled: bool,
    /// Whether the run is recorded.
    pub record: bool,
}

/// The links between processes.
#[derive(Clone, Debug)]
pub enum Lines {
    /// Every message has this delay, in nanoseconds.
    Unit(u64),
    /// Those of a topology; process i is its server i + 1.
    Of(Topology),
}

/// The failure detector.
#[derive(Clone, Copy, Debug)]
pub enum Detector {
    /// Driven only by [`Occurrence::Suspects`] and [`Occurrence::Trusts`], so it can be late or wrong.
    ByHand,
    /// Complete and accurate: an unreachable process is suspected after this time and up to `spread` more.
    Perfect {
        /// The minimum detection time, in nanoseconds.
        after: u64,
        /// The range of the random addition, in nanoseconds.
        spread: u64,
    },
}

/// The source of random timeouts.
#[derive(Clone, Debug)]
pub enum RandomSource {
    /// From the seed.
    Seeded,
    /// This process always draws the smallest number, all others the largest.
    First(usize),
}

/// Something that happens during a case.
#[derive(Clone, Debug)]
pub enum Occurrence {
    /// A process calls for an election.
    Elect(usize),
    /// A process crashes.
    Crash(usize),
    /// A process restarts with its durable state and calls for an election.
    Restart(usize),
    /// The failure detector of `who` suspects `whom`.
    Suspects {
        /// The owner of the detector.
        who: usize,
        /// The suspected process.
        whom: usize,
    },
    /// The failure detector of `who` trusts `whom` again.
    Trusts {
        /// The owner of the detector.
        who: usize,
        /// The trusted process.
        whom: usize,
    },
    /// These processes are partitioned from the others.
    Cut(Vec<usize>),
    /// All partitions end.
    Heal,
}

impl Case {
    /// A case for counting: every message takes a millisecond, there are no random faults, and the run ends when all
    /// agree.
    #[must_use]
    pub fn counting(n: usize) -> Self {
        Self {
            n,
            seed: 1,
            lines: Lines::Unit(MS),
            leader: None,
            attributes: (0..n as u64).collect(),
            occurrences: Vec::new(),
            detector: Detector::ByHand,
            random: RandomSource::Seeded,
            lost_per_mille: 0,
            doubled_per_mille: 0,
            late_per_mille: 0,
            late_by: 0,
            timeout: 5 * MS,
            lease: 50 * MS,
            until: 60 * SECOND,
            events_max: 200_000,
            ends_settled: true,
            record: false,
        }
    }

    /// The highest process was the leader and has crashed; no process knows yet.
    #[must_use]
    pub fn leader_dead(n: usize) -> Self {
        let mut case = Self::counting(n);
        case.leader = Some(n - 1);
        case.occurrences.push((0, Occurrence::Crash(n - 1)));
        case
    }

    /// Makes these processes suspect the last one at the same time, in this order.
    #[must_use]
    pub fn suspected_by(mut self, who: impl IntoIterator<Item = usize>) -> Self {
        let whom = self.n - 1;
        self.occurrences.extend(who.into_iter().map(|who| (0, Occurrence::Suspects { who, whom })));
        self
    }

    /// An ensemble on a topology whose last server leads. Its failure detector needs 400 ms, like that of the server.
    #[must_use]
    pub fn on(topology: Topology, seed: u64) -> Self {
        let n = topology.servers().count();
        let mut case = Self::counting(n);
        case.seed = seed;
        case.lines = Lines::Of(topology);
        case.leader = Some(n - 1);
        case.detector = Detector::Perfect { after: 400 * MS, spread: 40 * MS };
        // Longer than any round trip of the paper; it is also ZooKeeper's final wait.
        case.timeout = 200 * MS;
        case.lease = SECOND;
        case
    }
}
