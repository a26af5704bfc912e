//! Measures the bandwidth of a link by the transfers of history received over it.
//!
//! The oracle `recovery` needs the bandwidth, and no other message between servers is large enough to measure it. The
//! first piece starts the clock and is not counted, since it is not known when it was sent.

use alloc::collections::BTreeMap;
use pole_types::{ServerId, Span, Time};

/// Transfers under way, by sender.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transfers(BTreeMap<ServerId, Transfer>);

#[derive(Clone, Debug)]
struct Transfer {
    since: Time,
    last: Time,
    bytes: u64,
}

impl Transfers {
    /// Records a piece of a log or a snapshot.
    pub(crate) fn piece(&mut self, from: ServerId, bytes: usize, now: Time) {
        match self.0.get_mut(&from) {
            Some(transfer) => (transfer.last, transfer.bytes) = (now, transfer.bytes + bytes as u64),
            None => drop(self.0.insert(from, Transfer { since: now, last: now, bytes: 0 })),
        }
    }

    /// Ends a transfer. Returns the bytes after the first piece, and how long they took.
    pub(crate) fn end(&mut self, from: ServerId) -> Option<(u64, Span)> {
        self.0.remove(&from).map(|transfer| (transfer.bytes, transfer.last - transfer.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_is_timed_from_its_first_piece_to_its_last_and_others_do_not_mix_in() {
        let (mut transfers, a, b) = (Transfers::default(), ServerId(1), ServerId(2));
        let ms = |ms: u64| Time(ms * 1_000_000);
        transfers.piece(a, 500, ms(10));
        transfers.piece(b, 100, ms(11));
        transfers.piece(a, 1_000, ms(20));
        transfers.piece(a, 1_000, ms(30));
        assert_eq!(transfers.end(a), Some((2_000, Span::from_ms(20))));
        assert_eq!(transfers.end(a), None);
        assert_eq!(transfers.end(b), Some((0, Span::ZERO)));
    }
}
