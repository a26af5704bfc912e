//! How far the checker looks: how often each thing may happen in one run.

use std::fmt;

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
    /// How often a server gives up what does not move on.
    pub(crate) impatience: u8,
    /// Whether votes may carry promised epochs to the elected.
    pub(crate) hints: bool,
    /// Whether a closed link is noticed at once by both ends, and what was on its way is lost with it. If not, it may
    /// arrive late, and a leader may count for a while on a follower that has left. Steps of different servers commute,
    /// so what the late arrivals add are runs in which the crash itself has consequences for the receiver before them.
    pub(crate) prompt: bool,
    /// Where the run starts.
    pub(crate) start: Start,
    /// The fair continuation is tried from one in so many states.
    pub(crate) heal_one_in: u64,
    /// The place in the plan: smaller is sooner.
    pub(crate) weight: u32,
}

/// The first state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Three empty disks.
    Blank,
    /// Server 1 is established in epoch 1 and all serve.
    Serving,
}

impl Bounds {
    /// Nothing goes wrong, and nobody writes.
    pub(crate) const CALM: Self = Self {
        crashes: 0,
        losses: 0,
        doubles: 0,
        writes: 0,
        epochs: 1,
        resignations: 0,
        impatience: 0,
        hints: false,
        prompt: false,
        start: Start::Blank,
        heal_one_in: 1,
        weight: 0,
    };
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
            impatience,
            hints,
            prompt,
            start,
            heal_one_in,
            ..
        } = self;
        let start = match start {
            Start::Blank => "blank",
            Start::Serving => "serving",
        };
        let (hints, prompt) = (u8::from(*hints), u8::from(*prompt));
        write!(
            f,
            "{start:<7} c{crashes} l{losses} d{doubles} w{writes} e{epochs} h{resignations} i{impatience} v{hints} p{prompt}"
        )?;
        write!(f, " 1/{heal_one_in}")
    }
}
