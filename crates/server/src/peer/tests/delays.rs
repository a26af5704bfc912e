//! Tests of emulated lines over real sockets.
//!
//! A message must never be early. How late it is depends on the load of the machine, so the example `links` measures
//! that instead.

use std::time::Instant;

use pole_topology::Link as Line;

use super::*;

fn delays(to: u64, rtt_ms: u64) -> Option<Delays> {
    let rtt_ns = rtt_ms * 1_000_000;
    let line = Line { rtt_ns, jitter_ppm: 0, loss_ppm: 0, bandwidth_bps: 1 << 40, window_bytes: 1 << 40 };
    Some(Delays { lines: [(ServerId(to), line)].into(), cut: [].into(), seed: 1 })
}

#[test]
fn a_message_takes_half_the_round_trip_of_its_line_and_order_is_kept() {
    run(async {
        let mut configs = ensemble(2);
        configs[0].delays = delays(2, 40);
        let (mut one, two) = pair(configs).await;
        let sent = Instant::now();
        (0..100).for_each(|seq| one.send(2, &ping(seq)));
        one.peers.flush();
        for seq in 0..100 {
            while two.next().await != received(1, ping(seq)) {}
            assert!(sent.elapsed() >= Duration::from_millis(20));
        }
    });
}

#[test]
fn lines_change_while_the_link_is_open() {
    run(async {
        let (mut one, two) = pair(ensemble(2)).await;
        one.peers.set_delays(delays(2, 100));
        let sent = Instant::now();
        one.send(2, &ping(1));
        one.peers.flush();
        one.peers.set_delays(None);
        one.send(2, &ping(2));
        one.peers.flush();
        while two.next().await != received(1, ping(1)) {}
        assert!(sent.elapsed() >= Duration::from_millis(50));
        assert_eq!(two.next().await, received(1, ping(2)));
    });
}

#[test]
fn the_lines_of_a_server_are_those_of_the_topology() {
    let topology = pole_topology::Topology::preset(pole_topology::PRESETS[0].0).expect("it comes with the crate");
    let ids: Vec<u64> = topology.servers().map(|server| server.id).collect();
    let delays = Delays::of(&topology, ServerId(ids[0]), 7);
    assert_eq!(delays.lines.len(), ids.len() - 1);
    assert_eq!(delays.lines.get(&ServerId(ids[1])).copied(), topology.link(ids[0], ids[1]));
}
