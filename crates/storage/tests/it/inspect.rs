//! An inspection reads every file, changes none, and predicts what a start finds and does.

use bytes::Bytes;
use pole_storage::{Inspection, OpenError, Repair, State, inspect};
use pole_types::{Epoch, Zxid};
use pole_zab::{DiskOp, Entry};
use std::fs;
use std::path::Path;

use crate::scratch::{Scratch, append, zxid};

/// Counts what is restored and applied.
#[derive(Default)]
struct Counting {
    restored: usize,
    applied: u64,
}

impl State for Counting {
    fn clear(&mut self) {
        *self = Self::default();
    }

    fn restore(&mut self, piece: Bytes) -> Result<(), String> {
        self.restored += piece.len();
        Ok(())
    }

    fn restored(&mut self, _: Zxid) -> Result<(), String> {
        Ok(())
    }

    fn apply(&mut self, _: &Entry) -> Result<(), String> {
        self.applied += 1;
        Ok(())
    }
}

fn inspected(scratch: &Scratch) -> (Inspection, Counting) {
    let mut state = Counting::default();
    let config = pole_storage::Config { alone: true, ..scratch.config() };
    let before = scratch.contents();
    let inspection = inspect(&config, &mut state).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(scratch.contents(), before, "an inspection changes nothing");
    (inspection, state)
}

/// Compares an inspection with the start that follows it.
fn predicted(scratch: &Scratch) -> (Inspection, Vec<Repair>) {
    let (inspection, state) = inspected(scratch);
    let (_, recovered, repairs) = scratch.open();
    let startup = inspection.startup.as_ref().unwrap_or_else(|error| panic!("{error}"));
    let history = startup.history.expect("nothing was interrupted");
    assert_eq!(startup.planned, repairs);
    assert_eq!(history.last_zxid, recovered.standing().last_zxid);
    assert_eq!((history.accepted_epoch, history.current_epoch), (recovered.accepted_epoch, recovered.current_epoch));
    assert_eq!(history.snapshot, recovered.snapshot.map(|snapshot| snapshot.zxid));
    assert_eq!(history.replayed, state.applied);
    (inspection, repairs)
}

#[test]
fn directories_of_apache_are_read_completely() {
    let (ensemble, _) = predicted(&Scratch::of_fixture("apache-ensemble"));
    let counts: Vec<u64> = ensemble.logs.iter().map(|log| log.transactions).collect();
    assert_eq!((ensemble.snapshots.len(), ensemble.logs.len()), (3, 4));
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    assert!(ensemble.snapshots.iter().all(|file| file.damage.is_none() && file.bytes > 0));
    let (_, repairs) = predicted(&Scratch::of_fixture("apache-standalone"));
    assert!(repairs.is_empty(), "its epoch is 0: {repairs:?}");
}

#[test]
fn our_own_directory_is_read_with_what_is_committed() {
    let scratch = Scratch::new();
    scratch.write(vec![DiskOp::AcceptedEpoch(Epoch(1)), DiskOp::CurrentEpoch(Epoch(1)), append(1, 1..=20, 10)]);
    let (inspection, repairs) = predicted(&scratch);
    assert!(repairs.is_empty());
    let log = &inspection.logs[0];
    assert_eq!((log.first, log.last, log.transactions, &log.damage), (zxid(1, 1), Some(zxid(1, 20)), 20, &None));
    assert!(inspection.startup.unwrap().history.unwrap().committed.is_some());
}

#[test]
fn a_torn_tail_is_announced_and_a_start_then_cuts_it_off() {
    let scratch = Scratch::of_fixture("apache-ensemble");
    let newest = scratch.file("log.200000019");
    let whole = inspected(&scratch).0.logs.last().unwrap().bytes;
    let mut bytes = fs::read(&newest).unwrap();
    bytes.truncate(usize::try_from(whole).unwrap() - 3);
    fs::write(&newest, bytes).unwrap();
    let (inspection, repairs) = predicted(&scratch);
    assert!(inspection.logs.last().unwrap().damage.is_some());
    assert!(repairs.len() == 1 && repairs[0].what.contains("torn tail"), "{repairs:?}");
}

#[test]
fn damage_is_part_of_the_result_and_every_other_file_is_listed() {
    let scratch = Scratch::of_fixture("apache-ensemble");
    flip(&scratch.file("log.100000016"), 100);
    let (inspection, _) = inspected(&scratch);
    let damaged = inspection.logs.iter().filter(|log| log.damage.is_some()).count();
    assert_eq!((inspection.snapshots.len(), inspection.logs.len(), damaged), (3, 4, 1));
    // The newest snapshot contains what is lost.
    assert_eq!(inspection.startup.unwrap().planned.len(), 1);
    fs::remove_file(scratch.file("snapshot.200000017")).unwrap();
    let (inspection, _) = inspected(&scratch);
    assert!(matches!(inspection.startup, Err(OpenError::Damaged(_))), "{:?}", inspection.startup);
}

#[test]
fn a_damaged_snapshot_is_passed_over_if_the_log_serves() {
    let scratch = Scratch::of_fixture("apache-ensemble");
    flip(&scratch.file("snapshot.200000017"), 100);
    let (inspection, repairs) = predicted(&scratch);
    assert!(inspection.snapshots.last().unwrap().damage.is_some());
    assert!(repairs[0].what.contains("passed over"), "{repairs:?}");
}

#[test]
fn a_running_server_keeps_its_directory_to_itself() {
    let scratch = Scratch::new();
    let (disk, _, _) = scratch.open();
    let refused = inspect(&scratch.config(), &mut Counting::default());
    assert!(matches!(refused, Err(OpenError::InUse { .. })), "{refused:?}");
    drop(disk);
    predicted(&scratch);
}

#[test]
fn a_directory_that_was_never_used_is_blank_and_one_that_is_missing_an_error() {
    let scratch = Scratch::new();
    let (inspection, _) = inspected_without_files(&scratch);
    assert_eq!(inspection.startup.unwrap().history.unwrap().last_zxid, Zxid::ZERO);
    assert!(!scratch.files().exists(), "an inspection creates nothing");
    let nowhere = pole_storage::Config::in_dir(scratch.path().join("nowhere"));
    assert!(matches!(inspect(&nowhere, &mut Counting::default()), Err(OpenError::File(_))));
}

#[test]
fn an_interrupted_operation_is_announced() {
    let scratch = Scratch::of_fixture("apache-ensemble");
    fs::write(scratch.file("intent"), "takeover 7\n").unwrap();
    let startup = inspected(&scratch).0.startup.unwrap();
    assert_eq!(startup.history, None);
    assert!(startup.planned[0].what.contains("takeover 7"), "{:?}", startup.planned);
}

fn inspected_without_files(scratch: &Scratch) -> (Inspection, Counting) {
    let mut state = Counting::default();
    let inspection = inspect(&scratch.config(), &mut state).unwrap_or_else(|error| panic!("{error}"));
    (inspection, state)
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x40;
    fs::write(path, bytes).unwrap();
}
