//! Instants, as a plain count: unlike the operating system's they can be written in a script and replayed.

use core::ops::{Add, Sub};

use pole_election::Span;

/// An instant: nanoseconds since the start of the process (or of the simulation).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Add<Span> for Time {
    type Output = Self;

    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub for Time {
    type Output = Span;

    /// The time from `earlier` to this; nothing if `earlier` is later, so that a clock set back does no harm.
    fn sub(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}
