//! The fair continuation: the faults end, and within so many steps all three serve under one established leader.
//!
//! In: any world. Out: nothing, or why it did not heal. How: deliver and write all there is; whoever does not get on
//! loses patience; if no leader works, server 1 is elected; who looks, follows. Deterministic, so that the end of one
//! continuation is known when another meets it half-way.

use pole_zab::Phase;

use super::step;
use super::world::{SERVERS, World, id};
use crate::digest::digest;
use crate::known::Known;
use crate::violation::Violation;

/// The name of the property.
pub(crate) const HEALS: &str = "without faults, all serve under one established leader within a bounded time";

/// Whether the world heals.
pub(crate) fn check(world: &World, known: &Known) -> Result<(), Violation> {
    let mut world = world.clone();
    let (mut passed, mut phases) = (Vec::new(), String::new());
    let mut steps = 0;
    for _ in 0..ROUNDS_MAX {
        steps += settle(&mut world)?;
        let now = digest(&(world.servers.each_ref().map(|cell| cell.digest()), &world.wires));
        passed.push(now);
        if all_serve(&world) || known.contains(now) {
            known.extend(passed);
            return Ok(());
        }
        (0..SERVERS).for_each(|at| phases += &format!(" {:?}", world.zab(at).phase()));
        phases += ";";
        choose(&mut world)?;
    }
    Err(Violation::new(HEALS, format!("after {ROUNDS_MAX} elections and {steps} steps:{phases}")))
}

/// Brings a blank ensemble to where all serve under server 1, and forgets what that took.
pub(crate) fn serve(world: &mut World) {
    choose(world).and_then(|()| settle(world)).expect("a blank ensemble without faults comes up");
    assert!(all_serve(world), "server 1 serves all");
}

/// Delivers and writes, turn by turn, until nothing is under way.
fn settle(world: &mut World) -> Result<u32, Violation> {
    let mut steps = 0;
    loop {
        let before = steps;
        for at in 0..SERVERS {
            if let Some(operations) = world.disk(at).next_release() {
                step::written(world, at, operations)?;
                steps += 1;
            }
            for from in (0..SERVERS).filter(|from| *from != at) {
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
            return Err(Violation::new(HEALS, format!("still messages after {steps} steps")));
        }
    }
}

/// Patience ends, and the election ends: with the leader that works if there is one, else with server 1.
fn choose(world: &mut World) -> Result<(), Violation> {
    let works = |world: &World, at: usize| {
        let epoch = world.zab(at).serving_epoch();
        let served = (0..SERVERS).filter(|peer| world.zab(*peer).leader() == Some(id(at)));
        world.zab(at).phase() == Phase::Established
            && served.filter(|peer| world.zab(*peer).serving_epoch() == epoch).count() >= 2
    };
    let incumbent = (0..SERVERS).find(|at| works(world, *at));
    for at in 0..SERVERS {
        let serves = incumbent.is_some_and(|leader| world.zab(at).leader() == Some(id(leader)));
        if world.zab(at).phase() != Phase::Looking && !(serves && world.zab(at).serving_epoch().is_some()) {
            world.act(at, |zab, out| zab.look(out))?;
        }
    }
    world.reopen_links();
    settle(world)?;
    let leader = incumbent.unwrap_or(0);
    if world.zab(leader).phase() == Phase::Looking {
        step::lead(world, leader, None)?;
    }
    for at in (0..SERVERS).filter(|at| *at != leader) {
        if world.zab(at).phase() == Phase::Looking {
            step::follow(world, at, leader)?;
        }
    }
    Ok(())
}

fn all_serve(world: &World) -> bool {
    let Some(leader) = (0..SERVERS).find(|at| world.zab(*at).phase() == Phase::Established) else { return false };
    let (epoch, last) = (world.zab(leader).serving_epoch(), world.zab(leader).log().last());
    (0..SERVERS).all(|at| {
        let zab = world.zab(at);
        zab.leader() == Some(id(leader))
            && zab.serving_epoch() == epoch
            && zab.log().last() == last
            && zab.committed() == last
    })
}

/// Elections that a continuation may need: one for what is under way, one that a higher promise thwarts, one that works.
const ROUNDS_MAX: u32 = 4;

/// Steps between two elections.
const STEPS_MAX: u32 = 300;
