//! A backup becomes the history of a directory, and what was there before is kept.

use pole_storage::{InstallError, OpenError, export_snapshot, install_backup};
use pole_types::{Epoch, Zxid};
use pole_zab::DiskOp;
use std::fs;
use std::path::PathBuf;

use crate::scratch::{Scratch, append, zxid};

fn backup(scratch: &Scratch, at: Zxid) -> PathBuf {
    let mut file = Vec::new();
    export_snapshot(at, |sink| sink(b"a state"), &mut |piece| file.extend_from_slice(piece));
    let path = scratch.path().join("backup");
    fs::write(&path, file).unwrap();
    path
}

#[test]
fn a_start_finds_the_backup_and_nothing_else() {
    let scratch = Scratch::new();
    let at = zxid(3, 7);
    let installed = install_backup(&scratch.config(), &backup(&scratch, at), at, false).unwrap();
    assert_eq!((installed.accepted_epoch, installed.moved_to), (Epoch(3), Vec::new()));
    assert_eq!(scratch.names(), ["acceptedEpoch", "currentEpoch", "snapshot.300000007"]);
    let (_, recovered, repairs) = scratch.open();
    assert!(repairs.is_empty(), "{repairs:?}");
    assert_eq!((recovered.accepted_epoch, recovered.current_epoch), (Epoch(3), Epoch(3)));
    let snapshot = recovered.snapshot.unwrap();
    let mut body = Vec::new();
    snapshot.body.write(&mut |piece| body.extend_from_slice(piece));
    assert_eq!((snapshot.zxid, body), (at, b"a state".to_vec()));
}

#[test]
fn a_history_is_replaced_only_if_asked_and_its_promise_stays() {
    let scratch = Scratch::new();
    scratch.write(vec![DiskOp::AcceptedEpoch(Epoch(9)), DiskOp::CurrentEpoch(Epoch(8)), append(8, 1..=3, 10)]);
    let (at, before) = (zxid(3, 7), scratch.contents());
    let file = backup(&scratch, at);
    let refused = install_backup(&scratch.config(), &file, at, false);
    assert!(matches!(refused, Err(InstallError::Occupied { .. })), "{refused:?}");
    assert_eq!(scratch.contents(), before);
    let installed = install_backup(&scratch.config(), &file, at, true).unwrap();
    assert_eq!(installed.accepted_epoch, Epoch(9));
    assert_eq!(installed.moved_to, [scratch.path().join("version-2.replaced-1")]);
    assert!(installed.moved_to[0].join("log.800000001").exists());
    let (_, recovered, _) = scratch.open();
    assert_eq!((recovered.accepted_epoch, recovered.standing().last_zxid), (Epoch(9), at));
    // A second time the first copy is not touched.
    let installed = install_backup(&scratch.config(), &file, at, true).unwrap();
    assert_eq!(installed.moved_to, [scratch.path().join("version-2.replaced-2")]);
}

#[test]
fn a_directory_in_use_is_left_alone() {
    let scratch = Scratch::new();
    let (disk, _, _) = scratch.open();
    let refused = install_backup(&scratch.config(), &backup(&scratch, zxid(1, 1)), zxid(1, 1), true);
    assert!(matches!(refused, Err(InstallError::Open(OpenError::InUse { .. }))), "{refused:?}");
    drop(disk);
}
