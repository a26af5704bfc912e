//! Prints measurements in CPU time, which depends little on the load of the machine. Nothing is asserted.
//!
//! Run with `cargo test -p pole-tree --release --test it -- --ignored --nocapture speed`.

use std::hint::black_box;

use bytes::Bytes;
use pole_jute::{CreateMode, GetDataRequest, Record, Request, TxnEntry, Writer};
use pole_tree::{Changes, Position, Prepared, RequestOrigin, Rules, Tree, Watcher, Watches};

use crate::server::{ALICE, Server, body, encode_write, new_node, set_data};

const NODES: usize = 100_000;
const ROUNDS: u32 = 200_000;
/// Transactions that are prepared before the first of them is applied.
const BATCH: usize = 1000;

/// A server with 100,000 nodes of 100 bytes.
fn large() -> Server {
    let mut server = Server::with(Rules::default());
    for at in 0..NODES / 1000 {
        server.create(&format!("/dir-{at:03}"), CreateMode::Persistent);
        for child in 0..1000 {
            let path = format!("/dir-{at:03}/node-{child:06}");
            server.write(&Request::Create(new_node(&path, &[7; 100], CreateMode::Persistent))).unwrap();
        }
    }
    server
}

fn per_round(what: &str, rounds: u32, work: impl FnOnce()) {
    let start = cpu_ns();
    work();
    println!("{what}: {:.0} ns", (cpu_ns() - start) as f64 / f64::from(rounds));
}

#[test]
#[ignore = "prints figures; wants --release"]
fn speed_of_set_data() {
    let mut server = large();
    let paths: Vec<String> = (0..BATCH).map(|at| format!("/dir-{:03}/node-{:06}", at % 100, at * 7 % 1000)).collect();
    let requests: Vec<Bytes> =
        paths.iter().map(|path| encode_write(&server.caller, &set_data(path, &[9; 1024], -1))).collect();
    let origin = RequestOrigin { session: ALICE, cxid: 1, floor: i64::MAX };
    let mut prepared = Prepared::new();
    let mut zxid = server.tree.last_zxid();
    let (mut preparing, mut decoding, mut applying) = (0, 0, 0);
    for _ in 0..ROUNDS as usize / BATCH {
        let start = cpu_ns();
        let at = |zxid| Position { zxid, wall_ms: 5 };
        let txns: Vec<Bytes> = (1..)
            .zip(&requests)
            .map(|(n, request)| prepared.prepare(&server.tree, at(zxid + n), origin, request, &|_| false).unwrap())
            .collect();
        preparing += cpu_ns() - start;
        let start = cpu_ns();
        let entries: Vec<TxnEntry> = txns.iter().map(|bytes| TxnEntry::decode(bytes.clone()).unwrap()).collect();
        decoding += cpu_ns() - start;
        let start = cpu_ns();
        let mut changes = Changes::new();
        for entry in &entries {
            changes.clear();
            black_box(server.tree.apply(entry, true, &mut changes));
            prepared.applied(entry.header.zxid);
        }
        applying += cpu_ns() - start;
        zxid += BATCH as i64;
    }
    let each = |total: u64| total / u64::from(ROUNDS);
    println!(
        "setData of 1 KiB: prepare {} ns, decode {} ns, apply with reply {} ns",
        each(preparing),
        each(decoding),
        each(applying)
    );
}

#[test]
#[ignore = "prints figures; wants --release"]
fn speed_of_reads_and_watches() {
    let server = large();
    let request = Request::GetData(GetDataRequest { path: "/dir-050/node-000500".into(), watch: false });
    let mut watches = Watches::new();
    let mut writer = Writer::new();
    per_round("getData of 100 B", ROUNDS, || {
        for _ in 0..ROUNDS {
            let mut events = Vec::new();
            pole_tree::read(
                &server.tree,
                || &mut watches,
                Watcher(1),
                ALICE,
                &server.caller,
                &request,
                &mut writer,
                &mut events,
            );
            black_box(writer.take());
        }
    });
}

#[test]
#[ignore = "prints figures; wants --release"]
fn speed_of_snapshots() {
    let mut server = large();
    per_round("freeze of 100,000 nodes", 1, || drop(black_box(server.tree.freeze())));
    let frozen = server.tree.freeze();
    per_round("first setData after it", 1, || drop(server.set("/dir-000/node-000000", &[1; 100])));
    per_round("writing it", 1, || frozen.write(&mut |piece| assert!(!black_box(piece).is_empty())));
    drop(frozen);
    let bytes = body(&server.tree);
    per_round("restoring it", 1, || drop(black_box(Tree::restore(Rules::default(), &bytes).unwrap())));
}

#[test]
#[ignore = "prints figures; wants --release"]
fn speed_of_a_session_that_ends_with_many_nodes() {
    let mut server = large();
    for number in 0..50_000 {
        server.create(&format!("/dir-000/ephemeral-{number}"), CreateMode::Ephemeral);
    }
    let mut txn = Bytes::new();
    let position = Position { zxid: server.tree.last_zxid() + 1, wall_ms: 5 };
    let origin = RequestOrigin { session: ALICE, cxid: 1, floor: i64::MAX };
    let mut prepared = Prepared::new();
    let request = encode_write(&server.caller, &Request::CloseSession);
    per_round("prepare", 1, || txn = prepared.prepare(&server.tree, position, origin, &request, &|_| false).unwrap());
    let entry = TxnEntry::decode(txn).unwrap();
    let mut changes = Changes::new();
    per_round("apply", 1, || drop(black_box(server.tree.apply(&entry, true, &mut changes))));
    let mut events = Vec::new();
    let watches = server.watches.get_mut();
    watches.fire(&changes, |event, _| events.push(event));
    per_round("fire, nobody watches", 1, || watches.fire(&changes, |event, _| events.push(event)));
    per_round("clear", 1, || changes.clear());
}

#[test]
#[ignore = "prints figures; wants --release"]
fn speed_and_size_of_creates() {
    let before = resident_kb();
    let start = cpu_ns();
    let server = large();
    println!("create of 100 B, from the request to the reply: {} ns", (cpu_ns() - start) / NODES as u64);
    println!("resident for {} nodes: {} KB", server.tree.node_count(), resident_kb() - before);
}

/// The CPU time of this thread, on Linux.
fn cpu_ns() -> u64 {
    // Yielding makes the kernel update the counter.
    std::thread::yield_now();
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// The resident memory of this process, on Linux.
fn resident_kb() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").trim().parse().unwrap_or(0)
}
