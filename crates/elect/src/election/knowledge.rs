//! What a candidate knows of the leader record, and when it believes a report.

use pole_types::Time;

use super::event::{Effect, Slot};
use super::lease::backoff;
use super::{Election, Known, Role};
use crate::record::{Cause, Leader, Record};
use crate::store::{Entry, Error, LeaseId};
use crate::token::Token;

impl Election {
    pub(super) fn lease_gone(&mut self, lease: Option<LeaseId>) {
        if lease.is_some() && lease == self.other_holder() {
            self.holder_gone = lease;
        }
    }

    pub(super) fn leader_read(&mut self, now: Time, result: Result<Option<Entry>, Error>) {
        match result {
            Ok(entry) => {
                self.leader_failures = 0;
                // A watch may have reported a newer state after the read was served.
                self.learn_leader(now, entry, self.learnt == self.learnt_at_read);
                if matches!(self.role, Role::Taking) {
                    // The swap was not applied, or somebody else came first.
                    self.role = Role::Following;
                }
            }
            Err(error) => {
                self.read_leader_later(now);
                self.trouble(error);
            }
        }
    }

    pub(super) fn read_leader_later(&mut self, now: Time) {
        self.leader_failures = (self.leader_failures + 1).min(16);
        self.read_leader_at = Some(now + backoff(&self.settings.timing, self.leader_failures));
    }

    /// Takes in a state of the leader record. A watch may report a state that is older than one we know; such a state is
    /// believed only if a read confirms it (`certain`), because then the store has gone back.
    pub(super) fn learn_leader(&mut self, now: Time, entry: Option<Entry>, certain: bool) {
        let new = match entry.map(|entry| Leader::decode(&entry.value).map(|record| (record, entry.revision))) {
            None => Known::Absent,
            Some(Ok((record, revision))) => Known::Present(record, revision),
            Some(Err(error)) => {
                self.trouble(error);
                Known::Unknown
            }
        };
        let age = |known: &Known<Leader>| known.record().map(|record| (record.token, record.resigned));
        if age(&new) < age(&self.leader) && !certain {
            self.read_leader_at = Some(now);
            return;
        }
        if age(&new) != age(&self.leader) || self.leader.is_unknown() && !new.is_unknown() {
            self.effects.push(Effect::Leader(new.record().cloned()));
            self.check_at = now + self.check_interval();
        }
        self.count_hand_over(now, new.record());
        self.set_leader(new);
        self.leader_changed(now);
    }

    pub(super) fn set_leader(&mut self, leader: Known<Leader>) {
        self.learnt += 1;
        self.highest = self.highest.max(leader.record().map_or(Token::ZERO, |record| record.token));
        self.leader = leader;
    }

    /// Hand-overs of others count towards cool-down and budget. Our own was counted when it began.
    pub(super) fn count_hand_over(&mut self, now: Time, record: Option<&Leader>) {
        let new = record.filter(|record| record.token > self.highest && record.reason.cause == Cause::HandedOver);
        if new.is_some_and(|record| record.history.first().is_none_or(|before| before.id != self.own.id)) {
            self.challenge.record_hand_over(now);
        }
    }

    /// Draws the consequences of a new leader record.
    pub(super) fn leader_changed(&mut self, now: Time) {
        match &self.role {
            Role::Leading(_) => return self.term_record_changed(now),
            Role::Yielding(_) => return self.yielding_record_changed(),
            Role::Left => return,
            Role::Following | Role::Waiting(_) | Role::Looking | Role::Taking => {}
        }
        if self.is_named() {
            self.slots.forget(Slot::Leader);
            self.begin_term(now);
        } else if !self.is_vacant() {
            self.slots.forget(Slot::Leader);
            self.role = Role::Following;
        }
    }

    /// Whether the leader record names our lease in a term that we have not led yet.
    pub(super) fn is_named(&self) -> bool {
        let (Some(leader), Some(held)) = (self.leader.record(), &self.lease.held) else { return false };
        leader.lease == held.id && !leader.resigned && leader.token > self.led
    }

    /// Whether somebody may take over.
    pub(super) fn is_vacant(&self) -> bool {
        match &self.leader {
            Known::Unknown => false,
            Known::Absent => true,
            Known::Present(leader, _) => leader.resigned || self.holder_gone == Some(leader.lease),
        }
    }
}
