//! Directories written by Apache ZooKeeper 3.8; `fixtures/README.md` describes how they were made.

use pole_jute::{Record, TxnEntry};
use pole_storage::Recovered;
use pole_types::{Epoch, Zxid};
use pole_zab::DiskOp;
use std::fs;

use crate::scratch::{Scratch, append, perform, zxid, zxids};

/// Checks that every entry is a complete transaction that matches its zxid and origin.
fn check_entries(recovered: &Recovered) {
    for entry in &recovered.entries {
        let txn = TxnEntry::decode(entry.body.clone()).unwrap();
        assert_eq!(txn.header.zxid, entry.zxid.0 as i64);
        assert_eq!((txn.header.client_id, txn.header.cxid), (entry.origin.session.0, entry.origin.cxid.0));
        assert!(txn.digest.is_some());
    }
}

#[test]
fn the_directory_of_a_standalone_server_opens_completely() {
    let scratch = Scratch::of_fixture("apache-standalone");
    let before = scratch.contents();
    let (disk, recovered, repairs) = scratch.open();
    drop(disk);
    assert_eq!((repairs, scratch.contents()), (vec![], before));
    assert_eq!(recovered.snapshot_zxid(), Zxid(0x40));
    assert_eq!((recovered.accepted_epoch, recovered.current_epoch), (Epoch(0), Epoch(0)));
    let (first, last) = (Zxid(1), recovered.standing().last_zxid);
    assert_eq!(zxids(&recovered), (first.0..=last.0).map(Zxid).collect::<Vec<_>>());
    check_entries(&recovered);
}

#[test]
fn the_directory_of_an_ensemble_member_opens_completely() {
    let scratch = Scratch::of_fixture("apache-ensemble");
    let (_, recovered, repairs) = scratch.open();
    assert_eq!(repairs, []);
    assert_eq!(recovered.snapshot_zxid(), zxid(2, 0x17));
    assert_eq!((recovered.accepted_epoch, recovered.current_epoch), (Epoch(2), Epoch(2)));
    assert_eq!(recovered.entries.first().map(|entry| entry.zxid), Some(zxid(1, 1)));
    assert!(recovered.standing().last_zxid > zxid(2, 0x18));
    check_entries(&recovered);
}

#[test]
fn every_snapshot_of_apache_is_valid_and_its_digest_is_not_part_of_the_state() {
    for fixture in ["apache-standalone", "apache-ensemble"] {
        let scratch = Scratch::of_fixture(fixture);
        let mut snapshots: Vec<_> = scratch.names().into_iter().filter(|name| name.starts_with("snapshot.")).collect();
        snapshots.sort_by_key(|name| u64::from_str_radix(&name["snapshot.".len()..], 16).unwrap());
        // Newest first: each is found when the newer ones are gone.
        while let Some(name) = snapshots.pop() {
            let body = scratch.open().1.snapshot.unwrap().body.to_bytes();
            let file = fs::read(scratch.file(&name)).unwrap();
            assert_eq!(body[..], file[16..16 + body.len()]);
            // The state ends with the string that ends its nodes, without the seals and the digest.
            assert_eq!(body[body.len() - 5..], *b"\0\0\0\x01/");
            assert_eq!(file.len(), 16 + body.len() + 13 + 20 + 13, "{name}");
            fs::remove_file(scratch.file(&name)).unwrap();
        }
    }
}

#[test]
fn a_directory_of_apache_is_continued() {
    let scratch = Scratch::of_fixture("apache-ensemble");
    let (mut disk, before, _) = scratch.open();
    perform(&mut disk, vec![DiskOp::TakeOver(Epoch(3)), append(3, 1..=2, 10)]);
    drop(disk);
    let (_, after, _) = scratch.open();
    assert_eq!(after.entries.len(), before.entries.len() + 2);
    assert_eq!(after.standing().last_zxid, zxid(3, 2));
}

#[test]
fn an_empty_log_file_of_apache_is_no_damage() {
    for content in [&b""[..], b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0", &[0; 100]] {
        let scratch = Scratch::of_fixture("apache-ensemble");
        let before = zxids(&scratch.open().1);
        fs::write(scratch.file("log.300000001"), content).unwrap();
        assert_eq!(scratch.found(), before);
    }
}
