//! The checker: checks after every step that no invariant is broken.
//!
//! It takes steps, writes, messages and answers. A violation is an error message with the expected and the actual
//! value. The checks are incremental: only the server that stepped, and only what is new, is compared with one shared
//! history.
//!
//! | invariant (`docs/zab.md`) | where |
//! | --- | --- |
//! | prefix consistency, agreement, total order, integrity, contiguous zxids | `history` |
//! | local and global primary order, primary integrity, one established leader per epoch | `leaders` |
//! | acknowledgements cover only durable state, promises are kept, `current_epoch <= accepted_epoch` | `acks` |
//! | served state is durable | here |
//! | committed entries are never truncated, memory and disk hold the same log | `logs` |
//! | equal digest at equal zxid | `history` (against one model) |
//! | no acknowledged write lost, exactly once, per-session order, linearizable, monotonic reads | `guarantees`, `service` |
//! | ephemerals are deleted once, with their session or before it | `ephemerals` |
//! | a session expires only after its whole timeout of silence | `sessions`; the client's side: `zk` |
//! | watches fire exactly once across reconnects, and before the read that shows the change | `watches` |

mod acks;
mod ephemerals;
mod guarantees;
mod history;
mod leaders;
mod logs;
mod service;
mod sessions;
mod watches;

use std::collections::BTreeSet;

use pole_node::{Machine, Node};
use pole_types::{Epoch, Membership, Zxid};
use pole_zab::{DiskOp, Entry, Message, Phase};

use super::Setup;
use super::disk::Image;
use super::scripting::id;
use super::state::State;

pub(crate) use guarantees::{ClientOp, Response};
pub(crate) use service::{Service, split};
pub(crate) use sessions::SessionActivity;
pub(crate) use watches::{ClientWatches, WatchKind};

/// The error describes a violated invariant, with both values.
pub(crate) type CheckResult = Result<(), String>;

/// The state of all checks of a simulation.
#[derive(Debug)]
pub(crate) struct Checker {
    pub(crate) history: history::History,
    pub(crate) guarantees: guarantees::Guarantees,
    /// The checks of the ZooKeeper service; none for the key-value machine.
    pub(crate) service: Option<Service>,
    pub(crate) session_activity: sessions::SessionActivity,
    leaders: leaders::Leaders,
    acks: acks::Acks,
    logs: logs::Logs,
    /// Per server: how far it has been compared.
    progress: Vec<Progress>,
    /// The members after all changes in the history, and the change before its end if that is one.
    members: Membership,
    members_before: Option<Membership>,
    /// The server that lost its disk last, until it serves again: it may have acknowledged entries that it no longer
    /// has.
    wiped: Option<usize>,
    /// The end of the preloaded history, whose entries have no requests.
    preloaded: Zxid,
}

#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    committed: Zxid,
    applied: Zxid,
    established: Option<Epoch>,
}

impl Checker {
    /// Checks a run with this setup.
    pub(crate) fn new(setup: &Setup) -> Self {
        let (servers, members) = (setup.servers, setup.members.clone());
        let service = setup.tree.then(|| Service::new(&setup.description()));
        Self {
            history: history::History::new(service.as_ref().map_or(0, Service::digest)),
            guarantees: guarantees::Guarantees::new(),
            service,
            session_activity: sessions::SessionActivity::new(servers),
            leaders: leaders::Leaders::new(),
            acks: acks::Acks::new(servers),
            logs: logs::Logs::new(servers),
            progress: vec![Progress::default(); servers],
            members,
            members_before: None,
            wiped: None,
            preloaded: Zxid::ZERO,
        }
    }

    /// The members after all committed changes.
    pub(crate) fn members(&self) -> &Membership {
        &self.members
    }

    /// Preloads a history, proposed in an epoch of its own.
    pub(crate) fn preload(&mut self, entries: Vec<Entry>) {
        self.preloaded = entries.last().map_or(Zxid::ZERO, |entry| entry.zxid);
        self.leaders.preload(entries);
    }

    /// A server has started from its disk.
    pub(crate) fn started(&mut self, server: usize, node: &Node<State>, image: &Image) -> CheckResult {
        self.progress[server] = Progress::default();
        self.logs.started(server, node.zab().log());
        if image.current_epoch > image.accepted_epoch {
            return Err(format!(
                "server {} starts with current epoch {} above accepted epoch {}",
                server + 1,
                image.current_epoch,
                image.accepted_epoch
            ));
        }
        self.check_state(server, node)
    }

    /// A server has lost its disk and with it its promises.
    pub(crate) fn wiped(&mut self, server: usize) {
        self.acks.wiped(server);
        self.wiped = Some(server);
    }

    /// A server took a step; its effects are not executed yet.
    pub(crate) fn stepped<'a>(
        &mut self,
        server: usize,
        node: &Node<State>,
        images: impl Iterator<Item = &'a Image> + Clone,
    ) -> CheckResult {
        let zab = node.zab();
        zab.assert_invariants();
        if self.wiped == Some(server) && zab.serving_epoch().is_some() {
            self.wiped = None;
        }
        let established = (zab.phase() == Phase::Established).then(|| zab.standing().current_epoch);
        if established != self.progress[server].established {
            self.progress[server].established = established;
            if let Some(epoch) = established {
                self.leaders.established(server, epoch, zab.log(), &self.history)?;
            }
        }
        if zab.committed() != self.progress[server].committed {
            self.committed(server, node, images.clone())?;
        }
        if node.applied() != self.progress[server].applied {
            self.check_state(server, node)?;
            check_served_is_durable(server, node, images)?;
        }
        Ok(())
    }

    fn committed<'a>(
        &mut self,
        server: usize,
        node: &Node<State>,
        images: impl Iterator<Item = &'a Image>,
    ) -> CheckResult {
        let (before, now, log) = (self.progress[server].committed, node.zab().committed(), node.zab().log());
        if now < before {
            return Err(format!("server {} knew {before} to be committed, now only {now}", server + 1));
        }
        self.progress[server].committed = now;
        let known = self.history.last();
        // A server may drop applied entries from memory in the same step; appended entries were compared when they were
        // appended. (A snapshot that was just installed ends within the history, and its digest is compared.)
        let dropped = if log.base() > known { now.min(log.base()) } else { Zxid::ZERO };
        for zxid in self.logs.between(server, before, dropped).to_vec() {
            let entry = self.leaders.proposal(zxid).cloned();
            let entry = entry.ok_or_else(|| format!("server {} commits {zxid}, which nobody proposed", server + 1))?;
            self.commits(server, known, &entry)?;
        }
        for entry in log.between(before, now) {
            self.commits(server, known, entry)?;
        }
        self.history.check_position(server, now)?;
        if now > known {
            let holds = |server: usize, image: &Image| image.contains(now) || self.wiped == Some(server);
            let holders = images.enumerate().filter(|(server, image)| holds(*server, image)).map(|(at, _)| id(at));
            let holders: BTreeSet<_> = holders.collect();
            let counted = [Some(&self.members), self.members_before.as_ref()];
            if !counted.into_iter().flatten().all(|members| members.voters().is_quorum(holders.iter().copied())) {
                return Err(format!(
                    "server {} calls {now} committed, but the disks that hold it are no quorum: {holders:?}",
                    server + 1
                ));
            }
        }
        Ok(())
    }

    /// A server calls an entry committed: either it is in the history already, or it is the next one.
    fn commits(&mut self, server: usize, known: Zxid, entry: &Entry) -> CheckResult {
        if entry.zxid <= known {
            return self.history.check_entry(server, entry);
        }
        self.leaders.was_proposed(entry)?;
        let change = (State::MEMBERS_OF.0)(&entry.body);
        self.members_before = change.map(|members| std::mem::replace(&mut self.members, members));
        match &mut self.service {
            _ if entry.zxid <= self.preloaded => {}
            None => self.guarantees.committed(entry, &self.history)?,
            Some(service) => service.committed(entry)?,
        }
        self.history.push(server, entry, self.service.as_ref().map(Service::digest))
    }

    fn check_state(&mut self, server: usize, node: &Node<State>) -> CheckResult {
        let applied = node.applied();
        self.progress[server].applied = applied;
        self.history.check_digest(server, applied, node.machine().digest())
    }

    /// A server submits an operation to its disk.
    pub(crate) fn writes(&mut self, server: usize, op: &DiskOp, image: &Image) -> CheckResult {
        if let DiskOp::Append(entries) = op {
            entries.iter().try_for_each(|entry| self.leaders.proposed(server, entry))?;
        }
        self.logs.writes(server, op, &self.history, image)
    }

    /// All effects of a step have been executed.
    pub(crate) fn wrote(&self, server: usize, node: &Node<State>) -> CheckResult {
        self.logs.check_memory(server, node.zab().log().last())
    }

    /// A server sends a message of the agreement.
    pub(crate) fn sends(&mut self, server: usize, message: &Message, image: &Image) -> CheckResult {
        self.acks.check_message(server, message, image)
    }
}

/// Checks that a serving server shows its clients nothing that is not on its own disk: after a crash it would know less
/// than they do. (A snapshot being installed is in memory first, but the server does not serve meanwhile.)
fn check_served_is_durable<'a>(
    server: usize,
    node: &Node<State>,
    mut images: impl Iterator<Item = &'a Image>,
) -> CheckResult {
    let (applied, image) = (node.applied(), images.nth(server));
    match image.filter(|image| node.zab().serving_epoch().is_some() && !image.contains(applied)) {
        None => Ok(()),
        Some(image) => Err(format!("server {} serves at {applied}, its disk ends at {}", server + 1, image.last())),
    }
}
