//! How long an ensemble is without a leader, and how many messages an election takes.
//!
//! All in virtual time on a LAN: round trips of 0.1 ms, an fsync of 0.5 ms. The clock stops at the first transaction
//! that the new leader commits.

use pole_lab::sim::{MS, SECOND, Setup, World};

fn main() {
    println!("LAN: round trip 0.1 ms, fsync 0.5 ms, step 2 µs; virtual time\n");
    println!(
        "{:<44} {:>6} {:>10} {:>10} {:>10}  bound",
        "5 servers, from … to the first commit", "runs", "median", "p99", "max"
    );
    row(
        "crash of the leader, connections reset",
        "15 / 50 ms",
        (0..RUNS).filter_map(|seed| gap(seed, Loss::Crash)).collect(),
    );
    row("silent hang of the leader", "600 ms", (0..RUNS).filter_map(|seed| gap(seed, Loss::Hang)).collect());
    row("power loss of the leader", "", (0..RUNS).filter_map(|seed| gap(seed, Loss::Power)).collect());
    row("orderly hand-over, from the request", "", (0..RUNS).filter_map(|seed| gap(seed, Loss::HandOver)).collect());
    row(
        "orderly hand-over, from its sending",
        "1.8 ms",
        (0..RUNS).filter_map(|seed| gap(seed, Loss::HandOverSent)).collect(),
    );
    println!("  (3 round trips and 3 fsyncs are 1.8 ms)\n");
    println!(
        "{:<10} {:>12} {:>22} {:>22}",
        "servers", "served after", "messages at the start", "messages after a crash"
    );
    for servers in [3, 5, 7, 25, 101] {
        elections(servers);
    }
}

/// How a leader goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    Crash,
    Hang,
    Power,
    HandOver,
    HandOverSent,
}

/// From the loss of a leader to the first commit of the next, in nanoseconds.
fn gap(seed: u64, loss: Loss) -> Option<u64> {
    let mut setup = Setup::lan(seed, 5);
    setup.clients = 5;
    setup.think = 2 * MS;
    let mut world = World::new(setup, None);
    // Not always at the same point of a heartbeat.
    world.run_until(SECOND + seed * 7 % 1_000 * MS / 10);
    let leader = world.leader().expect("a leader after a quiet second");
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
        if world.now() > lost + 20 * SECOND {
            return None;
        }
    }
    Some(world.now() - sent)
}

fn row(name: &str, bound: &str, mut gaps: Vec<u64>) {
    gaps.sort_unstable();
    let at =
        |percent: usize| gaps.get((gaps.len() * percent / 100).min(gaps.len().saturating_sub(1))).copied().unwrap_or(0);
    let ms = |ns: u64| format!("{:.2} ms", ns as f64 / 1e6);
    println!("{name:<44} {:>6} {:>10} {:>10} {:>10}  {bound}", gaps.len(), ms(at(50)), ms(at(99)), ms(at(100)));
}

/// Messages of an election: those of the election itself, and those until the leader is established.
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

/// How finely time is looked at.
const STEP: u64 = 10_000;
const RUNS: u64 = 200;
