//! Points in time as plain counts, which can be written in a script and replayed, unlike those of the operating
//! system.

use core::ops::{Add, Sub};

use pole_election::Span;

/// A point in time: nanoseconds since the start of the process or of the simulation.
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

    /// The time elapsed since `earlier`, or zero if `earlier` is later, so that a clock set back does no harm.
    fn sub(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}
