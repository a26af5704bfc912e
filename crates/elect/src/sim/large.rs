//! Thousands of candidates without faults: how long an election takes, and what it costs the store.

use std::time::Duration;

use super::random::Random;
use super::world::{SECOND, World};
use crate::election::Strategy;
use crate::timing::Timing;

/// What an election of many candidates costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Large {
    /// The time from the start of all candidates to the first leader.
    pub first: Cost,
    /// One minute at rest.
    pub rest: Cost,
    /// From the crash of the leader until another leads.
    pub change: Cost,
    /// In the second after that, when the others learn of it.
    pub after: Cost,
    /// What was violated, if anything.
    pub violation: Option<String>,
}

/// Time, operations and wake-ups of a part of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Virtual milliseconds.
    pub ms: u64,
    /// Operations that arrived at the store, watches included.
    pub operations: u64,
    /// States that watches delivered to candidates.
    pub wake_ups: u64,
}

/// Runs that many candidates with a time-to-live of 10 s and a store that is 0.1 to 5 ms away.
#[must_use]
pub fn large(candidates: usize, strategy: Strategy, seed: u64) -> Large {
    let timing = Timing::for_ttl(Duration::from_secs(10));
    let mut world = World::new(Random::new(seed), candidates, timing, strategy, false);
    let mut result = Large::default();
    let mut meter = Meter::start(&world);
    for client in 0..candidates {
        world.boot(client);
    }
    step_until(&mut world, 60 * SECOND, |world| leader(world).is_some());
    result.first = meter.lap(&world);
    // Until everybody has settled into its role.
    let settled = world.now + 120 * SECOND;
    world.run_until(settled);
    meter = Meter::start(&world);
    world.run_until(settled + 60 * SECOND);
    result.rest = meter.lap(&world);
    if let Some(old) = leader(&world) {
        world.crash(old);
        step_until(&mut world, 60 * SECOND, |world| leader(world).is_some_and(|new| new != old));
        result.change = meter.lap(&world);
        let after = world.now + SECOND;
        world.run_until(after);
        result.after = meter.lap(&world);
    }
    result.violation = world.outcome.violation;
    result
}

fn step_until(world: &mut World, limit: u64, done: impl Fn(&World) -> bool) {
    let end = world.now + limit;
    while world.now < end && !done(world) {
        let next = world.now + SECOND / 1000;
        world.run_until(next);
    }
}

fn leader(world: &World) -> Option<usize> {
    (0..world.clients.len()).find(|one| world.clients[*one].is_valid(world.now))
}

struct Meter {
    at: u64,
    operations: u64,
    wake_ups: u64,
}

impl Meter {
    fn start(world: &World) -> Self {
        Self { at: world.now, operations: world.outcome.operations, wake_ups: world.outcome.wake_ups }
    }

    /// The cost since the last lap.
    fn lap(&mut self, world: &World) -> Cost {
        let now = Self::start(world);
        let cost = Cost {
            ms: (now.at - self.at) / 1_000_000,
            operations: now.operations - self.operations,
            wake_ups: now.wake_ups - self.wake_ups,
        };
        *self = now;
        cost
    }
}
