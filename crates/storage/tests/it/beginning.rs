//! A history whose beginning or middle is missing is refused.

use pole_storage::{Config, OpenError, open};
use pole_types::Epoch;
use pole_zab::DiskOp;
use std::fs;

use crate::scratch::{Scratch, append, perform, snapshot, zxid, zxids};

/// The configuration of a server: a blank snapshot before the first log file, and no trust in a log without a snapshot.
fn server_config(scratch: &Scratch) -> Config {
    Config { blank: Some(bytes::Bytes::from_static(b"nothing")), trust_empty: false, ..scratch.config() }
}

fn write(config: Config, ops: Vec<DiskOp>) {
    let (mut disk, _, _) = open(config).unwrap();
    perform(&mut disk, ops);
    disk.finish_checkpoints();
}

fn remove_snapshots(scratch: &Scratch) {
    for name in scratch.names().iter().filter(|name| name.starts_with("snapshot.")) {
        fs::remove_file(scratch.file(name)).unwrap();
    }
}

#[test]
fn a_server_opens_what_it_wrote_whatever_its_first_epoch() {
    for epoch in [1, 7] {
        let scratch = Scratch::new();
        write(server_config(&scratch), vec![DiskOp::AcceptedEpoch(Epoch(epoch)), append(epoch, 1..=3, 10)]);
        let (_, recovered, repairs) = open(server_config(&scratch)).unwrap();
        assert_eq!((recovered.entries.len(), repairs.len()), (3, 0));
    }
}

#[test]
fn a_log_without_snapshots_is_refused_and_nothing_is_changed() {
    let scratch = Scratch::new();
    write(server_config(&scratch), vec![append(1, 1..=3, 10), DiskOp::Checkpoint(snapshot(zxid(1, 3), b"state"))]);
    write(server_config(&scratch), vec![append(2, 1..=3, 10)]);
    // The rest begins with the first transaction of an epoch, like a complete history.
    fs::remove_file(scratch.file("log.100000001")).unwrap();
    remove_snapshots(&scratch);
    let before = scratch.contents();
    let refused = open(server_config(&scratch)).map(|_| ());
    let Err(error @ OpenError::NoSnapshot { .. }) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains("log.200000001"), "{error}");
    assert!(error.to_string().contains("snapshot.trust.empty=true"), "{error}");
    assert_eq!(scratch.contents(), before);
}

#[test]
fn a_blank_data_dir_beside_old_logs_is_refused() {
    let (data, log) = (Scratch::new(), Scratch::new());
    let config = |data: &Scratch| Config { data_log_dir: log.path().into(), ..server_config(data) };
    write(config(&data), vec![append(1, 1..=3, 10)]);
    let blank = Scratch::new();
    let refused = open(config(&blank)).map(|_| ());
    assert!(matches!(refused, Err(OpenError::NoSnapshot { .. })), "{refused:?}");
    open(config(&data)).unwrap();
}

#[test]
fn a_blank_log_dir_beside_an_old_data_dir_is_refused_if_it_held_more_than_the_snapshot() {
    let (data, log, blank) = (Scratch::new(), Scratch::new(), Scratch::new());
    let config = |log: &Scratch| Config { data_log_dir: log.path().into(), ..server_config(&data) };
    write(config(&log), vec![append(1, 1..=3, 10), DiskOp::Checkpoint(snapshot(zxid(1, 2), b"state"))]);
    let refused = open(config(&blank)).map(|_| ());
    assert!(matches!(refused, Err(OpenError::Damaged(_))), "{refused:?}");
    write(config(&log), vec![DiskOp::Checkpoint(snapshot(zxid(1, 3), b"state"))]);
    assert_eq!(open(config(&blank)).unwrap().1.standing().last_zxid, zxid(1, 3));
}

/// An operator wipes a server by removing its logs and snapshots. The remaining files must not make it count as a
/// server with a history, but its promises remain valid.
#[test]
fn a_server_whose_logs_and_snapshots_were_all_removed_is_blank() {
    for apart in [false, true] {
        for epochs_left in [&["acceptedEpoch", "currentEpoch"][..], &["acceptedEpoch"], &["currentEpoch"], &[]] {
            let (data, other) = (Scratch::new(), Scratch::new());
            let log = if apart { &other } else { &data };
            let config = || Config { data_log_dir: log.path().into(), ..server_config(&data) };
            let epochs = [DiskOp::AcceptedEpoch(Epoch(3)), DiskOp::CurrentEpoch(Epoch(3))];
            write(config(), epochs.into_iter().chain([append(3, 1..=3, 10)]).collect());
            remove_snapshots(&data);
            fs::remove_file(log.file("log.300000001")).unwrap();
            for name in ["acceptedEpoch", "currentEpoch"].iter().filter(|name| !epochs_left.contains(name)) {
                fs::remove_file(data.file(name)).unwrap();
            }
            let what = format!("apart: {apart}, left: {epochs_left:?}");
            let accepted = if epochs_left.is_empty() { Epoch(0) } else { Epoch(3) };

            let (disk, recovered, repairs) = open(config()).unwrap();
            assert!(
                repairs.iter().any(|repair| repair.what.contains("starts as a blank server")),
                "{what}: {repairs:?}"
            );
            assert_eq!((recovered.accepted_epoch, recovered.current_epoch), (accepted, Epoch(0)), "{what}");
            assert!(recovered.snapshot.is_none() && recovered.entries.is_empty(), "{what}: {recovered:?}");
            drop(disk);

            // This is reported once, and the next start finds the same.
            let (mut disk, recovered, repairs) = open(config()).unwrap();
            assert_eq!((recovered.accepted_epoch, recovered.current_epoch), (accepted, Epoch(0)), "{what}");
            assert!(repairs.is_empty(), "{what}: {repairs:?}");
            perform(&mut disk, vec![append(4, 1..=2, 10)]);
            drop(disk);
            assert_eq!(zxids(&open(config()).unwrap().1), [zxid(4, 1), zxid(4, 2)], "{what}");
        }
    }
}

#[test]
fn an_operator_can_trust_a_log_without_snapshots_for_one_start() {
    let scratch = Scratch::new();
    write(server_config(&scratch), vec![append(1, 1..=3, 10)]);
    remove_snapshots(&scratch);
    let (mut disk, recovered, repairs) = open(Config { trust_empty: true, ..server_config(&scratch) }).unwrap();
    assert_eq!(recovered.entries.len(), 3);
    assert!(repairs.iter().any(|repair| repair.what.contains("snapshot.trust.empty")), "{repairs:?}");
    perform(&mut disk, vec![append(1, 4..=4, 10)]);
    drop(disk);
    assert_eq!(zxids(&open(server_config(&scratch)).unwrap().1).len(), 4);
}

#[test]
fn a_trusted_log_that_begins_late_continues_an_empty_state() {
    let scratch = Scratch::new();
    write(server_config(&scratch), vec![append(1, 1..=3, 10)]);
    write(server_config(&scratch), vec![append(1, 4..=6, 10)]);
    remove_snapshots(&scratch);
    fs::remove_file(scratch.file("log.100000001")).unwrap();
    assert!(matches!(open(server_config(&scratch)), Err(OpenError::NoSnapshot { .. })));
    let (_, recovered, repairs) = open(Config { trust_empty: true, ..server_config(&scratch) }).unwrap();
    assert_eq!((recovered.snapshot_zxid(), zxids(&recovered)), (zxid(1, 3), vec![zxid(1, 4), zxid(1, 5), zxid(1, 6)]));
    assert!(repairs.iter().any(|repair| repair.what.contains("everything before it is lost")), "{repairs:?}");
    // Trust is needed only once.
    assert_eq!(zxids(&open(server_config(&scratch)).unwrap().1).len(), 3);
}

/// The first transaction of a new epoch may follow any other; the header of its file names the one that it follows.
#[test]
fn a_missing_file_before_a_new_epoch_is_detected() {
    let scratch = Scratch::new();
    for epoch in 1..=3 {
        write(server_config(&scratch), vec![append(epoch, 1..=3, 10)]);
    }
    let whole = scratch.contents();
    for missing in ["log.100000001", "log.200000001"] {
        fs::remove_file(scratch.file(missing)).unwrap();
        match open(server_config(&scratch)).map(|_| ()) {
            Err(OpenError::Damaged(damage)) => assert!(damage.got.contains("which comes after"), "{damage}"),
            other => panic!("without {missing}: {other:?}"),
        }
        fs::write(scratch.file(missing), &whole[missing]).unwrap();
    }
    assert_eq!(open(server_config(&scratch)).unwrap().1.entries.len(), 9);
}

/// Files of Apache, and of earlier versions of Pole, do not name the transaction that they follow.
#[test]
fn a_header_without_the_preceding_transaction_is_accepted() {
    let scratch = Scratch::new();
    for epoch in 1..=3 {
        write(server_config(&scratch), vec![append(epoch, 1..=3, 10)]);
    }
    for name in scratch.names().iter().filter(|name| name.starts_with("log.")) {
        let mut bytes = fs::read(scratch.file(name)).unwrap();
        bytes[8..16].fill(0);
        fs::write(scratch.file(name), bytes).unwrap();
    }
    scratch.forget_progress();
    assert_eq!(open(server_config(&scratch)).unwrap().1.entries.len(), 9);
}
