//! The classical algorithms: counts against formulas for every N, and the failures that theory predicts.

use pole_lab::classical::{
    Case, Comparison, Condition, Count, Detector, End, Finding, HEADER, Kind, Occurrence, Statistic, count, findings,
    measure_conditions,
};
use pole_sim::{MS, SECOND};
use pole_topology::Topology;

/// Compares the counts of one algorithm with their formulas, for every N.
fn agrees(kind: Kind, cases: &[Statistic]) {
    for n in 3..=32 {
        for statistic in cases {
            let found = count(kind, n, *statistic, 1);
            let Count { messages, delays, expected, unsettled, .. } = &found;
            assert!(expected.is_some(), "{kind} {statistic} has no formula");
            assert!(
                found.agrees(),
                "{kind} N={n} {statistic}: {messages} {delays}, {unsettled} unsettled, not {expected:?}"
            );
        }
    }
}

#[test]
fn ring_sends_2n_messages_at_best_and_3n_minus_1_at_worst() {
    for kind in [Kind::Ring, Kind::RingRepair1, Kind::RingRepair2] {
        agrees(kind, &Statistic::ALL);
    }
}

#[test]
fn bully_sends_n_minus_2_coordinators_at_best_and_half_n_squared_elections_in_five_delays_at_worst() {
    agrees(Kind::Bully, &Statistic::ALL);
}

#[test]
fn invitation_asks_answers_invites_accepts_and_is_ready() {
    agrees(Kind::Invitation, &[Statistic::Best]);
}

#[test]
fn raft_asks_votes_and_announces_and_pre_vote_asks_twice() {
    agrees(Kind::Raft, &[Statistic::Best]);
    agrees(Kind::RaftPreVote, &[Statistic::Best]);
}

#[test]
fn chubby_waits_for_the_lease_and_asks_as_raft_does() {
    agrees(Kind::Chubby, &[Statistic::Best]);
}

#[test]
fn fast_leader_election_costs_a_square_at_best_and_a_cube_at_worst() {
    agrees(Kind::Fle, &[Statistic::Best, Statistic::Worst]);
}

#[test]
fn a_rotating_coordinator_has_one_schedule() {
    agrees(Kind::Rotating, &[Statistic::Best, Statistic::Worst]);
}

#[test]
fn a_view_change_costs_n_squared_minus_2() {
    agrees(Kind::Viewstamped, &[Statistic::Best, Statistic::Worst]);
}

#[test]
fn latency_aware_rotation_pays_for_every_election_in_between() {
    agrees(Kind::Santos, &[Statistic::Best, Statistic::Worst]);
}

#[test]
fn pole_decides_in_two_delays() {
    agrees(Kind::Pole, &[Statistic::Best]);
}

#[test]
fn every_election_without_a_failure_ends_with_one_leader() {
    for kind in Kind::ALL {
        for n in [3, 4, 5, 9, 16] {
            let found = count(kind, n, Statistic::Mean, 7);
            assert_eq!((found.unsettled, found.violations), (0, 0), "{kind} N={n}");
        }
    }
}

#[test]
fn every_failure_that_theory_predicts_is_seen_and_no_other() {
    let found = findings(1);
    let wrong: Vec<String> = found.iter().filter(|finding| !finding.holds).map(describe).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn describe(finding: &Finding) -> String {
    let Finding { case, kind, predicted, seen, outcome, .. } = finding;
    let steps = outcome.recording.iter().flat_map(|recording| (0..60).map(|at| recording.text(at)));
    format!("{kind}, {case}: {seen}, not: {predicted}\n{}", steps.collect::<String>())
}

#[test]
fn in_a_partition_two_leaders_of_raft_believe_in_different_terms_and_one_is_accepted() {
    let found = findings(1);
    let raft = found.iter().find(|finding| finding.kind == Kind::Raft && finding.case == "partition").unwrap();
    assert_eq!((raft.outcome.leaders_max, raft.outcome.violations.len()), (2, 0), "{}", describe(raft));
    let recording = raft.outcome.recording.as_ref().unwrap();
    let both = recording.steps.iter().find_map(|step| {
        let terms: Vec<u64> = step.views.iter().filter_map(|view| view.leads).collect();
        (terms.len() == 2).then_some(terms)
    });
    let terms = both.expect("a moment with two that believe");
    assert_ne!(terms[0], terms[1]);
}

#[test]
fn the_record_says_when_two_lead_and_who_accepts_them() {
    let found = findings(1);
    let bully = found.iter().find(|finding| finding.kind == Kind::Bully && finding.case == "wrong-detector").unwrap();
    let violation = &bully.outcome.violations[0];
    assert_eq!(violation.at, MS, "at once: nobody is asked");
    let leaders: Vec<usize> = violation.leaders.iter().map(|(leader, _)| *leader).collect();
    assert_eq!(leaders, [3, 4]);
}

#[test]
fn several_initiators_of_a_ring_elect_one_leader_and_only_the_highest_run_completes() {
    let mut case = Case::counting(8);
    case.record = true;
    case.occurrences.extend([0, 3, 5].map(|who| (0, Occurrence::Elect(who))));
    let outcome = Kind::Ring.run(&case);
    assert_eq!((outcome.end, outcome.leader), (End::Settled, Some(7)));
    assert_eq!(outcome.sent["Elected"], 8, "one run announces its leader");
}

#[test]
fn a_process_that_comes_back_does_no_harm_to_those_who_ask_a_majority() {
    for kind in Kind::ALL.into_iter().filter(|kind| kind.requires_majority()) {
        let mut case = Case::counting(5);
        case.leader = Some(4);
        case.detector = Detector::Perfect { after: 5 * MS, spread: MS };
        case.occurrences.push((MS, Occurrence::Crash(4)));
        case.occurrences.push((300 * MS, Occurrence::Restart(4)));
        (case.until, case.ends_settled) = (3 * SECOND, false);
        let outcome = kind.run(&case);
        assert!(outcome.violations.is_empty(), "{kind}: {}", outcome.violations[0]);
        assert!(outcome.leader.is_some(), "{kind}: nobody leads in the end");
    }
}

#[test]
fn whatever_is_lost_doubled_or_late_those_who_ask_a_majority_never_have_two_leaders() {
    for kind in Kind::ALL.into_iter().filter(|kind| kind.requires_majority()) {
        for seed in 1..=40 {
            let mut case = Case::on(Topology::preset("d3").unwrap(), seed);
            (case.lost_per_mille, case.doubled_per_mille) = (200, 100);
            (case.late_per_mille, case.late_by) = (200, SECOND);
            case.occurrences.push((0, Occurrence::Crash(4)));
            case.occurrences.push((2 * SECOND, Occurrence::Cut(vec![0, 1])));
            case.occurrences.push((4 * SECOND, Occurrence::Restart(4)));
            case.occurrences.push((6 * SECOND, Occurrence::Heal));
            (case.until, case.ends_settled) = (10 * SECOND, false);
            let outcome = kind.run(&case);
            assert!(outcome.violations.is_empty(), "{kind}, seed {seed}: {}", outcome.violations[0]);
        }
    }
}

#[test]
fn those_who_try_again_find_a_leader_though_a_fifth_of_all_messages_is_lost() {
    let topology = Topology::preset("d1").unwrap();
    for kind in [Kind::Raft, Kind::RaftPreVote, Kind::Chubby, Kind::Rotating, Kind::Viewstamped, Kind::Fle, Kind::Pole]
    {
        let result = measure_conditions(kind, &topology, Condition::Loss(20), 1, 20);
        assert_eq!(result.ended, result.runs, "{kind}: {result:?}");
    }
    let ring = measure_conditions(Kind::Ring, &topology, Condition::Loss(20), 1, 20);
    assert!(ring.ended < ring.runs, "a ring sends nothing twice: {ring:?}");
}

#[test]
fn the_same_seed_gives_the_same_record_and_another_seed_another() {
    for kind in Kind::ALL {
        let record = |seed: u64| {
            let mut case = Case::on(Topology::preset("d1").unwrap(), seed);
            (case.record, case.lost_per_mille) = (true, 50);
            case.occurrences.push((0, Occurrence::Crash(4)));
            case.until = 5 * SECOND;
            kind.run(&case).recording.unwrap()
        };
        assert_eq!(record(3), record(3), "{kind}");
        assert_ne!(record(3), record(4), "{kind}");
    }
}

#[test]
fn the_comparison_agrees_and_its_file_has_the_columns_that_others_read() {
    let comparison = Comparison::run(3..=4, 1, &mut |_, _, _| {});
    assert_eq!(comparison.mismatches(), Vec::<String>::new());
    let csv = comparison.csv();
    assert_eq!(csv.lines().next(), Some(HEADER));
    let columns = HEADER.split(',').count();
    let wrong: Vec<&str> = csv.lines().filter(|line| line.split(',').count() != columns).collect();
    assert_eq!(wrong, Vec::<&str>::new());
    for case in ["best", "worst", "mean", "crash", "loss-5", "partition", "wrong-detector"] {
        let rows = csv.lines().filter(|line| line.split(',').nth(2) == Some(case)).count();
        assert!(rows >= Kind::ALL.len(), "{case}: {rows} rows");
    }
    let table = comparison.table();
    let wide: Vec<&str> = table.lines().filter(|line| line.chars().count() > 100).collect();
    assert_eq!(wide, Vec::<&str>::new(), "wider than 100 columns");
    let page = comparison.page();
    assert!(!page.contains("src=") && !page.contains("href=\"http"), "the page opens offline");
    let linked: Vec<&str> = page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let missing: Vec<&&str> = linked.iter().filter(|id| page.matches(&format!("id=\"{id}\"")).count() != 1).collect();
    assert!(linked.len() >= 10 && missing.is_empty(), "{missing:?}");
}

#[test]
fn when_the_network_heals_those_who_ask_a_majority_agree_again() {
    let found = findings(1);
    let quorum = found.iter().filter(|finding| finding.case == "partition" && finding.kind.requires_majority());
    let apart: Vec<String> = quorum.filter(|finding| finding.outcome.leader.is_none()).map(describe).collect();
    assert!(apart.is_empty(), "{}", apart.join("\n"));
}
