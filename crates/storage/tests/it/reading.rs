//! Reading concurrently with the writer.

use pole_storage::{Config, LogReader, SnapshotReader, open};
use pole_types::Zxid;
use pole_zab::{DiskOp, Ticket};
use std::time::Duration;

use crate::scratch::{Scratch, append, perform, receive, snapshot, zxid};

fn counters(entries: &[pole_zab::Entry]) -> Vec<u32> {
    entries.iter().map(|entry| entry.zxid.counter()).collect()
}

#[test]
fn a_growing_log_is_read_across_file_boundaries() {
    let scratch = Scratch::new();
    let (mut disk, _, _) = scratch.open();
    let (_, logs) = disk.directories();
    let mut reader = LogReader::new(&logs);
    perform(&mut disk, vec![append(1, 1..=4, 100), DiskOp::Checkpoint(snapshot(zxid(1, 4), b"state"))]);
    disk.perform(&mut vec![(Ticket(9), append(1, 5..=6, 100))]).unwrap();
    assert_eq!(counters(&reader.read(zxid(1, 1), zxid(1, 6), 1).unwrap()), [2], "at least one");
    assert_eq!(counters(&reader.read(zxid(1, 2), zxid(1, 6), 1 << 20).unwrap()), [3, 4], "one file at a time");
    assert_eq!(counters(&reader.read(zxid(1, 4), zxid(1, 5), 1 << 20).unwrap()), [5], "no further than asked");
    disk.perform(&mut vec![(Ticket(10), append(1, 7..=9, 100))]).unwrap();
    assert_eq!(counters(&reader.read(zxid(1, 5), zxid(1, 9), 1 << 20).unwrap()), [6], "what was there before");
    assert_eq!(counters(&reader.read(zxid(1, 6), zxid(1, 9), 1 << 20).unwrap()), [7, 8, 9]);
    assert_eq!(counters(&reader.read(zxid(1, 9), zxid(1, 9), 1 << 20).unwrap()), []);
}

#[test]
fn a_pinned_log_is_not_purged() {
    let scratch = Scratch::new();
    let config = Config { snap_retain_count: 1, purge_interval: Some(Duration::ZERO), ..scratch.config() };
    let (mut disk, _, _) = open(config).unwrap();
    let (_, logs) = disk.directories();
    disk.pins().keep(7, zxid(1, 3));
    for first in [1, 4, 7] {
        let last = zxid(1, first + 2);
        perform(&mut disk, vec![append(1, first..=first + 2, 10), DiskOp::Checkpoint(snapshot(last, b"state"))]);
        disk.finish_checkpoints();
    }
    let read = |after| counters(&LogReader::new(&logs).read(after, zxid(1, 9), 1 << 20).unwrap());
    assert_eq!(read(zxid(1, 3)), [4, 5, 6]);
    disk.pins().release(7);
    perform(&mut disk, vec![append(1, 10..=10, 10), DiskOp::Checkpoint(snapshot(zxid(1, 10), b"state"))]);
    disk.finish_checkpoints();
    assert_eq!(LogReader::new(&logs).read(Zxid::ZERO, zxid(1, 9), 1 << 20).unwrap(), []);
}

#[test]
fn a_snapshot_that_was_received_is_read_back_and_a_damaged_one_is_refused() {
    let scratch = Scratch::new();
    let at = zxid(2, 7);
    let body: &'static [u8] = vec![7; 3 << 20].leak();
    scratch.write(vec![DiskOp::AcceptedEpoch(pole_types::Epoch(2)), receive(at, body), DiskOp::Install { zxid: at }]);
    let path = scratch.file("snapshot.200000007");
    let read = || {
        let mut reader = SnapshotReader::open(path.parent().unwrap(), at)?;
        let mut whole = Vec::new();
        while let Some(piece) = reader.next_piece()? {
            whole.extend_from_slice(&piece);
        }
        Ok::<_, pole_storage::FileError>(whole)
    };
    assert!(read().unwrap() == body);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[1 << 20] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert!(read().unwrap_err().to_string().contains("checksum"));
    std::fs::write(&path, &bytes[..100]).unwrap();
    assert!(read().is_err());
}

#[test]
fn parts_that_do_not_follow_one_another_are_refused() {
    let scratch = Scratch::new();
    let (mut disk, _, _) = scratch.open();
    let at = zxid(2, 7);
    let later = DiskOp::Receive { zxid: at, offset: 3, body: bytes::Bytes::from_static(b"later") };
    disk.perform(&mut vec![(Ticket(1), receive(at, b"abc")), (Ticket(2), later.clone())]).unwrap();
    let error = disk.perform(&mut vec![(Ticket(3), later)]).unwrap_err();
    assert_eq!(error.to_string(), "of the snapshot at 2.7 nothing was received that ends at byte 3");
}
