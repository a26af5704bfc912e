//! The model of the election: three production state machines, with messages reordered, lost and duplicated.

mod host;
mod liveness;
mod world;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pole_election::{Cause, Message, Order, Propose, Round, Timer, Vote};
use stateright::{Model, Property};

use crate::digest::digest;
use crate::live_states::LiveStates;
use crate::run::{Limit, panic_message};
use crate::violation::{NO_PANIC, Violation};
pub(crate) use host::FixedScore;
use liveness::{AGREES, BEST};
pub(crate) use world::World;
use world::{HELD, SERVERS, VOTER, id};

/// How often each event may happen in one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) crashes: u8,
    pub(crate) losses: u8,
    pub(crate) doubles: u8,
    /// Expired retry timers.
    pub(crate) retries: u8,
    /// Elections started by servers that have a leader.
    pub(crate) calls: u8,
    /// Whether all servers have started before the run begins.
    pub(crate) together: bool,
    /// Whether messages between two servers stay in order, as in a stream.
    pub(crate) ordered: bool,
    /// The fair continuation is run from one in this many states.
    pub(crate) liveness_one_in: u64,
    /// The server that the last one finds unable to lead.
    pub(crate) demoted: Option<usize>,
    /// The position in the plan: smaller is earlier.
    pub(crate) weight: u32,
}

impl Bounds {
    /// No faults.
    pub(crate) const NO_FAULTS: Self = Self {
        crashes: 0,
        losses: 0,
        doubles: 0,
        retries: 0,
        calls: 0,
        together: true,
        ordered: true,
        liveness_one_in: 1,
        demoted: None,
        weight: 0,
    };
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { crashes, losses, doubles, retries, calls, together, ordered, liveness_one_in, .. } = self;
        let together = u8::from(*together);
        let order = if *ordered { "in order" } else { "unordered" };
        write!(f, "{order} c{crashes} l{losses} d{doubles} r{retries} k{calls} t{together} 1/{liveness_one_in}")
    }
}

/// The model of the election within bounds.
#[derive(Debug)]
pub(crate) struct Elections {
    pub(crate) bounds: Bounds,
    pub(crate) hosts: [FixedScore; SERVERS],
    limit: Limit,
    live_states: LiveStates,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Start { at: usize },
    Crash { at: usize },
    Deliver { from: usize, to: usize, nth: usize },
    Double { from: usize, to: usize, nth: usize },
    Lose { from: usize, to: usize, nth: usize },
    Expire { at: usize, timer: Timer },
    Establish { at: usize },
    Call { at: usize, cause: Cause },
}

impl Elections {
    pub(crate) fn new(bounds: Bounds, hosts: [FixedScore; SERVERS], limit: Limit) -> Self {
        Self { bounds, hosts, limit, live_states: LiveStates::default() }
    }

    fn apply(&self, world: &mut World, action: Action) -> Result<(), Violation> {
        match action {
            Action::Start { at } => world.start(at, self.demotes(at))?,
            Action::Crash { at } => {
                world.usage.crashes += 1;
                world.crash(at)?;
            }
            Action::Deliver { from, to, nth } => world.deliver(from, to, nth, false)?,
            Action::Double { from, to, nth } => {
                world.usage.doubles += 1;
                world.deliver(from, to, nth, true)?;
            }
            Action::Lose { from, to, nth } => {
                world.usage.losses += 1;
                world.wires[from][to].remove(nth);
            }
            Action::Expire { at, timer } => {
                world.usage.retries += u8::from(timer == Timer::Retry);
                world.usage.timer_expired = true;
                world.expire(at, timer)?;
            }
            Action::Establish { at } => world.establish(at)?,
            Action::Call { at, cause } => {
                world.usage.calls += 1;
                world.call(at, cause)?;
            }
        }
        if digest(world).is_multiple_of(self.bounds.liveness_one_in) {
            liveness::check(world, self.best(), &self.live_states)
        } else {
            Ok(())
        }
    }

    fn demotes(&self, at: usize) -> Option<usize> {
        self.bounds.demoted.filter(|_| at == SERVERS - 1)
    }

    /// The server that a timely run elects. None with a demotion: since demotions expire, the result depends on the
    /// round.
    fn best(&self) -> Option<usize> {
        let none = Default::default();
        let order = Order::new(Round { epoch: 1, failed: 0 }, &none);
        let proposal = |at: &usize| self.hosts[*at].proposal(id(*at));
        let best = (0..SERVERS).max_by(|a, b| order.compare(&proposal(a), &proposal(b)));
        best.filter(|_| self.bounds.demoted.is_none())
    }

    /// Describes a step or, without an action, the violation.
    pub(crate) fn describe(world: &World, action: Option<&Action>) -> String {
        let packet = |from: &usize, to: &usize, nth: &usize| {
            format!("{} -> {}: {}", id(*from), id(*to), describe_message(&world.wires[*from][*to][*nth].1))
        };
        match action {
            Some(Action::Start { at }) => format!("start    {}", id(*at)),
            Some(Action::Crash { at }) => format!("crash    {}", id(*at)),
            Some(Action::Deliver { from, to, nth }) => format!("deliver  {}", packet(from, to, nth)),
            Some(Action::Double { from, to, nth }) => format!("double   {}", packet(from, to, nth)),
            Some(Action::Lose { from, to, nth }) => format!("lose     {}", packet(from, to, nth)),
            Some(Action::Expire { at, timer }) => format!("expire   {timer:?} of {}", id(*at)),
            Some(Action::Establish { at }) => format!("notify   {} that its leader is established", id(*at)),
            Some(Action::Call { at, cause }) => format!("call     {} elects: {cause}", id(*at)),
            None => world.violation.as_ref().map_or_else(String::new, ToString::to_string),
        }
    }
}

impl Model for Elections {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let mut world = World::new(self.hosts, self.bounds.ordered);
        for at in (0..SERVERS).filter(|_| self.bounds.together) {
            world.start(at, self.demotes(at)).expect("a start breaks nothing");
        }
        vec![world]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.violation.is_some() || self.limit.is_over() {
            return;
        }
        let (usage, bounds) = (&world.usage, &self.bounds);
        for (from, to, nth) in world.arriving() {
            actions.push(Action::Deliver { from, to, nth });
            if usage.doubles < bounds.doubles {
                actions.push(Action::Double { from, to, nth });
            }
            if usage.losses < bounds.losses {
                actions.push(Action::Lose { from, to, nth });
            }
        }
        for at in 0..SERVERS {
            let server = &world.servers[at];
            if server.election.is_none() {
                actions.push(Action::Start { at });
                continue;
            }
            if usage.crashes < bounds.crashes {
                actions.push(Action::Crash { at });
            }
            let due = |timer: &&Timer| **timer != Timer::Retry || usage.retries < bounds.retries;
            actions.extend(server.timers.iter().filter(due).map(|timer| Action::Expire { at, timer: *timer }));
            if world.may_establish(at) {
                actions.push(Action::Establish { at });
            }
            if world.leader(at).is_some() && usage.calls < bounds.calls {
                let causes = [Cause::LeaderLost, Cause::Retry];
                actions.extend(causes.map(|cause| Action::Call { at, cause }));
            }
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        let outcome = catch_unwind(AssertUnwindSafe(|| self.apply(&mut next, action)));
        next.violation = match outcome {
            Ok(outcome) => outcome.err(),
            Err(panic) => Some(Violation::new(NO_PANIC, panic_message(&*panic))),
        };
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(HELD, |_, world| holds(world, HELD)),
            Property::always(VOTER, |_, world| holds(world, VOTER)),
            Property::always(AGREES, |_, world| holds(world, AGREES)),
            Property::always(BEST, |_, world| holds(world, BEST)),
            Property::always(NO_PANIC, |_, world| holds(world, NO_PANIC)),
        ]
    }
}

fn describe_message(message: &Message) -> String {
    match message {
        Message::Propose(Propose { round, own, choice, demoted }) => {
            format!("round {round}: I am {:?}, my choice is {}, unable are {demoted:?}", own.rank, choice.id)
        }
        Message::Vote(Vote { round, choice, established }) => {
            format!("round {round}: I have leader {}, established in {established:?}", choice.id)
        }
        Message::Ask => "who leads?".to_owned(),
    }
}

fn holds(world: &World, property: &'static str) -> bool {
    Violation::property_holds(world.violation.as_ref(), property)
}
