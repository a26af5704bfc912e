//! The order of candidates: priority, then score, then id; higher is better in each.
//!
//! An unknown score ranks below every known one, but its candidate can lead, so that an election always has a result.
//! A score of another oracle counts as unknown. The order is total, so every candidate that reads the same list finds
//! the same ranks.

use std::cmp::Reverse;

use crate::record::{Candidate, Listed, Record};
use crate::score::{OracleTag, Value};
use crate::store::Leased;

/// The candidates that may lead, best first, each id once.
#[must_use]
pub fn rank(listed: &[Leased], oracle: &OracleTag) -> Vec<Candidate> {
    // A damaged record is left out: it must not keep the others from electing.
    let mut candidates: Vec<Candidate> =
        listed.iter().filter_map(|leased| Candidate::decode(&leased.value).ok()).filter(|one| !one.never).collect();
    for candidate in &mut candidates {
        if candidate.oracle != *oracle {
            candidate.score = None;
        }
    }
    // Best first, so that of two records of one candidate (an old lease runs out) the better one remains.
    candidates.sort_by(|a, b| key(b).cmp(&key(a)));
    let mut seen = std::collections::BTreeSet::new();
    candidates.retain(|candidate| seen.insert(candidate.id.clone()));
    candidates
}

/// The key of the order, greater is better.
pub(crate) fn key(candidate: &Candidate) -> (i32, Option<Value>, &str) {
    // `None < Some(_)`: unknown is worse than known.
    (candidate.priority, candidate.score, &candidate.id)
}

/// The same key for an entry of the succession list.
pub(crate) fn listed_key(listed: &Listed) -> (i32, Option<Value>, &str) {
    (listed.priority, listed.score, &listed.id)
}

/// The first `length` candidates except `leader`, as entries of a succession list.
#[must_use]
pub(crate) fn best(ranked: &[Candidate], leader: Option<&str>, length: usize) -> Vec<Listed> {
    let others = ranked.iter().filter(|one| Some(one.id.as_str()) != leader).take(length);
    let list = others.map(|one| Listed { id: one.id.clone(), priority: one.priority, score: one.score });
    list.collect::<Vec<_>>()
}

/// Whether a candidate belongs on a list of that length: there is room, or it is better than the last entry.
#[must_use]
pub(crate) fn belongs(list: &[Listed], candidate: &Candidate, length: usize) -> bool {
    let last = list.iter().map(|one| Reverse(listed_key(one))).max();
    list.len() < length || last.is_none_or(|Reverse(last)| key(candidate) > last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::FORMAT;
    use crate::store::LeaseId;

    fn candidate(id: &str, score: Option<i64>) -> Candidate {
        Candidate {
            format: FORMAT,
            id: id.into(),
            score: score.map(Value::from_milli),
            oracle: OracleTag::default(),
            computed_ms: 0,
            score_ttl_ms: None,
            priority: 0,
            never: false,
        }
    }

    fn order(candidates: &[Candidate]) -> Vec<String> {
        let leased =
            |(number, one): (usize, &Candidate)| Leased { lease: LeaseId(number as u128), value: one.encode() };
        let listed: Vec<Leased> = candidates.iter().enumerate().map(leased).collect();
        rank(&listed, &OracleTag::default()).into_iter().map(|one| one.id).collect()
    }

    #[test]
    fn priority_counts_before_score_and_score_before_id() {
        let favoured = Candidate { priority: 1, ..candidate("p", Some(-5)) };
        let never = Candidate { never: true, ..candidate("n", Some(99)) };
        let ranked = order(&[candidate("a", Some(1)), candidate("u", None), favoured, never, candidate("b", Some(1))]);
        assert_eq!(ranked, ["p", "b", "a", "u"]);
    }

    #[test]
    fn a_score_of_another_oracle_is_unknown() {
        let oracle = OracleTag { name: "latency".into(), version: 2 };
        let other = Candidate { oracle, ..candidate("z", Some(100)) };
        assert_eq!(order(&[other, candidate("a", Some(1))]), ["a", "z"]);
    }

    #[test]
    fn a_candidate_with_two_records_counts_once() {
        assert_eq!(order(&[candidate("a", Some(1)), candidate("b", Some(2)), candidate("a", Some(3))]), ["a", "b"]);
    }

    #[test]
    fn a_candidate_belongs_on_a_list_with_room_or_with_a_worse_last_entry() {
        let ranked = [candidate("b", Some(3)), candidate("a", Some(2))];
        let list = best(&ranked, None, 2);
        assert!(belongs(&list, &candidate("c", None), 3));
        assert!(belongs(&list, &candidate("c", Some(2)), 2), "a tie, but the higher id");
        assert!(!belongs(&list, &candidate("c", Some(1)), 2));
        assert_eq!(best(&ranked, Some("b"), 2).len(), 1, "the leader is not its own successor");
    }
}
