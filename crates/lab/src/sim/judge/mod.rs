//! The judge: looks at every step and says whether anything happened that must never happen.
//!
//! In: steps, writes, messages, answers. Out: nothing, or a sentence with both values.
//! Why incremental: only the server that stepped is compared, and only what is new, with one history that all share.
//!
//! | invariant of ZAB.md | where |
//! | --- | --- |
//! | prefix consistency, agreement, total order, integrity, contiguous zxids | `history` |
//! | local and global primary order, primary integrity, one established leader an epoch | `leaders` |
//! | memory never ahead of disk for what is acknowledged, promises, `current_epoch <= accepted_epoch` | `acks` |
//! | nor for what is served | here |
//! | committed is never cut, memory and disk hold the same log | `logs` |
//! | equal digest at equal zxid | `history` (against one model) |
//! | no acknowledged write lost, exactly once, per-session order, linearizable, reads never go back | `promises`, `service` |
//! | ephemerals go once, with their session or before it | `ephemerals` |
//! | a session expires only after its whole timeout without a word | `sessions`; what clients believe: `zoo` |
//! | watches exactly once across reconnects, and before the read that shows the change | `watches` |

mod acks;
mod ephemerals;
mod history;
mod leaders;
mod logs;
mod promises;
mod service;
mod sessions;
mod watches;

use pole_election::{Epoch, Zxid};
use pole_node::{Machine, Node};
use pole_zab::{DiskOp, Entry, Message, Phase};

use super::disk::Image;
use super::state::State;

pub(crate) use promises::{Asked, Heard};
pub(crate) use service::{Service, split};
pub(crate) use sessions::Words;
pub(crate) use watches::{Kind, Watched};

/// What went wrong.
pub(crate) type Verdict = Result<(), String>;

/// Everything that is checked while a simulation runs.
#[derive(Debug)]
pub(crate) struct Judge {
    pub(crate) history: history::History,
    pub(crate) promises: promises::Promises,
    /// What clients of the service were promised; none: the state machine is the small one.
    pub(crate) service: Option<Service>,
    pub(crate) words: sessions::Words,
    leaders: leaders::Leaders,
    acks: acks::Acks,
    logs: logs::Logs,
    /// Of each server: how far it was compared.
    seen: Vec<Seen>,
    quorum: usize,
    /// The server that lost its disk last, until it serves again: it may have acknowledged what it no longer has.
    wiped: Option<usize>,
    /// The end of the history with which the world began: nobody asked for what is in it.
    inherited: Zxid,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    committed: Zxid,
    applied: Zxid,
    established: Option<Epoch>,
}

impl Judge {
    pub(crate) fn new(servers: usize, is_service: bool) -> Self {
        let service = is_service.then(Service::new);
        Self {
            history: history::History::new(service.as_ref().map_or(0, Service::digest)),
            promises: promises::Promises::new(),
            service,
            words: sessions::Words::new(servers),
            leaders: leaders::Leaders::new(),
            acks: acks::Acks::new(servers),
            logs: logs::Logs::new(servers),
            seen: vec![Seen::default(); servers],
            quorum: servers / 2 + 1,
            wiped: None,
            inherited: Zxid::ZERO,
        }
    }

    /// The world begins with a history, proposed in an epoch of its own.
    pub(crate) fn inherits(&mut self, entries: Vec<Entry>) {
        self.inherited = entries.last().map_or(Zxid::ZERO, |entry| entry.zxid);
        self.leaders.inherits(entries);
    }

    /// A server starts with what its disk had.
    pub(crate) fn started(&mut self, server: usize, node: &Node<State>, image: &Image) -> Verdict {
        self.seen[server] = Seen::default();
        self.logs.started(server, node.zab().log());
        if image.current_epoch > image.accepted_epoch {
            return Err(format!(
                "server {} starts with current epoch {} above accepted epoch {}",
                server + 1,
                image.current_epoch,
                image.accepted_epoch
            ));
        }
        self.state_is_right(server, node)
    }

    /// A server lost its disk: it does not know what it promised.
    pub(crate) fn wiped(&mut self, server: usize) {
        self.acks.wiped(server);
        self.wiped = Some(server);
    }

    /// A server took a step; its effects are not carried out yet.
    pub(crate) fn stepped<'a>(
        &mut self,
        server: usize,
        node: &Node<State>,
        images: impl Iterator<Item = &'a Image> + Clone,
    ) -> Verdict {
        let zab = node.zab();
        zab.assert_invariants();
        if self.wiped == Some(server) && zab.serving_epoch().is_some() {
            self.wiped = None;
        }
        let established = (zab.phase() == Phase::Established).then(|| zab.standing().current_epoch);
        if established != self.seen[server].established {
            self.seen[server].established = established;
            if let Some(epoch) = established {
                self.leaders.established(server, epoch, zab.log(), &self.history)?;
            }
        }
        if zab.committed() != self.seen[server].committed {
            self.committed(server, node, images.clone())?;
        }
        if node.applied() != self.seen[server].applied {
            self.state_is_right(server, node)?;
            serves_what_is_durable(server, node, images)?;
        }
        Ok(())
    }

    fn committed<'a>(&mut self, server: usize, node: &Node<State>, images: impl Iterator<Item = &'a Image>) -> Verdict {
        let (before, now, log) = (self.seen[server].committed, node.zab().committed(), node.zab().log());
        if now < before {
            return Err(format!("server {} knew {before} to be committed, now only {now}", server + 1));
        }
        self.seen[server].committed = now;
        let known = self.history.last();
        // What a server has applied it may let go of in the same step; what it appended was compared when it was. (A
        // snapshot that was just installed ends within the history, and the digest speaks for what it covers.)
        let let_go = if log.base() > known { now.min(log.base()) } else { Zxid::ZERO };
        for zxid in self.logs.between(server, before, let_go).to_vec() {
            let entry = self.leaders.proposal(zxid).cloned();
            let entry = entry.ok_or_else(|| format!("server {} commits {zxid}, which nobody proposed", server + 1))?;
            self.commits(server, known, &entry)?;
        }
        for entry in log.between(before, now) {
            self.commits(server, known, entry)?;
        }
        self.history.reaches(server, now)?;
        if now > known {
            let wiped = usize::from(self.wiped.is_some());
            let holders = images.filter(|image| image.contains(now)).count() + wiped;
            if holders < self.quorum {
                return Err(format!(
                    "server {} calls {now} committed, but {holders} disks hold it and {} must",
                    server + 1,
                    self.quorum
                ));
            }
        }
        Ok(())
    }

    /// A server calls an entry committed: others did before, or it is the next of the history.
    fn commits(&mut self, server: usize, known: Zxid, entry: &Entry) -> Verdict {
        if entry.zxid <= known {
            return self.history.agrees(server, entry);
        }
        self.leaders.was_proposed(entry)?;
        match &mut self.service {
            _ if entry.zxid <= self.inherited => {}
            None => self.promises.committed(entry, &self.history)?,
            Some(service) => service.committed(entry)?,
        }
        self.history.push(server, entry, self.service.as_ref().map(Service::digest))
    }

    fn state_is_right(&mut self, server: usize, node: &Node<State>) -> Verdict {
        let applied = node.applied();
        self.seen[server].applied = applied;
        self.history.has_digest(server, applied, node.machine().digest())
    }

    /// A server hands an operation to its disk.
    pub(crate) fn writes(&mut self, server: usize, op: &DiskOp, image: &Image) -> Verdict {
        if let DiskOp::Append(entries) = op {
            entries.iter().try_for_each(|entry| self.leaders.proposed(server, entry))?;
        }
        self.logs.writes(server, op, &self.history, image)
    }

    /// All effects of a step are carried out.
    pub(crate) fn wrote(&self, server: usize, node: &Node<State>) -> Verdict {
        self.logs.agree(server, node.zab().log().last())
    }

    /// A message of the agreement leaves a server.
    pub(crate) fn sends(&mut self, server: usize, message: &Message, image: &Image) -> Verdict {
        self.acks.sends(server, message, image)
    }
}

/// Whoever serves shows its clients nothing that its own disk has not: after a crash it would know less than they do.
/// (A snapshot being installed is in memory first; nobody is served meanwhile.)
fn serves_what_is_durable<'a>(
    server: usize,
    node: &Node<State>,
    mut images: impl Iterator<Item = &'a Image>,
) -> Verdict {
    let (applied, image) = (node.applied(), images.nth(server));
    match image.filter(|image| node.zab().serving_epoch().is_some() && !image.contains(applied)) {
        None => Ok(()),
        Some(image) => Err(format!("server {} serves at {applied}, its disk ends at {}", server + 1, image.last())),
    }
}
