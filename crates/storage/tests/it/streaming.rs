//! What is committed goes into the state while the log is read, and is not held.

use bytes::Bytes;
use pole_storage::{Config, Recovered, State, open, open_into};
use pole_zab::{DiskOp, Entry, Zxid};
use std::fs;

use crate::scratch::{Scratch, append, perform, snapshot, zxid, zxids};

/// A state that remembers what it was given.
#[derive(Debug, Default)]
struct Seen {
    base: Option<Zxid>,
    restored: Vec<u8>,
    longest_piece: usize,
    applied: Vec<Zxid>,
}

impl State for Seen {
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

fn rebuild(config: Config) -> (Seen, Recovered, (u64, u64)) {
    let mut seen = Seen::default();
    let (disk, recovered, _) = open_into(config, &mut seen).unwrap();
    (seen, recovered, disk.replayed())
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
fn what_is_committed_goes_into_the_state_and_the_rest_is_held() {
    let scratch = ten();
    let (seen, recovered, (transactions, bytes)) = rebuild(Config { retain_bytes: 0, ..scratch.config() });
    assert_eq!((seen.base, seen.applied), (Some(zxid(1, 3)), range(4..=8)));
    assert_eq!((recovered.snapshot_zxid(), zxids(&recovered)), (zxid(1, 8), range(9..=10)));
    assert_eq!((transactions, bytes), (5, 5 * 132));
    // For followers that are a little behind, as much as memory was given for.
    let (_, recovered, _) = rebuild(scratch.config());
    assert_eq!((recovered.snapshot_zxid(), zxids(&recovered)), (zxid(1, 8), range(1..=10)));
}

#[test]
fn a_large_snapshot_goes_into_the_state_in_pieces() {
    let scratch = Scratch::new();
    let body: &'static [u8] = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect::<Vec<_>>().leak();
    let (mut disk, _, _) = scratch.open();
    perform(&mut disk, vec![append(1, 1..=3, 100), DiskOp::Checkpoint(snapshot(zxid(1, 3), body))]);
    disk.finish_checkpoints();
    drop(disk);
    let (seen, recovered, _) = rebuild(scratch.config());
    assert!(seen.restored == body && seen.longest_piece <= 256 << 10, "{} bytes", seen.longest_piece);
    assert_eq!(recovered.snapshot_zxid(), zxid(1, 3));
    // Without a `State` the whole body is returned.
    let (_, recovered, _) = scratch.open();
    assert!(recovered.snapshot.is_some_and(|snapshot| snapshot.body.to_bytes() == body));
}

#[test]
fn a_server_on_its_own_holds_no_log() {
    let scratch = ten();
    let (seen, recovered, _) = rebuild(Config { retain_bytes: 0, alone: true, ..scratch.config() });
    assert_eq!((seen.applied, zxids(&recovered)), (range(4..=10), vec![]));
    assert_eq!(recovered.standing().last_zxid, zxid(1, 10));
    let (mut disk, _, _) = scratch.open();
    perform(&mut disk, vec![append(1, 11..=11, 100)]);
}

#[test]
fn without_word_of_what_is_committed_only_the_snapshot_is() {
    let scratch = ten();
    scratch.forget_progress();
    let (seen, recovered, _) = rebuild(Config { retain_bytes: 0, ..scratch.config() });
    assert_eq!((seen.applied, recovered.snapshot_zxid(), zxids(&recovered)), (vec![], zxid(1, 3), range(4..=10)));
}

/// Somebody put other log files in the place of those that the lock file speaks of.
#[test]
fn what_was_committed_in_another_log_is_not_believed_of_this_one() {
    let (scratch, other) = (ten(), Scratch::new());
    other.write(vec![append(1, 1..=4, 100), append(2, 1..=9, 100)]);
    fs::remove_file(scratch.file("log.100000001")).unwrap();
    fs::remove_file(scratch.file("log.100000006")).unwrap();
    fs::copy(other.file("log.100000001"), scratch.file("log.100000001")).unwrap();
    // As if the mark spoke of a file that is not the newest any more, and of a position that this log jumps over.
    let (mut disk, _, _) = open(Config { ..other.config() }).unwrap();
    perform(&mut disk, vec![append(3, 1..=1, 100)]);
    drop(disk);
    fs::copy(other.file("log.300000001"), scratch.file("log.300000001")).unwrap();
    let (seen, recovered, _) = rebuild(Config { retain_bytes: 0, ..scratch.config() });
    assert_eq!((seen.applied, recovered.snapshot_zxid()), (vec![], zxid(1, 3)));
    assert_eq!(recovered.entries.len(), 1 + 9 + 1);
}
