//! The operations under way: at most one for each purpose, with the time at which it was sent.

use std::collections::BTreeMap;

use pole_types::Time;

use super::event::{OpId, Slot};

#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    last: u64,
    pending: BTreeMap<Slot, (u64, Time)>,
}

impl Slots {
    /// The id of a new operation, sent now. An earlier one of that slot is no longer waited for.
    pub(super) fn begin(&mut self, slot: Slot, now: Time) -> OpId {
        self.last += 1;
        if slot != Slot::Withdraw {
            self.pending.insert(slot, (self.last, now));
        }
        OpId { slot, number: self.last }
    }

    /// When the operation was sent, if its answer is still waited for.
    pub(super) fn end(&mut self, id: OpId) -> Option<Time> {
        let (_, sent) = *self.pending.get(&id.slot).filter(|(number, _)| *number == id.number)?;
        self.pending.remove(&id.slot);
        Some(sent)
    }

    pub(super) fn is_busy(&self, slot: Slot) -> bool {
        self.pending.contains_key(&slot)
    }

    /// Ignores the answer of the operation of that slot.
    pub(super) fn forget(&mut self, slot: Slot) {
        self.pending.remove(&slot);
    }
}
