//! What can happen next: every message, write, crash and decision that the bounds still allow.

use std::fmt;

use pole_zab::Phase;

use super::bounds::Bounds;
use super::world::{SERVERS, World, id};

/// One step of the ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The next packet of a link arrives.
    Deliver { from: usize, to: usize },
    /// It arrives twice.
    Double { from: usize, to: usize },
    /// It is lost, and so the link is closed.
    Lose { from: usize, to: usize },
    /// The oldest operations on a disk are durable.
    Written { at: usize, operations: usize },
    /// A server fails and starts again. Whole operations and entries that its disk kept; `cut`: peers to whom
    /// nothing that was on its way arrives any more.
    Crash { at: usize, operations: usize, torn: usize, cut: u8 },
    /// The election says that it leads; with or without the word of a peer on the epoch that it promised.
    Lead { at: usize, hint: Option<usize> },
    /// The election says whom it follows.
    Follow { at: usize, leader: usize },
    /// It loses patience.
    GiveUp { at: usize },
    /// A client writes.
    Write { at: usize },
    /// The leader resigns.
    HandOver { at: usize, to: usize },
}

impl Action {
    /// All that can happen in this world.
    pub(crate) fn all(world: &World, bounds: &Bounds, actions: &mut Vec<Self>) {
        let first = actions.len();
        for to in 0..SERVERS {
            Self::of_links(world, bounds, to, actions);
            Self::of_disk(world, bounds, to, actions);
            Self::of_roles(world, bounds, to, actions);
        }
        if !world.spent.told_apart {
            let mut alike = actions.split_off(first);
            alike.retain(|action| !action.concerns(SERVERS - 1) || action.concerns(SERVERS - 2));
            actions.extend(alike);
        }
    }

    fn of_links(world: &World, bounds: &Bounds, to: usize, actions: &mut Vec<Self>) {
        for from in (0..SERVERS).filter(|from| *from != to) {
            let wire = &world.wires[from][to];
            if !wire.0.is_empty() {
                actions.push(Self::Deliver { from, to });
            }
            if wire.head().is_some() {
                if world.spent.doubles < bounds.doubles {
                    actions.push(Self::Double { from, to });
                }
                if world.spent.losses < bounds.losses {
                    actions.push(Self::Lose { from, to });
                }
            }
        }
    }

    fn of_disk(world: &World, bounds: &Bounds, at: usize, actions: &mut Vec<Self>) {
        let disk = world.disk(at);
        if let Some(operations) = disk.next_release() {
            actions.push(Self::Written { at, operations });
        }
        if world.spent.crashes < bounds.crashes {
            let peers: Vec<_> = (0..SERVERS).filter(|peer| world.wires[at][*peer].head().is_some()).collect();
            for (operations, torn) in disk.crash_points() {
                let all = (1_u8 << peers.len()) - 1;
                for choice in if bounds.prompt { all..=all } else { 0..=all } {
                    let cut = peers.iter().enumerate().filter(|(nth, _)| choice >> nth & 1 == 1);
                    let cut = cut.fold(0, |mask, (_, peer)| mask | 1 << peer);
                    actions.push(Self::Crash { at, operations, torn, cut });
                }
            }
        }
    }

    fn of_roles(world: &World, bounds: &Bounds, at: usize, actions: &mut Vec<Self>) {
        let spent = &world.spent;
        match world.zab(at).phase() {
            Phase::Looking => Self::of_looking(world, bounds, at, actions),
            Phase::Established => {
                Self::of_impatience(world, bounds, at, actions);
                if spent.writes < bounds.writes {
                    actions.push(Self::Write { at });
                }
                let can = |to: &usize| {
                    spent.resignations < bounds.resignations && world.zab(at).can_hand_over(id(*to)).is_ok()
                };
                actions.extend((0..SERVERS).filter(can).map(|to| Self::HandOver { at, to }));
            }
            Phase::Serving
            | Phase::Greeting
            | Phase::Promised
            | Phase::Joining
            | Phase::TakingOver
            | Phase::Gathering
            | Phase::Promising
            | Phase::Pulling
            | Phase::Synchronising => Self::of_impatience(world, bounds, at, actions),
        }
    }

    /// Too slow a peer, or too slow a disk.
    fn of_impatience(world: &World, bounds: &Bounds, at: usize, actions: &mut Vec<Self>) {
        if world.spent.impatience < bounds.impatience {
            actions.push(Self::GiveUp { at });
        }
    }

    fn of_looking(world: &World, bounds: &Bounds, at: usize, actions: &mut Vec<Self>) {
        actions.push(Self::Lead { at, hint: None });
        if bounds.hints {
            let peers = (0..SERVERS).filter(|peer| *peer != at);
            actions.extend(peers.map(|peer| Self::Lead { at, hint: Some(peer) }));
        }
        let leads = |peer: &usize| world.zab(*peer).leader() == Some(id(*peer)) && *peer != at;
        actions.extend((0..SERVERS).filter(leads).map(|leader| Self::Follow { at, leader }));
    }

    /// Whether the action is about this server.
    pub(crate) fn concerns(&self, server: usize) -> bool {
        match *self {
            Self::Deliver { from, to } | Self::Double { from, to } | Self::Lose { from, to } => {
                from == server || to == server
            }
            Self::Written { at, .. } | Self::GiveUp { at } | Self::Write { at } => at == server,
            Self::Crash { at, cut, .. } => at == server || cut >> server & 1 == 1,
            Self::Lead { at, hint } => at == server || hint == Some(server),
            Self::Follow { at, leader } => at == server || leader == server,
            Self::HandOver { at, to } => at == server || to == server,
        }
    }

    /// The action in words, with what it is about in this world.
    pub(crate) fn tell(&self, world: &World) -> String {
        let head = |from: usize, to: usize| match world.wires[from][to].head() {
            Some(message) => format!("{} -> {}: {}", id(from), id(to), Short(&format!("{message:?}"))),
            None => format!("{} -> {}: closed", id(from), id(to)),
        };
        let ops = |at: usize, count: usize| -> Vec<String> {
            world.disk(at).pending.iter().take(count).map(|(_, op)| Short(&format!("{op:?}")).to_string()).collect()
        };
        match *self {
            Self::Deliver { from, to } => format!("deliver  {}", head(from, to)),
            Self::Double { from, to } => format!("double   {}", head(from, to)),
            Self::Lose { from, to } => format!("lose     {}", head(from, to)),
            Self::Written { at, operations } => format!("durable  {}: {}", id(at), ops(at, operations).join(", ")),
            Self::Crash { at, operations, torn, cut } => {
                let kept = ops(at, operations).join(", ");
                let lost = world.disk(at).pending.len() - operations;
                format!(
                    "crash    {}: kept [{kept}] and {torn} entries of {lost} more writes; cut off {cut:#05b}",
                    id(at)
                )
            }
            Self::Lead { at, hint } => format!("lead     {}, knowing of {:?}", id(at), hint.map(|peer| id(peer).0)),
            Self::Follow { at, leader } => format!("follow   {} follows {}", id(at), id(leader)),
            Self::GiveUp { at } => format!("give up  {} while {:?}", id(at), world.zab(at).phase()),
            Self::Write { at } => format!("write    at {}", id(at)),
            Self::HandOver { at, to } => format!("resign   {} for {}", id(at), id(to)),
        }
    }
}

/// Debug output with what clutters it taken away.
struct Short<'a>(&'a str);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.replace("ServerId", "").replace("Origin { session: SessionId(0), cxid: Cxid(0) }", "_");
        f.write_str(&text)
    }
}
