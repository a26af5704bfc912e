//! An I/O error on each kind of file is reported with the name of the file, nothing is reported as written after it,
//! and the next start finds everything that was.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use pole_types::{Epoch, Zxid};
use pole_zab::{DiskOp, Entry, Epochs, Recovered, Snapshot, Ticket};

use super::random_operations::entry;
use super::{Faults, Scratch};
use crate::recovery::open_on;
use crate::volume::{Operation, Volume};
use crate::{Config, Disk, Event, OpenError};

/// The operation during which the disk fails.
enum FailingOp {
    Append,
    /// An append for which space has to be allocated.
    AppendMuch,
    /// The first append of a new file.
    AppendToNewFile,
    Epoch,
    TakeOver,
    Install,
    Checkpoint,
    Truncate,
}

fn config(dir: &std::path::Path) -> Config {
    Config {
        preallocate_bytes: 64 << 10,
        snap_retain_count: 1,
        purge_interval: Some(std::time::Duration::ZERO),
        blank: Some(Bytes::new()),
        ..Config::in_dir(dir)
    }
}

fn zxid(counter: u32) -> Zxid {
    Zxid::new(Epoch(1), counter)
}

fn entries(counters: std::ops::RangeInclusive<u32>, size: usize) -> DiskOp {
    DiskOp::Append(counters.map(|counter| entry(zxid(counter), size)).collect())
}

fn snapshot(at: Zxid) -> Snapshot {
    Snapshot { zxid: at, epochs: Epochs::starting_at(at), body: Bytes::from_static(b"state").into() }
}

/// A leader's snapshot in one part.
fn install(zxid: Zxid) -> Vec<DiskOp> {
    vec![DiskOp::Receive { zxid, offset: 0, body: Bytes::from_static(b"state") }, DiskOp::Install { zxid }]
}

/// Writes a few transactions, all of which are reported, then injects the fault and performs the operation.
fn fail(operation: Operation, name: &'static str, failing: &FailingOp) {
    let scratch = Scratch::new();
    let faults = Faults::default();
    let events = Arc::new(Mutex::new(Vec::new()));
    let (mut disk, _, _) = open_on(Volume::failing(&faults), config(&scratch.0), None).unwrap();
    let sink = events.clone();
    disk.on_event(move |event| sink.lock().unwrap().push(event));
    let mut ticket = 0;
    let mut perform = |disk: &mut Disk, ops: Vec<DiskOp>| {
        let number = |op| {
            ticket += 1;
            (Ticket(ticket), op)
        };
        let result = disk.perform(&mut ops.into_iter().map(number).collect());
        disk.finish_checkpoints();
        result
    };
    let reported = vec![
        DiskOp::AcceptedEpoch(Epoch(1)),
        entries(1..=3, 100),
        DiskOp::CurrentEpoch(Epoch(1)),
        DiskOp::Checkpoint(snapshot(zxid(2))),
        entries(4..=6, 100),
    ];
    for op in reported {
        perform(&mut disk, vec![op]).unwrap();
    }
    assert!(!events.lock().unwrap().iter().any(|event| matches!(event, Event::Failed { .. })));

    faults.inject(operation, name, ErrorKind::Other);
    let ops = match failing {
        FailingOp::Append => vec![entries(7..=7, 100)],
        FailingOp::AppendMuch => vec![entries(7..=7, 100 << 10)],
        FailingOp::AppendToNewFile => {
            perform(&mut disk, vec![DiskOp::Checkpoint(snapshot(zxid(4)))]).unwrap();
            vec![entries(7..=7, 100)]
        }
        FailingOp::Epoch => vec![DiskOp::AcceptedEpoch(Epoch(2))],
        FailingOp::TakeOver => vec![DiskOp::TakeOver(Epoch(2))],
        FailingOp::Install => install(Zxid::new(Epoch(2), 9)),
        FailingOp::Checkpoint => vec![DiskOp::Checkpoint(snapshot(zxid(5)))],
        FailingOp::Truncate => vec![DiskOp::Truncate { to: zxid(5) }],
    };
    let result = perform(&mut disk, ops);
    let reason = match result {
        Err(error) => error.to_string(),
        Ok(_) => match events.lock().unwrap().last() {
            Some(Event::Failed { reason }) => reason.clone(),
            other => panic!("{operation:?} on {name}: no failure, but {other:?}"),
        },
    };
    assert!(reason.contains(name) && reason.contains("look for errors of the disk"), "{reason}");
    let after = perform(&mut disk, vec![entries(8..=8, 100)]);
    assert!(matches!(after, Err(crate::WriteError::Earlier { .. })), "{operation:?} on {name}: {after:?}");
    drop(disk);

    let (_, recovered, _) = open_on(Volume::default(), config(&scratch.0), None).unwrap();
    check_kept(&recovered, failing, &format!("{operation:?} on {name}"));
}

/// Checks that everything reported is found. The operation under way may have happened or not.
fn check_kept(recovered: &Recovered, failing: &FailingOp, what: &str) {
    let last = recovered.standing().last_zxid;
    let least = if matches!(failing, FailingOp::Truncate) { zxid(5) } else { zxid(6) };
    assert!(last >= least, "{what}: ends at {last}");
    assert!(recovered.accepted_epoch >= Epoch(1) && recovered.current_epoch >= Epoch(1), "{what}");
    let above =
        recovered.entries.iter().map(|entry: &Entry| entry.zxid).filter(|zxid| *zxid > recovered.snapshot_zxid());
    assert_eq!(above.last().unwrap_or(recovered.snapshot_zxid()), last, "{what}");
}

#[test]
fn log_append() {
    fail(Operation::Write, "log.", &FailingOp::Append);
}

#[test]
fn log_sync() {
    fail(Operation::Sync, "log.", &FailingOp::Append);
}

#[test]
fn log_room() {
    fail(Operation::Allocate, "log.", &FailingOp::AppendMuch);
}

#[test]
fn log_creation() {
    fail(Operation::Create, "log.", &FailingOp::AppendToNewFile);
}

#[test]
fn log_directory() {
    fail(Operation::SyncDirectory, "version-2", &FailingOp::Install);
}

#[test]
fn log_truncation() {
    fail(Operation::SetLength, "log.", &FailingOp::Truncate);
}

#[test]
fn progress_write() {
    fail(Operation::Write, "lock", &FailingOp::AppendMuch);
}

#[test]
fn progress_cleared_before_a_truncation() {
    fail(Operation::Sync, "lock", &FailingOp::Truncate);
}

#[test]
fn session_numbers() {
    for operation in [Operation::Write, Operation::Sync] {
        let scratch = Scratch::new();
        let faults = Faults::default();
        let (disk, _, _) = open_on(Volume::failing(&faults), config(&scratch.0), None).unwrap();
        faults.inject(operation, "lock", ErrorKind::Other);
        let refused = disk.reserve_sessions(1, 1);
        let Err(OpenError::File(error)) = refused else { panic!("{operation:?}: {refused:?}") };
        assert!(error.to_string().contains("/lock"), "{error}");
    }
}

#[test]
fn snapshot_creation() {
    fail(Operation::Create, "snapshot.", &FailingOp::Checkpoint);
}

#[test]
fn snapshot_write() {
    fail(Operation::Write, "snapshot.", &FailingOp::Checkpoint);
}

#[test]
fn snapshot_sync() {
    fail(Operation::Sync, "snapshot.", &FailingOp::Checkpoint);
}

#[test]
fn snapshot_rename() {
    fail(Operation::Rename, "snapshot.", &FailingOp::Checkpoint);
}

#[test]
fn snapshot_of_a_leader() {
    for operation in [Operation::Create, Operation::Write, Operation::Sync, Operation::Rename] {
        fail(operation, "snapshot.", &FailingOp::Install);
    }
}

#[test]
fn purge() {
    fail(Operation::Remove, "snapshot.", &FailingOp::Checkpoint);
}

#[test]
fn epoch_files() {
    for operation in [Operation::Create, Operation::Write, Operation::Sync, Operation::Rename] {
        fail(operation, "acceptedEpoch", &FailingOp::Epoch);
    }
    fail(Operation::Rename, "currentEpoch", &FailingOp::TakeOver);
    fail(Operation::SyncDirectory, "version-2", &FailingOp::Epoch);
}

#[test]
fn intent() {
    for operation in [Operation::Create, Operation::Write, Operation::Sync, Operation::Rename] {
        fail(operation, "intent", &FailingOp::TakeOver);
        fail(operation, "intent", &FailingOp::Install);
    }
    fail(Operation::Remove, "intent", &FailingOp::Install);
}

#[test]
fn lock() {
    let scratch = Scratch::new();
    let faults = Faults::default();
    faults.inject(Operation::Create, "lock", ErrorKind::PermissionDenied);
    let refused = open_on(Volume::failing(&faults), config(&scratch.0), None).map(|_| ());
    let Err(OpenError::File(error)) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains("/lock") && error.to_string().contains("give the server's user"), "{error}");
}

/// Start-up also writes: each refusal names the file, and the next start finds the same.
#[test]
fn start_up() {
    for (operation, name) in [
        (Operation::Sync, "log."),
        (Operation::Sync, "snapshot."),
        (Operation::SyncDirectory, "version-2"),
        (Operation::Remove, "snapshot."),
    ] {
        let scratch = Scratch::new();
        let (mut disk, _, _) = open_on(Volume::default(), config(&scratch.0), None).unwrap();
        let mut ops = vec![(Ticket(1), DiskOp::AcceptedEpoch(Epoch(1))), (Ticket(2), entries(1..=3, 100))];
        disk.perform(&mut ops).unwrap();
        drop(disk);
        std::fs::write(scratch.0.join("version-2/snapshot.9.tmp"), "left by a crash").unwrap();
        let faults = Faults::default();
        faults.inject(operation, name, ErrorKind::Other);
        let refused = open_on(Volume::failing(&faults), config(&scratch.0), None).map(|_| ());
        let Err(OpenError::File(error)) = refused else { panic!("{operation:?} on {name}: {refused:?}") };
        assert!(error.to_string().contains(name), "{error}");
        let (_, recovered, _) = open_on(Volume::default(), config(&scratch.0), None).unwrap();
        assert_eq!(recovered.standing().last_zxid, zxid(3));
    }
}
