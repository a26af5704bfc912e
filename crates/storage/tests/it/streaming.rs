//! Committed entries are applied to the state while the log is read, and are not kept.

use bytes::Bytes;
use pole_storage::{Config, Recovered, State, open, open_into};
use pole_types::Zxid;
use pole_zab::{DiskOp, Entry};
use std::fs;

use crate::scratch::{Scratch, append, perform, snapshot, zxid, zxids};

/// A state that records what it was given.
#[derive(Debug, Default)]
struct RecordingState {
    base: Option<Zxid>,
    restored: Vec<u8>,
    longest_piece: usize,
    applied: Vec<Zxid>,
}

impl State for RecordingState {
    fn clear(&mut self) {
        *self = Self::default();
    }

    fn restore(&mut self, piece: Bytes) -> Result<(), String> {
        self.restored.extend_from_slice(&piece);
        self.longest_piece = self.longest_piece.max(piece.len());
        Ok(())
    }

    fn restored(&mut self, zxid: Zxid) -> Result<(), String> {
        self.base = Some(zxid);
        Ok(())
    }

    fn apply(&mut self, entry: &Entry) -> Result<(), String> {
        self.applied.push(entry.zxid);
        Ok(())
    }
}

fn rebuild(config: Config) -> (RecordingState, Recovered, (u64, u64)) {
    let mut state = RecordingState::default();
    let (disk, recovered, _) = open_into(config, &mut state).unwrap();
    (state, recovered, disk.replayed())
}

fn range(counters: std::ops::RangeInclusive<u32>) -> Vec<Zxid> {
    counters.map(|counter| zxid(1, counter)).collect()
}

/// Ten entries above a snapshot at the third, committed up to the eighth.
fn ten() -> Scratch {
    let scratch = Scratch::new();
    let (mut disk, _, _) = scratch.open();
    perform(&mut disk, vec![append(1, 1..=5, 100), DiskOp::Checkpoint(snapshot(zxid(1, 3), b"state"))]);
    disk.finish_checkpoints();
    disk.note_committed(zxid(1, 8));
    perform(&mut disk, vec![append(1, 6..=10, 100)]);
    scratch
}

#[test]
fn committed_entries_are_applied_to_the_state_and_the_others_are_returned() {
    let scratch = ten();
    let (state, recovered, (transactions, bytes)) = rebuild(Config { retain_bytes: 0, ..scratch.config() });
    assert_eq!((state.base, state.applied), (Some(zxid(1, 3)), range(4..=8)));
    assert_eq!((recovered.snapshot_zxid(), zxids(&recovered)), (zxid(1, 8), range(9..=10)));
    assert_eq!((transactions, bytes), (5, 5 * 132));
    // For followers that are a little behind, entries are kept up to the memory limit.
    let (_, recovered, _) = rebuild(scratch.config());
    assert_eq!((recovered.snapshot_zxid(), zxids(&recovered)), (zxid(1, 8), range(1..=10)));
}

#[test]
fn a_large_snapshot_is_restored_in_pieces() {
    let scratch = Scratch::new();
    let body: &'static [u8] = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect::<Vec<_>>().leak();
    let (mut disk, _, _) = scratch.open();
    perform(&mut disk, vec![append(1, 1..=3, 100), DiskOp::Checkpoint(snapshot(zxid(1, 3), body))]);
    disk.finish_checkpoints();
    drop(disk);
    let (state, recovered, _) = rebuild(scratch.config());
    assert!(state.restored == body && state.longest_piece <= 256 << 10, "{} bytes", state.longest_piece);
    assert_eq!(recovered.snapshot_zxid(), zxid(1, 3));
    // Without a `State` the whole body is returned.
    let (_, recovered, _) = scratch.open();
    assert!(recovered.snapshot.is_some_and(|snapshot| snapshot.body.to_bytes() == body));
}

#[test]
fn a_standalone_server_keeps_no_log() {
    let scratch = ten();
    let (state, recovered, _) = rebuild(Config { retain_bytes: 0, alone: true, ..scratch.config() });
    assert_eq!((state.applied, zxids(&recovered)), (range(4..=10), vec![]));
    assert_eq!(recovered.standing().last_zxid, zxid(1, 10));
    let (mut disk, _, _) = scratch.open();
    perform(&mut disk, vec![append(1, 11..=11, 100)]);
}

#[test]
fn without_a_progress_record_only_the_snapshot_is_committed() {
    let scratch = ten();
    scratch.forget_progress();
    let (state, recovered, _) = rebuild(Config { retain_bytes: 0, ..scratch.config() });
    assert_eq!((state.applied, recovered.snapshot_zxid(), zxids(&recovered)), (vec![], zxid(1, 3), range(4..=10)));
}

/// The log files to which the lock file refers were replaced by others.
#[test]
fn the_committed_position_of_another_log_is_ignored() {
    let (scratch, other) = (ten(), Scratch::new());
    other.write(vec![append(1, 1..=4, 100), append(2, 1..=9, 100)]);
    fs::remove_file(scratch.file("log.100000001")).unwrap();
    fs::remove_file(scratch.file("log.100000006")).unwrap();
    fs::copy(other.file("log.100000001"), scratch.file("log.100000001")).unwrap();
    // The mark refers to a file that is no longer the newest, and to a position that this log does not contain.
    let (mut disk, _, _) = open(Config { ..other.config() }).unwrap();
    perform(&mut disk, vec![append(3, 1..=1, 100)]);
    drop(disk);
    fs::copy(other.file("log.300000001"), scratch.file("log.300000001")).unwrap();
    let (state, recovered, _) = rebuild(Config { retain_bytes: 0, ..scratch.config() });
    assert_eq!((state.applied, recovered.snapshot_zxid()), (vec![], zxid(1, 3)));
    assert_eq!(recovered.entries.len(), 1 + 9 + 1);
}
