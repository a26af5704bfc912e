//! The fair continuation: without further faults, and with messages arriving before timers expire, all servers agree
//! on one leader.
//!
//! From any world, it starts the servers that are down and delivers all messages. When none are in flight, timers
//! expire; a server whose leader no quorum has gives it up, as the service would.
//!
//! In addition, if no timer has expired and no election was started before, the leader must be the best proposal.

use pole_election::{Cause, Timer};

use super::world::{SERVERS, World, id};
use crate::live_states::LiveStates;
use crate::violation::Violation;

/// The liveness property.
pub(crate) const AGREES: &str = "without faults, all have one leader within a bounded time";
/// The property of timely runs.
pub(crate) const BEST: &str = "in a timely run, the leader is the best proposal";

/// Runs the continuation. `best` is the server that a timely run elects.
pub(crate) fn check(world: &World, best: Option<usize>, live_states: &LiveStates) -> Result<(), Violation> {
    let mut world = world.clone();
    let timely = world.usage == Default::default() && (0..SERVERS).all(|at| world.leader(at).is_none());
    for at in 0..SERVERS {
        if world.servers[at].election.is_none() {
            world.start(at, None)?;
        }
    }
    let mut passed = Vec::new();
    for _ in 0..ROUNDS_MAX {
        deliver_all(&mut world)?;
        let now = world.liveness_digest(timely);
        passed.push(now);
        if let Some(best) = agreed(&world).and_then(|leader| best.filter(|best| timely && *best != leader)) {
            return Err(Violation::new(BEST, format!("the best, {}, was not elected", id(best))));
        }
        if agreed(&world).is_some() || live_states.contains(now) {
            live_states.extend(passed);
            return Ok(());
        }
        establish_all(&mut world)?;
        // The shorter timeouts expire first.
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

/// Expires the timers of one kind on all servers. Returns false if none is running.
fn expire(world: &mut World, timer: Timer) -> Result<bool, Violation> {
    let running: Vec<_> = (0..SERVERS).filter(|at| world.servers[*at].timers.contains(&timer)).collect();
    running.iter().try_for_each(|at| world.expire(*at, timer))?;
    Ok(!running.is_empty())
}

/// Establishes every leader with a quorum, and notifies its followers.
fn establish_all(world: &mut World) -> Result<(), Violation> {
    while let Some(at) = (0..SERVERS).find(|at| world.may_establish(*at)) {
        world.establish(at)?;
    }
    Ok(())
}

/// Starts an election on every server whose leader no quorum has. Returns false if there is none.
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

/// Rounds of timers: enough for the election in progress and two more.
const ROUNDS_MAX: u32 = 12;

/// Messages between two timers.
const MESSAGES_MAX: u32 = 500;
