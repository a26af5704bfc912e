//! Checks the determinism of the simulator, and runs a fixed set of seeds.

use std::cell::RefCell;
use std::rc::Rc;

use pole_sim::{MS, Mark, Marks, SECOND, Setup, World};
use pole_types::{Membership, ServerId, Voters};

/// The whole trace of a seed.
fn trace(seed: u64) -> String {
    let text = Rc::new(RefCell::new(String::new()));
    let lines = Rc::clone(&text);
    let sink = move |line: &str| {
        let mut text = lines.borrow_mut();
        text.push_str(line);
        text.push('\n');
    };
    let report = pole_sim::run(Setup::random(seed, 5, 6 * SECOND), Some(Box::new(sink)));
    assert_eq!(report.failure, None, "seed {seed}");
    text.take()
}

#[test]
fn one_seed_gives_the_same_trace_byte_for_byte() {
    for seed in [3, 17] {
        let (once, again) = (trace(seed), trace(seed));
        assert!(once.len() > 100_000, "the trace of seed {seed} has {} bytes only", once.len());
        assert!(once == again, "seed {seed} ran differently the second time");
    }
}

#[test]
fn a_trace_does_not_change_the_run() {
    let silent = pole_sim::run(Setup::random(5, 5, 6 * SECOND), None);
    let traced = pole_sim::run(Setup::random(5, 5, 6 * SECOND), Some(Box::new(|_: &str| {})));
    assert_eq!(
        (silent.steps, silent.committed, silent.virtual_ns),
        (traced.steps, traced.committed, traced.virtual_ns)
    );
}

#[test]
fn a_fixed_set_of_seeds_runs_clean_and_meets_rare_branches() {
    let mut marks = Marks::new();
    for seed in 1..=24 {
        let report = pole_sim::run(Setup::random(seed, 5, 20 * SECOND), None);
        assert_eq!(report.failure, None, "cargo xtask sim --seed {seed} --virtual-s 20 --trace");
        marks.add(&report.marks);
    }
    for mark in [Mark::Truncated, Mark::SnapshotSync, Mark::Pull, Mark::HandedOver, Mark::TornTail, Mark::Superseded] {
        assert!(marks.count(mark) > 0, "no seed met: {mark}");
    }
}

#[test]
fn the_service_runs_clean_and_its_sessions_and_watches_are_put_to_the_test() {
    let (mut events, mut expired, mut held) = (0, 0, 0);
    for seed in 1..=16 {
        let mut setup = Setup::random(seed, 5, 20 * SECOND);
        setup.tree = true;
        let report = pole_sim::run(setup, None);
        assert_eq!(report.failure, None, "cargo xtask sim --seed {seed} --tree --virtual-s 20 --trace");
        (events, expired, held) = (events + report.events, expired + report.expired, held + report.held);
    }
    assert!(events > 1_000 && expired > 0 && held > 0, "{events} events, {expired} expired, {held} held back");
}

#[test]
fn ensembles_of_three_and_seven_run_clean_too() {
    for servers in [3, 7] {
        for seed in 1..=4 {
            let report = pole_sim::run(Setup::random(seed, servers, 15 * SECOND), None);
            assert_eq!(report.failure, None, "--seed {seed} --servers {servers} --virtual-s 15");
        }
    }
}

#[test]
fn a_quiet_ensemble_elects_once_and_stays() {
    let mut setup = Setup::lan(1, 5);
    setup.clients = 4;
    let mut world = World::new(setup, None);
    world.run_until(10 * SECOND);
    assert!(world.all_serve());
    let report = world.into_report();
    assert_eq!((report.failure, report.elections), (None, 1));
    assert!(report.writes > 100, "{} writes", report.writes);
    assert_eq!(report.unexcused, 0);
}

#[test]
fn after_a_crash_with_reset_connections_the_next_leader_commits_within_fifteen_ms() {
    let mut setup = Setup::lan(2, 5);
    (setup.clients, setup.think_time) = (5, 2 * MS);
    let mut world = World::new(setup, None);
    world.run_until(SECOND);
    let leader = world.leader().expect("a leader after a second");
    let (epoch, crashed) = (world.last_committed().epoch(), world.now());
    world.kill(leader);
    while world.last_committed().epoch() == epoch && world.now() < crashed + 15 * MS {
        world.run_until(world.now() + MS / 10);
    }
    assert!(world.last_committed().epoch() > epoch, "no commit within 15 ms");
}

#[test]
fn fifty_observers_cost_the_leader_a_few_messages_each_and_an_election_no_time() {
    let run = |observers: u64| {
        let mut setup = Setup::lan(4, 3 + observers as usize);
        let voters = Voters::new((1..=3).map(ServerId));
        setup.members = Membership::new(voters, (4..4 + observers).map(ServerId));
        (setup.clients, setup.think_time) = (6, 5 * MS);
        let mut world = World::new(setup, None);
        world.run_until(4 * SECOND);
        assert!(world.all_serve());
        let leader = world.leader().expect("a leader after four seconds");
        let (epoch, crashed) = (world.last_committed().epoch(), world.now());
        world.kill(leader);
        while world.last_committed().epoch() == epoch && world.now() < crashed + SECOND {
            world.run_until(world.now() + MS / 10);
        }
        let pause = world.now() - crashed;
        let report = world.into_report();
        assert_eq!(report.failure, None);
        let count = |names: [&str; 3]| names.iter().filter_map(|name| report.messages.get(name)).sum::<u64>() as f64;
        (count(["Propose", "Commit", "Ack"]) / report.writes as f64, pause)
    };
    let ((alone, _), (with_observers, pause)) = (run(0), run(50));
    let each = (with_observers - alone) / 50.0;
    assert!(
        (1.0..=3.2).contains(&each),
        "{each} messages for each write and observer: a proposal, its acknowledgement, a commit"
    );
    assert!(pause <= 20 * MS, "no commit for {} ms", pause / MS);
}
