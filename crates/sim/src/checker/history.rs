//! The committed history: one for the whole ensemble, extended by the first server that commits, compared by all
//! others.
//!
//! - Prefix consistency and agreement: what a server calls committed is what is recorded here.
//! - Total order: the history only grows at its end.
//! - Contiguity: each entry has the next counter, or the first one of a later epoch.
//! - Digests: those of one model that applies the history.

use pole_node::Machine;
use pole_types::{Epoch, SessionId, Zxid};
use pole_zab::Entry;

use super::CheckResult;
use crate::kv::{Key, Kv, KvRequest, Txn, Value};

#[derive(Debug)]
pub(crate) struct History {
    entries: Vec<Entry>,
    /// The digest after each entry.
    digests: Vec<u64>,
    /// The digest before the first entry.
    empty_digest: u64,
    /// The index of the first entry of each epoch.
    epochs: Vec<(Epoch, usize)>,
    model: Kv,
    /// The values of each key, with the index of the entry that set them.
    timelines: std::collections::BTreeMap<Key, Vec<(usize, Option<Value>)>>,
}

impl History {
    /// An empty history over a state with this digest.
    pub(crate) fn new(empty_digest: u64) -> Self {
        let (entries, digests, epochs) = (Vec::new(), Vec::new(), Vec::new());
        Self { entries, digests, empty_digest, epochs, model: Kv::new(), timelines: std::collections::BTreeMap::new() }
    }

    pub(crate) fn last(&self) -> Zxid {
        self.entries.last().map_or(Zxid::ZERO, |e| e.zxid)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn entry(&self, zxid: Zxid) -> Option<&Entry> {
        self.index_of(zxid).map(|at| &self.entries[at])
    }

    /// The first committed entry after `zxid`, which need not be committed itself.
    pub(crate) fn after(&self, zxid: Zxid) -> Option<&Entry> {
        self.entries.get(self.entries.partition_point(|e| e.zxid <= zxid))
    }

    /// The last committed position before this epoch.
    pub(crate) fn last_before(&self, epoch: Epoch) -> Zxid {
        let end = self.epochs.iter().find(|(e, _)| *e >= epoch).map_or(self.entries.len(), |(_, at)| *at);
        end.checked_sub(1).map_or(Zxid::ZERO, |at| self.entries[at].zxid)
    }

    /// The transaction that a request becomes on top of the history.
    pub(crate) fn expected_txn(&self, request: KvRequest, session: SessionId) -> Txn {
        self.model.decide(request, session)
    }

    /// The value of a key after `zxid`.
    pub(crate) fn value_at(&self, key: Key, zxid: Zxid) -> Option<Value> {
        let index = self.index_of(zxid)?;
        let timeline = self.timelines.get(&key)?;
        let after = timeline.partition_point(|(at, _)| *at <= index);
        timeline.get(after.checked_sub(1)?)?.1
    }

    /// Appends an entry that `server` is the first to commit, with the digest after it; none: that of the key-value
    /// model.
    pub(crate) fn push(&mut self, server: usize, entry: &Entry, digest: Option<u64>) -> CheckResult {
        let (last, next) = (self.last(), entry.zxid);
        let next_counter = next.epoch() == last.epoch() && next.counter() == last.counter() + 1;
        let next_epoch = next.epoch() > last.epoch() && next.counter() == 1;
        if !next_counter && !next_epoch {
            return Err(format!("server {} commits {next} after {last}: the history has a hole", server + 1));
        }
        if next_epoch {
            self.epochs.push((next.epoch(), self.entries.len()));
        }
        let digest = digest.map_or_else(|| self.apply(entry), Ok)?;
        self.digests.push(digest);
        self.entries.push(entry.clone());
        Ok(())
    }

    fn apply(&mut self, entry: &Entry) -> Result<u64, String> {
        if let Some(Txn::Set(_, key, value)) = Txn::decode(&entry.body) {
            self.timelines.entry(key).or_default().push((self.entries.len(), value));
        }
        self.model.apply(entry, false).map_err(|why| format!("{entry:?}: {why}"))?;
        Ok(self.model.digest())
    }

    /// Checks that an entry that a server calls committed is the recorded one.
    pub(crate) fn check_entry(&self, server: usize, entry: &Entry) -> CheckResult {
        match self.entry(entry.zxid) {
            Some(ours) if ours == entry => Ok(()),
            Some(ours) => Err(format!("server {} committed {entry:?}, others committed {ours:?}", server + 1)),
            None => Err(format!(
                "server {} committed {}, which is not in the history that ends at {}",
                server + 1,
                entry.zxid,
                self.last()
            )),
        }
    }

    /// Checks that a position that a server calls committed exists.
    pub(crate) fn check_position(&self, server: usize, zxid: Zxid) -> CheckResult {
        match zxid == Zxid::ZERO || self.index_of(zxid).is_some() {
            true => Ok(()),
            false => Err(format!("server {} calls {zxid} committed, the history ends at {}", server + 1, self.last())),
        }
    }

    /// Checks that the state of a server after `zxid` is that of the model.
    pub(crate) fn check_digest(&self, server: usize, zxid: Zxid, digest: u64) -> CheckResult {
        let expected = match self.index_of(zxid) {
            Some(at) => self.digests[at],
            None if zxid == Zxid::ZERO => self.empty_digest,
            None => return self.check_position(server, zxid),
        };
        match digest == expected {
            true => Ok(()),
            false => {
                Err(format!("server {} has digest {digest:#x} at {zxid}, the history gives {expected:#x}", server + 1))
            }
        }
    }

    fn index_of(&self, zxid: Zxid) -> Option<usize> {
        let at = self.epochs.binary_search_by_key(&zxid.epoch(), |(epoch, _)| *epoch).ok()?;
        let index = self.epochs[at].1 + (zxid.counter() as usize).checked_sub(1)?;
        (self.entries.get(index)?.zxid == zxid).then_some(index)
    }
}
