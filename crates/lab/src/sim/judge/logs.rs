//! Logs: what a server hands to its disk is contiguous, is what it holds in memory, and never cuts what is committed.

use pole_election::Zxid;
use pole_zab::{DiskOp, Log};

use super::Verdict;
use super::history::History;
use crate::sim::disk::Image;

/// The log of each server, counting operations that its disk has not carried out yet.
#[derive(Debug)]
pub(crate) struct Logs {
    servers: Vec<Shadow>,
}

/// One log as positions. A server lets go of entries in memory; this does not.
#[derive(Clone, Debug, Default)]
struct Shadow {
    /// Where it ended when the server started, or was given a snapshot.
    base: Zxid,
    appended: Vec<Zxid>,
}

impl Shadow {
    fn last(&self) -> Zxid {
        self.appended.last().copied().unwrap_or(self.base)
    }

    fn starts_at(&mut self, base: Zxid) {
        self.base = base;
        self.appended.clear();
    }
}

impl Logs {
    pub(crate) fn new(servers: usize) -> Self {
        Self { servers: vec![Shadow::default(); servers] }
    }

    pub(crate) fn started(&mut self, server: usize, log: &Log) {
        let shadow = &mut self.servers[server];
        shadow.starts_at(log.base());
        shadow.appended.extend(log.between(log.base(), log.last()).map(|entry| entry.zxid));
    }

    /// The positions of a server's log above `after` up to `through`.
    pub(crate) fn between(&self, server: usize, after: Zxid, through: Zxid) -> &[Zxid] {
        let appended = &self.servers[server].appended;
        let from = appended.partition_point(|z| *z <= after);
        let to = appended.partition_point(|z| *z <= through).max(from);
        &appended[from..to]
    }

    pub(crate) fn writes(&mut self, server: usize, op: &DiskOp, history: &History, image: &Image) -> Verdict {
        let shadow = &mut self.servers[server];
        match op {
            DiskOp::Append(entries) => {
                for entry in entries {
                    let (before, next) = (shadow.last(), entry.zxid);
                    let same = next.epoch() == before.epoch() && next.counter() == before.counter() + 1;
                    let later = next.epoch() > before.epoch() && next.counter() == 1;
                    if !same && !later {
                        return Err(format!("server {} appends {next} after {before}", server + 1));
                    }
                    shadow.appended.push(next);
                }
            }
            DiskOp::Truncate { to } => {
                // The histories agree up to the first difference, so it is enough to look at what follows the cut.
                if let Some(lost) = history.after(*to).filter(|entry| image.log_holds(entry.zxid)) {
                    return Err(format!("server {} cuts the committed {} off its disk", server + 1, lost.zxid));
                }
                shadow.appended.truncate(shadow.appended.partition_point(|z| z <= to));
            }
            DiskOp::Install { zxid } => {
                history.reaches(server, *zxid)?;
                if let Some(lost) = history.after(*zxid).filter(|entry| image.log_holds(entry.zxid)) {
                    return Err(format!(
                        "server {} replaces the committed {} on its disk by a snapshot at {}",
                        server + 1,
                        lost.zxid,
                        zxid
                    ));
                }
                shadow.starts_at(*zxid);
            }
            DiskOp::Checkpoint(snapshot) => history.reaches(server, snapshot.zxid)?,
            DiskOp::AcceptedEpoch(_) | DiskOp::CurrentEpoch(_) | DiskOp::TakeOver(_) | DiskOp::Receive { .. } => {}
        }
        Ok(())
    }

    pub(crate) fn agree(&self, server: usize, memory: Zxid) -> Verdict {
        let last = self.servers[server].last();
        match last == memory {
            true => Ok(()),
            false => Err(format!(
                "server {} has a log up to {memory} in memory and up to {last} on its way to the disk",
                server + 1,
            )),
        }
    }
}
