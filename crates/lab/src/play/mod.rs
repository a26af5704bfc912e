//! The record of a run, as data: whoever shows it can go forwards and backwards in it.
//!
//! In: what happened in a world, in order. Out: a [`Play`]: each step with who believed what after it.
//! Why one kind of record: the classical algorithms and the ensembles of scripts are watched on the same screen and drawn
//! in the same diagram.
//! Holds: the same run gives the same record; a step holds all that is needed to show it, so that going back costs nothing.
//! Not here: keys and terminals (`cli`), scripts (`script`).
//!
//! ```text
//! recorder   what the simulator tells     words   messages and notes in few words
//! lines      text and JSON, line by line  diagram arrows between lines; page: a page with it
//! ```

mod diagram;
mod lines;
mod page;
mod recorder;
mod words;

use pole_election::{Epoch, Zxid};

pub(crate) use recorder::{Passage, Recorder, belief};

/// A run, step by step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Play {
    /// What the processes are called.
    pub names: Vec<String>,
    /// What happened, in order.
    pub steps: Vec<Step>,
}

/// One thing that happened, and who believes what after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// When, in nanoseconds.
    pub at: u64,
    /// How many message delays deep, counted from what began the run; 0 where nobody counts.
    pub depth: u32,
    /// What.
    pub what: What,
    /// Of each process, afterwards. Fewer than there are names, if some take part only in another part of the record.
    pub beliefs: Vec<Belief>,
}

/// What a process thinks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Belief {
    /// Whether it lives.
    pub alive: bool,
    /// Whether it stands still.
    pub paused: bool,
    /// Whom it takes for the leader.
    pub leader: Option<usize>,
    /// In which generation it leads, if it thinks so.
    pub leads: Option<u64>,
    /// What it does, `{}` standing for its leader; empty where the algorithm has no more to say than who leads.
    pub doing: &'static str,
    /// Whom it would elect now, while it elects.
    pub choice: Option<usize>,
    /// The epoch whose history it took over.
    pub epoch: Option<Epoch>,
    /// The epoch that it promised, if that is a newer one.
    pub promised: Option<Epoch>,
    /// Where its log ends.
    pub end: Option<Zxid>,
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
        /// When it was sent, in nanoseconds, if that is known.
        sent: Option<u64>,
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
    /// A message waits: its link is blocked, or the script keeps it back.
    Held {
        /// By whom it was sent.
        from: usize,
        /// To whom.
        to: usize,
        /// What it says.
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
    /// A process does something, or says why: it elects, writes to its disk, loses a link.
    Noted {
        /// Which.
        who: usize,
        /// What, as the rest of a sentence.
        text: String,
    },
    /// A command of a script: its turn begins.
    Turn(String),
    /// What the script prints at the end of a turn, in lines.
    Told(String),
    /// The record is as long as it may be.
    Full,
}

impl What {
    /// In words, with the names of the processes.
    #[must_use]
    pub fn told(&self, names: &[String]) -> String {
        let name = |who: &usize| names.get(*who).map_or("?", String::as_str);
        match self {
            Self::Sent { from, to, label } => format!("{} -> {}  sends {label}", name(from), name(to)),
            Self::Received { from, to, label, .. } => format!("{} -> {}  {label} arrives", name(from), name(to)),
            Self::Lost { from, to, label } => format!("{} -x {}  {label} is lost", name(from), name(to)),
            Self::Held { from, to, label } => format!("{} -| {}  {label} waits", name(from), name(to)),
            Self::Expired { who, timer } => format!("{}       waited: {timer}", name(who)),
            Self::Called(who) => format!("{}       calls for an election", name(who)),
            Self::Crashed(who) => format!("{}       dies", name(who)),
            Self::Started(who) => format!("{}       starts", name(who)),
            Self::Suspects { who, whom } => format!("{}       suspects {}", name(who), name(whom)),
            Self::Trusts { who, whom } => format!("{}       trusts {} again", name(who), name(whom)),
            Self::Cut(side) => format!("{} are cut off", side.iter().map(name).collect::<Vec<_>>().join(" ")),
            Self::Healed => "all hear each other again".to_owned(),
            Self::Noted { who, text } => format!("{}       {text}", name(who)),
            Self::Turn(command) => format!("> {command}"),
            Self::Told(text) => text.clone(),
            Self::Full => format!("{STEPS_MAX} steps: the record ends here, the script went on"),
        }
    }

    /// Whether nothing has changed yet, for anybody but the wire.
    #[must_use]
    pub fn is_sending(&self) -> bool {
        matches!(self, Self::Sent { .. } | Self::Lost { .. } | Self::Held { .. })
    }

    /// The name of its kind, for programs.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Sent { .. } => "sent",
            Self::Received { .. } => "received",
            Self::Lost { .. } => "lost",
            Self::Held { .. } => "held",
            Self::Expired { .. } => "expired",
            Self::Called(_) => "called",
            Self::Crashed(_) => "crashed",
            Self::Started(_) => "started",
            Self::Suspects { .. } => "suspects",
            Self::Trusts { .. } => "trusts",
            Self::Cut(_) => "cut",
            Self::Healed => "healed",
            Self::Noted { .. } => "noted",
            Self::Turn(_) => "turn",
            Self::Told(_) => "told",
            Self::Full => "full",
        }
    }
}

impl Play {
    /// A part of it.
    #[must_use]
    pub fn part(&self, steps: std::ops::Range<usize>) -> Self {
        Self { names: self.names.clone(), steps: self.steps.get(steps).unwrap_or_default().to_vec() }
    }

    /// What happened at a step, in words on one line.
    #[must_use]
    pub fn told(&self, step: &Step) -> String {
        step.what.told(&self.names).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// How many turns of the script have begun by a step.
    #[must_use]
    pub fn turns_by(&self, step: usize) -> usize {
        self.steps.iter().take(step + 1).filter(|step| step.is_turn()).count()
    }

    /// The step at which the turn after this step begins; the last step, if there is none.
    #[must_use]
    pub fn next_turn(&self, step: usize) -> usize {
        let later = (step + 1..self.steps.len()).find(|at| self.steps[*at].is_turn());
        later.unwrap_or(self.steps.len().saturating_sub(1))
    }

    /// The step at which the turn before this step began; the first step, if there is none.
    #[must_use]
    pub fn last_turn(&self, step: usize) -> usize {
        (0..step.min(self.steps.len())).rfind(|at| self.steps[*at].is_turn()).unwrap_or(0)
    }
}

impl Step {
    /// Whether a turn of a script begins.
    #[must_use]
    pub fn is_turn(&self) -> bool {
        matches!(self.what, What::Turn(_))
    }

    /// Who believes what: `0:4 1:- 2:* 3:x`. A star leads, a cross is dead, a dash knows no leader.
    #[must_use]
    pub fn believed(&self, names: &[String]) -> String {
        let name = |who: usize| names.get(who).map_or("?", String::as_str);
        let word = |(who, belief): (usize, &Belief)| match *belief {
            Belief { alive: false, .. } => format!("{}:x", name(who)),
            Belief { leads: Some(_), .. } => format!("{}:*", name(who)),
            Belief { leader: Some(leader), .. } => format!("{}:{}", name(who), name(leader)),
            Belief { leader: None, .. } => format!("{}:-", name(who)),
        };
        self.beliefs.iter().enumerate().map(word).collect::<Vec<_>>().join(" ")
    }
}

impl Belief {
    /// The role that it plays, without what it knows: `follows 2`.
    #[must_use]
    pub fn role(&self, names: &[String]) -> String {
        let leader = self.leader.and_then(|leader| names.get(leader)).map_or("nobody", String::as_str);
        let role = match (self.alive, self.doing, self.leads, self.leader) {
            (false, ..) => return "down".to_owned(),
            (true, "", Some(_), _) => "leads".to_owned(),
            (true, "", None, Some(_)) => format!("follows {leader}"),
            (true, "", None, None) => "knows no leader".to_owned(),
            (true, doing, ..) => doing.replace("{}", leader),
        };
        if self.paused { format!("paused, {role}") } else { role }
    }

    /// All of it: `elects, for 3, epoch 1, promised 2, log 1.4`.
    #[must_use]
    pub fn told(&self, names: &[String]) -> String {
        let mut text = self.role(names);
        if let Some(choice) = self.choice.and_then(|choice| names.get(choice)) {
            text += &format!(", for {choice}");
        }
        match (self.epoch, self.leads) {
            (Some(epoch), _) => text += &format!(", epoch {epoch}"),
            (None, Some(generation)) => text += &format!(" in generation {generation}"),
            (None, None) => {}
        }
        if let Some(promised) = self.promised {
            text += &format!(", promised {promised}");
        }
        if let Some(end) = self.end {
            text += &format!(", log {end}");
        }
        text
    }
}

/// A record of more steps than this is not one that a person goes through, and it has to fit into memory.
pub const STEPS_MAX: usize = 100_000;
