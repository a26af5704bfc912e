//! Target `learner`: what a leader of Apache ZooKeeper sends to an observer of `pole migrate`.
//!
//! Properties: the result does not depend on where the stream is split; committed transactions have no gap and never go
//! back; memory is bounded by the limits.

use pole_migrate::{Effect, Learner, Limits, Start};
use pole_types::{Epoch, ServerId, Zxid};

/// The input is the stream.
pub(crate) fn learners(input: &[u8]) {
    // Two observers: one that needs the state, and one that is in the middle of an epoch.
    for (accepted, last) in [(0, Zxid::ZERO), (1, Zxid(0x1_0000_0005))] {
        let start = Start { id: ServerId(99), accepted: Epoch(accepted), current: last.epoch(), last };
        let whole = run(start, input, input.len().max(1));
        let split = run(start, input, 7);
        match (whole, split) {
            (Ok(whole), Ok(split)) => assert_eq!(whole, split),
            // The effects of the call that fails are lost, and pieces are more calls.
            (Err(_), Err(split)) => assert!(split.windows(2).all(|pair| pair[0] < pair[1])),
            (whole, split) => panic!("whole: {whole:?}, in pieces: {split:?}"),
        }
    }
}

/// The committed transactions, after the end or before the error.
fn run(start: Start, input: &[u8], piece: usize) -> Result<Vec<Zxid>, Vec<Zxid>> {
    let limits = Limits { packet_bytes_max: 1 << 16, state_bytes_max: 1 << 20, proposals_max: 100 };
    let (mut learner, _) = Learner::new(start, limits);
    let mut committed: Vec<Zxid> = Vec::new();
    for piece in input.chunks(piece) {
        let Ok(effects) = learner.receive(piece) else { return Err(committed) };
        for effect in effects {
            match effect {
                Effect::Commit(entry) => {
                    assert!(committed.last().is_none_or(|last| *last < entry.zxid), "{committed:?}, {}", entry.zxid);
                    committed.push(entry.zxid);
                }
                // What comes after is committed again, or another history.
                Effect::Truncate(_) | Effect::Restore(..) => committed.clear(),
                Effect::Send(_)
                | Effect::Accept(_)
                | Effect::Reapply(_)
                | Effect::Adopt { .. }
                | Effect::Changed
                | Effect::UpToDate
                | Effect::Proposed(_) => {}
            }
        }
    }
    Ok(committed)
}
