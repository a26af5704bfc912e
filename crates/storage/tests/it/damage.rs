//! What a crash may leave is cut off and reported; any other damage is refused, and nothing is changed.

use pole_storage::{Damage, OpenError};
use pole_zab::DiskOp;
use std::fs;

use crate::scratch::{Scratch, append, receive, snapshot, zxid};

/// Three records of 45 + 20 bytes after the header.
const FIRST: usize = 16;
const RECORD: usize = 45 + 20;
const LOG: &str = "log.100000001";
const SECTOR: usize = 512;

fn three() -> Scratch {
    let scratch = Scratch::new();
    scratch.write(vec![append(1, 1..=3, 20)]);
    scratch.forget_progress();
    scratch
}

fn damage(scratch: &Scratch) -> Damage {
    let before = scratch.contents();
    match scratch.try_open() {
        Err(OpenError::Damaged(damage)) => {
            assert_eq!(scratch.contents(), before, "a refusal changes nothing");
            damage
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_last_record_that_is_cut_short_anywhere_is_cut_off() {
    let scratch = three();
    let whole = fs::read(scratch.file(LOG)).unwrap();
    for cut in FIRST + 2 * RECORD + 1..FIRST + 3 * RECORD {
        fs::write(scratch.file(LOG), &whole[..cut]).unwrap();
        let (_, recovered, repairs) = scratch.open();
        assert_eq!(recovered.entries.len(), 2, "cut at {cut}");
        // The first four bytes of a record are zeros, as is the room after the last one.
        let unseen = cut <= FIRST + 2 * RECORD + 4;
        assert_eq!(repairs.iter().filter(|repair| repair.path == scratch.file(LOG)).count(), usize::from(!unseen));
        assert_eq!(scratch.open().1.entries.len(), 2);
    }
}

/// A disk writes whole sectors, so an interrupted write ends at a sector boundary. Zeros from elsewhere are damage,
/// unless a sector after them may be missing as well.
#[test]
fn a_last_record_that_misses_whole_sectors_is_cut_off() {
    let scratch = Scratch::new();
    scratch.write(vec![append(1, 1..=2, 20), append(1, 3..=3, 1500)]);
    scratch.forget_progress();
    let whole = fs::read(scratch.file(LOG)).unwrap();
    for cut in FIRST + 2 * RECORD..FIRST + 2 * RECORD + 1540 {
        let mut torn = whole.clone();
        torn[cut..].fill(0);
        fs::write(scratch.file(LOG), &torn).unwrap();
        if cut.is_multiple_of(SECTOR) || cut <= FIRST + 2 * RECORD + 4 {
            assert_eq!(scratch.open().1.entries.len(), 2, "zeros from {cut}");
        } else if cut > 3 * SECTOR {
            assert_eq!(damage(&scratch).offset, (FIRST + 2 * RECORD) as u64, "zeros from {cut}");
        }
    }
}

#[test]
fn a_file_whose_first_record_is_cut_short_is_removed() {
    let scratch = Scratch::new();
    scratch.write(vec![append(1, 1..=1, 20)]);
    scratch.forget_progress();
    let whole = fs::read(scratch.file(LOG)).unwrap();
    for cut in 0..FIRST + RECORD {
        fs::write(scratch.file(LOG), &whole[..cut]).unwrap();
        let (_, recovered, repairs) = scratch.open();
        assert_eq!((recovered.entries.len(), repairs.len()), (0, 1), "cut at {cut}");
        assert!(!scratch.file(LOG).exists());
    }
}

#[test]
fn a_flipped_bit_before_the_last_record_is_refused_with_its_place() {
    let scratch = three();
    let whole = fs::read(scratch.file(LOG)).unwrap();
    for at in FIRST + RECORD..FIRST + 2 * RECORD {
        for bit in [0, 5, 7] {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            fs::write(scratch.file(LOG), flipped).unwrap();
            let damage = damage(&scratch);
            assert_eq!(
                (damage.path, damage.offset),
                (scratch.file(LOG), (FIRST + RECORD) as u64),
                "byte {at} bit {bit}"
            );
        }
    }
}

#[test]
fn an_invalid_header_is_refused_if_records_follow() {
    let scratch = three();
    let mut bytes = fs::read(scratch.file(LOG)).unwrap();
    bytes[0] = b'X';
    fs::write(scratch.file(LOG), bytes).unwrap();
    assert_eq!(damage(&scratch).offset, 0);
}

#[test]
fn an_error_names_file_offset_expected_got_and_remedy() {
    let scratch = three();
    let mut bytes = fs::read(scratch.file(LOG)).unwrap();
    bytes[FIRST + RECORD + 7] ^= 0xff;
    fs::write(scratch.file(LOG), bytes).unwrap();
    let text = damage(&scratch).to_string();
    for part in ["log.100000001 at byte 81: expected the checksum 0x", ", got 0x", "Keep a copy"] {
        assert!(text.contains(part), "{text}");
    }
}

/// Blocks of one write reach the disk in any order, so one in the middle may be missing while later ones are present.
#[test]
fn a_batch_that_misses_a_block_is_cut_off_where_that_begins() {
    let scratch = Scratch::new();
    scratch.write(vec![append(1, 1..=2, 20), append(1, 3..=6, 5000)]);
    scratch.forget_progress();
    let mut bytes = fs::read(scratch.file(LOG)).unwrap();
    bytes[8192..12288].fill(0);
    fs::write(scratch.file(LOG), bytes).unwrap();
    let (_, recovered, repairs) = scratch.open();
    assert_eq!(recovered.entries.len(), 3);
    assert!(repairs.iter().any(|repair| repair.to_string().contains("torn tail")), "{repairs:?}");
}

#[test]
fn a_missing_block_further_back_than_a_batch_is_refused() {
    let scratch = Scratch::new();
    scratch.write(vec![append(1, 1..=300, 5000)]);
    scratch.forget_progress();
    let mut bytes = fs::read(scratch.file(LOG)).unwrap();
    bytes[8192..12288].fill(0);
    fs::write(scratch.file(LOG), bytes).unwrap();
    assert_eq!(damage(&scratch).path, scratch.file(LOG));
}

#[test]
fn a_missing_file_is_a_gap() {
    let scratch = Scratch::new();
    for counters in [1..=3, 4..=6, 7..=9] {
        scratch.write(vec![append(1, counters, 20)]);
    }
    fs::remove_file(scratch.file("log.100000004")).unwrap();
    let damage = damage(&scratch);
    assert_eq!((damage.path, damage.offset), (scratch.file("log.100000007"), FIRST as u64));
    assert_eq!((&*damage.expected, &*damage.got), ("the transaction after 1.3", "1.7, which comes after 1.6"));
}

#[test]
fn a_log_that_starts_above_the_snapshot_is_a_gap() {
    let scratch = Scratch::new();
    scratch.write(vec![append(1, 1..=3, 20), DiskOp::Checkpoint(snapshot(zxid(1, 2), b"state"))]);
    scratch.write(vec![append(1, 4..=6, 20)]);
    fs::remove_file(scratch.file(LOG)).unwrap();
    assert_eq!(damage(&scratch).got, "1.4, which comes after 1.3");
}

/// Apache starts a new file after a torn end and leaves the end as it is.
#[test]
fn a_torn_end_that_the_next_file_continues_is_no_damage() {
    let scratch = three();
    scratch.write(vec![append(1, 4..=5, 20)]);
    let mut bytes = fs::read(scratch.file(LOG)).unwrap();
    bytes.truncate(FIRST + 3 * RECORD);
    bytes.extend_from_slice(&[0, 0, 0, 0, 1, 2, 3]);
    fs::write(scratch.file(LOG), bytes).unwrap();
    let (_, recovered, repairs) = scratch.open();
    assert_eq!((recovered.entries.len(), repairs), (5, vec![]));
}

/// The record may have been durable and is now lost; the first transaction of a new epoch does not show that.
#[test]
fn a_bad_end_before_a_file_of_a_new_epoch_is_refused() {
    let scratch = three();
    scratch.write(vec![append(2, 1..=2, 20)]);
    let mut bytes = fs::read(scratch.file(LOG)).unwrap();
    bytes[FIRST + 2 * RECORD + 30] ^= 1;
    fs::write(scratch.file(LOG), bytes).unwrap();
    assert_eq!(damage(&scratch).offset, (FIRST + 2 * RECORD) as u64);
}

#[test]
fn damage_below_the_snapshot_is_skipped_and_reported() {
    let scratch = Scratch::new();
    for counters in [1..=3, 4..=6, 7..=9] {
        scratch.write(vec![append(1, counters, 20)]);
    }
    scratch.write(vec![DiskOp::Checkpoint(snapshot(zxid(1, 8), b"state"))]);
    let mut bytes = fs::read(scratch.file(LOG)).unwrap();
    bytes[FIRST + 30] ^= 1;
    fs::write(scratch.file(LOG), bytes).unwrap();
    let (_, recovered, repairs) = scratch.open();
    assert_eq!(recovered.entries.first().map(|entry| entry.zxid), Some(zxid(1, 4)));
    assert!(repairs.iter().any(|repair| repair.path == scratch.file(LOG)), "{repairs:?}");
}

#[test]
fn a_bad_snapshot_is_skipped_if_an_older_one_and_the_log_contain_everything() {
    for cut in [0, 5, 17, 30] {
        let scratch = Scratch::new();
        scratch.write(vec![append(1, 1..=3, 20), DiskOp::Checkpoint(snapshot(zxid(1, 2), b"older"))]);
        scratch.write(vec![append(1, 4..=6, 20), DiskOp::Checkpoint(snapshot(zxid(1, 5), b"newer"))]);
        let newest = scratch.file("snapshot.100000005");
        let mut bytes = fs::read(&newest).unwrap();
        bytes.truncate(cut);
        fs::write(&newest, bytes).unwrap();
        let (_, recovered, repairs) = scratch.open();
        assert_eq!(recovered.snapshot, Some(snapshot(zxid(1, 2), b"older")));
        assert_eq!(recovered.standing().last_zxid, zxid(1, 6));
        assert!(repairs.iter().any(|repair| repair.path == newest), "{repairs:?}");
    }
}

#[test]
fn any_flipped_bit_of_the_only_snapshot_is_refused() {
    let scratch = Scratch::new();
    scratch.write(vec![append(1, 1..=3, 20), DiskOp::Checkpoint(snapshot(zxid(1, 2), b"state"))]);
    let path = scratch.file("snapshot.100000002");
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        fs::write(&path, flipped).unwrap();
        let refused = scratch.try_open();
        assert!(matches!(refused, Err(OpenError::Damaged(_) | OpenError::Version { .. })), "byte {at}: {refused:?}");
    }
}

/// Apache leaves an old log beside a leader's snapshot, and the first transaction of a new epoch seems to continue it.
#[test]
fn a_log_that_ends_below_the_snapshot_is_not_continued_by_later_entries() {
    let scratch = Scratch::new();
    scratch.write(vec![append(1, 1..=3, 20), DiskOp::Checkpoint(snapshot(zxid(2, 9), b"leader's"))]);
    scratch.write(vec![append(3, 1..=2, 20)]);
    assert_eq!(scratch.found(), [zxid(3, 1), zxid(3, 2)]);
}

/// The leader's snapshot had replaced the log. The older snapshot does not lead to what follows, though the first
/// transaction of a new epoch seems to continue it.
#[test]
fn a_bad_snapshot_is_refused_if_the_log_does_not_lead_to_it() {
    let scratch = Scratch::new();
    scratch.write(vec![append(1, 1..=3, 20), DiskOp::Checkpoint(snapshot(zxid(1, 3), b"older"))]);
    let at = zxid(2, 9);
    scratch.write(vec![receive(at, b"leader's"), DiskOp::Install { zxid: at }, append(3, 1..=1, 20)]);
    let newest = scratch.file("snapshot.200000009");
    fs::write(&newest, &fs::read(&newest).unwrap()[..20]).unwrap();
    assert_eq!(damage(&scratch).path, newest);
}

/// Data that is durable according to the lock file is never cut off.
#[test]
fn nothing_before_the_durable_end_is_cut_off() {
    let scratch = Scratch::new();
    scratch.write(vec![append(1, 1..=3, 20), append(1, 4..=9, 2000)]);
    let whole = fs::read(scratch.file(LOG)).unwrap();
    let end = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let mut cases = Vec::new();
    for cut in [0, 1, FIRST, FIRST + RECORD, FIRST + RECORD + 7, SECTOR, 4096, 8192, end - 1] {
        cases.push((format!("cut at {cut}"), whole[..cut].to_vec()));
        let mut zeroed = whole.clone();
        zeroed[cut..].fill(0);
        cases.push((format!("zeros from {cut}"), zeroed));
    }
    for sector in 0..end / SECTOR {
        let mut missing = whole.clone();
        missing[sector * SECTOR..(sector + 1) * SECTOR].fill(0);
        cases.push((format!("sector {sector} missing"), missing));
    }
    for (what, bytes) in cases {
        fs::write(scratch.file(LOG), bytes).unwrap();
        let damage = damage(&scratch);
        assert_eq!(damage.path, scratch.file(LOG), "{what}");
        assert!(damage.offset < end as u64, "{what}");
    }
}

#[test]
fn what_remains_after_a_truncation_is_durable() {
    let scratch = Scratch::new();
    scratch.write(vec![append(1, 1..=9, 2000), DiskOp::Truncate { to: zxid(1, 5) }]);
    let whole = fs::read(scratch.file(LOG)).unwrap();
    let mut missing = whole.clone();
    missing[4 * 2045..].fill(0);
    for bytes in [whole[..4 * 2045].to_vec(), missing] {
        fs::write(scratch.file(LOG), bytes).unwrap();
        assert_eq!(damage(&scratch).path, scratch.file(LOG));
    }
    fs::write(scratch.file(LOG), &whole).unwrap();
    assert_eq!(scratch.open().1.standing().last_zxid, zxid(1, 5));
}

#[test]
fn a_missing_newest_log_file_is_detected_unless_a_snapshot_contains_it() {
    let scratch = Scratch::new();
    scratch.write(vec![append(1, 1..=3, 20)]);
    scratch.write(vec![append(1, 4..=6, 20)]);
    let newest = scratch.file("log.100000004");
    fs::remove_file(&newest).unwrap();
    assert_eq!(damage(&scratch).path, newest);

    let scratch = Scratch::new();
    scratch.write(vec![append(1, 1..=3, 20), DiskOp::Checkpoint(snapshot(zxid(1, 3), b"state"))]);
    fs::remove_file(scratch.file(LOG)).unwrap();
    assert_eq!(scratch.open().1.standing().last_zxid, zxid(1, 3));
}

#[test]
fn any_flipped_bit_of_the_last_record_is_refused() {
    let scratch = three();
    let whole = fs::read(scratch.file(LOG)).unwrap();
    for at in FIRST + 2 * RECORD..FIRST + 3 * RECORD {
        for bit in 0..8 {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            fs::write(scratch.file(LOG), flipped).unwrap();
            assert_eq!(damage(&scratch).offset, (FIRST + 2 * RECORD) as u64, "byte {at} bit {bit}");
        }
    }
}

/// The last transaction of a batch may be large while a block before it is missing.
#[test]
fn a_torn_batch_that_ends_in_a_large_transaction_is_cut_off() {
    let scratch = Scratch::new();
    let large =
        (1..=3).map(|counter| crate::scratch::entry(zxid(1, counter), if counter == 3 { 4 << 20 } else { 900 }));
    scratch.write(vec![DiskOp::Append(large.collect())]);
    scratch.forget_progress();
    let mut bytes = fs::read(scratch.file(LOG)).unwrap();
    bytes[SECTOR..2 * SECTOR].fill(0);
    fs::write(scratch.file(LOG), bytes).unwrap();
    assert_eq!(scratch.found(), []);
}

/// Without syncs any number of writes may be lost, and the operator has accepted that.
#[test]
fn without_syncs_a_missing_block_far_back_is_torn() {
    let scratch = Scratch::new();
    let config = || pole_storage::Config { sync: false, ..scratch.config() };
    let (mut disk, _, _) = pole_storage::open(config()).unwrap();
    crate::scratch::perform(&mut disk, vec![append(1, 1..=300, 5000)]);
    drop(disk);
    let mut bytes = fs::read(scratch.file(LOG)).unwrap();
    bytes[8192..12288].fill(0);
    fs::write(scratch.file(LOG), bytes).unwrap();
    assert_eq!(pole_storage::open(config()).unwrap().1.standing().last_zxid, zxid(1, 1));
}
