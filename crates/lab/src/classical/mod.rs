//! The classical election algorithms, and POLE beside them, behind one interface: what each costs and when it fails.
//!
//! In: an [`Algorithm`] and a [`Case`]. Out: an [`Outcome`]: messages, message delays, the time to a leader, two leaders
//! at once, and a [`Recording`] of all that happened.
//! Why: a count from a book and a count from a program can be held against each other only if one bench counts all.
//! Holds: an algorithm is a pure process: no clock and no dice of its own, events go in, acts come out. The same case
//! gives the same record, byte for byte.
//! Not here: what the leader does once it leads (`zab`), real networks (`server`).
//!
//! ```text
//! arena     one world for all of them     judge   two leaders at once
//! ring bully invitation raft chubby fle rotating viewstamped santos pole   one algorithm each
//! kind      the list of them              following  what comes right after an election by FLE or POLE
//! counts    messages and delays against the formulas      failures  what theory predicts to go wrong
//! weather   time to a leader under crash, loss and delay  quality   how good the leader is
//! compare   all of it: a table, a CSV file, a page
//! ```

mod arena;
mod bully;
mod case;
mod chubby;
mod compare;
mod counts;
mod failures;
mod fle;
mod following;
mod invitation;
mod judge;
mod kind;
mod page;
mod pole;
mod quality;
mod raft;
mod ring;
mod rotating;
mod santos;
mod viewstamped;
mod weather;

pub use crate::recording::{ProcessView, Recording, Step, StepKind};
pub use arena::{End, Outcome, run};
pub use case::{Case, Detector, Dice, Happening, Lines};
pub use compare::{Comparison, HEADER, Progress};
pub use counts::{Count, Figure, Which, count};
pub use failures::{Finding, findings};
pub use judge::Violation;
pub use kind::Kind;
pub use quality::{Quality, quality};
pub use weather::{Condition, Sky, weather};

/// An election algorithm, as one of its processes.
///
/// Processes are numbered from 0; a higher (attribute, number) is a better leader where the algorithm asks for one.
pub trait Algorithm: Sized {
    /// What processes tell each other.
    type Message: Word;

    /// How many processes, the leader among them, must accept what a leader does before it is done.
    fn needed(n: usize) -> usize {
        majority(n)
    }

    /// A process before its first event.
    fn new(setting: &Setting) -> Self;

    /// The process after a crash: with what was durable, and nothing else. It knows no leader.
    #[must_use]
    fn reborn(&self, setting: &Setting) -> Self;

    /// One event.
    fn step(&mut self, event: Event<Self::Message>, out: &mut Acts<Self::Message>);

    /// Whether the process believes itself leader, and in which term, ballot, view or round.
    fn leads(&self) -> Option<u64>;

    /// Whom it takes for the leader.
    fn believes(&self) -> Option<usize>;

    /// Whether it would accept the word of this leader now.
    fn accepts(&self, leader: usize, generation: u64) -> bool;

    /// Whether it has nothing left to do in the election under way.
    fn done(&self) -> bool {
        true
    }
}

/// A message.
pub trait Word: Clone {
    /// Which kind of message: counts go by it.
    fn name(&self) -> &'static str;

    /// For people: `Election 7`, `Vote t3`.
    fn label(&self) -> String;

    /// Whether it belongs to a leader's daily work: counted apart.
    fn is_upkeep(&self) -> bool {
        false
    }
}

/// What a process is told once, at its making.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its number.
    pub me: usize,
    /// How many processes there are.
    pub n: usize,
    /// What it would be elected for: higher is better.
    pub attribute: u64,
    /// The leader that all follow at the start.
    pub leader: Option<usize>,
    /// How long to wait for an answer, in nanoseconds: longer than a round trip, if the setting is right.
    pub timeout: u64,
    /// How long a lease lasts (Chubby).
    pub lease: u64,
    /// What mends a ring whose would-be leader has died.
    pub repair: Repair,
    /// Whether a candidate asks first whether it would be voted for (Raft).
    pub pre_vote: bool,
    /// The mean round trip to each process.
    pub round_trips: Vec<u64>,
    /// Random numbers, each uniform over all of `u64`: used one after the other, then from the start again.
    pub dice: Vec<u64>,
}

/// The lecture's two repairs of the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repair {
    /// None.
    #[default]
    None,
    /// The predecessor of the would-be leader waits for the Elected message, and starts again when it does not come.
    Predecessor,
    /// Whoever's failure detector suspects the would-be leader starts again.
    Detector,
}

/// What happens to a process.
#[derive(Clone, Debug)]
pub enum Event<M> {
    /// It begins to live.
    Start,
    /// It is asked to call for an election.
    Elect,
    /// Its failure detector suspects a process, rightly or wrongly.
    Suspects(usize),
    /// Its failure detector trusts the process again.
    Trusts(usize),
    /// A message.
    Received {
        /// From whom.
        from: usize,
        /// What.
        message: M,
    },
    /// A timer ran out.
    Expired(Timer),
}

/// A timer: its name, and a number among its like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timer(pub &'static str, pub u64);

/// What a process does.
#[derive(Clone, Debug)]
pub enum Act<M> {
    /// Sends.
    Send {
        /// To whom.
        to: usize,
        /// What.
        message: M,
    },
    /// Starts a timer, or starts it anew.
    Arm {
        /// Which.
        timer: Timer,
        /// How long, in nanoseconds.
        after: u64,
    },
    /// Stops a timer.
    Cancel(Timer),
    /// What follows is transmitted after what went before: one message delay more, as the lecture counts.
    Then,
}

/// What a process does in one step, in order.
#[derive(Clone, Debug)]
pub struct Acts<M>(Vec<Act<M>>);

impl<M> Acts<M> {
    fn new() -> Self {
        Self(Vec::new())
    }

    /// Sends a message.
    pub fn send(&mut self, to: usize, message: M) {
        self.0.push(Act::Send { to, message });
    }

    /// Sends it to all of these.
    pub fn send_all(&mut self, to: impl IntoIterator<Item = usize>, message: M)
    where
        M: Clone,
    {
        to.into_iter().for_each(|to| self.send(to, message.clone()));
    }

    /// Starts a timer, or starts it anew.
    pub fn arm(&mut self, timer: Timer, after: u64) {
        self.0.push(Act::Arm { timer, after });
    }

    /// Stops a timer, if it runs.
    pub fn cancel(&mut self, timer: Timer) {
        self.0.push(Act::Cancel(timer));
    }

    /// What follows is transmitted after what went before.
    pub fn then(&mut self) {
        self.0.push(Act::Then);
    }

    /// The acts of a part, in the words of the whole.
    fn extend<W>(&mut self, acts: Acts<W>, word: impl Fn(W) -> M) {
        self.0.extend(acts.0.into_iter().map(|act| match act {
            Act::Send { to, message } => Act::Send { to, message: word(message) },
            Act::Arm { timer, after } => Act::Arm { timer, after },
            Act::Cancel(timer) => Act::Cancel(timer),
            Act::Then => Act::Then,
        }));
    }
}

/// Random numbers that came from outside.
#[derive(Clone, Debug)]
struct Draws {
    numbers: Vec<u64>,
    next: usize,
}

impl Draws {
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
