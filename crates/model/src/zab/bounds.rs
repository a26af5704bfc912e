//! The bounds of an exploration: how often each event may happen in one run.

use std::fmt;

use super::members::Members;

/// Bounds of one configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Crashes, each with a restart.
    pub(crate) crashes: u8,
    /// Lost messages, each of which closes its link.
    pub(crate) losses: u8,
    /// Messages that arrive twice.
    pub(crate) doubles: u8,
    /// Client writes.
    pub(crate) writes: u8,
    /// The highest epoch.
    pub(crate) epochs: u32,
    /// Hand-overs.
    pub(crate) resignations: u8,
    /// How often a server gives up after a timeout.
    pub(crate) timeouts: u8,
    /// Whether votes may carry promised epochs to the elected server.
    pub(crate) hints: bool,
    /// Whether both ends notice a closed link at once, and packets in flight are lost with it. Otherwise they may
    /// arrive late, and a leader may count for a while on a follower that has left. Steps of different servers
    /// commute, so late arrivals only add runs in which the crash affects the receiver before the packets do.
    pub(crate) prompt: bool,
    /// Whether all followers count the acknowledgements of writes themselves.
    pub(crate) direct: bool,
    /// Whether followers may promise the epoch that they expect, perhaps before their leader leads.
    pub(crate) ahead: bool,
    /// The members before any change.
    pub(crate) members: Members,
    /// The members after the only change, if there is one.
    pub(crate) change: Option<Members>,
    /// The initial state.
    pub(crate) start: Start,
    /// The fair continuation is run from one in this many states.
    pub(crate) liveness_one_in: u64,
    /// The position in the plan: smaller is earlier.
    pub(crate) weight: u32,
}

/// The initial state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// All disks are empty.
    Blank,
    /// Server 1 is established in epoch 1 and all serve.
    Serving,
}

impl Bounds {
    /// No faults and no writes.
    pub(crate) const NO_FAULTS: Self = Self {
        crashes: 0,
        losses: 0,
        doubles: 0,
        writes: 0,
        epochs: 1,
        resignations: 0,
        timeouts: 0,
        hints: false,
        prompt: false,
        direct: false,
        ahead: false,
        members: Members::THREE,
        change: None,
        start: Start::Blank,
        liveness_one_in: 1,
        weight: 0,
    };

    /// The number of servers, members or not.
    pub(crate) fn servers(&self) -> usize {
        self.members.servers().max(self.change.map_or(0, Members::servers))
    }

    /// Whether servers 2 and 3 have the same part before and after the change.
    pub(crate) fn is_symmetric(&self) -> bool {
        let mut members = [Some(self.members), self.change].into_iter().flatten();
        self.servers() >= 3 && members.all(|members| members.contains(1) == members.contains(2))
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            crashes,
            losses,
            doubles,
            writes,
            epochs,
            resignations,
            timeouts,
            hints,
            prompt,
            direct,
            ahead,
            members,
            change,
            start,
            liveness_one_in,
            ..
        } = self;
        let start = match start {
            Start::Blank => "blank",
            Start::Serving => "serving",
        };
        let (hints, prompt) = (u8::from(*hints), u8::from(*prompt));
        write!(
            f,
            "{start:<7} c{crashes} l{losses} d{doubles} w{writes} e{epochs} h{resignations} i{timeouts} v{hints} p{prompt}"
        )?;
        if *direct {
            write!(f, " direct")?;
        }
        if *ahead {
            write!(f, " ahead")?;
        }
        write!(f, " 1/{liveness_one_in}")?;
        change.map_or(Ok(()), |change| write!(f, " {members}>{change}"))
    }
}
