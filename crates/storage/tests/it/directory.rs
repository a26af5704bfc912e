//! The files in a directory: which are created, which are refused, and the content of the epoch files.

use pole_storage::{Config, OpenError, State, inspect, mark_following, open, unmark_following};
use pole_types::Epoch;
use pole_zab::{DiskOp, Recovered};
use std::fs;

use crate::scratch::{Scratch, append, snapshot, zxid};

#[test]
fn a_blank_start_creates_only_the_directory() {
    let scratch = Scratch::new();
    let (_disk, recovered, repairs) = scratch.open();
    assert_eq!((recovered, repairs), (Recovered::blank(), vec![]));
    assert_eq!(scratch.names(), Vec::<String>::new());
}

#[test]
fn only_files_of_apache_and_one_lock_file_are_left_behind() {
    let scratch = Scratch::new();
    let blank = Some(bytes::Bytes::from_static(b"nothing"));
    let (mut disk, _, _) = open(Config { blank, ..scratch.config() }).unwrap();
    let ops = vec![
        DiskOp::AcceptedEpoch(Epoch(1)),
        append(1, 1..=3, 10),
        DiskOp::CurrentEpoch(Epoch(1)),
        DiskOp::Checkpoint(snapshot(zxid(1, 2), b"state")),
        append(1, 4..=5, 10),
        DiskOp::TakeOver(Epoch(2)),
        append(2, 1..=1, 10),
    ];
    crate::scratch::perform(&mut disk, ops);
    disk.reserve_sessions(1000, 10).unwrap();
    disk.finish_checkpoints();
    drop(disk);
    let names = ["acceptedEpoch", "currentEpoch", "log.100000001", "log.100000004", "snapshot.0", "snapshot.100000002"];
    assert_eq!(scratch.names(), names);
    assert_eq!(fs::read_dir(scratch.files()).unwrap().count(), names.len() + ["lock"].len());
    assert_eq!(scratch.contents()["currentEpoch"], b"2");
}

#[test]
fn log_and_snapshots_can_have_separate_directories() {
    let (data, log) = (Scratch::new(), Scratch::new());
    let config = || Config { data_log_dir: log.path().into(), ..data.config() };
    let (mut disk, _, _) = open(config()).unwrap();
    crate::scratch::perform(&mut disk, vec![append(1, 1..=3, 10), DiskOp::Checkpoint(snapshot(zxid(1, 2), b"state"))]);
    disk.finish_checkpoints();
    drop(disk);
    assert_eq!((data.names(), log.names()), (vec!["snapshot.100000002".into()], vec!["log.100000001".into()]));
    let (_, recovered, _) = open(config()).unwrap();
    assert_eq!(recovered.standing().last_zxid, zxid(1, 3));
}

#[test]
fn a_log_among_the_snapshots_of_two_directories_is_refused() {
    let (data, log) = (Scratch::new(), Scratch::new());
    data.write(vec![append(1, 1..=1, 10)]);
    let refused = open(Config { data_log_dir: log.path().into(), ..data.config() });
    assert!(matches!(refused, Err(OpenError::Misplaced { .. })), "{refused:?}");
}

#[test]
fn a_directory_in_use_is_refused_until_it_is_free() {
    let scratch = Scratch::new();
    let (disk, _, _) = scratch.open();
    assert!(matches!(scratch.try_open(), Err(OpenError::InUse { .. })));
    drop(disk);
    scratch.open();
}

#[test]
fn files_of_another_format_version_are_refused() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path().join("version-3")).unwrap();
    assert!(matches!(scratch.try_open(), Err(OpenError::Version { got: 3, .. })));

    for name in ["log.100000001", "snapshot.100000002"] {
        let scratch = Scratch::new();
        scratch.write(vec![append(1, 1..=3, 10), DiskOp::Checkpoint(snapshot(zxid(1, 2), b"state"))]);
        let mut bytes = fs::read(scratch.file(name)).unwrap();
        bytes[7] = 9;
        fs::write(scratch.file(name), bytes).unwrap();
        let refused = scratch.try_open();
        assert!(matches!(refused, Err(OpenError::Version { got: 9, .. })), "{name}: {refused:?}");
    }
}

#[test]
fn a_compressed_snapshot_is_refused_unless_a_newer_one_is_not() {
    let scratch = Scratch::new();
    scratch.write(vec![append(1, 1..=3, 10), DiskOp::Checkpoint(snapshot(zxid(1, 2), b"state"))]);
    fs::write(scratch.file("snapshot.100000001.gz"), b"older").unwrap();
    scratch.open();
    fs::write(scratch.file("snapshot.100000003.snappy"), b"newer").unwrap();
    assert!(matches!(scratch.try_open(), Err(OpenError::Compressed { .. })));
}

#[test]
fn epochs_are_found_again() {
    let scratch = Scratch::new();
    scratch.write(vec![DiskOp::AcceptedEpoch(Epoch(7)), DiskOp::CurrentEpoch(Epoch(6))]);
    let recovered = scratch.open().1;
    assert_eq!((recovered.accepted_epoch, recovered.current_epoch), (Epoch(7), Epoch(6)));
    scratch.write(vec![DiskOp::TakeOver(Epoch(9))]);
    let recovered = scratch.open().1;
    assert_eq!((recovered.accepted_epoch, recovered.current_epoch), (Epoch(9), Epoch(9)));
}

#[test]
fn without_epoch_files_the_epoch_is_derived_from_the_history_once() {
    let scratch = Scratch::new();
    scratch.write(vec![append(3, 1..=2, 10)]);
    let (mut disk, recovered, repairs) = scratch.open();
    assert_eq!((recovered.accepted_epoch, recovered.current_epoch, repairs.len()), (Epoch(3), Epoch(3), 1));
    // Transactions of a later epoch arrive, and the server stops before it has adopted that epoch.
    crate::scratch::perform(&mut disk, vec![DiskOp::AcceptedEpoch(Epoch(4)), append(4, 1..=1, 10)]);
    drop(disk);
    let recovered = scratch.open().1;
    assert_eq!((recovered.accepted_epoch, recovered.current_epoch), (Epoch(4), Epoch(3)));
}

#[test]
fn a_promise_alone_does_not_adopt_an_epoch() {
    let scratch = Scratch::new();
    scratch.write(vec![DiskOp::AcceptedEpoch(Epoch(1)), append(1, 1..=2, 10)]);
    let recovered = scratch.open().1;
    assert_eq!((recovered.accepted_epoch, recovered.current_epoch), (Epoch(1), Epoch(0)));
}

#[test]
fn impossible_epochs_are_refused_with_their_file() {
    for (accepted, current, file) in
        [("3", "4", "currentEpoch"), ("x", "1", "acceptedEpoch"), ("1", "", "currentEpoch")]
    {
        let scratch = Scratch::new();
        scratch.open();
        fs::write(scratch.file("acceptedEpoch"), accepted).unwrap();
        fs::write(scratch.file("currentEpoch"), current).unwrap();
        match scratch.try_open() {
            Err(OpenError::Damaged(damage)) => assert_eq!(damage.path, scratch.file(file)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn session_numbers_are_reserved_once_whatever_the_clock_says() {
    let scratch = Scratch::new();
    assert_eq!(scratch.open().0.reserve_sessions(1000, 10).unwrap(), 1000);
    // The clock was set back.
    assert_eq!(scratch.open().0.reserve_sessions(500, 10).unwrap(), 1010);
    assert_eq!(scratch.open().0.reserve_sessions(2000, 10).unwrap(), 2000);
}

/// Then the other rules apply: the readable part of the log counts, and session numbers start at the clock.
#[test]
fn a_missing_or_damaged_lock_file_is_ignored() {
    type Change = fn(&mut Vec<u8>);
    let written = || {
        let scratch = Scratch::new();
        scratch.write(vec![append(1, 1..=3, 20)]);
        assert_eq!(scratch.open().0.reserve_sessions(1000, 10).unwrap(), 1000);
        // As if a write had been interrupted. This is refused as long as the data is known to be durable.
        let log = fs::OpenOptions::new().write(true).open(scratch.file("log.100000001")).unwrap();
        log.set_len(200).unwrap();
        assert!(matches!(scratch.try_open(), Err(OpenError::Damaged(_))));
        scratch
    };
    let cases: [(&str, Change); 5] = [
        ("empty", Vec::clear),
        ("short", |bytes| bytes.truncate(10)),
        ("other content", |bytes| bytes.fill(b'x')),
        ("a bit of the magic", |bytes| bytes[1] ^= 0x10),
        ("a bit of the checksum", |bytes| bytes[39] ^= 0x10),
    ];
    for (what, damage) in cases {
        let scratch = written();
        let mut bytes = fs::read(scratch.file("lock")).unwrap();
        damage(&mut bytes);
        fs::write(scratch.file("lock"), bytes).unwrap();
        assert_eq!(scratch.found(), [zxid(1, 1), zxid(1, 2)], "{what}");
        assert!([5, 1010].contains(&scratch.open().0.reserve_sessions(5, 10).unwrap()), "{what}");
    }
    let scratch = written();
    fs::remove_file(scratch.file("lock")).unwrap();
    assert_eq!(scratch.found(), [zxid(1, 1), zxid(1, 2)]);
    assert_eq!(scratch.open().0.reserve_sessions(5, 10).unwrap(), 5);
}

#[test]
fn the_records_are_in_the_lock_file_of_the_data_directory() {
    let (data, log) = (Scratch::new(), Scratch::new());
    let (mut disk, _, _) = open(Config { data_log_dir: log.path().into(), ..data.config() }).unwrap();
    crate::scratch::perform(&mut disk, vec![append(1, 1..=3, 10)]);
    disk.reserve_sessions(0x1234, 0x1000).unwrap();
    assert_eq!(fs::read(log.file("lock")).unwrap(), b"");
    let lock = fs::read(data.file("lock")).unwrap();
    assert_eq!((lock.len(), &lock[..4], &lock[4096..4100]), (4112, &b"PRG1"[..], &b"SES1"[..]));
    assert_eq!(lock[4..12], zxid(1, 1).0.to_be_bytes());
    assert_eq!(lock[4100..4108], 0x2234_u64.to_be_bytes());
}

#[test]
fn a_directory_that_follows_is_refused_until_its_mark_is_removed() {
    let scratch = Scratch::new();
    mark_following(scratch.path()).unwrap();
    let (mut disk, _, _) = open(Config { following: true, ..scratch.config() }).unwrap();
    crate::scratch::perform(&mut disk, vec![append(1, 1..=3, 10)]);
    drop(disk);
    let refused = open(scratch.config()).unwrap_err();
    assert!(matches!(&refused, OpenError::Following { path } if path.ends_with("following")), "{refused}");
    let found = inspect(&scratch.config(), &mut Discarded).unwrap();
    assert!(matches!(found.startup, Err(OpenError::Following { .. })), "{found:?}");
    unmark_following(scratch.path()).unwrap();
    let (_, recovered, _) = open(scratch.config()).unwrap();
    assert_eq!(recovered.standing().last_zxid, zxid(1, 3));
}

/// A state of which only the position matters.
struct Discarded;

impl State for Discarded {
    fn clear(&mut self) {}

    fn restore(&mut self, _: bytes::Bytes) -> Result<(), String> {
        Ok(())
    }

    fn restored(&mut self, _: pole_types::Zxid) -> Result<(), String> {
        Ok(())
    }

    fn apply(&mut self, _: &pole_zab::Entry) -> Result<(), String> {
        Ok(())
    }
}
