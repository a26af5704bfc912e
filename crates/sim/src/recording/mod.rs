//! The recording of a run as data, in which a viewer can go forwards and backwards.
//!
//! Each step of a [`Recording`] holds what happened and the view of every process after it, so going back costs
//! nothing. The same run gives the same recording. The classical algorithms and the ensembles of scripts share this
//! format, so both are watched on the same screen and drawn in the same diagram.
//!
//! Keys and terminals are in `cli`, scripts in `script`.
//!
//! ```text
//! recorder   records the simulator        labels   short texts for messages and notes
//! lines      text and JSON, line by line  diagram  SVG; page: an HTML page with it
//! ```

mod labels;
mod lines;
mod recorder;

use pole_types::{Epoch, Zxid};

pub(crate) use recorder::{Delivery, Recorder, view};

/// A run, step by step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// The names of the processes.
    pub names: Vec<String>,
    /// The steps in order.
    pub steps: Vec<Step>,
}

/// One step, and the view of each process after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The time, in nanoseconds.
    pub at: u64,
    /// The length of the longest chain of messages that led here; 0 where this is not counted.
    pub depth: u32,
    /// What happened.
    pub kind: StepKind,
    /// The view of each process afterwards. Shorter than the list of names if some processes appear only in another
    /// part of the recording.
    pub views: Vec<ProcessView>,
}

/// The state of a process as it sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessView {
    /// Whether it runs.
    pub alive: bool,
    /// Whether it is paused.
    pub paused: bool,
    /// The process that it considers the leader.
    pub leader: Option<usize>,
    /// The generation in which it considers itself leader.
    pub leads: Option<u64>,
    /// Its activity, with `{}` for its leader; empty if the algorithm only knows who leads.
    pub activity: &'static str,
    /// Its present choice, during an election.
    pub choice: Option<usize>,
    /// Its current epoch.
    pub epoch: Option<Epoch>,
    /// Its accepted epoch, if that is newer than the current one.
    pub promised: Option<Epoch>,
    /// The last position of its log.
    pub end: Option<Zxid>,
}

/// What happened in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// A message was sent; no view has changed yet.
    Sent {
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
        /// A short text for the message.
        label: String,
    },
    /// A message arrived.
    Received {
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
        /// A short text for the message.
        label: String,
        /// When it was sent, in nanoseconds, if known.
        sent: Option<u64>,
    },
    /// A message was lost, or arrived at a crashed process.
    Lost {
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
        /// A short text for the message.
        label: String,
    },
    /// A message is held: its link is blocked, or the script holds it back.
    Held {
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
        /// A short text for the message.
        label: String,
    },
    /// A timer expired.
    Expired {
        /// The owner of the timer.
        who: usize,
        /// The name of the timer.
        timer: &'static str,
    },
    /// A process called for an election.
    Called(usize),
    /// A process crashed.
    Crashed(usize),
    /// A process started or restarted.
    Started(usize),
    /// A failure detector suspects a process.
    Suspects {
        /// The owner of the detector.
        who: usize,
        /// The suspected process.
        whom: usize,
    },
    /// A failure detector trusts a process again.
    Trusts {
        /// The owner of the detector.
        who: usize,
        /// The trusted process.
        whom: usize,
    },
    /// These processes are partitioned from the others.
    Cut(Vec<usize>),
    /// All partitions end.
    Healed,
    /// A process does something: it elects, writes to its disk, loses a link.
    Noted {
        /// The process.
        who: usize,
        /// What it does, as the rest of a sentence.
        text: String,
    },
    /// A command of a script starts.
    Turn(String),
    /// The output of the command, in lines.
    Output(String),
    /// The recording has reached its maximum length.
    Full,
}

impl StepKind {
    /// A description of the step, with the names of the processes.
    #[must_use]
    pub fn describe(&self, names: &[String]) -> String {
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
            Self::Output(text) => text.clone(),
            Self::Full => format!("{STEPS_MAX} steps: the record ends here, the script went on"),
        }
    }

    /// Whether the step is only a send, which changes no view.
    #[must_use]
    pub fn is_sending(&self) -> bool {
        matches!(self, Self::Sent { .. } | Self::Lost { .. } | Self::Held { .. })
    }

    /// A fixed name of the kind, for programs.
    #[must_use]
    pub fn name(&self) -> &'static str {
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
            Self::Output(_) => "told",
            Self::Full => "full",
        }
    }
}

impl Recording {
    /// A part of the recording.
    #[must_use]
    pub fn part(&self, steps: std::ops::Range<usize>) -> Self {
        Self { names: self.names.clone(), steps: self.steps.get(steps).unwrap_or_default().to_vec() }
    }

    /// A one-line description of a step.
    #[must_use]
    pub fn describe(&self, step: &Step) -> String {
        step.kind.describe(&self.names).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The number of commands of the script that have started by a step.
    #[must_use]
    pub fn turns_by(&self, step: usize) -> usize {
        self.steps.iter().take(step + 1).filter(|step| step.is_turn()).count()
    }

    /// The step at which the next command starts; the last step if there is none.
    #[must_use]
    pub fn next_turn(&self, step: usize) -> usize {
        let later = (step + 1..self.steps.len()).find(|at| self.steps[*at].is_turn());
        later.unwrap_or(self.steps.len().saturating_sub(1))
    }

    /// The last step before this one at which a command starts; the first step if there is none.
    #[must_use]
    pub fn last_turn(&self, step: usize) -> usize {
        (0..step.min(self.steps.len())).rfind(|at| self.steps[*at].is_turn()).unwrap_or(0)
    }
}

impl Step {
    /// Whether a command of a script starts.
    #[must_use]
    pub fn is_turn(&self) -> bool {
        matches!(self.kind, StepKind::Turn(_))
    }

    /// The views in short form: `0:4 1:- 2:* 3:x`. A star leads, a cross is down, a dash knows no leader.
    #[must_use]
    pub fn views_summary(&self, names: &[String]) -> String {
        let name = |who: usize| names.get(who).map_or("?", String::as_str);
        let word = |(who, view): (usize, &ProcessView)| match *view {
            ProcessView { alive: false, .. } => format!("{}:x", name(who)),
            ProcessView { leads: Some(_), .. } => format!("{}:*", name(who)),
            ProcessView { leader: Some(leader), .. } => format!("{}:{}", name(who), name(leader)),
            ProcessView { leader: None, .. } => format!("{}:-", name(who)),
        };
        self.views.iter().enumerate().map(word).collect::<Vec<_>>().join(" ")
    }
}

impl ProcessView {
    /// The role alone: `follows 2`.
    #[must_use]
    pub fn role(&self, names: &[String]) -> String {
        let leader = self.leader.and_then(|leader| names.get(leader)).map_or("nobody", String::as_str);
        let role = match (self.alive, self.activity, self.leads, self.leader) {
            (false, ..) => return "down".to_owned(),
            (true, "", Some(_), _) => "leads".to_owned(),
            (true, "", None, Some(_)) => format!("follows {leader}"),
            (true, "", None, None) => "knows no leader".to_owned(),
            (true, activity, ..) => activity.replace("{}", leader),
        };
        if self.paused { format!("paused, {role}") } else { role }
    }

    /// The whole view: `elects, for 3, epoch 1, promised 2, log 1.4`.
    #[must_use]
    pub fn describe(&self, names: &[String]) -> String {
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

/// The longest recording: nobody would step through more, and it has to fit into memory.
pub const STEPS_MAX: usize = 100_000;
