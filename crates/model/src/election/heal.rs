//! The fair continuation: no more faults, messages arrive before timers run out, and all three have one leader.
//!
//! In: any world. Out: nothing, or why not. How: start what is down; deliver all; when nothing is under way, the timers
//! expire; whoever has a leader that no quorum has gives it up, as the service would.
//! Also: if no timer ran out and nobody was called away before, the leader is the best proposal.

use pole_election::{Cause, Timer};

use super::world::{SERVERS, World, id};
use crate::known::Known;
use crate::violation::Violation;

/// The name of the property.
pub(crate) const AGREES: &str = "without faults, all have one leader within a bounded time";
/// The name of the other.
pub(crate) const BEST: &str = "in a timely run, the leader is the best proposal";

/// Runs the continuation. `best`: the server that a timely run elects.
pub(crate) fn check(world: &World, best: Option<usize>, known: &Known) -> Result<(), Violation> {
    let mut world = world.clone();
    let timely = world.spent == Default::default() && (0..SERVERS).all(|at| world.leader(at).is_none());
    for at in 0..SERVERS {
        if world.servers[at].election.is_none() {
            world.start(at, None)?;
        }
    }
    let mut passed = Vec::new();
    for _ in 0..ROUNDS_MAX {
        deliver_all(&mut world)?;
        let now = world.gist(timely);
        passed.push(now);
        if let Some(best) = agreed(&world).and_then(|leader| best.filter(|best| timely && *best != leader)) {
            return Err(Violation::new(BEST, format!("the best, {}, was not elected", id(best))));
        }
        if agreed(&world).is_some() || known.contains(now) {
            known.extend(passed);
            return Ok(());
        }
        establish_all(&mut world)?;
        // The shorter patience ends first.
        let moved = expire(&mut world, Timer::Score)? || expire(&mut world, Timer::Wait)? || give_up(&mut world)?;
        if !moved {
            expire(&mut world, Timer::Retry)?;
        }
    }
    let leaders: Vec<_> = (0..SERVERS).map(|at| world.leader(at).map(|leader| leader + 1)).collect();
    Err(Violation::new(AGREES, format!("after {ROUNDS_MAX} rounds of timers: {leaders:?}")))
}

fn deliver_all(world: &mut World) -> Result<(), Violation> {
    for _ in 0..MESSAGES_MAX {
        let Some((from, to, nth)) = world.arriving().next() else { return Ok(()) };
        world.deliver(from, to, nth, false)?;
    }
    Err(Violation::new(AGREES, format!("more than {MESSAGES_MAX} messages without a timer")))
}

/// The timers of one kind run out on all servers. False if none runs.
fn expire(world: &mut World, timer: Timer) -> Result<bool, Violation> {
    let running: Vec<_> = (0..SERVERS).filter(|at| world.servers[*at].timers.contains(&timer)).collect();
    running.iter().try_for_each(|at| world.expire(*at, timer))?;
    Ok(!running.is_empty())
}

/// Whoever is followed is established, and tells its followers.
fn establish_all(world: &mut World) -> Result<(), Violation> {
    while let Some(at) = (0..SERVERS).find(|at| world.may_establish(*at)) {
        world.establish(at)?;
    }
    Ok(())
}

/// Whoever has a leader that no quorum has elects again. False if nobody does.
fn give_up(world: &mut World) -> Result<bool, Violation> {
    let is_lost = |world: &World, at: &usize| world.leader(*at).is_some_and(|leader| !world.is_followed(leader));
    let lost: Vec<_> = (0..SERVERS).filter(|at| is_lost(world, at)).collect();
    lost.iter().try_for_each(|at| world.call(*at, Cause::Retry))?;
    Ok(!lost.is_empty())
}

fn agreed(world: &World) -> Option<usize> {
    let leader = world.leader(0)?;
    (0..SERVERS).all(|at| world.leader(at) == Some(leader)).then_some(leader)
}

/// Rounds of timers: an election that was under way, and two more.
const ROUNDS_MAX: u32 = 12;

/// Messages between two timers.
const MESSAGES_MAX: u32 = 500;
