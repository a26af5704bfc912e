//! Whole ensembles: the guarantees of `docs/election.md`, "What it promises".

use pole_election::*;

use crate::net::{LOSSY, Net, RELIABLE, Rng};
use crate::test_server::proposal;

fn scores(n: usize, rng: &mut Rng) -> Vec<i64> {
    // A range narrower than n, so that ties happen.
    (0..n).map(|_| rng.below(n as u64) as i64).collect()
}

/// The best of the live servers: the smallest score, then the highest id.
fn best(net: &Net) -> ServerId {
    let rank = |id: &ServerId| (net.servers[id].host.score.expect("a score"), std::cmp::Reverse(*id));
    net.live().into_iter().min_by_key(rank).expect("a live server")
}

/// An ensemble that follows `leader`, established, without an election having been held.
fn following(scores: &[i64], leader: u64, seed: u64) -> Net {
    let mut net = Net::new(scores, seed, false);
    for id in net.ids() {
        let mut election = Election::new(Config::new(id, Voters::new(net.ids())));
        let score = scores[leader as usize - 1];
        election.adopt(Round { epoch: 1, failed: 0 }, proposal(leader, score));
        election.established(Epoch(1));
        net.bring_up(id, election);
    }
    net.run(100);
    net.messages = 0;
    net
}

fn assert_all_elected_the_best(net: &mut Net, seed: u64) {
    assert!(net.run_until(5_000, |net| net.agreed().is_some()), "seed {seed}: no end");
    assert_eq!(net.agreed(), Some(best(net)), "seed {seed}");
}

#[test]
fn in_timely_runs_all_live_servers_elect_the_best_score() {
    for n in [1, 2, 3, 4, 5, 7, 25] {
        for seed in 1..=40 {
            let mut net = Net::new(&scores(n, &mut Rng::new(seed)), seed, false);
            net.ids().into_iter().for_each(|id| net.boot(id));
            assert_all_elected_the_best(&mut net, seed);
        }
    }
}

#[test]
fn after_a_crash_the_survivors_elect_the_best_of_them() {
    for n in [3, 5, 7, 25] {
        for seed in 1..=40 {
            let mut rng = Rng::new(seed);
            let mut net = following(&scores(n, &mut rng), 1 + rng.below(n as u64), seed);
            let dead = net.agreed().expect("a leader");
            net.crash(dead);
            net.live().into_iter().for_each(|id| net.call(id, Cause::LeaderLost));
            assert_all_elected_the_best(&mut net, seed);
        }
    }
}

#[test]
fn the_result_does_not_depend_on_who_calls_nor_on_when() {
    // The survivors notice the crash in any order, up to 100 ms apart. Those that noticed get votes for the dead
    // leader until a quorum has noticed, and then wait for the others, up to T.
    for n in [3, 5, 7] {
        for seed in 1..=100 {
            let mut rng = Rng::new(seed);
            let mut net = following(&scores(n, &mut rng), 1 + rng.below(n as u64), seed);
            let dead = net.agreed().expect("a leader");
            net.crash(dead);
            for id in net.live() {
                let late = rng.below(100);
                net.call_later(id, Cause::LeaderLost, late);
            }
            net.run(110);
            assert_all_elected_the_best(&mut net, seed);
        }
    }
}

#[test]
fn a_call_by_one_server_does_not_unseat_a_leader_that_a_quorum_follows() {
    for seed in 1..=50 {
        let mut rng = Rng::new(seed);
        let mut net = following(&scores(5, &mut rng), 1, seed);
        let caller = ServerId(2 + rng.below(4));
        net.call(caller, Cause::LeaderLost);
        assert!(net.run_until(1_000, |net| net.agreed().is_some()), "seed {seed}");
        assert_eq!(net.agreed(), Some(ServerId(1)), "seed {seed}");
        assert_eq!(net.servers[&caller].elected[0].record.decided_by, DecidedBy::Incumbent);
    }
}

#[test]
fn a_late_server_adopts_the_incumbent_even_with_a_better_score() {
    for seed in 1..=50 {
        let mut net = Net::new(&[10, 20, 30, 40, 1], seed, true);
        (1..=4).for_each(|id| net.boot(ServerId(id)));
        assert!(net.run_until(5_000, |net| net.settled().is_some()), "seed {seed}");
        net.run(1_000);
        net.boot(ServerId(5));
        assert!(net.run_until(5_000, |net| net.settled().is_some()), "seed {seed}");
        assert_eq!(net.settled(), Some(ServerId(1)), "seed {seed}");
        assert_eq!(net.servers[&ServerId(5)].elected.len(), 1);
    }
}

#[test]
fn without_a_quorum_nobody_is_elected_and_with_one_somebody_is() {
    for seed in 1..=20 {
        let mut net = Net::new(&[5, 4, 3, 2, 1], seed, false);
        net.boot(ServerId(1));
        net.boot(ServerId(2));
        net.run(60_000);
        assert!(net.live().iter().all(|id| net.leader_of(*id).is_none()), "seed {seed}");
        net.boot(ServerId(3));
        assert_all_elected_the_best(&mut net, seed);
    }
}

#[test]
fn messages_lost_doubled_and_reordered_only_delay_the_end() {
    for n in [2, 3, 5, 7] {
        for seed in 1..=60 {
            let mut net = Net::new(&scores(n, &mut Rng::new(seed)), seed, true);
            net.conditions = LOSSY;
            net.ids().into_iter().for_each(|id| net.boot(id));
            net.run(3_000);
            net.conditions = RELIABLE;
            assert!(net.run_until(30_000, |net| net.settled().is_some()), "n {n}, seed {seed}: no end");
        }
    }
}

#[test]
fn crashes_and_restarts_at_any_point_leave_an_ensemble_that_settles() {
    for n in [3, 5, 7] {
        for seed in 1..=60 {
            let mut rng = Rng::new(seed + 1000);
            let mut net = Net::new(&scores(n, &mut rng), seed, true);
            net.conditions = LOSSY;
            net.ids().into_iter().for_each(|id| net.boot(id));
            for _ in 0..40 {
                net.run(rng.below(150));
                let id = ServerId(1 + rng.below(n as u64));
                if net.live().contains(&id) { net.crash(id) } else { net.boot(id) }
            }
            for id in net.ids() {
                if !net.live().contains(&id) {
                    net.boot(id);
                }
            }
            net.conditions = RELIABLE;
            assert!(net.run_until(60_000, |net| net.settled().is_some()), "n {n}, seed {seed}: no end");
        }
    }
}

#[test]
fn an_elected_leader_that_is_already_dead_is_replaced() {
    // The paper allows this: the election does not promise that the elected server is alive.
    for seed in 1..=50 {
        let mut net = Net::new(&[50, 40, 30, 20, 10], seed, true);
        net.ids().into_iter().for_each(|id| net.boot(id));
        // Its proposal is in flight to all servers when it crashes.
        net.run(2);
        net.crash(ServerId(5));
        assert!(net.run_until(20_000, |net| net.settled().is_some()), "seed {seed}");
        assert_ne!(net.settled(), Some(ServerId(5)), "seed {seed}");
    }
}

#[test]
fn the_best_score_that_cannot_lead_is_not_elected_for_ever() {
    // Scenarios 21, 45: server 5 sends, but receives nothing. Its proposal wins the first round and is demoted for the
    // next.
    for seed in 1..=50 {
        let mut net = Net::new(&[50, 40, 30, 20, 10], seed, true);
        net.receive_blocked.insert(ServerId(5));
        net.ids().into_iter().for_each(|id| net.boot(id));
        let others = |net: &Net| {
            let hearing = net.ids().into_iter().filter(|id| *id != ServerId(5));
            let follow = hearing.map(|id| net.leader_of(id).zip(net.servers[&id].established));
            follow.reduce(|a, b| if a == b { a } else { None }).flatten()
        };
        assert!(net.run_until(10_000, |net| others(net).is_some()), "seed {seed}: no end");
        assert_eq!(others(&net).map(|(leader, _)| leader), Some(ServerId(4)), "seed {seed}");
        let first = &net.servers[&ServerId(1)].elected[0];
        assert_eq!(first.leader, ServerId(5), "seed {seed}");
    }
}

#[test]
fn servers_that_rank_each_others_scores_unknown_still_agree_in_one_round() {
    // Scenario 31: a rolling change of the oracle, without a third server to decide between the two.
    for seed in 1..=50 {
        let mut net = Net::new(&[10, 20, 30], seed, false);
        for (id, server) in &mut net.servers {
            (server.host.fingerprint, server.host.strict) = (id.0, true);
        }
        net.boot(ServerId(1));
        net.boot(ServerId(2));
        assert!(net.run_until(1_000, |net| net.agreed().is_some()), "seed {seed}: no end");
        assert_eq!(net.agreed(), Some(ServerId(2)), "seed {seed}: the higher fingerprint");
    }
}

#[test]
fn one_seed_gives_one_run() {
    let run = || {
        let mut net = Net::new(&[3, 1, 2, 5, 4], 7, true);
        net.conditions = LOSSY;
        net.ids().into_iter().for_each(|id| net.boot(id));
        net.run(2_000);
        let elections: Vec<_> = net.servers.values().map(|server| server.election.clone()).collect();
        (net.messages, elections)
    };
    assert_eq!(run(), run());
}

#[test]
fn a_hundred_and_one_servers_elect_the_best() {
    let mut net = Net::new(&scores(101, &mut Rng::new(3)), 3, false);
    net.ids().into_iter().for_each(|id| net.boot(id));
    assert_all_elected_the_best(&mut net, 3);
}

/// Run with `--nocapture` to see the table.
#[test]
fn the_messages_of_an_election_stay_within_a_few_squares_of_the_ensemble() {
    println!("servers  runs  case         messages (mean)  per server pair  time to agree (mean, ms)");
    for (n, runs) in [(3, 50), (5, 50), (7, 50), (25, 10), (101, 1)] {
        for case in ["start", "leader-lost"] {
            let (mut messages, mut time) = (0, 0);
            for seed in 1..=runs {
                let mut rng = Rng::new(seed);
                let scores = scores(n, &mut rng);
                let mut net = match case {
                    "start" => {
                        let mut net = following(&scores, 1, seed);
                        net.live().into_iter().for_each(|id| net.call(id, Cause::Start));
                        net
                    }
                    _ => {
                        let mut net = following(&scores, 1 + rng.below(n as u64), seed);
                        let dead = net.agreed().expect("a leader");
                        net.crash(dead);
                        net.live().into_iter().for_each(|id| net.call_later(id, Cause::LeaderLost, 1));
                        net
                    }
                };
                let begin = net.now;
                net.run_until(5_000, |net| net.live().iter().any(|id| net.leader_of(*id).is_none()));
                assert!(net.run_until(5_000, |net| net.agreed().is_some()));
                time += net.now - begin;
                net.run(1_000);
                messages += net.messages;
            }
            let mean = messages as f64 / runs as f64;
            let pairs = (n * (n - 1)) as f64;
            let ms = time as f64 / runs as f64 / 1e6;
            println!("{n:7}  {runs:4}  {case:12} {mean:15.1}  {:15.2}  {ms:8.1}", mean / pairs);
            assert!(mean < 20.0 * pairs, "{n} servers, {case}: {mean} messages");
        }
    }
}
