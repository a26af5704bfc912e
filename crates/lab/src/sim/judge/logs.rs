//! Logs: what a server hands to its disk is contiguous, is what it holds in memory, and never cuts what is committed.

use pole_election::Zxid;
use pole_zab::DiskOp;

use super::Verdict;
use super::history::History;
use crate::sim::disk::Image;

/// Where the log of each server ends, counting operations that its disk has not carried out yet.
#[derive(Debug)]
pub(crate) struct Logs {
    last: Vec<Zxid>,
}

impl Logs {
    pub(crate) fn new(servers: usize) -> Self {
        Self { last: vec![Zxid::ZERO; servers] }
    }

    pub(crate) fn started(&mut self, server: usize, last: Zxid) {
        self.last[server] = last;
    }

    pub(crate) fn writes(&mut self, server: usize, op: &DiskOp, history: &History, image: &Image) -> Verdict {
        let last = &mut self.last[server];
        match op {
            DiskOp::Append(entries) => {
                for entry in entries {
                    let (before, next) = (*last, entry.zxid);
                    let same = next.epoch() == before.epoch() && next.counter() == before.counter() + 1;
                    if !same && !(next.epoch() > before.epoch() && next.counter() == 1) {
                        return Err(format!("server {} appends {next} after {before}", server + 1));
                    }
                    *last = next;
                }
            }
            DiskOp::Truncate { to } => {
                // The histories agree up to the first difference, so it is enough to look at what follows the cut.
                if let Some(lost) = history.after(*to).filter(|entry| image.log_holds(entry.zxid)) {
                    return Err(format!("server {} cuts the committed {} off its disk", server + 1, lost.zxid));
                }
                *last = (*to).min(*last);
            }
            DiskOp::Install(snapshot) => {
                history.reaches(server, snapshot.zxid)?;
                if let Some(lost) = history.after(snapshot.zxid).filter(|entry| image.log_holds(entry.zxid)) {
                    return Err(format!(
                        "server {} replaces the committed {} on its disk by a snapshot at {}",
                        server + 1,
                        lost.zxid,
                        snapshot.zxid
                    ));
                }
                *last = snapshot.zxid;
            }
            DiskOp::Checkpoint(snapshot) => history.reaches(server, snapshot.zxid)?,
            DiskOp::AcceptedEpoch(_) | DiskOp::CurrentEpoch(_) | DiskOp::TakeOver(_) => {}
        }
        Ok(())
    }

    pub(crate) fn agree(&self, server: usize, memory: Zxid) -> Verdict {
        match self.last[server] == memory {
            true => Ok(()),
            false => Err(format!(
                "server {} has a log up to {memory} in memory and up to {} on its way to the disk",
                server + 1,
                self.last[server]
            )),
        }
    }
}
