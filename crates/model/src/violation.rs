//! What a step has broken.

use std::fmt;

/// A property that does not hold, and what shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Violation {
    pub(crate) property: &'static str,
    pub(crate) what: String,
}

/// A panic in production code is a violation like any other.
pub(crate) const NO_PANIC: &str = "nothing panics";

impl Violation {
    pub(crate) fn new(property: &'static str, what: impl Into<String>) -> Self {
        Self { property, what: what.into() }
    }

    /// Whether the property holds, as far as this violation goes.
    pub(crate) fn spares(violation: Option<&Self>, property: &str) -> bool {
        violation.is_none_or(|violation| violation.property != property)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken: {}: {}", self.property, self.what)
    }
}
