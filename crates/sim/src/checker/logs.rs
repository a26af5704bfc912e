//! Checks logs: what a server writes to its disk is contiguous, equals its log in memory, and never truncates committed
//! entries.

use pole_types::Zxid;
use pole_zab::{DiskOp, Log};

use super::CheckResult;
use super::history::History;
use crate::disk::Image;

/// The log of each server, including operations that its disk has not finished.
#[derive(Debug)]
pub(crate) struct Logs {
    servers: Vec<ShadowLog>,
}

/// The positions in one log. Unlike the server, it does not drop old entries.
#[derive(Clone, Debug, Default)]
struct ShadowLog {
    /// The position before the first entry: the base of the log at start, or of the installed snapshot.
    base: Zxid,
    appended: Vec<Zxid>,
}

impl ShadowLog {
    fn last(&self) -> Zxid {
        self.appended.last().copied().unwrap_or(self.base)
    }

    fn reset(&mut self, base: Zxid) {
        self.base = base;
        self.appended.clear();
    }
}

impl Logs {
    pub(crate) fn new(servers: usize) -> Self {
        Self { servers: vec![ShadowLog::default(); servers] }
    }

    pub(crate) fn started(&mut self, server: usize, log: &Log) {
        let shadow = &mut self.servers[server];
        shadow.reset(log.base());
        shadow.appended.extend(log.between(log.base(), log.last()).map(|entry| entry.zxid));
    }

    /// The positions in a server's log above `after` up to `through`.
    pub(crate) fn between(&self, server: usize, after: Zxid, through: Zxid) -> &[Zxid] {
        let appended = &self.servers[server].appended;
        let from = appended.partition_point(|z| *z <= after);
        let to = appended.partition_point(|z| *z <= through).max(from);
        &appended[from..to]
    }

    pub(crate) fn writes(&mut self, server: usize, op: &DiskOp, history: &History, image: &Image) -> CheckResult {
        let shadow = &mut self.servers[server];
        match op {
            DiskOp::Append(entries) => {
                for entry in entries {
                    let (before, next) = (shadow.last(), entry.zxid);
                    let next_counter = next.epoch() == before.epoch() && next.counter() == before.counter() + 1;
                    let next_epoch = next.epoch() > before.epoch() && next.counter() == 1;
                    if !next_counter && !next_epoch {
                        return Err(format!("server {} appends {next} after {before}", server + 1));
                    }
                    shadow.appended.push(next);
                }
            }
            DiskOp::Truncate { to } => {
                // The histories agree up to the first difference, so checking the first entry after the cut is enough.
                if let Some(lost) = history.after(*to).filter(|entry| image.log_holds(entry.zxid)) {
                    return Err(format!("server {} cuts the committed {} off its disk", server + 1, lost.zxid));
                }
                shadow.appended.truncate(shadow.appended.partition_point(|z| z <= to));
            }
            DiskOp::Install { zxid } => {
                history.check_position(server, *zxid)?;
                if let Some(lost) = history.after(*zxid).filter(|entry| image.log_holds(entry.zxid)) {
                    return Err(format!(
                        "server {} replaces the committed {} on its disk by a snapshot at {}",
                        server + 1,
                        lost.zxid,
                        zxid
                    ));
                }
                shadow.reset(*zxid);
            }
            DiskOp::Checkpoint(snapshot) => history.check_position(server, snapshot.zxid)?,
            DiskOp::AcceptedEpoch(_) | DiskOp::CurrentEpoch(_) | DiskOp::TakeOver(_) | DiskOp::Receive { .. } => {}
        }
        Ok(())
    }

    pub(crate) fn check_memory(&self, server: usize, memory: Zxid) -> CheckResult {
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
