//! From a vacancy to a take-over: whose turn it is, and when.
//!
//! The candidates on the succession list take over in its order, each a stagger after the one before. All others wait
//! until the whole list has had its turn, and then the settling time. Then one of them reads the candidates and writes a
//! new list, and its ranks decide.
//!
//! None of this matters for safety. The take-over is a swap that succeeds only if the record has not changed and the
//! lease of the previous leader is gone; a wrong turn costs time.

use pole_types::{Span, Time};

use super::event::{Op, Slot};
use super::{Election, Known, Role};
use crate::rank::{best, rank};
use crate::record::{Cause, Chosen, FORMAT, HISTORY_MAX, Leader, Reason, Record, Succession, Term};
use crate::store::{Entry, Error, Leased, Plain, Revision, Swap, Swapped};
use crate::token::Token;

/// A candidate that waits for its turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub(super) at: Time,
    then: Then,
}

#[derive(Clone, Copy, Debug)]
enum Then {
    /// Read the candidates.
    Look,
    /// Take over.
    Take(Chosen),
}

impl Wait {
    pub(super) fn is_for_take(&self) -> bool {
        matches!(self.then, Then::Take(_))
    }
}

impl Election {
    pub(super) fn plan_campaign(&mut self, now: Time) {
        if !self.is_vacant() || self.own.never || self.leaving {
            if matches!(self.role, Role::Waiting(_) | Role::Looking) {
                self.role = Role::Following;
            }
            return;
        }
        if matches!(self.role, Role::Following) {
            self.begin_wait(now);
        }
        match self.role {
            Role::Waiting(Wait { at, then: Then::Look }) if now >= at && !self.slots.is_busy(Slot::List) => {
                self.role = Role::Looking;
                self.send(now, Slot::List, Op::List);
            }
            Role::Waiting(Wait { at, then: Then::Take(chosen) }) if now >= at => self.try_take(now, chosen),
            Role::Following
            | Role::Waiting(_)
            | Role::Looking
            | Role::Taking
            | Role::Leading(_)
            | Role::Yielding(_)
            | Role::Left => {}
        }
    }

    /// Decides when it is our turn, from the moment at which we know of the vacancy and are known to the others.
    fn begin_wait(&mut self, now: Time) {
        let Some(held) = &self.lease.held else { return };
        if self.succession.is_unknown() && !self.is_first_come() {
            return;
        }
        let timing = &self.settings.timing;
        let settled = held.since.max(now) + timing.settle.saturating_add(self.jitter(timing.settle));
        let wait = match self.turn() {
            Turn::At(position, chosen) => {
                Wait { at: now + timing.stagger.saturating_mul(position.into()), then: Then::Take(chosen) }
            }
            Turn::After(listed) => {
                let others = timing.stagger.saturating_mul(u64::from(listed) + 1);
                Wait { at: settled + others, then: Then::Look }
            }
            Turn::Open => Wait { at: settled, then: Then::Look },
        };
        self.role = Role::Waiting(wait);
    }

    /// Our place in the order of succession: a named successor first, then the list, without the leader that resigned.
    fn turn(&self) -> Turn {
        if self.is_first_come() {
            return Turn::At(0, Chosen::FirstCome);
        }
        let leader = self.leader.record();
        let successor = leader.filter(|leader| leader.resigned).and_then(|leader| leader.successor.as_deref());
        if successor == Some(&self.own.id) {
            return Turn::At(0, Chosen::Successor);
        }
        let last = leader.map(|leader| leader.id.as_str());
        let list = self.succession.record().map_or(&[][..], |succession| &succession.list);
        let others = list.iter().map(|one| one.id.as_str()).filter(|id| Some(*id) != successor && Some(*id) != last);
        let order: Vec<&str> = successor.into_iter().chain(others).collect();
        match order.iter().position(|id| *id == self.own.id) {
            Some(position) => Turn::At(position as u32, Chosen::Listed(position as u32)),
            None if order.is_empty() => Turn::Open,
            None => Turn::After(order.len() as u32),
        }
    }

    /// A new list is a new order for those who did not have a turn yet.
    pub(super) fn learn_succession(&mut self, now: Time, entry: Option<Entry>) {
        let new = match entry.map(|entry| Succession::decode(&entry.value).map(|record| (record, entry.revision))) {
            Some(Ok((record, revision))) => Known::Present(record, revision),
            None => Known::Absent,
            Some(Err(error)) => {
                // A hint that cannot be understood is no hint. It is not overwritten: its revision stays unknown.
                self.trouble(error);
                Known::Absent
            }
        };
        if let Role::Leading(term) = &mut self.role {
            // Read after a conflict: the list of somebody else is replaced at once.
            term.review_at = now;
        }
        let changed = new.revision() != self.succession.revision();
        self.succession = new;
        let undecided = matches!(self.role, Role::Looking | Role::Waiting(Wait { then: Then::Look, .. }));
        if changed && undecided && self.succession.record().is_some() {
            self.slots.forget(Slot::List);
            self.role = Role::Following;
        }
    }

    /// The answer to a list, for a candidate in a vacancy or for a leader.
    pub(super) fn listed(&mut self, now: Time, result: Result<Vec<Leased>, Error>) {
        match (&self.role, result) {
            (Role::Looking, Ok(listed)) => self.ranked(now, &listed),
            (Role::Looking, Err(error)) => {
                let at = now + self.settings.timing.settle;
                self.role = Role::Waiting(Wait { at, then: Then::Look });
                self.trouble(error);
            }
            (Role::Leading(_), Ok(listed)) => self.reviewed(now, &listed),
            (Role::Leading(_), Err(error)) => self.trouble(error),
            (Role::Following | Role::Waiting(_) | Role::Taking | Role::Yielding(_) | Role::Left, _) => {}
        }
    }

    /// Publishes the order that we found, so that the others need not read all candidates, and waits for our turn in it.
    fn ranked(&mut self, now: Time, listed: &[Leased]) {
        let ranked = rank(listed, &self.own.oracle);
        self.write_succession(now, best(&ranked, None, self.settings.timing.list_length), listed.len(), "");
        let timing = &self.settings.timing;
        let found = ranked.iter().position(|one| one.id == self.own.id).map_or(u32::MAX, |rank| rank as u32);
        let mut wait = timing.stagger.saturating_mul(found.min(timing.rank_cap).into());
        if found >= timing.rank_cap {
            wait = wait.saturating_add(self.jitter(timing.settle));
        }
        self.role = Role::Waiting(Wait { at: now + wait, then: Then::Take(Chosen::Ranked(found)) });
    }

    pub(super) fn write_succession(
        &mut self,
        now: Time,
        list: Vec<crate::record::Listed>,
        candidates: usize,
        decision: &str,
    ) {
        if self.slots.is_busy(Slot::Succession) {
            return;
        }
        let (token, by) = (self.highest, self.own.id.clone());
        let candidates = u32::try_from(candidates).unwrap_or(u32::MAX);
        let record = Succession { format: FORMAT, token, by, list, candidates, decision: decision.to_owned() };
        let value = record.encode();
        let expected = self.succession.revision();
        self.succession_sent = Some(record);
        let swap = Swap { record: Plain::Succession, expected, value, gone: None, alive: None };
        self.send(now, Slot::Succession, Op::Swap(swap));
    }

    pub(super) fn succession_swapped(&mut self, now: Time, result: Result<Swapped, Error>) {
        let sent = self.succession_sent.take();
        match (result, sent) {
            (Ok(Swapped::Done(revision)), Some(record)) => self.succession = Known::Present(record, revision),
            (Ok(_), _) => self.send(now, Slot::Succession, Op::Read(crate::store::Target::Succession)),
            (Err(error), _) => self.trouble(error),
        }
    }

    /// Sends the take-over, as soon as our lease is short and fresh.
    fn try_take(&mut self, now: Time, chosen: Chosen) {
        let fresh = match &mut self.lease.held {
            Some(held) if held.kind == super::Kind::Active => {
                if !held.is_fresh(now) {
                    held.renew_at(now);
                }
                held.is_fresh(now)
            }
            Some(_) | None => false,
        };
        if !fresh || self.slots.is_busy(Slot::Leader) {
            return;
        }
        let Some(record) = self.next_leader(now, chosen) else { return };
        let previous = self.leader.record().filter(|leader| !leader.resigned);
        let swap = Swap {
            record: Plain::Leader,
            expected: self.leader.revision(),
            value: record.encode(),
            gone: previous.map(|leader| leader.lease),
            alive: Some(record.lease),
        };
        self.taking = Some(record);
        self.role = Role::Taking;
        self.send(now, Slot::Leader, Op::Swap(swap));
    }

    /// The record of our term.
    fn next_leader(&self, now: Time, chosen: Chosen) -> Option<Leader> {
        let previous = self.leader.record();
        let held = self.lease.held.as_ref()?;
        let cause = match previous {
            None => Cause::First,
            Some(leader) if !leader.resigned => Cause::LeaderLost,
            Some(leader) if leader.successor.is_some() => Cause::HandedOver,
            Some(_) => Cause::Resigned,
        };
        let (score, oracle) = (self.own.score, self.own.oracle.clone());
        let reason = Reason { cause, chosen, score, oracle, at_ms: self.settings.wall_ms + Span(now.0).as_us() / 1000 };
        let epoch_floor = previous.map_or(0, |leader| leader.epoch_floor);
        let stored = previous.map_or(Token::ZERO, |leader| leader.token);
        Some(Leader {
            format: FORMAT,
            token: stored.successor(self.highest, epoch_floor),
            id: self.own.id.clone(),
            lease: held.id,
            resigned: false,
            successor: None,
            request: None,
            epoch_floor,
            reason,
            history: previous.map(history).unwrap_or_default(),
        })
    }

    pub(super) fn leader_swapped(&mut self, now: Time, result: Result<Swapped, Error>) {
        match self.role {
            Role::Taking => self.taken(now, result),
            Role::Yielding(_) => self.resignation_written(now, result),
            Role::Following | Role::Waiting(_) | Role::Looking | Role::Leading(_) | Role::Left => {}
        }
    }

    fn taken(&mut self, now: Time, result: Result<Swapped, Error>) {
        let sent = self.taking.take();
        match (result, sent) {
            (Ok(Swapped::Done(revision)), Some(record)) => self.take_over_done(now, record, revision),
            (Ok(Swapped::StillHeld), _) => {
                // Somebody told us that it is gone, and it is not: look again soon, and do not believe it until then.
                self.holder_gone = None;
                self.check_at = now + self.settings.timing.retry;
                self.role = Role::Following;
            }
            (Ok(Swapped::LeaseGone), _) => {
                let lost = self.lease.drop_held();
                self.role = Role::Following;
                self.lease_lost(now, lost);
            }
            (Ok(Swapped::Conflict | Swapped::Done(_)), _) => self.read_leader_at = Some(now),
            (Err(error), _) => {
                // It may have been applied. Until a read says so we neither lead nor try again.
                self.read_leader_later(now);
                self.trouble(error);
            }
        }
    }

    fn take_over_done(&mut self, now: Time, record: Leader, revision: Revision) {
        self.effects.push(super::Effect::Leader(Some(record.clone())));
        self.set_leader(Known::Present(record, revision));
        self.begin_term(now);
    }
}

/// The terms before the next one.
fn history(leader: &Leader) -> Vec<Term> {
    let term = Term { token: leader.token, id: leader.id.clone(), reason: leader.reason.clone() };
    std::iter::once(term).chain(leader.history.iter().cloned()).take(HISTORY_MAX).collect()
}

/// Whose turn it is.
enum Turn {
    /// Ours, at this position.
    At(u32, Chosen),
    /// Ours only after a list of that length.
    After(u32),
    /// There is no list.
    Open,
}
