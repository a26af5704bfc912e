//! Benchmark: how long an ensemble is without a leader, and how many messages an election takes.
//!
//! All times are virtual, on a LAN with round trips of 0.1 ms and an fsync of 0.5 ms. The clock stops at the first
//! transaction that the new leader commits.

use std::process::ExitCode;

use pole_sim::{MS, SECOND, Setup, World};

fn main() -> ExitCode {
    println!("LAN: round trip 0.1 ms, fsync 0.5 ms, step 2 µs; virtual time\n");
    println!(
        "{:<44} {:>6} {:>10} {:>10} {:>10}  bound",
        "5 servers, from … to the first commit", "runs", "median", "p99", "max"
    );
    let rows = [
        ("crash of the leader, connections reset", Loss::Crash, Some((15 * MS, 50 * MS))),
        ("silent hang of the leader", Loss::Hang, Some((600 * MS, 600 * MS))),
        ("power loss of the leader", Loss::Power, Some((600 * MS, 600 * MS))),
        ("orderly hand-over, from the request", Loss::HandOver, None),
        // Three round trips and three fsyncs.
        ("orderly hand-over, from its sending", Loss::HandOverSent, Some((1_800_000, 1_800_000))),
    ];
    let held = rows.map(|(name, loss, bounds)| row(name, bounds, (0..RUNS).map(|seed| gap(seed, loss)).collect()));
    println!(
        "\n{:<10} {:>12} {:>22} {:>22}",
        "servers", "served after", "messages at the start", "messages after a crash"
    );
    for servers in [3, 5, 7, 25, 101] {
        elections(servers);
    }
    ExitCode::from(u8::from(held.contains(&false)))
}

/// How the leader is lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    Crash,
    Hang,
    Power,
    HandOver,
    HandOverSent,
}

/// The time from the loss of a leader to the first commit of the next, in nanoseconds. There are enough clients that
/// the first commit does not wait for a request.
fn gap(seed: u64, loss: Loss) -> u64 {
    let mut setup = Setup::lan(seed, 5);
    setup.clients = 40;
    setup.think_time = 2 * MS;
    let mut world = World::new(setup, None);
    // Different seeds lose the leader at different points of a heartbeat interval.
    world.run_until(SECOND / 4 + seed * 7 % 1_000 * MS / 10);
    let leader = world.leader().expect("a leader after a quiet quarter of a second");
    let epoch = world.last_committed().epoch();
    let lost = world.now();
    match loss {
        Loss::Crash => world.kill(leader),
        Loss::Power => world.power_off(leader),
        Loss::Hang => world.pause(leader),
        Loss::HandOver | Loss::HandOverSent => world.transfer(leader, None),
    }
    let mut sent = lost;
    while world.last_committed().epoch() == epoch {
        if world.leader() == Some(leader) && loss == Loss::HandOverSent {
            sent = world.now();
        }
        world.run_until(world.now() + STEP);
        assert!(world.failure().is_none(), "seed {seed}: {:?}", world.failure());
        assert!(world.now() < lost + 20 * SECOND, "seed {seed}: no leader within 20 s");
    }
    world.now() - sent
}

/// Prints a row. Returns whether its bounds on the median and the 99th percentile hold.
fn row(name: &str, bounds: Option<(u64, u64)>, mut gaps: Vec<u64>) -> bool {
    gaps.sort_unstable();
    let at = |percent: usize| gaps[(gaps.len() * percent / 100).min(gaps.len() - 1)];
    let ms = |ns: u64| format!("{:.2} ms", ns as f64 / 1e6);
    let (median, p99) = (at(50), at(99));
    print!("{name:<44} {:>6} {:>10} {:>10} {:>10}", gaps.len(), ms(median), ms(p99), ms(at(100)));
    let held = bounds.is_none_or(|(of_median, of_p99)| median <= of_median && p99 <= of_p99);
    match bounds {
        Some((of_median, of_p99)) => {
            println!("  {} / {}{}", ms(of_median), ms(of_p99), if held { "" } else { "  EXCEEDED" });
        }
        None => println!(),
    }
    held
}

/// Prints the election messages at the start of an ensemble and after a crash of its leader.
fn elections(servers: usize) {
    let setup = Setup::lan(1, servers);
    let mut world = World::new(setup, None);
    let served = runs_until_all_serve(&mut world, 0);
    let start = world.election_messages();
    let begun = world.now();
    let Some(leader) = world.leader() else {
        println!("{servers:<10} no leader within 30 s");
        return;
    };
    world.kill(leader);
    let again = runs_until_survivors_serve(&mut world, begun, leader);
    let after = world.election_messages() - start;
    println!(
        "{servers:<10} {:>9.1} ms {:>14} ({:>5.1}/n²) {:>14} ({:>5.1}/n²)  served again after {:.1} ms",
        served as f64 / 1e6,
        start,
        start as f64 / (servers * servers) as f64,
        after,
        after as f64 / (servers * servers) as f64,
        again as f64 / 1e6,
    );
}

fn runs_until_all_serve(world: &mut World, since: u64) -> u64 {
    while !world.all_serve() && world.now() < since + 30 * SECOND && world.failure().is_none() {
        world.run_until(world.now() + MS / 10);
    }
    world.now() - since
}

fn runs_until_survivors_serve(world: &mut World, since: u64, dead: usize) -> u64 {
    while !world.all_but_serve(dead) && world.now() < since + 30 * SECOND && world.failure().is_none() {
        world.run_until(world.now() + MS / 10);
    }
    world.now() - since
}

/// The resolution of the measurement, in nanoseconds.
const STEP: u64 = 10_000;
const RUNS: u64 = 200;
