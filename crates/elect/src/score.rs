//! Scores of candidates: one number, higher is better, with the oracle that computed it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The value of a score, higher is better, in thousandths. An integer, because floats have no total order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Value(i64);

impl Value {
    /// The value of a number, rounded to thousandths. None if it is not finite or its magnitude exceeds a trillion.
    #[must_use]
    pub fn new(number: f64) -> Option<Self> {
        (number.abs() <= VALUE_MAX).then(|| Self((number * 1000.0).round() as i64))
    }

    /// The value of that many thousandths.
    #[must_use]
    pub fn from_milli(milli: i64) -> Self {
        Self(milli)
    }

    /// The value in thousandths.
    #[must_use]
    pub fn milli(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0 as f64 / 1000.0)
    }
}

/// The name and the version of what computed a score. Scores are compared by value only if both are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OracleTag {
    /// Such as `custom` or `latency`; at most [`ORACLE_MAX`] bytes.
    pub name: String,
    /// Changes with the oracle's parameters.
    pub version: u64,
}

impl fmt::Display for OracleTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} version {}", self.name, self.version)
    }
}

/// The largest magnitude of a score, as for the oracle `custom`.
const VALUE_MAX: f64 = 1e12;

/// The maximum length of an oracle's name, in bytes.
pub const ORACLE_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_finite_and_bounded() {
        assert_eq!(Value::new(12.3456).map(Value::milli), Some(12_346));
        assert_eq!(Value::new(-0.5).unwrap().to_string(), "-0.5");
        for wrong in [f64::NAN, f64::INFINITY, -f64::INFINITY, 1.1e12] {
            assert_eq!(Value::new(wrong), None);
        }
    }
}
