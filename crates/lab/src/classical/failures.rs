//! Runs the failures that theory predicts, and checks those that must not happen.
//!
//! Each [`Finding`] holds the prediction, the observation and whether they match. This is not only in tests because
//! readers of the comparison want to see that ring and bully fail, and how.

use super::{Case, Detector, End, Kind, Occurrence, Outcome, Step};
use pole_sim::MS;

/// One prediction and its result.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The name of the case.
    pub case: &'static str,
    /// The algorithm.
    pub kind: Kind,
    /// The prediction of the theory.
    pub predicted: &'static str,
    /// What was observed.
    pub seen: String,
    /// Whether the prediction holds.
    pub holds: bool,
    /// The run, with its recording.
    pub outcome: Outcome,
}

/// Runs all cases.
#[must_use]
pub fn findings(seed: u64) -> Vec<Finding> {
    let mut found = would_be_leader_dies(seed);
    found.push(inaccurate_detector(seed, Kind::Ring));
    found.push(inaccurate_detector(seed, Kind::RingRepair2));
    found.push(short_timeout(seed));
    found.push(second_highest_dies(seed));
    found.push(one_wrong_suspicion(seed, Kind::Raft));
    found.push(one_wrong_suspicion(seed, Kind::RaftPreVote));
    found.extend(Kind::ALL.map(|kind| wrong_detector(seed, kind)));
    found.extend(Kind::ALL.map(|kind| partition(seed, kind)));
    found
}

/// Five processes with a recording.
fn base(seed: u64) -> Case {
    let mut case = Case::counting(N);
    case.seed = seed;
    case.record = true;
    // A longer recording shows nothing new.
    case.events_max = 2_000;
    case
}

fn would_be_leader_dies(seed: u64) -> Vec<Finding> {
    let mut case = base(seed);
    // The Election reaches 4 after 4 ms; Election 4 is on its way round when 4 crashes.
    let dies = 5 * MS + MS / 2;
    case.occurrences.push((0, Occurrence::Elect(0)));
    case.occurrences.push((dies, Occurrence::Crash(N - 1)));
    case.occurrences.extend((0..N - 1).map(|who| (dies, Occurrence::Suspects { who, whom: N - 1 })));
    let find = |kind: Kind, predicted: &'static str, for_ever: bool| {
        let outcome = kind.run(&case);
        let holds = if for_ever { outcome.end == End::OutOfEvents } else { outcome.leader == Some(N - 2) };
        Finding { case: "would-be leader dies", kind, predicted, seen: ending(&outcome), holds, outcome }
    };
    vec![
        find(Kind::Ring, "Election goes round for ever", true),
        find(Kind::RingRepair1, "the predecessor starts again; ends", false),
        find(Kind::RingRepair2, "a detector starts again; ends", false),
    ]
}

/// A detector suspects a running process on the other side of the ring.
fn inaccurate_detector(seed: u64, kind: Kind) -> Finding {
    let mut case = base(seed);
    case.occurrences.push((0, Occurrence::Suspects { who: 1, whom: N - 1 }));
    case.occurrences.push((0, Occurrence::Elect(0)));
    let outcome = kind.run(&case);
    let for_ever = kind == Kind::RingRepair2;
    Finding {
        case: "inaccurate detector",
        kind,
        predicted: if for_ever { "new runs for ever" } else { "the detector is not asked; ends" },
        seen: ending(&outcome),
        holds: for_ever == (outcome.end == End::OutOfEvents),
        outcome,
    }
}

fn short_timeout(seed: u64) -> Finding {
    let mut case = Case { seed, record: true, ..Case::leader_dead(N).suspected_by([0]) };
    // Shorter than a round trip, which takes 2 ms.
    case.timeout = MS;
    two_leaders("timeout too short", Kind::Bully, &case, true)
}

fn second_highest_dies(seed: u64) -> Finding {
    let mut case = Case { seed, record: true, ..Case::leader_dead(N).suspected_by([0]) };
    // It has answered by then and would become the coordinator.
    case.occurrences.push((2 * MS + MS / 2, Occurrence::Crash(N - 2)));
    let outcome = Kind::Bully.run(&case);
    Finding {
        case: "second-highest dies",
        kind: Kind::Bully,
        predicted: "those who wait for it begin again; ends",
        seen: ending(&outcome),
        holds: outcome.leader == Some(N - 3) && outcome.violations.is_empty(),
        outcome,
    }
}

/// One follower of Raft suspects a running leader.
fn one_wrong_suspicion(seed: u64, kind: Kind) -> Finding {
    let mut case = Case { leader: Some(N - 1), until: 150 * MS, ends_settled: false, ..base(seed) };
    case.occurrences.push((MS, Occurrence::Suspects { who: 0, whom: N - 1 }));
    let outcome = kind.run(&case);
    let stays = kind == Kind::RaftPreVote;
    let mut steps = outcome.recording.iter().flat_map(|recording| &recording.steps);
    let deposed = steps.any(|step| step.views[N - 1].leads.is_none());
    Finding {
        case: "one wrong suspicion",
        kind,
        predicted: if stays { "nobody votes; the leader stays" } else { "a new term deposes the leader" },
        seen: if deposed { "the leader is deposed".to_owned() } else { "the leader stays".to_owned() },
        holds: deposed != stays && outcome.violations.is_empty(),
        outcome,
    }
}

/// All processes suspect the leader, although it runs.
fn wrong_detector(seed: u64, kind: Kind) -> Finding {
    let mut case = Case { leader: Some(N - 1), until: 150 * MS, ends_settled: false, ..base(seed) };
    case.occurrences.extend((0..N - 1).map(|who| (MS, Occurrence::Suspects { who, whom: N - 1 })));
    two_leaders("wrong-detector", kind, &case, !kind.requires_majority())
}

/// The leader and one other process are partitioned from the majority for a while.
fn partition(seed: u64, kind: Kind) -> Finding {
    let mut case = Case { leader: Some(N - 1), until: 400 * MS, ends_settled: false, ..base(seed) };
    case.detector = Detector::Perfect { after: 5 * MS, spread: 0 };
    case.occurrences.push((10 * MS, Occurrence::Cut(vec![N - 2, N - 1])));
    case.occurrences.push((150 * MS, Occurrence::Heal));
    case.events_max = 20_000;
    two_leaders("partition", kind, &case, !kind.requires_majority())
}

fn two_leaders(name: &'static str, kind: Kind, case: &Case, predicted: bool) -> Finding {
    let outcome = kind.run(case);
    let seen = match (outcome.violations.first(), outcome.leaders_max) {
        (Some(violation), _) => format!("two at {violation} ({}); {}", why(&outcome), afterwards(&outcome)),
        (None, 0 | 1) => format!("one at most; {}", afterwards(&outcome)),
        (None, many) => format!("{many} believe, one is accepted; {}", afterwards(&outcome)),
    };
    Finding {
        case: name,
        kind,
        predicted: if predicted { "two leaders at once" } else { "never two leaders at once" },
        seen,
        holds: predicted != outcome.violations.is_empty(),
        outcome,
    }
}

/// The step that created the second leader.
fn why(outcome: &Outcome) -> String {
    let two = |step: &&Step| step.views.iter().filter(|view| view.leads.is_some()).count() > 1;
    let Some(recording) = &outcome.recording else { return String::new() };
    recording.steps.iter().find(two).map_or(String::new(), |step| recording.describe(step))
}

fn afterwards(outcome: &Outcome) -> String {
    match outcome.leader {
        Some(leader) => format!("{leader} in the end"),
        None => "no agreement in the end".to_owned(),
    }
}

fn ending(outcome: &Outcome) -> String {
    let ms = outcome.agreed_at.map(|at| at as f64 / MS as f64);
    match (outcome.end, outcome.leader, ms) {
        (End::OutOfEvents, ..) => format!("no end after {} messages", outcome.messages()),
        (_, Some(leader), Some(ms)) => format!("{leader} leads from {ms:.1} ms on, {} messages", outcome.messages()),
        (End::Settled | End::Quiet | End::OutOfTime, ..) => "nobody leads".to_owned(),
    }
}

/// The number of processes in these cases.
const N: usize = 5;
