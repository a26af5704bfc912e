//! What a candidate does whether it leads or not: keeps its lease, watches what it must know, and looks again when it
//! has not heard of the leader for long.

use std::collections::BTreeSet;

use pole_types::{Span, Time};

use super::event::{Op, Slot};
use super::lease::{self, Kind};
use super::{Election, Known, Role};
use crate::record::{Record, Succession};
use crate::store::{Error, Granted, LeaseId, Renewed, Target};

impl Election {
    /// Publishes, replaces or renews the own lease.
    pub(super) fn plan_lease(&mut self, now: Time) {
        let ready = !self.leader.is_unknown() && (!self.succession.is_unknown() || self.is_first_come());
        if matches!(self.role, Role::Left) || self.slots.is_busy(Slot::Lease) || !ready || self.has_overstayed(now) {
            return;
        }
        let kind = self.wanted_kind();
        if self.lease.should_publish(now, kind) && !self.has_term() {
            let lease = self.lease.next_id();
            self.lease.publishing = Some((lease, kind));
            self.renewing_content = Some(self.content);
            let ttl = match kind {
                Kind::Active => self.settings.timing.ttl,
                Kind::Idle => self.settings.timing.idle_ttl,
            };
            return self.send(now, Slot::Lease, Op::Publish { lease, record: self.own.encode(), ttl });
        }
        let Some(held) = &self.lease.held else { return };
        let changed = held.content != self.content;
        let eager = self.eager_at().is_some_and(|at| now >= at);
        if held.renewal_due(now) || eager {
            let lease = held.id;
            self.renewing_content = changed.then_some(self.content);
            let record = changed.then(|| self.own.encode());
            self.send(now, Slot::Lease, Op::Renew { lease, record });
        }
    }

    /// When a change of our record is published before the next renewal is due. Those who are not near wait, so that ten
    /// thousand changing scores are not ten thousand writes.
    pub(super) fn eager_at(&self) -> Option<Time> {
        let held = self.lease.held.as_ref().filter(|held| held.content != self.content)?;
        let eager = held.kind == Kind::Active || held.content < self.urgent || self.is_vacant();
        eager.then(|| held.sent + self.settings.timing.stagger)
    }

    /// Whether the application does not stop, so that the lease is no longer renewed.
    pub(super) fn has_overstayed(&self, now: Time) -> bool {
        matches!(&self.role, Role::Yielding(yielding) if !yielding.released && now >= yielding.until)
    }

    /// Whether our lease stands in the leader record, so that it must not be replaced.
    pub(super) fn has_term(&self) -> bool {
        let written = matches!(&self.role, Role::Yielding(yielding) if yielding.write.is_some());
        written || matches!(self.role, Role::Leading(_) | Role::Taking)
    }

    /// Short leases are for those who lead, may lead soon, or are few.
    pub(super) fn wanted_kind(&self) -> Kind {
        let soon = match &self.role {
            Role::Leading(_) | Role::Taking => true,
            Role::Yielding(yielding) => yielding.write.is_some(),
            Role::Waiting(wait) => wait.is_for_take(),
            Role::Following | Role::Looking | Role::Left => false,
        };
        let active = !self.own.never && (soon || self.is_first_come() || self.is_near());
        if active { Kind::Active } else { Kind::Idle }
    }

    /// Whether we are on the succession list, or should be.
    pub(super) fn is_near(&self) -> bool {
        let belongs = |succession: &Succession| {
            let length = self.settings.timing.list_length;
            let listed = succession.list.iter().any(|one| one.id == self.own.id);
            listed || crate::rank::belongs(&succession.list, &self.own, length)
        };
        self.succession.record().is_some_and(belongs)
    }

    /// Reads what is uncertain or was not heard of for long.
    pub(super) fn plan_reads(&mut self, now: Time) {
        if self.read_leader_at.is_some_and(|at| now >= at) && !self.slots.is_busy(Slot::Leader) {
            self.read_leader_at = None;
            self.learnt_at_read = self.learnt;
            self.send(now, Slot::Leader, Op::Read(Target::Leader));
        }
        let Some(holder) = self.other_holder() else { return };
        if now >= self.check_at && !self.slots.is_busy(Slot::Holder) {
            self.check_at = now + self.check_interval();
            self.checked = Some(holder);
            self.send(now, Slot::Holder, Op::Read(Target::Lease(holder)));
            if !self.watches.is_active(Target::Succession)
                && !self.slots.is_busy(Slot::Succession)
                && !self.is_first_come()
            {
                self.send(now, Slot::Succession, Op::Read(Target::Succession));
            }
        }
    }

    /// Those near the leader look often, all others seldom, each at another time.
    pub(super) fn check_interval(&self) -> Span {
        let timing = &self.settings.timing;
        let base = if self.is_near() || self.is_first_come() { timing.ttl } else { timing.idle_ttl };
        base.saturating_add(self.jitter(Span(base.0 / 8)))
    }

    /// The lease of a leader other than us that has not resigned and is not known to be gone.
    pub(super) fn other_holder(&self) -> Option<LeaseId> {
        let leader = self.leader.record().filter(|leader| !leader.resigned)?;
        let ours = self.lease.held.as_ref().is_some_and(|held| held.id == leader.lease);
        (!ours && self.holder_gone != Some(leader.lease)).then_some(leader.lease)
    }

    pub(super) fn wanted_watches(&self) -> BTreeSet<Target> {
        if matches!(self.role, Role::Left) {
            return BTreeSet::new();
        }
        let mut wanted = BTreeSet::from([Target::Leader]);
        let near = self.is_near();
        let leads = matches!(self.role, Role::Leading(_));
        let unlisted = !matches!(self.succession, Known::Present(..));
        if !self.is_first_come() && !leads && (near || unlisted || self.is_vacant()) {
            wanted.insert(Target::Succession);
        }
        let lost = self.leader.record().is_some_and(|leader| leader.id == self.own.id);
        if let Some(holder) = self.other_holder().filter(|_| near || lost || self.is_first_come()) {
            wanted.insert(Target::Lease(holder));
        }
        wanted
    }

    pub(super) fn next_wake(&self, now: Time) -> Option<Time> {
        let lease = (!self.slots.is_busy(Slot::Lease)).then(|| self.lease.wake_at(self.wanted_kind())).flatten();
        let eager = self.eager_at();
        let check = self.other_holder().map(|_| self.check_at);
        let times = [self.score_until, self.priority_until, lease, eager, check, self.read_leader_at]
            .into_iter()
            .chain(self.role_wake())
            .chain([self.watches.wake_at()]);
        // What is due already waits for an answer or a watch, which comes as an event.
        times.flatten().filter(|at| *at > now).min()
    }

    pub(super) fn role_wake(&self) -> [Option<Time>; 2] {
        let deadline = self.lease.held.as_ref().map(lease::Held::deadline);
        match &self.role {
            Role::Following | Role::Looking | Role::Taking | Role::Left => [None, None],
            Role::Waiting(wait) => [Some(wait.at), None],
            Role::Leading(term) => [deadline, Some(term.review_at)],
            Role::Yielding(yielding) => [deadline, Some(yielding.until)],
        }
    }

    pub(super) fn published(&mut self, now: Time, sent: Time, result: Result<Granted, Error>) {
        match result {
            Ok(granted) => {
                let ttl = Span(u64::try_from(granted.ttl.as_nanos()).unwrap_or(u64::MAX));
                let usable = self.settings.timing.usable(ttl, self.settings.early);
                let content = self.renewing_content.take().unwrap_or(0);
                if let Some(old) = self.lease.granted(now, sent, usable, content) {
                    self.withdraw(now, old);
                }
            }
            Err(error) => {
                // It may have been created all the same; then it is not renewed and ends by itself.
                self.lease.failed(now, &self.settings.timing);
                self.trouble(error);
            }
        }
    }

    pub(super) fn renewed(&mut self, now: Time, sent: Time, result: Result<Renewed, Error>) {
        match result {
            Ok(Renewed::Extended) => {
                let content = self.renewing_content.take();
                self.lease.renewed(sent, content);
                self.extend_term(now);
            }
            Ok(Renewed::Gone) => {
                let lost = self.lease.drop_held();
                self.lease_lost(now, lost);
            }
            Err(error) => {
                self.lease.failed(now, &self.settings.timing);
                self.trouble(error);
            }
        }
    }

    /// Gives up the own lease. The next one has another id.
    pub(super) fn give_up_lease(&mut self, now: Time) {
        self.slots.forget(Slot::Lease);
        self.lease.publishing = None;
        if let Some(lease) = self.lease.drop_held() {
            self.withdraw(now, lease);
        }
    }
}
