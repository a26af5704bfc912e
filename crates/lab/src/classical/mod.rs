//! The classical election algorithms, with POLE beside them, behind one interface: what each costs and when it fails.
//!
//! [`run`] runs an [`Algorithm`] through a [`Case`] and returns an [`Outcome`]: messages, message delays, the time to
//! a leader, two leaders at once, and a [`Recording`] of all steps. A count from a book and a count from a program
//! can only be compared if the same bench counts both.
//!
//! An algorithm is a pure process without a clock or random generator of its own: events go in, actions come out. The
//! same case gives the same recording, byte for byte.
//!
//! What a leader does once it leads is in `zab`, real networks are in `server`.
//!
//! ```text
//! simulation  one world for all algorithms   checker    two leaders at once
//! ring bully invitation raft chubby fle rotating viewstamped santos pole   one algorithm each
//! kind        the list of algorithms         following  what comes right after an election by FLE or POLE
//! counts      messages and delays against the formulas      failures  what theory predicts to go wrong
//! conditions  time to a leader under crash, loss and delay  quality   how good the leader is
//! compare     all of it: a table, a CSV file, a page
//! ```

mod bully;
mod case;
mod checker;
mod chubby;
mod compare;
mod conditions;
mod counts;
mod failures;
mod fle;
mod following;
mod invitation;
mod kind;
mod page;
mod pole;
mod quality;
mod raft;
mod ring;
mod rotating;
mod santos;
mod simulation;
mod viewstamped;

pub use case::{Case, Detector, Lines, Occurrence, RandomSource};
pub use checker::Violation;
pub use compare::{Comparison, HEADER, Progress};
pub use conditions::{Condition, NetworkConditions, measure_conditions};
pub use counts::{Count, Figure, Statistic, count};
pub use failures::{Finding, findings};
pub use kind::Kind;
pub use pole_sim::recording::{ProcessView, Recording, Step, StepKind};
pub use quality::{Quality, quality};
pub use simulation::{End, Outcome, run};

/// An election algorithm, as one of its processes.
///
/// Processes are numbered from 0; a higher (attribute, number) is a better leader where the algorithm asks for one.
pub trait Algorithm: Sized {
    /// The messages between processes.
    type Message: AlgorithmMessage;

    /// How many processes, including the leader, must accept a leader's action before it takes effect.
    fn needed(n: usize) -> usize {
        majority(n)
    }

    /// A process before its first event.
    fn new(config: &ProcessConfig) -> Self;

    /// The process after a crash: it has only its durable state and knows no leader.
    #[must_use]
    fn restarted(&self, config: &ProcessConfig) -> Self;

    /// Handles one event.
    fn step(&mut self, event: Event<Self::Message>, out: &mut Actions<Self::Message>);

    /// The term, ballot, view or round in which the process considers itself leader, if it does.
    fn leads(&self) -> Option<u64>;

    /// The process that it considers the leader.
    fn known_leader(&self) -> Option<usize>;

    /// Whether it would accept an action of this leader now.
    fn accepts(&self, leader: usize, generation: u64) -> bool;

    /// Whether it has nothing left to do in the current election.
    fn done(&self) -> bool {
        true
    }
}

/// A message of an algorithm.
pub trait AlgorithmMessage: Clone {
    /// The kind of message, by which messages are counted.
    fn name(&self) -> &'static str;

    /// A label for people: `Election 7`, `Vote t3`.
    fn label(&self) -> String;

    /// Whether it belongs to the normal operation of a leader, which is counted separately.
    fn is_upkeep(&self) -> bool {
        false
    }
}

/// The configuration of a process.
#[derive(Clone, Debug)]
pub struct ProcessConfig {
    /// Its number.
    pub me: usize,
    /// How many processes there are.
    pub n: usize,
    /// The quality by which it is elected: higher is better.
    pub attribute: u64,
    /// The leader that all follow at the start.
    pub leader: Option<usize>,
    /// How long to wait for an answer, in nanoseconds. Should be longer than a round trip.
    pub timeout: u64,
    /// The duration of a lease in nanoseconds (Chubby).
    pub lease: u64,
    /// How a ring recovers when its would-be leader crashes.
    pub repair: Repair,
    /// Whether a candidate runs a pre-vote first (Raft).
    pub pre_vote: bool,
    /// The mean round trip to each process, in nanoseconds.
    pub round_trips: Vec<u64>,
    /// Random numbers, each uniform over all of `u64`. Used in order, then from the start again.
    pub random_numbers: Vec<u64>,
}

/// The lecture's two repairs of the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repair {
    /// No repair.
    #[default]
    None,
    /// The predecessor of the would-be leader waits for the Elected message and restarts the election if it does not
    /// come.
    Predecessor,
    /// Any process whose failure detector suspects the would-be leader restarts the election.
    Detector,
}

/// An event of a process.
#[derive(Clone, Debug)]
pub enum Event<M> {
    /// It starts.
    Start,
    /// It is asked to call for an election.
    Elect,
    /// Its failure detector suspects a process, rightly or wrongly.
    Suspects(usize),
    /// Its failure detector trusts the process again.
    Trusts(usize),
    /// A message arrives.
    Received {
        /// The sender.
        from: usize,
        /// The message.
        message: M,
    },
    /// A timer expires.
    Expired(Timer),
}

/// A timer: its name, and a number to distinguish several of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timer(pub &'static str, pub u64);

/// An action of a process.
#[derive(Clone, Debug)]
pub enum Action<M> {
    /// Sends a message.
    Send {
        /// The receiver.
        to: usize,
        /// The message.
        message: M,
    },
    /// Starts or restarts a timer.
    Arm {
        /// The timer.
        timer: Timer,
        /// The duration, in nanoseconds.
        after: u64,
    },
    /// Stops a timer.
    Cancel(Timer),
    /// Later messages count as transmitted after the earlier ones: one more message delay, as the lecture counts.
    NextDelay,
}

/// The actions of one step, in order.
#[derive(Clone, Debug)]
pub struct Actions<M>(Vec<Action<M>>);

impl<M> Actions<M> {
    fn new() -> Self {
        Self(Vec::new())
    }

    /// Sends a message.
    pub fn send(&mut self, to: usize, message: M) {
        self.0.push(Action::Send { to, message });
    }

    /// Sends a message to several processes.
    pub fn send_all(&mut self, to: impl IntoIterator<Item = usize>, message: M)
    where
        M: Clone,
    {
        to.into_iter().for_each(|to| self.send(to, message.clone()));
    }

    /// Starts or restarts a timer.
    pub fn arm(&mut self, timer: Timer, after: u64) {
        self.0.push(Action::Arm { timer, after });
    }

    /// Stops a timer, if it runs.
    pub fn cancel(&mut self, timer: Timer) {
        self.0.push(Action::Cancel(timer));
    }

    /// Later messages count as transmitted after the earlier ones.
    pub fn next_delay(&mut self) {
        self.0.push(Action::NextDelay);
    }

    /// Appends the actions of a component, with its messages wrapped.
    fn extend<W>(&mut self, actions: Actions<W>, wrap: impl Fn(W) -> M) {
        self.0.extend(actions.0.into_iter().map(|action| match action {
            Action::Send { to, message } => Action::Send { to, message: wrap(message) },
            Action::Arm { timer, after } => Action::Arm { timer, after },
            Action::Cancel(timer) => Action::Cancel(timer),
            Action::NextDelay => Action::NextDelay,
        }));
    }
}

/// A cyclic sequence of given random numbers.
#[derive(Clone, Debug)]
struct RandomNumbers {
    numbers: Vec<u64>,
    next: usize,
}

impl RandomNumbers {
    fn new(numbers: &[u64]) -> Self {
        Self { numbers: numbers.to_vec(), next: 0 }
    }

    fn below(&mut self, bound: u64) -> u64 {
        let Some(number) = self.numbers.get(self.next) else { return 0 };
        self.next = (self.next + 1) % self.numbers.len();
        ((u128::from(*number) * u128::from(bound)) >> 64) as u64
    }
}

fn majority(n: usize) -> usize {
    n / 2 + 1
}

fn others(me: usize, n: usize) -> impl Iterator<Item = usize> {
    (0..n).filter(move |other| *other != me)
}
