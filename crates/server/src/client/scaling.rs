//! Benchmark: whether reads scale with the number of cores, over the whole path of a read in the server but without
//! sockets.
//!
//! Each thread has its own connection, fed with batches of getData as with sixteen outstanding requests, and discards
//! the replies. The tree, its lock and the counters are shared, as in a server.

use std::sync::Arc;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use pole_client::{connect_frame, connect_request, get_data, request_frame};
use pole_jute::{CreateTxn, OpCode, Txn, TxnEntry, TxnHeader};
use pole_node::AttachAnswer;
use pole_tree::{Caller, Changes};
use tokio::io::{Empty, Sink};

use super::connection::Connection;
use super::handle::Handle;
use crate::clock::Clock;
use crate::config::Config;
use crate::settings::Settings;
use crate::shared::Shared;

/// Run with `cargo test --release -p pole-server reads_scale -- --ignored --nocapture` on a quiet machine.
#[test]
#[ignore = "a benchmark: it needs two quiet cores"]
fn reads_scale_with_the_cores() {
    let shared = server_with_nodes();
    let mut best = 0.0_f64;
    for round in 1..=ROUNDS {
        // Short alternating slices, so that other load on the machine affects both measurements equally.
        let (mut one, mut two) = (0.0, 0.0);
        for _ in 0..SLICES {
            one += reads_a_second(&shared, 1) / f64::from(SLICES);
            two += reads_a_second(&shared, 2) / f64::from(SLICES);
        }
        println!("round {round}: one thread {one:.0} reads/s, two threads {two:.0} reads/s, {:.2} times", two / one);
        best = best.max(two / one);
    }
    assert!(best >= 1.7, "two threads read {best:.2} times as much as one; expected 1.7");
}

fn reads_a_second(shared: &Arc<Shared>, threads: u64) -> f64 {
    let start = Barrier::new(usize::try_from(threads).expect("a few"));
    let counts: Vec<(u64, Duration)> = std::thread::scope(|scope| {
        let read = |thread| {
            let (shared, start) = (Arc::clone(shared), &start);
            scope.spawn(move || {
                let mut connection = connection(&shared);
                let batch = batch(thread);
                start.wait();
                let (begin, mut count) = (Instant::now(), 0);
                while begin.elapsed() < LENGTH {
                    for _ in 0..BATCHES_BETWEEN_LOOKS {
                        connection.feed(&batch);
                        count += BATCH;
                    }
                }
                (count, begin.elapsed())
            })
        };
        let running: Vec<_> = (0..threads).map(read).collect();
        running.into_iter().map(|thread| thread.join().expect("a reader")).collect()
    });
    counts.into_iter().map(|(count, took)| count as f64 / took.as_secs_f64()).sum()
}

fn server_with_nodes() -> Arc<Shared> {
    let parsed =
        Config::parse_cfg("zoo.cfg", "dataDir=/nowhere\nclientPort=1", &|_| Err(std::io::Error::other("none")));
    let (config, _) = parsed.expect("a configuration");
    let shared = Shared::new(Settings::new(&config), Clock::start(), 0);
    for number in 0..NODES {
        let zxid = i64::try_from(number).expect("few") + 1;
        let header = TxnHeader { client_id: 1, cxid: 1, zxid, time: 0, op: OpCode::Create.number() };
        let data = Some(vec![b'x'; 1024].into());
        let txn = CreateTxn { path: path(number), data, acl: Vec::new(), ephemeral: false, parent_cversion: 0 };
        let entry = TxnEntry { header, txn: Txn::Create(txn), digest: None };
        shared.tree.write().apply(&entry, false, &mut Changes::new());
    }
    Arc::new(shared)
}

fn connection(shared: &Arc<Shared>) -> Connection<Empty, Sink> {
    let address = ([127, 0, 0, 1], 1).into();
    let handle = Handle::new(shared, address, Caller::default(), None);
    let handle = Arc::new(handle);
    let request = connect_frame(&connect_request(Duration::from_secs(40)));
    handle.advance(shared, &mut BytesMut::from(request), &mut Vec::new());
    handle.attached(AttachAnswer::Opened { timeout_ms: 40_000 });
    while !handle.take_piece(usize::MAX, shared.call_context()).is_empty() {
        handle.piece_sent();
    }
    Connection::new(Arc::clone(shared), handle, tokio::io::empty(), None)
}

fn batch(thread: u64) -> Vec<u8> {
    let read = |number| request_frame(1, &get_data(&path((thread * 31 + number) % NODES), false));
    (0..BATCH).flat_map(read).collect()
}

fn path(number: u64) -> String {
    format!("/bench-{number:04}")
}

const ROUNDS: usize = 9;
const SLICES: u32 = 10;
const NODES: u64 = 1_000;
const BATCH: u64 = 16;
const BATCHES_BETWEEN_LOOKS: usize = 100;
const LENGTH: Duration = Duration::from_millis(50);
