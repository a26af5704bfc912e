//! The proof of leadership that an application holds: true only while nobody else can lead.
//!
//! Every [`Guard::is_leader`] compares the clock with the deadline of the lease. No task has to run for it to become
//! false, so it is false also in a process that was stopped and continues after the lease has passed on.
//!
//! What it cannot do: an application that asks, is stopped, and acts when it continues, acts on an old answer. The
//! [`Token`] protects from that, if the resource checks it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pole_types::Time;
use tokio::sync::{mpsc, watch};

use crate::clock::Clock;
use crate::driver::Command;
use crate::election::YieldReason;
use crate::token::Token;

/// Leadership under one token.
///
/// Dropping it gives up leadership: the next leader may then begin at once. So drop it when the work that needs
/// leadership has stopped, and not before.
pub struct Guard {
    hold: Arc<Hold>,
    ended: watch::Receiver<Option<YieldReason>>,
    released: mpsc::UnboundedSender<Token>,
    /// Keeps the candidate in the election.
    _handle: Option<mpsc::Sender<Command>>,
}

impl Guard {
    pub(crate) fn new(
        hold: Arc<Hold>,
        ended: watch::Receiver<Option<YieldReason>>,
        released: mpsc::UnboundedSender<Token>,
        handle: Option<mpsc::Sender<Command>>,
    ) -> Self {
        Self { hold, ended, released, _handle: handle }
    }

    /// Whether this process leads now, under [`Guard::token`].
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.hold.is_valid()
    }

    /// The fencing token, to be sent with every request to a resource that checks it.
    #[must_use]
    pub fn token(&self) -> Token {
        self.hold.token
    }

    /// How long the guard is valid without a further renewal; zero if it is not valid.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let left = Time(self.hold.deadline.load(Ordering::Acquire)) - self.hold.clock.now();
        Duration::from_nanos(left.0)
    }

    /// The deadline on the candidate's [`Clock`]; it moves with every renewal, and is zero after the end.
    #[must_use]
    pub fn deadline(&self) -> Time {
        Time(self.hold.deadline.load(Ordering::Acquire))
    }

    /// Waits until leadership has to be given up, and says why. The guard is false by then. The application should
    /// stop and drop the guard; a hand-over waits for that.
    pub async fn ended(&mut self) -> YieldReason {
        match self.ended.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or(YieldReason::DeadlinePassed),
            // The task of the candidate is gone, and with it the renewals.
            Err(_) => YieldReason::DeadlinePassed,
        }
    }

    /// A cheap copy for checks in other places. It keeps no leadership.
    #[must_use]
    pub fn check(&self) -> Check {
        Check { hold: self.hold.clone() }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.hold.end();
        // The candidate may be gone; then there is nobody to tell.
        let _ = self.released.send(self.hold.token);
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guard(token {}, {})", self.hold.token, if self.is_leader() { "valid" } else { "ended" })
    }
}

/// A view of a [`Guard`] that can be cloned and shared.
#[derive(Clone)]
pub struct Check {
    hold: Arc<Hold>,
}

impl Check {
    /// As [`Guard::is_leader`].
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.hold.is_valid()
    }

    /// As [`Guard::token`].
    #[must_use]
    pub fn token(&self) -> Token {
        self.hold.token
    }
}

/// One term, shared by its guard and the candidate's task.
pub(crate) struct Hold {
    token: Token,
    clock: Arc<dyn Clock>,
    /// On the clock; zero when the term has ended.
    deadline: AtomicU64,
}

impl Hold {
    pub(crate) fn new(token: Token, clock: Arc<dyn Clock>, deadline: Time) -> Self {
        Self { token, clock, deadline: AtomicU64::new(deadline.0) }
    }

    fn is_valid(&self) -> bool {
        // The deadline first: if the thread is stopped between the two, the clock is read after it continues.
        let deadline = Time(self.deadline.load(Ordering::Acquire));
        self.clock.now() < deadline
    }

    /// Moves the deadline. A term that has ended, or whose deadline has passed, stays ended: somebody may have seen it.
    pub(crate) fn extend(&self, to: Time) {
        let _ = self.deadline.fetch_update(Ordering::AcqRel, Ordering::Acquire, |deadline| {
            (self.clock.now() < Time(deadline)).then_some(to.0.max(deadline))
        });
    }

    pub(crate) fn end(&self) {
        self.deadline.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Hand(AtomicU64);

    impl Clock for Hand {
        fn now(&self) -> Time {
            Time(self.0.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn a_guard_is_false_from_its_deadline_on_and_never_true_again() {
        let clock = Arc::new(Hand(AtomicU64::new(5)));
        let hold = Hold::new(Token::new(0, 1), clock.clone(), Time(10));
        assert!(hold.is_valid());
        hold.extend(Time(20));
        clock.0.store(19, Ordering::Relaxed);
        assert!(hold.is_valid());
        clock.0.store(20, Ordering::Relaxed);
        assert!(!hold.is_valid());
        // The renewal arrives after the process was stopped for too long.
        hold.extend(Time(30));
        assert!(!hold.is_valid());
    }

    #[test]
    fn a_term_that_has_ended_is_not_extended() {
        let hold = Hold::new(Token::new(0, 1), Arc::new(Hand(AtomicU64::new(5))), Time(10));
        hold.end();
        hold.extend(Time(30));
        assert!(!hold.is_valid());
    }
}
