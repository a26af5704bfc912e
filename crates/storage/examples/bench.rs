//! Disk benchmark: appends one by one and in batches, inline and by the thread, and a start with 100,000 entries.
//!
//! `cargo run --release -p pole-storage --example bench [DIR]`. Each figure is the median of five rounds.

use pole_storage::{Config, Event, open};
use pole_types::{Cxid, Epoch, SessionId, Zxid};
use pole_zab::{DiskOp, Entry, Origin, Ticket};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

fn main() {
    let dir = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from).join("pole-storage-bench");
    println!("in {}, fdatasync of 1 KiB in a file that has its blocks: {:?}", dir.display(), median(|| floor(&dir)));
    for batch in [1, 50] {
        let took = median(|| inline(&dir, batch, 1000));
        report(&format!("inline, batches of {batch}"), took, 1000 * batch, 1000);
    }
    report("by the thread, one outstanding", median(|| ping_pong(&dir, 1000)), 1000, 1000);
    let mut syncs = 0;
    let took = median(|| {
        let (took, counted) = pipelined(&dir, 20_000);
        syncs = counted;
        took
    });
    report("by the thread, all at once", took, 20_000, syncs);
    println!("start on 100,000 entries of 200 B: {:?}", median(|| restart(&dir)));
    let _ = std::fs::remove_dir_all(&dir);
}

fn report(what: &str, took: Duration, entries: u64, syncs: u64) {
    let rate = entries as f64 / took.as_secs_f64();
    println!("{what}: {rate:.0} entries/s of 1 KiB, {syncs} syncs, {:?} each", took / syncs as u32);
}

fn median(mut round: impl FnMut() -> Duration) -> Duration {
    let mut rounds: Vec<_> = (0..5).map(|_| round()).collect();
    rounds.sort();
    rounds[rounds.len() / 2]
}

/// The cost of the disk itself.
fn floor(dir: &Path) -> Duration {
    use std::os::unix::fs::FileExt;
    std::fs::create_dir_all(dir).unwrap();
    let file = std::fs::File::create(dir.join("floor")).unwrap();
    file.write_all_at(&vec![1; 1 << 20], 0).unwrap();
    file.sync_all().unwrap();
    let began = Instant::now();
    for at in 0..500 {
        file.write_all_at(&[2; 1024], at * 1024).unwrap();
        file.sync_data().unwrap();
    }
    began.elapsed() / 500
}

fn inline(dir: &Path, batch: u64, batches: u64) -> Duration {
    let (mut disk, _, _) = open(config(dir)).unwrap();
    let mut ops = ops(batch * batches, 1024);
    let began = Instant::now();
    for _ in 0..batches {
        let mut now = ops.drain(..batch as usize).collect();
        disk.perform(&mut now).unwrap();
    }
    began.elapsed()
}

fn ping_pong(dir: &Path, entries: u64) -> Duration {
    let (send, events) = channel();
    let writer = open(config(dir)).unwrap().0.start(move |event| drop(send.send(event)));
    let ops = ops(entries, 1024);
    let began = Instant::now();
    for (ticket, op) in ops {
        writer.write(ticket, op);
        assert_eq!(events.recv(), Ok(Event::Written { through: ticket }));
    }
    began.elapsed()
}

fn pipelined(dir: &Path, entries: u64) -> (Duration, u64) {
    let (disk, _, _) = open(config(dir)).unwrap();
    let counts = disk.counts();
    let (send, events) = channel();
    let writer = disk.start(move |event| drop(send.send(event)));
    let ops = ops(entries, 1024);
    let began = Instant::now();
    ops.into_iter().for_each(|(ticket, op)| writer.write(ticket, op));
    let last = Event::Written { through: Ticket(entries) };
    assert!(events.iter().any(|event| event == last));
    (began.elapsed(), counts.syncs())
}

fn restart(dir: &Path) -> Duration {
    let (mut disk, _, _) = open(config(dir)).unwrap();
    disk.perform(&mut ops(100_000, 200)).unwrap();
    drop(disk);
    let began = Instant::now();
    let (_, recovered, _) = open(Config { trust_empty: true, ..Config::in_dir(dir) }).unwrap();
    assert_eq!(recovered.entries.len(), 100_000);
    began.elapsed()
}

/// The configuration of a blank directory.
fn config(dir: &Path) -> Config {
    let _ = std::fs::remove_dir_all(dir);
    Config::in_dir(dir)
}

fn ops(entries: u64, bytes: usize) -> Vec<(Ticket, DiskOp)> {
    let entry = |counter: u64| {
        let zxid = Zxid::new(Epoch(1), counter as u32);
        let mut body = vec![7; bytes];
        body[12..20].copy_from_slice(&zxid.0.to_be_bytes());
        let origin = Origin { session: SessionId(7), cxid: Cxid(7) };
        (Ticket(counter), DiskOp::Append(vec![Entry { zxid, origin, body: body.into() }]))
    };
    (1..=entries).map(entry).collect()
}
