//! The committed history: one for the whole ensemble, extended by whoever commits first, compared by all others.
//!
//! Prefix consistency and agreement: what a server calls committed is what stands here. Total order: it only grows at
//! its end. Contiguity: the next counter, or the first of a later epoch. Digests: of one model that applies it.

use pole_election::{Epoch, Zxid};
use pole_node::Machine;
use pole_zab::{Entry, SessionId};

use super::Verdict;
use crate::kv::{Ask, Key, Kv, Txn, Value};

/// What is committed.
#[derive(Debug)]
pub(crate) struct History {
    entries: Vec<Entry>,
    /// After each entry.
    digests: Vec<u64>,
    /// Before the first.
    blank: u64,
    /// Where each epoch begins.
    epochs: Vec<(Epoch, usize)>,
    model: Kv,
    /// Of each key: from which place of the history on it held what.
    timelines: std::collections::BTreeMap<Key, Vec<(usize, Option<Value>)>>,
}

impl History {
    /// Of a state that has this digest before the first entry.
    pub(crate) fn new(blank: u64) -> Self {
        let (entries, digests, epochs) = (Vec::new(), Vec::new(), Vec::new());
        Self { entries, digests, blank, epochs, model: Kv::new(), timelines: std::collections::BTreeMap::new() }
    }

    pub(crate) fn last(&self) -> Zxid {
        self.entries.last().map_or(Zxid::ZERO, |e| e.zxid)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn entry(&self, zxid: Zxid) -> Option<&Entry> {
        self.place(zxid).map(|at| &self.entries[at])
    }

    /// The committed entry after `zxid`, if there is one: `zxid` itself need not be committed.
    pub(crate) fn after(&self, zxid: Zxid) -> Option<&Entry> {
        self.entries.get(self.entries.partition_point(|e| e.zxid <= zxid))
    }

    /// The last committed position of all epochs before this one.
    pub(crate) fn last_before(&self, epoch: Epoch) -> Zxid {
        let end = self.epochs.iter().find(|(e, _)| *e >= epoch).map_or(self.entries.len(), |(_, at)| *at);
        end.checked_sub(1).map_or(Zxid::ZERO, |at| self.entries[at].zxid)
    }

    /// What a request becomes after all that is committed.
    pub(crate) fn decides(&self, ask: Ask, session: SessionId) -> Txn {
        self.model.decide(ask, session)
    }

    /// What a key held after `zxid`.
    pub(crate) fn value_at(&self, key: Key, zxid: Zxid) -> Option<Value> {
        let place = self.place(zxid)?;
        let timeline = self.timelines.get(&key)?;
        let after = timeline.partition_point(|(at, _)| *at <= place);
        timeline.get(after.checked_sub(1)?)?.1
    }

    /// The next entry, committed first by `server`, and the digest after it; none: that of the small model.
    pub(crate) fn push(&mut self, server: usize, entry: &Entry, digest: Option<u64>) -> Verdict {
        let (last, next) = (self.last(), entry.zxid);
        let same = next.epoch() == last.epoch() && next.counter() == last.counter() + 1;
        let later = next.epoch() > last.epoch() && next.counter() == 1;
        if !same && !later {
            return Err(format!("server {} commits {next} after {last}: the history has a hole", server + 1));
        }
        if later {
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

    /// An entry that a server calls committed is the one that stands here.
    pub(crate) fn agrees(&self, server: usize, entry: &Entry) -> Verdict {
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

    /// A position that a server calls committed exists.
    pub(crate) fn reaches(&self, server: usize, zxid: Zxid) -> Verdict {
        match zxid == Zxid::ZERO || self.place(zxid).is_some() {
            true => Ok(()),
            false => Err(format!("server {} calls {zxid} committed, the history ends at {}", server + 1, self.last())),
        }
    }

    /// The state of a server after `zxid` is that of the model.
    pub(crate) fn has_digest(&self, server: usize, zxid: Zxid, digest: u64) -> Verdict {
        let expected = match self.place(zxid) {
            Some(at) => self.digests[at],
            None if zxid == Zxid::ZERO => self.blank,
            None => return self.reaches(server, zxid),
        };
        match digest == expected {
            true => Ok(()),
            false => {
                Err(format!("server {} has digest {digest:#x} at {zxid}, the history gives {expected:#x}", server + 1))
            }
        }
    }

    fn place(&self, zxid: Zxid) -> Option<usize> {
        let at = self.epochs.binary_search_by_key(&zxid.epoch(), |(epoch, _)| *epoch).ok()?;
        let place = self.epochs[at].1 + (zxid.counter() as usize).checked_sub(1)?;
        (self.entries.get(place)?.zxid == zxid).then_some(place)
    }
}
