//! Tests of each operation through the public interface.

use pole_storage::{Config, Event, WriteError, open};
use pole_types::{Epoch, Zxid};
use pole_zab::{DiskOp, Ticket};
use proptest::prelude::*;
use std::fs;
use std::sync::mpsc;
use std::time::Duration;

use crate::scratch::{Scratch, append, entry, perform, receive, snapshot, zxid, zxids};

#[test]
fn a_batch_is_one_write_and_one_sync() {
    let scratch = Scratch::new();
    let (mut disk, _, _) = open(Config { preallocate_bytes: 1 << 20, ..scratch.config() }).unwrap();
    perform(&mut disk, vec![append(1, 1..=1, 1000)]);
    let counts = disk.counts();
    let before = (counts.writes(), counts.syncs());
    perform(&mut disk, (0..50).map(|at| append(1, 2 + at..=2 + at, 1000)).collect());
    assert_eq!((counts.writes(), counts.syncs()), (before.0 + 1, before.1 + 1));
}

#[test]
fn entries_are_found_with_their_origin_and_bytes() {
    let scratch = Scratch::new();
    let entries = vec![entry(zxid(1, 1), 0), entry(zxid(1, 2), 5000), entry(zxid(4, 1), 1)];
    scratch.write(vec![DiskOp::Append(entries.clone())]);
    assert_eq!(scratch.open().1.entries, entries);
}

#[test]
fn an_entry_larger_than_a_batch_is_found() {
    let scratch = Scratch::new();
    let entries: Vec<_> = (1..=3).map(|counter| entry(zxid(1, counter), 3 << 20)).collect();
    scratch.write(vec![DiskOp::Append(entries.clone())]);
    assert_eq!(scratch.open().1.entries, entries);
}

#[test]
fn an_entry_that_does_not_follow_ends_all_writing() {
    let scratch = Scratch::new();
    let (mut disk, _, _) = scratch.open();
    perform(&mut disk, vec![append(1, 1..=2, 10)]);
    let gap = disk.perform(&mut vec![(Ticket(2), append(1, 4..=4, 10))]);
    assert!(matches!(gap, Err(WriteError::OutOfOrder { .. })), "{gap:?}");
    let after = disk.perform(&mut vec![(Ticket(3), append(1, 3..=3, 10))]);
    assert!(matches!(after, Err(WriteError::Earlier { .. })), "{after:?}");
    drop(disk);
    assert_eq!(scratch.found(), [zxid(1, 1), zxid(1, 2)]);
}

#[test]
fn an_entry_whose_bytes_name_another_zxid_is_refused() {
    let scratch = Scratch::new();
    let (mut disk, _, _) = scratch.open();
    let mut wrong = entry(zxid(1, 2), 10);
    wrong.zxid = zxid(1, 1);
    let refused = disk.perform(&mut vec![(Ticket(1), DiskOp::Append(vec![wrong]))]);
    assert!(matches!(refused, Err(WriteError::Mislabelled { .. })), "{refused:?}");
}

#[test]
fn unused_preallocated_space_is_released_at_the_next_start() {
    let scratch = Scratch::new();
    let (mut disk, _, _) = open(Config { preallocate_bytes: 8 << 20, ..scratch.config() }).unwrap();
    perform(&mut disk, vec![append(1, 1..=2, 10)]);
    drop(disk);
    let bytes = || fs::metadata(scratch.file("log.100000001")).unwrap().len();
    assert!(bytes() > 1 << 20);
    assert_eq!(scratch.found().len(), 2);
    assert_eq!(bytes(), 16 + 2 * (45 + 10));
}

#[test]
fn a_log_grows_by_its_own_size_within_limits() {
    let scratch = Scratch::new();
    let (mut disk, _, _) = open(Config { preallocate_bytes: 4 << 20, ..scratch.config() }).unwrap();
    let allocated = || fs::metadata(scratch.file("log.100000001")).unwrap().len() as f64 / f64::from(1 << 20);
    perform(&mut disk, vec![append(1, 1..=1, 10)]);
    assert!((1.0..1.1).contains(&allocated()), "{}", allocated());
    perform(&mut disk, vec![append(1, 2..=2, 2 << 20)]);
    assert!((4.0..4.1).contains(&allocated()), "{}", allocated());
    perform(&mut disk, vec![append(1, 3..=3, 6 << 20)]);
    assert!((12.0..12.1).contains(&allocated()), "{}", allocated());
}

#[test]
fn a_log_that_reached_its_limit_goes_on_in_another_file() {
    let scratch = Scratch::new();
    let (mut disk, _, _) = open(Config { log_bytes_max: Some(8 << 10), ..scratch.config() }).unwrap();
    (1..=10).for_each(|counter| perform(&mut disk, vec![append(1, counter..=counter, 3_000)]));
    drop(disk);
    let logs: Vec<_> = scratch.names().into_iter().filter(|name| name.starts_with("log.")).collect();
    assert_eq!(logs, ["log.100000001", "log.100000004", "log.100000007", "log.10000000a"]);
    assert_eq!(scratch.found(), (1..=10).map(|counter| zxid(1, counter)).collect::<Vec<_>>());
}

#[test]
fn truncation_spans_files_and_the_log_continues_after_it() {
    let scratch = Scratch::new();
    for counters in [1..=3, 4..=6, 7..=9] {
        scratch.write(vec![append(1, counters, 10)]);
    }
    assert_eq!(scratch.names().iter().filter(|name| name.starts_with("log.")).count(), 3);
    scratch.write(vec![DiskOp::Truncate { to: zxid(1, 5) }, append(2, 1..=1, 10)]);
    let (kept, new) = ((1..=5).map(|counter| zxid(1, counter)), zxid(2, 1));
    assert_eq!(scratch.found(), kept.chain([new]).collect::<Vec<_>>());
}

#[test]
fn truncation_below_a_snapshot_is_refused() {
    let scratch = Scratch::new();
    let (mut disk, _, _) = scratch.open();
    perform(&mut disk, vec![append(1, 1..=5, 10), DiskOp::Checkpoint(snapshot(zxid(1, 4), b"state"))]);
    let refused = disk.perform(&mut vec![(Ticket(9), DiskOp::Truncate { to: zxid(1, 3) })]);
    assert!(matches!(refused, Err(WriteError::CutsSnapshot { .. })), "{refused:?}");
}

#[test]
fn a_checkpoint_begins_a_new_file_and_keeps_the_log() {
    let scratch = Scratch::new();
    scratch.write(vec![
        DiskOp::AcceptedEpoch(Epoch(1)),
        append(1, 1..=5, 10),
        DiskOp::Checkpoint(snapshot(zxid(1, 4), b"state")),
        append(1, 6..=6, 10),
    ]);
    assert_eq!(scratch.names(), ["acceptedEpoch", "log.100000001", "log.100000006", "snapshot.100000004"]);
    let recovered = scratch.open().1;
    assert_eq!(recovered.snapshot, Some(snapshot(zxid(1, 4), b"state")));
    assert_eq!(zxids(&recovered).len(), 6);
}

#[test]
fn log_below_the_snapshot_is_kept_up_to_the_memory_limit() {
    let scratch = Scratch::new();
    scratch.write(vec![append(1, 1..=100, 1000), DiskOp::Checkpoint(snapshot(zxid(1, 90), b"state"))]);
    let (_, recovered, _) = open(Config { retain_bytes: 5500, ..scratch.config() }).unwrap();
    assert_eq!(zxids(&recovered), (86..=100).map(|counter| zxid(1, counter)).collect::<Vec<_>>());
}

#[test]
fn an_installed_snapshot_replaces_a_log_that_does_not_lead_to_it() {
    let scratch = Scratch::new();
    scratch.write(vec![
        DiskOp::AcceptedEpoch(Epoch(2)),
        append(1, 1..=5, 10),
        receive(zxid(2, 7), b"leader's"),
        DiskOp::Install { zxid: zxid(2, 7) },
        append(2, 8..=9, 10),
    ]);
    assert_eq!(scratch.names(), ["acceptedEpoch", "log.200000008", "snapshot.200000007"]);
    let recovered = scratch.open().1;
    assert_eq!(recovered.snapshot, Some(snapshot(zxid(2, 7), b"leader's")));
    assert_eq!(zxids(&recovered), [zxid(2, 8), zxid(2, 9)]);
}

#[test]
fn an_installed_snapshot_cuts_a_log_that_goes_beyond_it() {
    let scratch = Scratch::new();
    let at = zxid(1, 3);
    scratch.write(vec![append(1, 1..=5, 10), receive(at, b"leader's"), DiskOp::Install { zxid: at }]);
    assert_eq!(scratch.found(), [zxid(1, 1), zxid(1, 2), zxid(1, 3)]);
}

#[test]
fn purge_keeps_valid_snapshots_and_the_log_they_need() {
    let scratch = Scratch::new();
    let config = Config { snap_retain_count: 2, purge_interval: Some(Duration::ZERO), ..scratch.config() };
    let (mut disk, _, _) = open(config).unwrap();
    // Cut short by a crash, and newer than all others: it must not displace a valid one.
    fs::write(scratch.file("snapshot.ffffffff00000000"), b"ZKSN cut short").unwrap();
    let (send, events) = mpsc::channel();
    disk.on_event(move |event| send.send(event).unwrap());
    for last in [10, 20, 30, 40] {
        perform(&mut disk, vec![append(1, last - 9..=last, 10), DiskOp::Checkpoint(snapshot(zxid(1, last - 2), b"s"))]);
        disk.finish_checkpoints();
    }
    let names =
        ["log.100000015", "log.10000001f", "snapshot.10000001c", "snapshot.100000026", "snapshot.ffffffff00000000"];
    assert_eq!(scratch.names(), names);
    let purged = |event| if let Event::Checkpointed { purged, .. } = event { purged } else { 0 };
    assert_eq!(events.try_iter().map(purged).sum::<usize>(), 4);
}

#[test]
fn a_checkpoint_that_cannot_be_written_ends_all_writing() {
    let (data, log) = (Scratch::new(), Scratch::new());
    let config = || Config { data_log_dir: log.path().into(), ..data.config() };
    let (mut disk, _, _) = open(config()).unwrap();
    let (send, events) = mpsc::channel();
    disk.on_event(move |event| send.send(event).unwrap());
    // A directory exists where the snapshot is to be written.
    fs::create_dir(data.file("snapshot.100000002.tmp")).unwrap();
    perform(&mut disk, vec![append(1, 1..=2, 10), DiskOp::Checkpoint(snapshot(zxid(1, 2), b"state"))]);
    disk.finish_checkpoints();
    let event = events.try_recv();
    assert!(matches!(&event, Ok(Event::Failed { reason }) if reason.contains("snapshot.100000002.tmp")), "{event:?}");
    let after = disk.perform(&mut vec![(Ticket(9), append(1, 3..=3, 10))]);
    assert!(matches!(after, Err(WriteError::Earlier { .. })), "{after:?}");
    drop(disk);
    fs::remove_dir(data.file("snapshot.100000002.tmp")).unwrap();
    assert_eq!(zxids(&open(config()).unwrap().1), [zxid(1, 1), zxid(1, 2)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Entries of any size in any batches are found as they were written.
    #[test]
    fn any_entries_in_any_batches_are_found(sizes in prop::collection::vec(0usize..9000, 1..40), batch in 1usize..10) {
        let scratch = Scratch::new();
        let entries: Vec<_> = (1..).zip(&sizes).map(|(counter, size)| entry(zxid(1, counter), *size)).collect();
        let (mut disk, _, _) = scratch.open();
        for batch in entries.chunks(batch) {
            perform(&mut disk, vec![DiskOp::Append(batch.to_vec())]);
        }
        drop(disk);
        prop_assert_eq!(&scratch.open().1.entries, &entries);
    }

    /// No content of the files makes start-up panic.
    #[test]
    fn any_bytes_in_the_files_are_read_or_refused(
        log in prop::collection::vec(any::<u8>(), 0..300),
        snapshot in prop::collection::vec(any::<u8>(), 0..100),
        headers in any::<bool>(),
    ) {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.files()).unwrap();
        let with = |magic: &[u8], rest: &[u8]| if headers { [magic, &[0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0], rest].concat() } else { rest.to_vec() };
        fs::write(scratch.file("log.1"), with(b"ZKLG", &log)).unwrap();
        if snapshot.len() > 50 {
            fs::write(scratch.file("snapshot.1"), with(b"ZKSN", &snapshot)).unwrap();
        }
        let _ = scratch.try_open();
    }
}

#[test]
fn truncation_to_zero_removes_the_whole_log() {
    let scratch = Scratch::new();
    scratch.write(vec![append(1, 1..=2, 10), DiskOp::Truncate { to: Zxid::ZERO }]);
    assert_eq!(scratch.found(), []);
}
