//! Answers as text for people and as JSON for programs.

use std::fmt::Write as _;

use pole_elect::Observed;
use pole_elect::admin::Snapshot;
use pole_elect::promises::Promises;
use pole_elect::record::{Candidate, Cause, Chosen, Leader, Reason, Succession};
use pole_elect::score::Value as Score;
use serde_json::{Value, json};

use crate::log::timestamp;

pub(crate) fn observed(observed: &Observed) -> String {
    match &observed.leader {
        Some(leader) if observed.alive => format!("{} leads with token {}", leader.id, leader.token),
        Some(leader) if leader.resigned => format!("vacant: {} resigned, last token {}", leader.id, leader.token),
        Some(leader) => format!("vacant: {} is gone, last token {}", leader.id, leader.token),
        None => "vacant: there was no leader yet".to_owned(),
    }
}

pub(crate) fn observed_json(observed: &Observed) -> Value {
    let leader = observed.leader.as_ref();
    json!({
        "leader": leader.filter(|_| observed.alive).map(|leader| &leader.id),
        "token": leader.map(|leader| leader.token),
        "resigned": leader.is_some_and(|leader| leader.resigned),
    })
}

pub(crate) fn status(snapshot: &Snapshot, promises: &Promises) -> String {
    let state = Observed { leader: snapshot.leader.clone(), alive: snapshot.alive };
    let mut text = observed(&state) + "\n";
    if let Some(leader) = &snapshot.leader {
        let _ = writeln!(text, "epoch {}, term {}", leader.token.epoch(), leader.token.counter());
    }
    let listed: Vec<&str> = snapshot.succession.iter().flat_map(|one| &one.list).map(|one| one.id.as_str()).collect();
    let _ = writeln!(text, "succession: {}", if listed.is_empty() { "none".to_owned() } else { listed.join(", ") });
    let _ = writeln!(text, "candidates: {}", snapshot.candidates.len());
    for candidate in &snapshot.candidates {
        let _ = writeln!(text, "  {}", describe(candidate));
    }
    if snapshot.damaged > 0 {
        let _ = writeln!(text, "records that cannot be understood: {}", snapshot.damaged);
    }
    let _ = writeln!(text, "store: {}; {}", promises.store, promises.note);
    text
}

pub(crate) fn status_json(snapshot: &Snapshot, promises: &Promises) -> Value {
    let mut value = serde_json::to_value(snapshot).unwrap_or_default();
    show_scores(&mut value);
    let store = json!({
        "name": promises.store,
        "linearizable_reads": promises.linearizable_reads,
        "lease_judged_by": format!("{:?}", promises.judge),
        "transactions": promises.transactions,
        "can_go_back": format!("{:?}", promises.can_go_back),
        "ttl_min_ms": promises.ttl_min.as_millis() as u64,
        "ttl_max_ms": promises.ttl_max.as_millis() as u64,
        "early_ms": promises.early.as_millis() as u64,
        "late_factor": promises.late_factor,
        "late_ms": promises.late.as_millis() as u64,
        "note": promises.note,
    });
    value["store"] = store;
    value
}

pub(crate) fn explain(snapshot: &Snapshot) -> String {
    let Some(leader) = &snapshot.leader else { return "There was no leader yet.\n".to_owned() };
    let mut text = String::new();
    let verb = if snapshot.alive { "leads" } else { "was the last leader" };
    let _ =
        writeln!(text, "{} {verb}, with token {}, since {}.", leader.id, leader.token, timestamp(leader.reason.at_ms));
    let _ = writeln!(text, "{}", because(&leader.reason));
    let decided = |succession: &&Succession| snapshot.alive && !succession.decision.is_empty();
    if let Some(succession) = snapshot.succession.as_ref().filter(decided) {
        let _ = writeln!(text, "It stays because {}.", succession.decision);
    }
    let (own, others): (Vec<_>, Vec<_>) = snapshot.candidates.iter().partition(|candidate| candidate.id == leader.id);
    for candidate in others {
        let _ = writeln!(text, "  {}, {}", describe(candidate), against(candidate, leader, own.first().copied()));
    }
    for term in &leader.history {
        let _ = writeln!(text, "Before: {}, with token {}. {}", term.id, term.token, because(&term.reason));
    }
    text
}

pub(crate) fn explain_json(snapshot: &Snapshot) -> Value {
    let terms = snapshot.leader.iter().flat_map(|leader| {
        let now = json!({"id": leader.id, "token": leader.token, "reason": leader.reason});
        let before =
            leader.history.iter().map(|term| json!({"id": term.id, "token": term.token, "reason": term.reason}));
        std::iter::once(now).chain(before)
    });
    let mut value = json!({
        "terms": terms.collect::<Vec<_>>(),
        "alive": snapshot.alive,
        "decision": snapshot.succession.as_ref().map(|succession| &succession.decision),
        "candidates": snapshot.candidates,
    });
    show_scores(&mut value);
    value
}

/// Records have scores in thousandths. Users see them as they gave them.
fn show_scores(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field.as_i64().filter(|_| name == "score") {
                    Some(milli) => *field = json!(milli as f64 / 1000.0),
                    None => show_scores(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(show_scores),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn because(reason: &Reason) -> String {
    let cause = match reason.cause {
        Cause::First => "There was no leader before",
        Cause::LeaderLost => "The lease of the leader before had ended",
        Cause::Resigned => "The leader before had resigned",
        Cause::HandedOver => "The leader before had handed over",
    };
    let chosen = match reason.chosen {
        Chosen::Successor => "it was named as the successor".to_owned(),
        Chosen::Listed(0) => "it was first on the succession list".to_owned(),
        Chosen::Listed(1) => "the one before it on the succession list did not take over".to_owned(),
        Chosen::Listed(before) => format!("the {before} before it on the succession list did not take over"),
        Chosen::Ranked(0) => "it had the best score".to_owned(),
        Chosen::Ranked(rank) => format!("it was the first to take over, of rank {rank}"),
        Chosen::FirstCome => "it came first".to_owned(),
    };
    format!("{cause}, and {chosen}; its score was {} ({}).", score(reason.score), reason.oracle)
}

/// Why a candidate does not lead, beside the leader's own record, which is gone after a crash.
fn against(candidate: &Candidate, leader: &Leader, own: Option<&Candidate>) -> &'static str {
    match own {
        _ if candidate.never => "cannot lead",
        _ if candidate.oracle != leader.reason.oracle => "not compared: its score is of another oracle",
        None => "may take over",
        Some(own) if (candidate.priority, candidate.score) > (own.priority, own.score) => "better than the leader",
        Some(_) => "not better than the leader",
    }
}

fn describe(candidate: &Candidate) -> String {
    let mut text = format!("{} score {} ({})", candidate.id, score(candidate.score), candidate.oracle);
    if candidate.priority != 0 {
        let _ = write!(text, " priority {}", candidate.priority);
    }
    if candidate.never {
        text.push_str(" does not stand");
    }
    text
}

fn score(score: Option<Score>) -> String {
    score.map_or_else(|| "unknown".to_owned(), |score| score.to_string())
}

#[cfg(test)]
mod tests {
    use pole_elect::record::Record;

    use super::*;

    fn decode<T: Record>(value: &Value) -> T {
        T::decode(&value.to_string().into()).unwrap()
    }

    fn candidate(id: &str, score: i64, oracle: &str) -> Candidate {
        let oracle = json!({"name": oracle, "version": 1});
        decode(&json!({
            "format": 1, "id": id, "score": score, "oracle": oracle, "computed_ms": 0, "priority": 0, "never": false,
        }))
    }

    fn snapshot(alive: bool) -> Snapshot {
        let reason = json!({
            "cause": "leader-lost", "chosen": {"listed": 1}, "score": 8500, "at_ms": 0,
            "oracle": {"name": "custom", "version": 1},
        });
        let lease = format!("{:032x}", 1);
        let leader = json!({
            "format": 1, "token": 7, "id": "a", "lease": lease, "resigned": false, "reason": reason,
        });
        let succession =
            json!({"format": 1, "token": 7, "by": "a", "list": [], "candidates": 4, "decision": "of the cool-down"});
        let others = [candidate("b", 9000, "custom"), candidate("c", 2000, "custom"), candidate("d", 9000, "latency")];
        let own = alive.then(|| candidate("a", 8500, "custom"));
        Snapshot {
            leader: Some(decode(&leader)),
            alive,
            succession: Some(decode(&succession)),
            candidates: own.into_iter().chain(others).collect(),
            damaged: 0,
        }
    }

    #[test]
    fn a_leader_is_explained_beside_the_other_candidates() {
        let expected = "\
a leads, with token 7, since 1970-01-01T00:00:00.000Z.
The lease of the leader before had ended, and the one before it on the succession list did not take over; its score was \
8.5 (custom version 1).
It stays because of the cool-down.
  b score 9 (custom version 1), better than the leader
  c score 2 (custom version 1), not better than the leader
  d score 9 (latency version 1), not compared: its score is of another oracle
";
        assert_eq!(explain(&snapshot(true)), expected);
        let gone = explain(&snapshot(false));
        assert!(gone.starts_with("a was the last leader") && !gone.contains("It stays"), "{gone}");
        assert!(gone.contains("  c score 2 (custom version 1), may take over\n"), "{gone}");
    }

    #[test]
    fn scores_are_shown_as_they_were_given() {
        let shown = explain_json(&snapshot(true));
        assert_eq!(shown["terms"][0]["reason"]["score"], json!(8.5));
        assert_eq!(shown["candidates"][1]["score"], json!(9.0));
    }
}
