//! Checks leaders: at most one is established per epoch, each has everything that was committed before, and every
//! transaction is proposed by the one leader of its epoch.
//!
//! - Integrity and local primary order: an entry appears first at the leader of its epoch, and one zxid is one entry.
//! - Global primary order and primary integrity: a leader starts with the whole committed history in its log.

use std::collections::BTreeMap;

use pole_types::{Epoch, Zxid};
use pole_zab::{Entry, Log};

use super::CheckResult;
use super::history::History;

/// The leader and the proposals of each epoch.
#[derive(Debug)]
pub(crate) struct Leaders {
    by_epoch: BTreeMap<Epoch, usize>,
    /// Proposals in order, by epoch.
    proposals: BTreeMap<Epoch, Vec<Entry>>,
}

impl Leaders {
    pub(crate) fn new() -> Self {
        Self { by_epoch: BTreeMap::new(), proposals: BTreeMap::new() }
    }

    /// Adds proposals that were made before the simulation started.
    pub(crate) fn preload(&mut self, entries: Vec<Entry>) {
        if let Some(first) = entries.first() {
            self.proposals.insert(first.zxid.epoch(), entries);
        }
    }

    pub(crate) fn established(&mut self, server: usize, epoch: Epoch, log: &Log, history: &History) -> CheckResult {
        if let Some(other) = self.by_epoch.insert(epoch, server) {
            return Err(format!("servers {} and {} were both established in epoch {epoch}", other + 1, server + 1));
        }
        // A leader may learn of its establishment when a later one already commits; only entries before its own epoch
        // count then.
        let committed = history.last_before(epoch);
        if log.last() < committed || (committed != Zxid::ZERO && committed > log.base() && !log.reaches(committed)) {
            return Err(format!(
                "server {} is established in epoch {epoch} with a log that ends at {}, without the committed {committed}",
                server + 1,
                log.last(),
            ));
        }
        Ok(())
    }

    /// Checks an append: an entry must appear at the leader of its epoch before it appears on any other server.
    pub(crate) fn proposed(&mut self, server: usize, entry: &Entry) -> CheckResult {
        let (epoch, zxid) = (entry.zxid.epoch(), entry.zxid);
        let proposals = self.proposals.entry(epoch).or_default();
        let index = zxid.counter() as usize - 1;
        match proposals.get(index) {
            Some(first) if first == entry => Ok(()),
            Some(first) => {
                Err(format!("two transactions at {zxid}: {first:?} and, on server {}, {entry:?}", server + 1))
            }
            None if self.by_epoch.get(&epoch) == Some(&server) && proposals.len() == index => {
                proposals.push(entry.clone());
                Ok(())
            }
            None => Err(format!(
                "server {} logs {zxid}, which no leader proposed (epoch led by {:?}, {} proposals)",
                server + 1,
                self.by_epoch.get(&epoch).map(|s| s + 1),
                proposals.len(),
            )),
        }
    }

    pub(crate) fn proposal(&self, zxid: Zxid) -> Option<&Entry> {
        self.proposals.get(&zxid.epoch())?.get((zxid.counter() as usize).checked_sub(1)?)
    }

    pub(crate) fn was_proposed(&self, entry: &Entry) -> CheckResult {
        let proposal = self.proposal(entry.zxid);
        match proposal == Some(entry) {
            true => Ok(()),
            false => Err(format!("{entry:?} is committed, but {proposal:?} was proposed")),
        }
    }
}
