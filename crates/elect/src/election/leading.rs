//! The duties of a leader, and how a term ends.
//!
//! A term ends in one order, whatever its reason: the guard becomes false ([`Effect::Yield`]), the application stops
//! ([`Event::Released`](super::Event::Released)), and only then the record is marked as resigned. If the lease is gone
//! or its deadline has passed, there is nothing left to write.

use pole_types::Time;

use super::event::{Effect, Op, Slot, YieldReason};
use super::{Election, Known, Role};
use crate::challenge::Verdict;
use crate::rank::{best, rank};
use crate::record::{Leader, Record};
use crate::store::{Error, LeaseId, Leased, Plain, Revision, Swap, Swapped};
use crate::token::Token;

/// A term that we lead.
#[derive(Clone, Debug)]
pub(super) struct Term {
    pub(super) record: Leader,
    revision: Revision,
    /// When the candidates are read again.
    pub(super) review_at: Time,
    /// The end of the lease as last announced.
    deadline: Time,
    /// The last thought about resigning.
    decision: String,
}

/// A term that has ended for us, but not yet in the store.
#[derive(Clone, Debug)]
pub(super) struct Yielding {
    record: Leader,
    revision: Revision,
    /// The resignation to write: to a successor, or to the best. None if there is nothing to write.
    pub(super) write: Option<Option<String>>,
    /// Whether the application has stopped.
    pub(super) released: bool,
    /// Until when the lease is renewed for an application that does not stop.
    pub(super) until: Time,
}

impl Election {
    /// The leader record names our lease: we lead, if the lease is certain to be alive.
    pub(super) fn begin_term(&mut self, now: Time) {
        let (Known::Present(record, revision), Some(held)) = (&self.leader, &self.lease.held) else {
            self.role = Role::Following;
            return;
        };
        let (record, deadline) = (record.clone(), held.deadline());
        if now >= deadline {
            // Too late to be certain. Without the lease the others can take over.
            self.role = Role::Following;
            return self.give_up_lease(now);
        }
        let token = record.token;
        assert!(token > self.led, "a token is led once: {token} after {}", self.led);
        self.led = token;
        self.challenge.became_leader(now);
        let revision = *revision;
        let term = Term { record, revision, review_at: now, deadline, decision: String::new() };
        self.role = Role::Leading(Box::new(term));
        self.effects.push(Effect::Lead { token, deadline });
    }

    /// Ends the term at its deadline, reads the candidates when it is time, and completes a resignation.
    pub(super) fn plan_term(&mut self, now: Time) {
        match &mut self.role {
            Role::Leading(term) if now >= term.deadline => {
                self.end_term(now, YieldReason::DeadlinePassed, None);
                self.give_up_lease(now);
            }
            Role::Leading(term) => {
                let due = now >= term.review_at && !self.slots.is_busy(Slot::List);
                if due && self.settings.strategy == super::Strategy::BestScore {
                    term.review_at = now + self.settings.timing.review;
                    self.send(now, Slot::List, Op::List);
                }
            }
            Role::Yielding(_) => self.plan_yielding(now),
            Role::Following | Role::Waiting(_) | Role::Looking | Role::Taking | Role::Left => {}
        }
    }

    /// A renewal was confirmed: the deadline moves, unless it has passed already.
    pub(super) fn extend_term(&mut self, now: Time) {
        let (Role::Leading(term), Some(held)) = (&mut self.role, &self.lease.held) else { return };
        if now < term.deadline && held.deadline() > term.deadline {
            term.deadline = held.deadline();
            self.effects.push(Effect::Extend { deadline: term.deadline });
        }
    }

    /// The store has ended our lease.
    pub(super) fn lease_lost(&mut self, now: Time, lost: Option<LeaseId>) {
        if self.leader.record().is_some_and(|leader| Some(leader.lease) == lost) {
            self.holder_gone = lost;
        }
        match &mut self.role {
            Role::Leading(_) => self.end_term(now, YieldReason::LeaseLost, None),
            Role::Yielding(yielding) => yielding.write = None,
            Role::Following | Role::Waiting(_) | Role::Looking | Role::Taking | Role::Left => {}
        }
    }

    /// Updates the succession list if the order has changed, and hands over if a candidate stayed better.
    pub(super) fn reviewed(&mut self, now: Time, listed: &[Leased]) {
        let ranked = rank(listed, &self.own.oracle);
        let timing = &self.settings.timing;
        let interval = timing.review.max(timing.review_per_candidate.saturating_mul(listed.len() as u64));
        let list = best(&ranked, Some(&self.own.id), timing.list_length);
        let verdict = self.challenge.consider(now, &self.own, &ranked, interval);
        let Role::Leading(term) = &mut self.role else { return };
        term.review_at = now + interval;
        let decision = match verdict {
            Verdict::Stay(reason) => reason,
            Verdict::HandOver(to) => {
                self.challenge.record_hand_over(now);
                return self.end_term(now, YieldReason::HandOver { to: to.clone() }, Some(Some(to)));
            }
        };
        let known = self.succession.record();
        let same_order = known.is_some_and(|known| {
            known.by == self.own.id && known.list.iter().map(|one| &one.id).eq(list.iter().map(|one| &one.id))
        });
        if (!same_order || term.decision != decision) && !self.slots.is_busy(Slot::Succession) {
            term.decision.clone_from(&decision);
            self.write_succession(now, list, listed.len(), &decision);
        }
    }

    /// Gives up leadership in favour of a candidate, or of the best one.
    pub(super) fn resign(&mut self, now: Time, to: Option<String>) {
        if matches!(self.role, Role::Leading(_)) {
            self.end_term(now, YieldReason::Resigned, Some(to));
        }
    }

    fn end_term(&mut self, now: Time, reason: YieldReason, write: Option<Option<String>>) {
        let Role::Leading(term) = std::mem::replace(&mut self.role, Role::Following) else { return };
        let Term { record, revision, .. } = *term;
        self.effects.push(Effect::Yield { token: record.token, reason });
        let until = now + self.settings.timing.stop;
        self.role = Role::Yielding(Box::new(Yielding { record, revision, write, released: false, until }));
    }

    /// The application has stopped. If it did so by itself, that is a resignation.
    pub(super) fn released(&mut self, now: Time, token: Token) {
        if matches!(&self.role, Role::Leading(term) if term.record.token == token) {
            self.end_term(now, YieldReason::Resigned, Some(None));
        }
        if let Role::Yielding(yielding) = &mut self.role {
            yielding.released |= yielding.record.token == token;
        }
    }

    fn plan_yielding(&mut self, now: Time) {
        let certain = self.lease.held.as_ref().is_some_and(|held| now < held.deadline());
        let Role::Yielding(yielding) = &mut self.role else { return };
        if !certain {
            yielding.write = None;
        }
        match (yielding.released, &yielding.write) {
            (false, _) => {}
            (true, None) => {
                let ended = yielding.record.lease;
                self.role = Role::Following;
                if self.lease.held.as_ref().is_some_and(|held| held.id == ended) {
                    // The record may still name this lease. Giving it up is what lets the others take over.
                    self.give_up_lease(now);
                }
            }
            (true, Some(successor)) => {
                if self.slots.is_busy(Slot::Leader) || self.read_leader_at.is_some() {
                    return;
                }
                let (resigned, successor, request) = (true, successor.clone(), None);
                let record = Leader { resigned, successor, request, ..yielding.record.clone() };
                let swap = Swap {
                    record: Plain::Leader,
                    expected: Some(yielding.revision),
                    value: record.encode(),
                    gone: None,
                    alive: None,
                };
                self.taking = Some(record);
                self.send(now, Slot::Leader, Op::Swap(swap));
            }
        }
    }

    pub(super) fn resignation_written(&mut self, now: Time, result: Result<Swapped, Error>) {
        let sent = self.taking.take();
        match (result, sent) {
            (Ok(Swapped::Done(revision)), Some(record)) => {
                self.effects.push(Effect::Leader(Some(record.clone())));
                self.set_leader(Known::Present(record, revision));
                self.role = Role::Following;
            }
            (Ok(_), _) => self.read_leader_at = Some(now),
            (Err(error), _) => {
                self.read_leader_later(now);
                self.trouble(error);
            }
        }
    }

    /// The record changed while we lead: an operator asks for something, or the term is over.
    pub(super) fn term_record_changed(&mut self, now: Time) {
        let Role::Leading(term) = &mut self.role else { return };
        match &self.leader {
            Known::Present(record, revision) if is_same_term(record, &term.record) => {
                (term.record, term.revision) = (record.clone(), *revision);
                if let Some(request) = record.request.clone() {
                    self.resign(now, request.to);
                }
            }
            // A record that we cannot read does not end the term; the lease does.
            Known::Unknown => {}
            Known::Absent | Known::Present(..) => self.end_term(now, YieldReason::Superseded, None),
        }
    }

    /// The record changed while the application stops: under an operator's hand, or the resignation was written after
    /// all.
    pub(super) fn yielding_record_changed(&mut self) {
        let Role::Yielding(yielding) = &mut self.role else { return };
        match &self.leader {
            Known::Present(record, revision) if is_same_term(record, &yielding.record) => {
                (yielding.record, yielding.revision) = (record.clone(), *revision);
            }
            Known::Unknown => {}
            Known::Present(record, _) if record.token == yielding.record.token && yielding.released => {
                self.slots.forget(Slot::Leader);
                self.role = Role::Following;
            }
            Known::Absent | Known::Present(..) => yielding.write = None,
        }
    }
}

/// Whether a record is of our term and not resigned.
fn is_same_term(record: &Leader, ours: &Leader) -> bool {
    record.token == ours.token && record.lease == ours.lease && !record.resigned
}
