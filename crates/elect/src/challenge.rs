//! When a leader hands over to a better candidate: the resignation policy of the ensemble, on candidates of a store.
//!
//! The policy ([`pole_oracle::Resignation`]) demands that a candidate is better by a margin for a hold time, and limits
//! hand-overs by a cool-down and an hourly budget. It knows servers by number, so each candidate gets one when it is
//! first seen.

use std::collections::BTreeMap;

use pole_election::{Rank, Score};
use pole_oracle::{
    Advantage, Decision, InvalidScore, Oracle, ResignConfig, Resignation, Scale, Situation, StayReason, View,
};
use pole_types::{ServerId, Span, Time};

use crate::record::Candidate;
use crate::score::OracleTag;

/// The policy of one candidate. It also records the hand-overs of others, so that cool-down and budget apply to the
/// election as a whole.
#[derive(Clone, Debug)]
pub(crate) struct Challenge {
    config: ResignConfig,
    policy: Resignation,
    /// The numbers of the candidates of the last evaluation.
    numbers: BTreeMap<String, ServerId>,
    next: u64,
}

/// What the policy says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Stay, with a reason that changes only when the situation does.
    Stay(String),
    /// Hand over to this candidate.
    HandOver(String),
}

impl Challenge {
    pub(crate) fn new(config: ResignConfig) -> Self {
        Self { config, policy: Resignation::new(config), numbers: BTreeMap::new(), next: 0 }
    }

    pub(crate) fn became_leader(&mut self, now: Time) {
        self.policy.became_leader(now);
    }

    pub(crate) fn record_hand_over(&mut self, now: Time) {
        self.policy.record_resignation(now);
    }

    /// Compares the leader with the best candidates. `interval` is the time between two evaluations: the policy must
    /// see a challenger at least twice within its hold time.
    pub(crate) fn consider(&mut self, now: Time, own: &Candidate, ranked: &[Candidate], interval: Span) -> Verdict {
        self.policy.configure(ResignConfig { hold: self.config.hold.max(interval.saturating_mul(2)), ..self.config });
        let others: Vec<&Candidate> = ranked.iter().filter(|one| one.id != own.id).take(COMPARED_MAX).collect();
        self.number(&others);
        let candidates = others.iter().map(|one| (self.numbers[&one.id], rank_of(one))).collect();
        let oracle = ByScore { tag: own.oracle.clone() };
        let situation = Situation {
            oracle: &oracle,
            own: &rank_of(own),
            candidates: &candidates,
            pause: Span::ZERO,
            // Scores of candidates are not waiting times, so the rate of requests does not matter.
            rate_milli: 1,
        };
        match self.policy.consider(now, &situation) {
            Decision::Resign { to, .. } => Verdict::HandOver(self.name(to)),
            Decision::Stay { reason } => Verdict::Stay(self.explain(reason)),
        }
    }

    /// Keeps the numbers of known candidates, so that the policy recognises them, and forgets those that left.
    fn number(&mut self, others: &[&Candidate]) {
        let mut old = std::mem::take(&mut self.numbers);
        for one in others {
            let number = old.remove(&one.id).unwrap_or_else(|| {
                self.next += 1;
                ServerId(self.next)
            });
            self.numbers.insert(one.id.clone(), number);
        }
    }

    fn name(&self, number: ServerId) -> String {
        let found = self.numbers.iter().find(|(_, known)| **known == number);
        found.map(|(id, _)| id.clone()).unwrap_or_default()
    }

    fn explain(&self, reason: StayReason) -> String {
        match reason {
            StayReason::Off => "hand-over is off".to_owned(),
            StayReason::OwnUnknown => "own score unknown".to_owned(),
            StayReason::NobodyBetter => "nobody has a better score".to_owned(),
            StayReason::WithinMargin { best, .. } => format!("{} is better, within the margin", self.name(best)),
            StayReason::Holding { candidate, .. } => {
                format!("{} is better, but not yet for long enough", self.name(candidate))
            }
            StayReason::CoolingDown { .. } => "a better candidate must wait for the cool-down".to_owned(),
            StayReason::BudgetSpent { .. } => "the hand-overs of this hour are used up".to_owned(),
            StayReason::Idle | StayReason::NotWorthThePause { .. } => "not worth the pause".to_owned(),
        }
    }
}

/// Priority, then score, as a score of the ensemble, where smaller is better.
fn rank_of(candidate: &Candidate) -> Rank {
    let known = candidate
        .score
        .map(|score| Rank::Known(Score::new(vec![-i64::from(candidate.priority), score.milli().saturating_neg()])));
    known.unwrap_or(Rank::Unknown)
}

/// The oracle behind the scores: compares, never assesses.
struct ByScore {
    tag: OracleTag,
}

impl Oracle for ByScore {
    fn name(&self) -> &str {
        &self.tag.name
    }

    fn describe(&self) -> String {
        self.tag.to_string()
    }

    fn components(&self) -> usize {
        2
    }

    fn assess(&self, _view: &View, _epoch: u64) -> Option<pole_oracle::Assessed> {
        None
    }

    fn validate(&self, score: &Score) -> Result<(), InvalidScore> {
        InvalidScore::check(self.name(), score, &[(i64::MIN, i64::MAX); 2])
    }

    fn advantage(&self, own: &Score, other: &Score) -> Advantage {
        match (own.components(), other.components()) {
            ([own_priority, own], [other_priority, other]) if own_priority == other_priority => {
                Scale::PLAIN.advantage(*own, *other)
            }
            ([own_priority, ..], [other_priority, ..]) if other_priority < own_priority => Advantage::FULL,
            _ => Advantage::NONE,
        }
    }
}

/// The number of candidates that are compared with the leader. The rest are worse than these.
const COMPARED_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::Value;

    fn candidate(id: &str, score: i64, priority: i32) -> Candidate {
        let oracle = OracleTag::default();
        let score = Some(Value::from_milli(score));
        Candidate {
            format: 1,
            id: id.into(),
            score,
            oracle,
            computed_ms: 0,
            score_ttl_ms: None,
            priority,
            never: false,
        }
    }

    fn at(seconds: u64) -> Time {
        Time(seconds * 1_000_000_000)
    }

    /// The seconds at which the leader "a" with score 1000 hands over, evaluated every second for two minutes.
    fn hands_over(challenger: &Candidate) -> Option<u64> {
        let mut challenge = Challenge::new(ResignConfig::default());
        challenge.became_leader(at(0));
        let ranked = [challenger.clone(), candidate("a", 1000, 0)];
        (0..120).find(|second| {
            let verdict = challenge.consider(at(*second), &ranked[1], &ranked, Span::from_ms(1000));
            verdict == Verdict::HandOver(challenger.id.clone())
        })
    }

    #[test]
    fn a_better_candidate_leads_after_hold_time_and_cool_down() {
        assert_eq!(hands_over(&candidate("b", 1200, 0)), Some(60));
        assert_eq!(hands_over(&candidate("b", 1050, 0)), None, "within the margin of 10 %");
        assert_eq!(hands_over(&candidate("b", 10, 1)), Some(60), "priority counts before score");
        assert_eq!(hands_over(&candidate("b", 9999, -1)), None);
    }

    #[test]
    fn a_slow_review_still_sees_a_challenger_for_the_hold_time() {
        let mut challenge = Challenge::new(ResignConfig::default());
        challenge.became_leader(at(0));
        let ranked = [candidate("b", 2000, 0), candidate("a", 1000, 0)];
        let verdicts: Vec<Verdict> =
            (0..12).map(|turn| challenge.consider(at(turn * 20), &ranked[1], &ranked, Span::from_ms(20_000))).collect();
        assert!(verdicts.contains(&Verdict::HandOver("b".into())), "{verdicts:?}");
    }
}
