//! A case: who takes part, how far apart they are, and what goes wrong when.

use pole_topology::Topology;

use crate::sim::{MS, SECOND};

/// Everything that decides a run.
#[derive(Clone, Debug)]
pub struct Case {
    /// How many processes.
    pub n: usize,
    /// The seed of delays, losses, detection and dice.
    pub seed: u64,
    /// How far apart they are.
    pub lines: Lines,
    /// The leader that all follow at the start.
    pub leader: Option<usize>,
    /// What each would be elected for: higher is better.
    pub attributes: Vec<u64>,
    /// What happens, and when, in nanoseconds; in this order where times are equal.
    pub happenings: Vec<(u64, Happening)>,
    /// How crashes and cuts are noticed.
    pub detector: Detector,
    /// The random numbers of the processes.
    pub dice: Dice,
    /// How many messages in a thousand are lost.
    pub lost_per_mille: u64,
    /// How many in a thousand arrive twice.
    pub doubled_per_mille: u64,
    /// How many in a thousand are late by up to `late_by`.
    pub late_per_mille: u64,
    /// By how much they are late at most, in nanoseconds.
    pub late_by: u64,
    /// How long a process waits for an answer.
    pub timeout: u64,
    /// How long a lease lasts.
    pub lease: u64,
    /// When the run ends at the latest, in nanoseconds.
    pub until: u64,
    /// After how many events it ends: an election that runs for ever is called so.
    pub events_max: usize,
    /// Whether it ends as soon as all agree and no message of the election is under way.
    pub ends_settled: bool,
    /// Whether a record is kept.
    pub records: bool,
}

/// How far apart processes are.
#[derive(Clone, Debug)]
pub enum Lines {
    /// Every message takes as long, in nanoseconds.
    Unit(u64),
    /// As on a topology, process i at the place of its server i + 1.
    Of(Topology),
}

/// How failures are noticed.
#[derive(Clone, Copy, Debug)]
pub enum Detector {
    /// As [`Happening::Suspects`] and [`Happening::Trusts`] say, and not otherwise: so it can be late, and wrong.
    ByHand,
    /// Complete and accurate: whoever cannot be reached is suspected after this time and up to `spread` more.
    Perfect {
        /// At the soonest, in nanoseconds.
        after: u64,
        /// What is random on top.
        spread: u64,
    },
}

/// Where random timeouts come from.
#[derive(Clone, Debug)]
pub enum Dice {
    /// From the seed.
    Seeded,
    /// This process always draws the least, all others the most.
    First(usize),
}

/// What happens.
#[derive(Clone, Debug)]
pub enum Happening {
    /// A process calls for an election.
    Elect(usize),
    /// A process dies.
    Crash(usize),
    /// It lives again, with what was durable, and calls for an election.
    Restart(usize),
    /// The failure detector of `who` suspects `whom`.
    Suspects {
        /// Whose detector.
        who: usize,
        /// Whom.
        whom: usize,
    },
    /// The failure detector of `who` trusts `whom` again.
    Trusts {
        /// Whose detector.
        who: usize,
        /// Whom.
        whom: usize,
    },
    /// These and the others do not hear each other any more.
    Cut(Vec<usize>),
    /// All hear each other again.
    Heal,
}

impl Case {
    /// A case for counting: every message takes a millisecond, nothing goes wrong by itself, and it ends when all agree.
    #[must_use]
    pub fn counting(n: usize) -> Self {
        Self {
            n,
            seed: 1,
            lines: Lines::Unit(MS),
            leader: None,
            attributes: (0..n as u64).collect(),
            happenings: Vec::new(),
            detector: Detector::ByHand,
            dice: Dice::Seeded,
            lost_per_mille: 0,
            doubled_per_mille: 0,
            late_per_mille: 0,
            late_by: 0,
            timeout: 5 * MS,
            lease: 50 * MS,
            until: 60 * SECOND,
            events_max: 200_000,
            ends_settled: true,
            records: false,
        }
    }

    /// The highest process led, and has died; nobody knows yet.
    #[must_use]
    pub fn leader_dead(n: usize) -> Self {
        let mut case = Self::counting(n);
        case.leader = Some(n - 1);
        case.happenings.push((0, Happening::Crash(n - 1)));
        case
    }

    /// These processes suspect the last one at the same time, in this order.
    #[must_use]
    pub fn suspected_by(mut self, who: impl IntoIterator<Item = usize>) -> Self {
        let whom = self.n - 1;
        self.happenings.extend(who.into_iter().map(|who| (0, Happening::Suspects { who, whom })));
        self
    }

    /// An ensemble on a topology whose last server leads; its failure detector needs 400 ms, as the server's does.
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
