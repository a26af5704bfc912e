//! The record of a run, as data: whoever shows it can go forwards and backwards in it.

use std::fmt;

use crate::sim::MS;

/// A run, step by step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Play {
    /// How many processes.
    pub n: usize,
    /// What they are called.
    pub names: Vec<String>,
    /// What happened, in order.
    pub steps: Vec<Step>,
}

/// One thing that happened, and who believes what after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// When, in nanoseconds.
    pub at: u64,
    /// How many message delays deep, counted from what began the run.
    pub depth: u32,
    /// What.
    pub what: What,
    /// Of each process, afterwards.
    pub beliefs: Vec<Belief>,
}

/// What a process thinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belief {
    /// Whether it lives.
    pub alive: bool,
    /// Whom it takes for the leader.
    pub leader: Option<usize>,
    /// In which generation it leads, if it thinks so.
    pub leads: Option<u64>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A message was sent; nothing has changed yet.
    Sent {
        /// By whom.
        from: usize,
        /// To whom.
        to: usize,
        /// What it says.
        label: String,
    },
    /// A message arrived.
    Received {
        /// By whom it was sent.
        from: usize,
        /// Where.
        to: usize,
        /// What it says.
        label: String,
        /// When it was sent, in nanoseconds.
        sent: u64,
    },
    /// A message was lost, or came to a dead process.
    Lost {
        /// By whom it was sent.
        from: usize,
        /// To whom.
        to: usize,
        /// What it said.
        label: String,
    },
    /// A timer ran out.
    Expired {
        /// Whose.
        who: usize,
        /// Which.
        timer: &'static str,
    },
    /// A process called for an election.
    Called(usize),
    /// A process died.
    Crashed(usize),
    /// A process begins to live, or lives again.
    Started(usize),
    /// A failure detector suspects.
    Suspects {
        /// Whose.
        who: usize,
        /// Whom.
        whom: usize,
    },
    /// A failure detector trusts again.
    Trusts {
        /// Whose.
        who: usize,
        /// Whom.
        whom: usize,
    },
    /// These are cut off from the others.
    Cut(Vec<usize>),
    /// All hear each other again.
    Healed,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sent { from, to, label } => write!(f, "{from} -> {to}  sends {label}"),
            Self::Received { from, to, label, .. } => write!(f, "{from} -> {to}  {label}"),
            Self::Lost { from, to, label } => write!(f, "{from} -x {to}  {label} is lost"),
            Self::Expired { who, timer } => write!(f, "{who}       waited: {timer}"),
            Self::Called(who) => write!(f, "{who}       calls for an election"),
            Self::Crashed(who) => write!(f, "{who}       dies"),
            Self::Started(who) => write!(f, "{who}       starts"),
            Self::Suspects { who, whom } => write!(f, "{who}       suspects {whom}"),
            Self::Trusts { who, whom } => write!(f, "{who}       trusts {whom} again"),
            Self::Cut(side) => write!(f, "{side:?} are cut off"),
            Self::Healed => write!(f, "all hear each other again"),
        }
    }
}

impl What {
    /// Whether nothing has changed yet, for anybody but the wire.
    #[must_use]
    pub fn is_sending(&self) -> bool {
        matches!(self, Self::Sent { .. } | Self::Lost { .. })
    }
}

impl Step {
    /// Who believes what: `0:4 1:- 2:* 3:x`. A star leads, a cross is dead, a dash knows no leader.
    #[must_use]
    pub fn believed(&self) -> String {
        let word = |(who, belief): (usize, &Belief)| match *belief {
            Belief { alive: false, .. } => format!("{who}:x"),
            Belief { leads: Some(_), .. } => format!("{who}:*"),
            Belief { leader: Some(leader), .. } => format!("{who}:{leader}"),
            Belief { leader: None, .. } => format!("{who}:-"),
        };
        self.beliefs.iter().enumerate().map(word).collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Display for Step {
    /// `    3.000 ms  4 -> 0  Election                0:4 1:- 2:- 3:* 4:x`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.at as f64 / MS as f64;
        write!(f, "{ms:>9.3} ms  {:<40} {}", self.what.to_string(), self.believed())
    }
}
