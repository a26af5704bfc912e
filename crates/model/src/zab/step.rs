//! The effect of each action on the world.
//!
//! Forced consequences are part of the step: links that both ends have closed open again, and a server that does not
//! lead notices a closed link at once. (It follows nobody else and sends only to its leader, so noticing later would
//! show nothing new. A leader may notice late, and until then count what the peer had acknowledged.)

use pole_types::Zxid;
use pole_zab::{Message, Origin, Phase, Proposal, Round, Standing};

use super::action::Action;
use super::bounds::Bounds;
use super::wire::{Packet, Wire};
use super::world::{World, id};
use crate::violation::Violation;

/// Applies the action.
pub(crate) fn apply(world: &mut World, bounds: &Bounds, action: Action) -> Result<(), Violation> {
    let usage = &mut world.usage;
    usage.symmetry_broken |= action.concerns(1) || action.concerns(2);
    match action {
        Action::Deliver { from, to } => deliver(world, from, to)?,
        Action::Double { from, to } => {
            usage.doubles += 1;
            let head = world.wires[from][to].0.front().cloned();
            deliver(world, from, to)?;
            if let Some(head) = head.filter(|_| world.zab(to).is_linked(id(from))) {
                world.wires[from][to].0.push_front(head);
                deliver(world, from, to)?;
            }
        }
        Action::Lose { from, to } => {
            usage.losses += 1;
            world.wires[from][to] = Wire::default();
            world.wires[from][to].push(Packet::Close);
            if world.prompt {
                world.wires[to][from].0.clear();
            }
            world.wires[to][from].push(Packet::Close);
        }
        Action::Written { at, operations } => written(world, at, operations)?,
        Action::Crash { at, operations, torn, cut } => {
            usage.crashes += 1;
            world.all().filter(|peer| cut >> peer & 1 == 1).for_each(|peer| world.wires[at][peer].0.clear());
            world.crash(at, operations, torn)?;
        }
        Action::Lead { at, hint } => lead(world, at, hint)?,
        Action::Follow { at, leader, ahead } => follow(world, at, leader, ahead)?,
        Action::GiveUp { at } => {
            usage.timeouts += 1;
            world.act(at, |zab, out| zab.step_down(out))?;
        }
        Action::Write { at } => {
            usage.writes += 1;
            let body = vec![usage.writes];
            let listeners =
                if bounds.direct { world.all().filter(|peer| *peer != at).map(id).collect() } else { vec![] };
            world.act(at, |zab, out| zab.propose(vec![(Origin::default(), body.into())], listeners, out))?;
        }
        Action::HandOver { at, to } => {
            usage.resignations += 1;
            hand_over(world, at, to)?;
        }
        Action::Change { at } => {
            usage.changes += 1;
            let body = bounds.change.expect("the bounds allow a change").change();
            world.act(at, |zab, out| zab.propose(vec![(Origin::default(), body.into())], vec![], out))?;
        }
        Action::Learn { at, from } => {
            let (members, version) = (world.zab(from).members().clone(), world.zab(from).members_version());
            world.act(at, |zab, out| zab.learn_members(members, version, out))?;
        }
    }
    apply_forced_steps(world)?;
    for at in world.all().filter(|at| !leads(world, *at)).collect::<Vec<_>>() {
        world.rounds[at] = 0;
    }
    Ok(())
}

/// Delivers the next packet of a link.
pub(crate) fn deliver(world: &mut World, from: usize, to: usize) -> Result<(), Violation> {
    match world.wires[from][to].0.pop_front() {
        None => Ok(()),
        Some(Packet::Close) => {
            world.act(to, |zab, out| zab.link_down(id(from), out))?;
            world.reopen_links();
            Ok(())
        }
        Some(Packet::Message(message, _)) => {
            let mut refused = false;
            let message = Message::clone(&message);
            let more = world.sabotage.also_received(id(from), &message);
            world.act(to, |zab, out| {
                refused = zab.receive(id(from), message, out).is_err();
                more.into_iter().for_each(|message| refused |= zab.receive(id(from), message, out).is_err());
            })?;
            if refused {
                world.act(to, |zab, out| zab.link_down(id(from), out))?;
                world.close(to, from);
            }
            world.reopen_links();
            Ok(())
        }
    }
}

/// Completes the oldest disk operations.
pub(crate) fn written(world: &mut World, at: usize, operations: usize) -> Result<(), Violation> {
    let mut disk = world.disk(at).clone();
    let through = disk.complete(operations)?;
    world.set_disk(at, disk);
    if let Some(through) = through {
        world.act(at, |zab, out| zab.written(through, out))?;
    }
    world.reopen_links();
    Ok(())
}

/// Makes a server lead, as decided by the election.
pub(crate) fn lead(world: &mut World, at: usize, hint: Option<usize>) -> Result<(), Violation> {
    world.rounds[at] = world.next_round();
    let round = round_of(world, at);
    let hint = hint.map(|peer| (id(peer), world.zab(peer).standing().accepted_epoch));
    world.act(at, |zab, out| zab.lead(round, hint, out))?;
    world.reopen_links();
    Ok(())
}

/// Makes a server follow another, as decided by the election. `ahead`: it knows the epochs that both have promised.
pub(crate) fn follow(world: &mut World, at: usize, leader: usize, ahead: bool) -> Result<(), Violation> {
    let round = round_of(world, leader);
    let accepted = [at, leader].map(|server| (id(server), world.zab(server).standing().accepted_epoch));
    let accepted = accepted.into_iter().filter(|_| ahead);
    world.act(at, |zab, out| zab.follow(id(leader), round, accepted, out))?;
    world.reopen_links();
    Ok(())
}

fn round_of(world: &World, leader: usize) -> Round {
    Round { epoch: u64::from(world.rounds[leader]), failed: 0 }
}

fn hand_over(world: &mut World, at: usize, to: usize) -> Result<(), Violation> {
    world.rounds[to] = world.next_round();
    let round = round_of(world, to);
    let choice = Proposal {
        id: id(to),
        rank: pole_election::Rank::Unknown,
        version: Zxid::ZERO,
        fingerprint: 0,
        standing: Standing::default(),
        inputs: Vec::new(),
    };
    world.act(at, |zab, out| zab.hand_over(round, choice, false, out).expect("it was possible"))?;
    world.reopen_links();
    Ok(())
}

/// Applies the forced consequences of a step.
fn apply_forced_steps(world: &mut World) -> Result<(), Violation> {
    world.reopen_links();
    loop {
        let all = world.all();
        let mut closing = all.clone().flat_map(|from| all.clone().map(move |to| (from, to)));
        let found =
            closing.find(|(from, to)| world.wires[*from][*to].is_closing() && (world.prompt || !leads(world, *to)));
        let Some((from, to)) = found else { return Ok(()) };
        deliver(world, from, to)?;
    }
}

fn leads(world: &World, at: usize) -> bool {
    match world.zab(at).phase() {
        Phase::Gathering | Phase::Promising | Phase::Pulling | Phase::Synchronising | Phase::Established => true,
        Phase::Looking | Phase::Greeting | Phase::Promised | Phase::Joining | Phase::TakingOver | Phase::Serving => {
            false
        }
    }
}
