//! The fair continuation: without further faults, all servers serve under one established leader within a
//! bounded number of steps.
//!
//! From any world, it delivers all messages and completes all writes; servers without progress give up; if no leader
//! works, server 1 is elected; servers that are looking follow. It is deterministic, so the result of one continuation
//! is known when another one reaches the same state.

use pole_zab::Phase;

use super::step;
use super::world::{World, id};
use crate::digest::digest;
use crate::live_states::LiveStates;
use crate::violation::Violation;

/// The liveness property.
pub(crate) const RECOVERS: &str = "without faults, all serve under one established leader within a bounded time";

/// Checks that the world recovers.
pub(crate) fn check(world: &World, live_states: &LiveStates) -> Result<(), Violation> {
    let mut world = world.clone();
    let (mut passed, mut phases) = (Vec::new(), String::new());
    let mut steps = 0;
    for _ in 0..ROUNDS_MAX {
        steps += settle(&mut world)?;
        let now = digest(&(world.servers.iter().map(|hashed| hashed.digest()).collect::<Vec<_>>(), &world.wires));
        passed.push(now);
        if all_serve(&world) || live_states.contains(now) {
            live_states.extend(passed);
            return Ok(());
        }
        world.all().for_each(|at| phases += &format!(" {:?}", world.zab(at).phase()));
        phases += ";";
        elect(&mut world)?;
    }
    Err(Violation::new(RECOVERS, format!("after {ROUNDS_MAX} elections and {steps} steps:{phases}")))
}

/// Brings a blank ensemble to the state in which all servers serve under server 1.
pub(crate) fn bring_up(world: &mut World) {
    elect(world).and_then(|()| settle(world)).expect("a blank ensemble without faults comes up");
    assert!(all_serve(world), "server 1 serves all");
}

/// Delivers messages and completes writes, turn by turn, until none are pending.
fn settle(world: &mut World) -> Result<u32, Violation> {
    let mut steps = 0;
    loop {
        let before = steps;
        for at in world.all() {
            if let Some(operations) = world.disk(at).next_release() {
                step::written(world, at, operations)?;
                steps += 1;
            }
            for from in world.all().filter(|from| *from != at) {
                if !world.wires[from][at].0.is_empty() {
                    step::deliver(world, from, at)?;
                    steps += 1;
                }
            }
        }
        if steps == before {
            return Ok(steps);
        }
        if steps > STEPS_MAX {
            return Err(Violation::new(RECOVERS, format!("still messages after {steps} steps")));
        }
    }
}

/// Ends timeouts and the election: with the working leader if there is one, otherwise with server 1.
fn elect(world: &mut World) -> Result<(), Violation> {
    let works = |world: &World, at: usize| {
        let epoch = world.zab(at).serving_epoch();
        let served = world.all().filter(|peer| world.zab(*peer).leader() == Some(id(at)));
        let served = served.filter(|peer| world.zab(*peer).serving_epoch() == epoch).map(id);
        world.zab(at).phase() == Phase::Established && world.zab(at).members().voters().is_quorum(served)
    };
    let incumbent = world.all().find(|at| works(world, *at));
    for at in world.all() {
        let serves = incumbent.is_some_and(|leader| world.zab(at).leader() == Some(id(leader)));
        if world.zab(at).phase() != Phase::Looking && !(serves && world.zab(at).serving_epoch().is_some()) {
            world.act(at, |zab, out| zab.step_down(out))?;
        }
    }
    world.reopen_links();
    settle(world)?;
    let leader = incumbent.unwrap_or(0);
    if world.zab(leader).phase() == Phase::Looking {
        step::lead(world, leader, None)?;
    }
    for at in world.all().filter(|at| *at != leader) {
        if world.zab(at).phase() == Phase::Looking {
            step::follow(world, at, leader, false)?;
        }
    }
    Ok(())
}

fn all_serve(world: &World) -> bool {
    let Some(leader) = world.all().find(|at| world.zab(*at).phase() == Phase::Established) else { return false };
    let (epoch, last) = (world.zab(leader).serving_epoch(), world.zab(leader).log().last());
    world.all().all(|at| {
        let zab = world.zab(at);
        zab.leader() == Some(id(leader))
            && zab.serving_epoch() == epoch
            && zab.log().last() == last
            && zab.committed() == last
    })
}

/// Elections that a continuation may need: the one in progress, one that a higher promise prevents, and one that
/// works.
const ROUNDS_MAX: u32 = 4;

/// Steps between two elections.
const STEPS_MAX: u32 = 300;
