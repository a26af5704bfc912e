//! The own leased record of a candidate: when to publish, renew and replace it, and until when it is certain.
//!
//! The deadline of a lease is counted from the moment *before* its last confirmed renewal was sent, because the store
//! counts from the moment at which the renewal arrived, which is later. It leaves out what the clocks may differ
//! ([`Timing::usable`]). So it passes before the store can end the lease.
//!
//! A lease that is given up is never used again; the next one has a new id.

use pole_types::{Span, Time};

use crate::store::LeaseId;
use crate::timing::Timing;

/// The own lease, or the attempts to get one.
#[derive(Clone, Debug)]
pub(super) struct OwnLease {
    incarnation: u64,
    counter: u64,
    pub(super) held: Option<Held>,
    /// The lease that is being published, beside or instead of the one that is held.
    pub(super) publishing: Option<(LeaseId, Kind)>,
    /// No attempt to publish before this time.
    retry_at: Time,
    failures: u32,
}

/// A lease that the store has granted.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) id: LeaseId,
    pub(super) kind: Kind,
    /// When it was granted.
    pub(super) since: Time,
    /// When the last confirmed renewal was sent.
    pub(super) sent: Time,
    usable: Span,
    /// When the next renewal is due: after a third of the usable time, so that two may fail.
    renew_at: Time,
    /// The version of the content that the store has.
    pub(super) content: u64,
}

/// How long a lease lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Short: for a leader and those who may follow it soon.
    Active,
    /// Long, renewed seldom: for all others.
    Idle,
}

impl OwnLease {
    pub(super) fn new(incarnation: u64) -> Self {
        Self { incarnation, counter: 0, held: None, publishing: None, retry_at: Time(0), failures: 0 }
    }

    /// A lease id that was never used. The incarnation is random for each start of a candidate.
    pub(super) fn next_id(&mut self) -> LeaseId {
        self.counter += 1;
        LeaseId((u128::from(self.incarnation) << 64) | u128::from(self.counter))
    }

    /// Whether an attempt to publish a lease of that kind is due.
    pub(super) fn should_publish(&self, now: Time, kind: Kind) -> bool {
        let has = self.held.as_ref().is_some_and(|held| held.kind == kind);
        !has && self.publishing.is_none() && now >= self.retry_at
    }

    /// The store has granted the lease being published. Returns the one that it replaces.
    pub(super) fn granted(&mut self, now: Time, sent: Time, usable: Span, content: u64) -> Option<LeaseId> {
        let (id, kind) = self.publishing.take()?;
        self.failures = 0;
        let held = Held { id, kind, since: now, sent, usable, renew_at: sent + Span(usable.0 / 3), content };
        self.held.replace(held).map(|old| old.id)
    }

    /// A request did not succeed: wait, longer each time.
    pub(super) fn failed(&mut self, now: Time, timing: &Timing) {
        self.publishing = None;
        self.failures = (self.failures + 1).min(16);
        self.retry_at = now + backoff(timing, self.failures);
        if let Some(held) = &mut self.held {
            held.renew_at = self.retry_at;
        }
    }

    /// The store has confirmed a renewal that was sent at that time.
    pub(super) fn renewed(&mut self, sent: Time, content: Option<u64>) {
        self.failures = 0;
        if let Some(held) = &mut self.held {
            held.sent = held.sent.max(sent);
            held.renew_at = held.sent + Span(held.usable.0 / 3);
            held.content = content.unwrap_or(held.content);
        }
    }

    /// Gives up the lease, which is then to be withdrawn.
    pub(super) fn drop_held(&mut self) -> Option<LeaseId> {
        self.held.take().map(|held| held.id)
    }

    /// When something is due: a renewal or another attempt.
    pub(super) fn wake_at(&self, wanted: Kind) -> Option<Time> {
        let publish = self.publishing.is_none() && self.held.as_ref().is_none_or(|held| held.kind != wanted);
        let renew = self.held.as_ref().map(|held| held.renew_at);
        renew.into_iter().chain(publish.then_some(self.retry_at)).min()
    }
}

impl Held {
    /// From this time on the store may end the lease.
    pub(super) fn deadline(&self) -> Time {
        self.sent + self.usable
    }

    pub(super) fn renewal_due(&self, now: Time) -> bool {
        now >= self.renew_at
    }

    /// Whether at least half of the lease is left, enough to begin a term with.
    pub(super) fn is_fresh(&self, now: Time) -> bool {
        self.deadline() - now >= Span(self.usable.0 / 2) && self.deadline() > now
    }

    pub(super) fn renew_at(&mut self, at: Time) {
        self.renew_at = self.renew_at.min(at);
    }
}

/// The time until another attempt: doubles up to an eighth of the time-to-live.
pub(super) fn backoff(timing: &Timing, failures: u32) -> Span {
    let doubled = timing.retry.saturating_mul(1 << failures.saturating_sub(1).min(16));
    doubled.min(Span(timing.ttl.0 / 8).max(timing.retry))
}

#[test]
fn a_lease_is_renewed_after_a_third_of_the_time_that_is_usable() {
    let mut own = OwnLease::new(1);
    let id = own.next_id();
    own.publishing = Some((id, Kind::Active));
    // A lease of 5 s in a store that may end it 2 s early.
    own.granted(Time(10), Time(0), Span(2_950), 0);
    let held = own.held.as_ref().unwrap();
    assert!(!held.renewal_due(Time(982)) && held.renewal_due(Time(983)));
    assert_eq!(held.deadline(), Time(2_950));
}
