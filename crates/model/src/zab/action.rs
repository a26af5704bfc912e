//! The possible next steps: every message, write, crash and decision that the bounds still allow.

use std::fmt;

use pole_zab::Phase;

use super::bounds::Bounds;
use super::members::Members;
use super::world::{World, id};

/// One step of the ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The next packet of a link arrives.
    Deliver { from: usize, to: usize },
    /// The next packet arrives twice.
    Double { from: usize, to: usize },
    /// The next packet is lost, which closes the link.
    Lose { from: usize, to: usize },
    /// The oldest operations on a disk become durable.
    Written { at: usize, operations: usize },
    /// A server crashes and restarts. `operations` and `torn` are the whole operations and the entries that its disk
    /// kept; `cut` has the peers to which packets in flight are lost.
    Crash { at: usize, operations: usize, torn: usize, cut: u8 },
    /// The election makes a server lead; with or without a hint from a peer about the epoch that it promised.
    Lead { at: usize, hint: Option<usize> },
    /// The election makes a server follow another. `ahead`: it promises the epoch that it expects.
    Follow { at: usize, leader: usize, ahead: bool },
    /// A server gives up after a timeout.
    GiveUp { at: usize },
    /// A client writes.
    Write { at: usize },
    /// The leader hands over.
    HandOver { at: usize, to: usize },
    /// A client changes the members.
    Change { at: usize },
    /// A server hears of a change that another one knows to be committed.
    Learn { at: usize, from: usize },
}

impl Action {
    /// Collects all possible actions in this world.
    pub(crate) fn all(world: &World, bounds: &Bounds, actions: &mut Vec<Self>) {
        let first = actions.len();
        for to in world.all() {
            Self::of_links(world, bounds, to, actions);
            Self::of_disk(world, bounds, to, actions);
            Self::of_roles(world, bounds, to, actions);
        }
        if !world.usage.symmetry_broken {
            let mut alike = actions.split_off(first);
            alike.retain(|action| !action.concerns(2) || action.concerns(1));
            actions.extend(alike);
        }
    }

    fn of_links(world: &World, bounds: &Bounds, to: usize, actions: &mut Vec<Self>) {
        for from in world.all().filter(|from| *from != to) {
            let wire = &world.wires[from][to];
            if !wire.0.is_empty() {
                actions.push(Self::Deliver { from, to });
            }
            if wire.head().is_some() {
                if world.usage.doubles < bounds.doubles {
                    actions.push(Self::Double { from, to });
                }
                if world.usage.losses < bounds.losses {
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
        if world.usage.crashes < bounds.crashes {
            let peers: Vec<_> = world.all().filter(|peer| world.wires[at][*peer].head().is_some()).collect();
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
        let usage = &world.usage;
        Self::of_changes(world, at, actions);
        match world.zab(at).phase() {
            Phase::Looking => Self::of_looking(world, bounds, at, actions),
            Phase::Established => {
                Self::of_timeouts(world, bounds, at, actions);
                let is_open = world.zab(at).is_changing_members();
                if usage.writes < bounds.writes && !is_open {
                    actions.push(Self::Write { at });
                }
                let could = |members: Members| world.zab(at).could_change_to(members.membership().voters());
                if usage.changes == 0 && !is_open && bounds.change.is_some_and(could) {
                    actions.push(Self::Change { at });
                }
                let can = |to: &usize| {
                    usage.resignations < bounds.resignations && world.zab(at).can_hand_over(id(*to)).is_ok()
                };
                actions.extend(world.all().filter(can).map(|to| Self::HandOver { at, to }));
            }
            Phase::Serving
            | Phase::Greeting
            | Phase::Promised
            | Phase::Joining
            | Phase::TakingOver
            | Phase::Gathering
            | Phase::Promising
            | Phase::Pulling
            | Phase::Synchronising => Self::of_timeouts(world, bounds, at, actions),
        }
    }

    /// What a server hears of changes by heartbeats, which may come at any time.
    fn of_changes(world: &World, at: usize, actions: &mut Vec<Self>) {
        let knows_more = |from: &usize| {
            let (version, committed) = (world.zab(*from).members_version(), world.zab(*from).committed());
            version > world.zab(at).members_version() && version <= committed
        };
        actions.extend(world.all().filter(knows_more).map(|from| Self::Learn { at, from }));
    }

    /// A timeout on a slow peer or a slow disk.
    fn of_timeouts(world: &World, bounds: &Bounds, at: usize, actions: &mut Vec<Self>) {
        if world.usage.timeouts < bounds.timeouts {
            actions.push(Self::GiveUp { at });
        }
    }

    fn of_looking(world: &World, bounds: &Bounds, at: usize, actions: &mut Vec<Self>) {
        let may_lead = world.zab(at).members().voters().before_change().may_lead(id(at));
        if may_lead {
            actions.push(Self::Lead { at, hint: None });
        }
        if may_lead && bounds.hints {
            let peers = world.all().filter(|peer| *peer != at);
            actions.extend(peers.map(|peer| Self::Lead { at, hint: Some(peer) }));
        }
        let leads = |peer: &usize| world.zab(*peer).leader() == Some(id(*peer)) && *peer != at;
        actions.extend(world.all().filter(leads).map(|leader| Self::Follow { at, leader, ahead: false }));
        if bounds.ahead {
            // It may decide before the leader does.
            let decides = |peer: &usize| world.zab(*peer).phase() == Phase::Looking && *peer != at;
            let elected = world.all().filter(|peer| leads(peer) || decides(peer));
            actions.extend(elected.map(|leader| Self::Follow { at, leader, ahead: true }));
        }
    }

    /// Whether the action involves this server.
    pub(crate) fn concerns(&self, server: usize) -> bool {
        match *self {
            Self::Deliver { from, to } | Self::Double { from, to } | Self::Lose { from, to } => {
                from == server || to == server
            }
            Self::Written { at, .. } | Self::GiveUp { at } | Self::Write { at } | Self::Change { at } => at == server,
            Self::Crash { at, cut, .. } => at == server || cut >> server & 1 == 1,
            Self::Lead { at, hint } => at == server || hint == Some(server),
            Self::Follow { at, leader, .. } => at == server || leader == server,
            Self::HandOver { at, to } => at == server || to == server,
            Self::Learn { at, from } => at == server || from == server,
        }
    }

    /// Describes the action with its details in this world.
    pub(crate) fn describe(&self, world: &World) -> String {
        let head = |from: usize, to: usize| match world.wires[from][to].head() {
            Some(message) => format!("{} -> {}: {}", id(from), id(to), Compact(&format!("{message:?}"))),
            None => format!("{} -> {}: closed", id(from), id(to)),
        };
        let ops = |at: usize, count: usize| -> Vec<String> {
            world.disk(at).pending.iter().take(count).map(|(_, op)| Compact(&format!("{op:?}")).to_string()).collect()
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
            Self::Follow { at, leader, ahead } => {
                let how = if ahead { ", and promises ahead" } else { "" };
                format!("follow   {} follows {}{how}", id(at), id(leader))
            }
            Self::GiveUp { at } => format!("give up  {} while {:?}", id(at), world.zab(at).phase()),
            Self::Write { at } => format!("write    at {}", id(at)),
            Self::HandOver { at, to } => format!("resign   {} for {}", id(at), id(to)),
            Self::Change { at } => format!("change   the members at {}", id(at)),
            Self::Learn { at, from } => format!("learn    {} hears of the members of {}", id(at), id(from)),
        }
    }
}

/// Debug output without clutter.
struct Compact<'a>(&'a str);

impl fmt::Display for Compact<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.replace("ServerId", "").replace("Origin { session: SessionId(0), cxid: Cxid(0) }", "_");
        f.write_str(&text)
    }
}
