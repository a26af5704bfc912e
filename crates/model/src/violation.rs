//! Violations of properties.

use std::fmt;

/// A violated property, with the evidence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Violation {
    pub(crate) property: &'static str,
    pub(crate) detail: String,
}

/// A panic in production code is a violation like any other.
pub(crate) const NO_PANIC: &str = "nothing panics";

impl Violation {
    pub(crate) fn new(property: &'static str, detail: impl Into<String>) -> Self {
        Self { property, detail: detail.into() }
    }

    /// Whether this violation, if any, leaves the property intact.
    pub(crate) fn property_holds(violation: Option<&Self>, property: &str) -> bool {
        violation.is_none_or(|violation| violation.property != property)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken: {}: {}", self.property, self.detail)
    }
}
