//! Resignation of leaders: each reason to stay, then whole ensembles under jitter, which must not flap (scenario 32).

mod ensemble;

use std::collections::BTreeMap;
use std::ops::Range;

use ensemble::build;
use pole_election::{Rank, Score};
use pole_oracle::{Advantage, Decision, Oracle, ResignConfig, Resignation, Situation, StayReason};
use pole_types::{ServerId, Span, Time};
use proptest::prelude::*;

const SECOND: Span = Span::from_ms(1_000);

fn at(seconds: u64) -> Time {
    Time(0) + SECOND.saturating_mul(seconds)
}

fn known(us: i64) -> Rank {
    Rank::Known(Score::from(us))
}

/// Evaluates once, under `latency`, with a short pause and some load.
fn evaluate(policy: &mut Resignation, seconds: u64, own: i64, others: &[(u64, i64)]) -> Decision {
    let oracle = build("latency");
    let candidates: BTreeMap<_, _> = others.iter().map(|(id, us)| (ServerId(*id), known(*us))).collect();
    let own = known(own);
    let situation = Situation {
        oracle: oracle.as_ref(),
        own: &own,
        candidates: &candidates,
        pause: Span::from_ms(50),
        rate_milli: 1_000_000,
    };
    policy.consider(at(seconds), &situation)
}

/// Evaluates every second and ignores the decisions.
fn evaluate_all(policy: &mut Resignation, seconds: Range<u64>, own: i64, others: &[(u64, i64)]) {
    for second in seconds {
        evaluate(policy, second, own, others);
    }
}

fn policy() -> Resignation {
    Resignation::new(ResignConfig::default())
}

fn reason(decision: Decision) -> StayReason {
    match decision {
        Decision::Stay { reason } => reason,
        Decision::Resign { .. } => panic!("resigned: {decision}"),
    }
}

/// Evaluates every second until the leader resigns. Returns the second and the successor.
fn resigns_at(policy: &mut Resignation, from: u64, own: i64, others: &[(u64, i64)]) -> Option<(u64, u64)> {
    (from..from + 7_200).find_map(|second| match evaluate(policy, second, own, others) {
        Decision::Resign { to, .. } => Some((second, to.0)),
        Decision::Stay { .. } => None,
    })
}

#[test]
fn a_leader_resigns_to_the_best_that_stayed_better_for_the_whole_hold_time() {
    let others = [(2, 40_000), (3, 30_900), (4, 30_900)];
    assert_eq!(resigns_at(&mut policy(), 0, 90_000, &others), Some((10, 4)), "of equals the higher id");
}

#[test]
fn the_decision_says_what_is_gained() {
    let mut policy = policy();
    evaluate_all(&mut policy, 0..10, 90_000, &[(3, 30_000)]);
    let decision = evaluate(&mut policy, 10, 90_000, &[(3, 30_000)]);
    let advantage = Advantage { permille: 666, saved: Some(Span::from_ms(60)) };
    let held = Span::from_ms(10_000);
    assert_eq!(decision, Decision::Resign { to: ServerId(3), advantage, held, pause: Span::from_ms(50) });
    let expected = "resign to server 3: better by 66.6 % for 10000.000 ms, saves 60.000 ms a request";
    assert_eq!(decision.to_string(), expected);
}

#[test]
fn both_margins_must_be_passed() {
    assert_eq!(reason(evaluate(&mut policy(), 0, 30_000, &[(2, 30_000)])), StayReason::NobodyBetter);
    assert_eq!(resigns_at(&mut policy(), 0, 100_000, &[(2, 91_000)]), None, "9 % is too little");
    assert_eq!(resigns_at(&mut policy(), 0, 2_000, &[(2, 1_100)]), None, "0.9 ms is too little");
    assert!(resigns_at(&mut policy(), 0, 100_000, &[(2, 89_000)]).is_some());
    let within = reason(evaluate(&mut policy(), 0, 100_000, &[(2, 91_000)]));
    assert_eq!(within.to_string(), "server 2 is better by 9.0 %, within the margin");
}

#[test]
fn one_evaluation_without_advantage_restarts_the_hold_time() {
    let mut policy = policy();
    evaluate_all(&mut policy, 0..9, 90_000, &[(3, 30_000)]);
    evaluate(&mut policy, 9, 90_000, &[(3, 89_000)]);
    assert_eq!(resigns_at(&mut policy, 10, 90_000, &[(3, 30_000)]), Some((20, 3)));
}

#[test]
fn the_worst_of_the_other_must_beat_the_best_of_our_own_throughout_the_hold_time() {
    let mut policy = policy();
    // Better at each evaluation, but the worst of the other (50 ms) does not beat our best (40 ms): both swing
    // together.
    let swings = (0..600).map(|second| if second % 8 < 4 { (60_000, 50_000) } else { (40_000, 30_000) });
    for (second, (own, other)) in (0..).zip(swings) {
        assert!(matches!(reason(evaluate(&mut policy, second, own, &[(3, other)])), StayReason::Holding { .. }));
    }
}

#[test]
fn a_gap_between_evaluations_restarts_the_hold_time() {
    let mut policy = policy();
    evaluate(&mut policy, 0, 90_000, &[(3, 30_000)]);
    let held = reason(evaluate(&mut policy, 100, 90_000, &[(3, 30_000)]));
    assert_eq!(held, StayReason::Holding { candidate: ServerId(3), remaining: Span::from_ms(10_000) });
}

#[test]
fn another_oracle_restarts_the_hold_time() {
    let mut policy = policy();
    evaluate_all(&mut policy, 0..9, 90_000, &[(3, 30_000)]);
    let (oracle, own, candidates) =
        (build("worst-case"), known(90_000), BTreeMap::from([(ServerId(3), known(30_000))]));
    let situation =
        Situation { oracle: oracle.as_ref(), own: &own, candidates: &candidates, pause: Span::ZERO, rate_milli: 1 };
    let holding = StayReason::Holding { candidate: ServerId(3), remaining: Span::from_ms(10_000) };
    assert_eq!(reason(policy.consider(at(9), &situation)), holding);
}

#[test]
fn one_that_comes_and_goes_does_not_keep_the_leader_from_a_steady_second() {
    let mut policy = policy();
    let decided = (0..60).find_map(|second| {
        let others = if second % 3 == 0 { vec![(2, 40_000)] } else { vec![(2, 40_000), (3, 10_000)] };
        match evaluate(&mut policy, second, 90_000, &others) {
            Decision::Resign { to, .. } => Some(to),
            Decision::Stay { .. } => None,
        }
    });
    assert_eq!(decided, Some(ServerId(2)));
}

#[test]
fn a_new_leader_stays_for_a_cool_down_and_the_cool_down_doubles_with_each_resignation() {
    let mut policy = policy();
    policy.became_leader(at(0));
    let mut second = 0;
    let mut waits = Vec::new();
    for _ in 0..5 {
        let (resigned, _) = resigns_at(&mut policy, second, 90_000, &[(3, 30_000)]).unwrap();
        waits.push(resigned - second);
        policy.record_resignation(at(resigned));
        second = resigned;
    }
    assert_eq!(waits, [60, 60, 120, 240, 480]);
}

#[test]
fn the_budget_of_an_hour_is_never_exceeded() {
    let mut policy = Resignation::new(ResignConfig { cooldown: SECOND, max_per_hour: 2, ..ResignConfig::default() });
    policy.record_resignation(at(0));
    policy.record_resignation(at(100));
    evaluate_all(&mut policy, 200..220, 90_000, &[(3, 30_000)]);
    assert_eq!(reason(evaluate(&mut policy, 220, 90_000, &[(3, 30_000)])), StayReason::BudgetSpent { resigned: 2 });
    assert_eq!(resigns_at(&mut policy, 221, 90_000, &[(3, 30_000)]), Some((3_600, 3)), "the first is an hour ago");
}

/// The decision about a situation that has lasted for 11 seconds.
fn after_holding(spec: &str, own: Rank, other: Rank, pause: Span, rate_milli: u64) -> Decision {
    let oracle = build(spec);
    let candidates = BTreeMap::from([(ServerId(3), other)]);
    let situation = Situation { oracle: oracle.as_ref(), own: &own, candidates: &candidates, pause, rate_milli };
    let mut policy = policy();
    (0..=11).map(|second| policy.consider(at(second), &situation)).last().unwrap()
}

#[test]
fn a_move_must_pay_for_its_pause_within_the_horizon() {
    // 2 ms × 60 s is worth a pause of 0.34 s.
    let decide = |pause_ms| after_holding("latency", known(10_000), known(8_000), Span::from_ms(pause_ms), 1_000);
    assert!(matches!(decide(340), Decision::Resign { .. }));
    let (saved, pause) = (Span::from_ms(2), Span::from_ms(350));
    assert_eq!(reason(decide(350)), StayReason::NotWorthThePause { saved, pause });
}

#[test]
fn without_requests_there_is_nothing_to_gain() {
    let decision = after_holding("latency", known(90_000), known(8_000), Span::ZERO, 0);
    assert_eq!(reason(decision), StayReason::Idle);
}

#[test]
fn an_unknown_leader_stays_and_an_unknown_or_invalid_candidate_is_ignored_scenario_27() {
    let stay = |own, other| reason(after_holding("latency", own, other, Span::ZERO, 1));
    assert_eq!(stay(Rank::Unknown, known(1)), StayReason::OwnUnknown);
    assert_eq!(stay(known(90_000), Rank::Unknown), StayReason::NobodyBetter);
    assert_eq!(stay(known(90_000), known(-5)), StayReason::NobodyBetter, "a negative latency");
    assert_eq!(stay(known(90_000), Rank::Known(Score::new(vec![]))), StayReason::NobodyBetter);
}

#[test]
fn nobody_resigns_for_a_longer_history_a_turn_or_a_quicker_recovery() {
    let score = |components: &[i64]| Rank::Known(Score::new(components.to_vec()));
    let stays = |spec, own: &[i64], other: &[i64]| {
        let decision = after_holding(spec, score(own), score(other), Span::ZERO, 1_000);
        matches!(decision, Decision::Stay { reason: StayReason::WithinMargin { .. } })
    };
    assert!(stays("history", &[-1, -1, -5], &[-1, -1, -9]));
    assert!(stays("rotating", &[1], &[0]));
    assert!(stays("recovery", &[90_000], &[1_000]));
    assert!(stays("combined=latency/10ms,history", &[3, -1, -1, -5], &[3, -1, -1, -9]));
}

#[test]
fn any_preference_and_any_class_of_waiting_is_worth_moving_for() {
    let score = |components: &[i64]| Rank::Known(Score::new(components.to_vec()));
    let moves = |spec, own: &[i64], other: &[i64]| {
        matches!(after_holding(spec, score(own), score(other), Span::from_ms(50), 1_000), Decision::Resign { .. })
    };
    assert!(moves("preference=3:105,1:100", &[-100], &[-105]), "5 % by weight, but the operator said so");
    assert!(moves("preference=3,1", &[1], &[0]));
    assert!(moves("request", &[-100_000], &[-200_000]));
    assert!(moves("request", &[0], &[-200_000]));
    assert!(moves("combined=latency/10ms,history", &[4, 0, 0, 0], &[3, 0, 0, 0]));
}

#[test]
fn off_means_never() {
    let mut policy = Resignation::new(ResignConfig { enabled: false, ..ResignConfig::default() });
    (0..100).for_each(|second| assert_eq!(reason(evaluate(&mut policy, second, 90_000, &[(3, 1)])), StayReason::Off));
}

/// Five servers, each with its policy, that evaluate every second. Scores arrive with a delay. `moves` has the
/// hand-overs.
struct Ensemble {
    policies: Vec<Resignation>,
    leader: usize,
    moves: Vec<u64>,
}

impl Ensemble {
    fn new() -> Self {
        let mut policies = vec![policy(); 5];
        policies[0].became_leader(at(0));
        Self { policies, leader: 0, moves: Vec::new() }
    }

    /// `scores(second)` are the true scores; those of others arrive `delay(server)` seconds late.
    fn run(
        &mut self,
        oracle: &dyn Oracle,
        seconds: u64,
        scores: impl Fn(u64) -> [i64; 5],
        delay: impl Fn(usize) -> u64,
    ) {
        for second in 0..seconds {
            let own = known(scores(second)[self.leader]);
            let received = |id: usize| known(scores(second.saturating_sub(delay(id)))[id]);
            let others = (0..5).filter(|id| *id != self.leader).map(|id| (ServerId(id as u64), received(id)));
            let candidates = others.collect();
            let pause = Span::from_ms(50);
            let situation = Situation { oracle, own: &own, candidates: &candidates, pause, rate_milli: 1_000_000 };
            if let Decision::Resign { to, .. } = self.policies[self.leader].consider(at(second), &situation) {
                self.policies.iter_mut().for_each(|policy| policy.record_resignation(at(second)));
                self.leader = to.0 as usize;
                self.policies[self.leader].became_leader(at(second));
                self.moves.push(second);
            }
        }
    }
}

/// Uniform noise that depends on the second, the server and the seed.
fn noise(seed: u64, second: u64, server: u64) -> i64 {
    let mut x = seed ^ (second << 20) ^ (server << 52);
    for _ in 0..3 {
        x = (x ^ (x >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    (x >> 44) as i64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn scores_that_jitter_within_the_margin_never_move_the_leader(seed: u64, base in 5_000_i64..200_000) {
        let scores = |second| [0, 1, 2, 3, 4].map(|id| base + noise(seed, second, id) % (base / 11));
        let mut ensemble = Ensemble::new();
        ensemble.run(build("latency").as_ref(), 3_600, scores, |_| 1);
        prop_assert_eq!(ensemble.moves, Vec::<u64>::new());
    }

    #[test]
    fn scores_that_jitter_wildly_around_one_mean_do_not_make_the_leader_flap(seed: u64) {
        // From half to one and a half of 60 ms, new each second: ten evaluations may be better by chance, but not
        // together.
        let scores = |second| [0, 1, 2, 3, 4].map(|id| 30_000 + noise(seed, second, id) % 60_000);
        let mut ensemble = Ensemble::new();
        ensemble.run(build("latency").as_ref(), 1_800, scores, |_| 1);
        prop_assert!(ensemble.moves.len() <= 1, "{:?}", ensemble.moves);
    }

    #[test]
    fn whatever_the_scores_do_the_budget_and_the_growing_cool_down_hold(seed: u64, period in 1_u64..200) {
        // Worst case: scores that stay for a while and then change at random.
        let scores = |second| [0, 1, 2, 3, 4].map(|id| noise(seed, second / period, id));
        let mut ensemble = Ensemble::new();
        ensemble.run(build("latency").as_ref(), 3 * 3_600, scores, |id| id as u64 % 3);
        let moves = &ensemble.moves;
        for (nth, second) in moves.iter().enumerate() {
            let hour = moves[..nth].iter().filter(|earlier| second - **earlier < 3_600).count();
            prop_assert!(hour < 6, "{moves:?}");
            if let Some(last) = nth.checked_sub(1).map(|last| moves[last]) {
                prop_assert!(second - last >= 60 << hour.saturating_sub(1), "{moves:?}");
            }
        }
    }

    #[test]
    fn when_all_scores_fall_together_nobody_resigns_scenario_32(seed: u64, when in 100_u64..400, factor in 2_i64..100) {
        // All get worse in the same second; each server learns of the others up to two seconds late.
        let scores = |second| {
            let worse = if second >= when { factor } else { 1 };
            [0, 1, 2, 3, 4].map(|id| worse * (20_000 + noise(seed, second, id) % 1_500))
        };
        let mut ensemble = Ensemble::new();
        ensemble.run(build("latency").as_ref(), 900, scores, |id| id as u64 % 3);
        prop_assert_eq!(ensemble.moves, Vec::<u64>::new());
    }

    #[test]
    fn a_leader_that_alone_grows_slow_hands_over_once_and_stays_handed_over(seed: u64) {
        let scores = |second| {
            let mut scores = [0, 1, 2, 3, 4].map(|id| 30_000 + noise(seed, second, id) % 2_000);
            scores[0] += if second > 100 { 50_000 } else { 0 };
            scores
        };
        let mut ensemble = Ensemble::new();
        ensemble.run(build("latency").as_ref(), 7_200, scores, |_| 1);
        prop_assert_eq!(ensemble.moves.len(), 1, "{:?}", ensemble.moves);
        prop_assert!((111..=125).contains(&ensemble.moves[0]), "after the hold time: {:?}", ensemble.moves);
    }
}
