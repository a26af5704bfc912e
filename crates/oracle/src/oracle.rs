//! The [`Oracle`] trait, which defines what a good leader is. Users implement it for their own criteria.
//!
//! Given a [`View`] and the epoch of the election, an oracle returns a score and the inputs it was computed from. The
//! trait is small because the election sees only integers. The built-in oracles are in `oracles`; how scores are sent
//! is in `election`.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use pole_election::Score;
use pole_types::Span;

use crate::view::View;

/// Scores this server. Three methods are required: a name, a score, and the validation of scores.
pub trait Oracle: Send {
    /// The name used in `pole.oracle` and in election records.
    fn name(&self) -> &str;

    /// The name with all parameters in one canonical spelling. Two oracles with the same description produce the same
    /// scores. An oracle with parameters must override this method.
    fn describe(&self) -> String {
        self.name().to_string()
    }

    /// The oracle and its parameters as a number, equal on all servers with the same configuration. Scores with
    /// different fingerprints are never compared by value.
    fn fingerprint(&self) -> u64 {
        fingerprint(&self.describe())
    }

    /// The number of components in a score of this oracle.
    fn components(&self) -> usize {
        1
    }

    /// Returns this server's score, smaller is better, or None while there are not enough measurements. It must not
    /// return the best score for lack of measurements, or an isolated server would win.
    fn assess(&self, view: &View, epoch: u64) -> Option<Assessed>;

    /// Checks whether a score received from a peer can be a score of this oracle.
    ///
    /// # Errors
    /// If it cannot, with what was expected. Such a score ranks as unknown, but its sender still counts.
    fn validate(&self, score: &Score) -> Result<(), InvalidScore>;

    /// Whether a score from a heartbeat says enough about the score in an election to end the election early (rule
    /// (c)), or to resign for. False if the score depends on the epoch or changes with every transaction.
    fn gossip_decides(&self) -> bool {
        true
    }

    /// Whether `a` ranks below `b` by more than a class, so that slightly outdated gossip cannot hide the contrary.
    fn clearly_worse(&self, a: &Score, b: &Score) -> bool {
        match (a.components().first(), b.components().first()) {
            (Some(a), Some(b)) => a.saturating_sub(*b) > self.scale().class(*b),
            (None, _) | (_, None) => false,
        }
    }

    /// How much better `other` is than `own`; see [`Advantage`].
    fn advantage(&self, own: &Score, other: &Score) -> Advantage {
        match (own.components().first(), other.components().first()) {
            (Some(own), Some(other)) if self.gossip_decides() => self.scale().advantage(*own, *other),
            (Some(_) | None, Some(_) | None) => Advantage::NONE,
        }
    }

    /// The meaning of the first component of a score.
    fn scale(&self) -> Scale {
        Scale::PLAIN
    }

    /// The score in the unit of the scale, for display only (`/v1/scores`). No decision depends on it.
    fn value(&self, score: &Score) -> f64 {
        score.components().first().map_or(0.0, |component| self.scale().value(*component))
    }
}

/// A score with its inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessed {
    /// The score.
    pub score: Score,
    /// Names end in their unit: `_us` microseconds, `_milli` thousandths, `_bytes`. See [`display_inputs`].
    pub inputs: Vec<(String, i64)>,
}

impl Assessed {
    /// Creates a score with one component.
    #[must_use]
    pub fn new(score: i64, inputs: &[(&str, i64)]) -> Self {
        let inputs = inputs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Self { score: Score::from(score), inputs }
    }
}

/// Converts inputs for display: `consensus_us` becomes `consensus_ms`, `rate_milli` becomes `rate`.
#[must_use]
pub fn display_inputs(inputs: &[(String, i64)]) -> Vec<(String, f64)> {
    let display = |name: &str, value: i64| match (name.strip_suffix("_us"), name.strip_suffix("_milli")) {
        (Some(stem), _) => (stem.to_owned() + "_ms", value as f64 / 1000.0),
        (None, Some(stem)) => (stem.to_owned(), value as f64 / 1000.0),
        (None, None) => (name.to_owned(), value as f64),
    };
    inputs.iter().map(|(name, value)| display(name, *value)).collect()
}

/// A score that this oracle cannot have produced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidScore {
    /// A different number of components: a score of another oracle or of an older version.
    #[error("a score of {oracle} has {expected} components, got {got}")]
    Components {
        /// The oracle that validated the score.
        oracle: String,
        /// The number of components in its scores.
        expected: usize,
        /// The number received.
        got: usize,
    },
    /// A component is out of range.
    #[error("component {component} of a score of {oracle} must be between {least} and {most}, got {got}")]
    Range {
        /// The oracle that validated the score.
        oracle: String,
        /// The index of the component, from 0.
        component: usize,
        /// The received value.
        got: i64,
        /// The smallest valid value.
        least: i64,
        /// The largest valid value.
        most: i64,
    },
}

impl InvalidScore {
    /// Checks each component of a score against its range.
    ///
    /// # Errors
    /// The first mismatch.
    pub fn check(oracle: &str, score: &Score, ranges: &[(i64, i64)]) -> Result<(), Self> {
        let (oracle, components) = (oracle.to_owned(), score.components());
        if components.len() != ranges.len() {
            return Err(Self::Components { oracle, expected: ranges.len(), got: components.len() });
        }
        for (component, (got, (least, most))) in components.iter().zip(ranges).enumerate() {
            if !(least..=most).contains(&got) {
                return Err(Self::Range { oracle, component, got: *got, least: *least, most: *most });
            }
        }
        Ok(())
    }
}

/// The direction in which a score is displayed. In messages smaller is always better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Better {
    /// Lower is better, as for a latency.
    Lower,
    /// Higher is better, as for a rate. The component is the negative.
    Higher,
}

impl Better {
    /// The value used in `/v1/scores`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Higher => "higher",
        }
    }
}

/// The meaning of a component: its unit for display, and when two values are clearly different.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scale {
    /// The unit for display.
    pub unit: &'static str,
    /// The direction for display.
    pub better: Better,
    /// How many units of the component make one unit for display.
    pub per_unit: i64,
    /// Whether it is the time in microseconds that a request waits, so that a difference can be compared with a pause.
    pub waiting: bool,
}

impl Scale {
    /// Microseconds that a request waits, displayed in milliseconds.
    pub const TIME: Self = Self { unit: "ms", better: Better::Lower, per_unit: 1000, waiting: true };
    /// The negative of thousandths of a request per second.
    pub const RATE: Self = Self { unit: "1/s", better: Better::Higher, per_unit: 1000, waiting: false };
    /// A plain number, lower is better.
    pub const PLAIN: Self = Self { unit: "", better: Better::Lower, per_unit: 1, waiting: false };

    /// The width of a class around `component` when none was configured: 10 % of it, and at least 1 ms for a time.
    /// Gossip that is slightly outdated errs by less.
    #[must_use]
    pub fn class(&self, component: i64) -> i64 {
        let tenth = i64::try_from(component.unsigned_abs() / 10).unwrap_or(i64::MAX);
        if self.waiting { tenth.max(1000) } else { tenth }
    }

    /// The component in the unit for display.
    #[must_use]
    pub fn value(&self, component: i64) -> f64 {
        let magnitude = component as f64 / self.per_unit as f64;
        match self.better {
            Better::Lower => magnitude,
            // Not `-magnitude`, which would display an idle server as -0.
            Better::Higher => 0.0 - magnitude,
        }
    }

    /// The advantage of `other` over `own`.
    #[must_use]
    pub fn advantage(&self, own: i64, other: i64) -> Advantage {
        let Ok(gain @ 1..) = u64::try_from(i128::from(own) - i128::from(other)) else { return Advantage::NONE };
        let permille = u128::from(gain) * 1000 / u128::from(own.unsigned_abs().max(1));
        let saved = self.waiting.then_some(Span(gain.saturating_mul(1000)));
        Advantage { permille: u64::try_from(permille).unwrap_or(u64::MAX), saved }
    }
}

/// How much better another score is than our own, for the decision to resign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Advantage {
    /// The difference in thousandths of our own score.
    pub permille: u64,
    /// The time that each request would wait less, or None if the oracle does not score waiting.
    pub saved: Option<Span>,
}

impl Advantage {
    /// Not better, or not by anything worth a hand-over.
    pub const NONE: Self = Self { permille: 0, saved: None };
    /// Better by order alone, as in a list of preferences: any difference counts in full.
    pub const FULL: Self = Self { permille: 1000, saved: None };
}

/// FNV-1a of a text, for [`Oracle::fingerprint`]. It guards against mistakes, not against attacks.
#[must_use]
pub fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A span as a score component, in whole microseconds.
pub(crate) fn micros(span: Span) -> i64 {
    i64::try_from(span.as_us()).unwrap_or(i64::MAX).min(MICROS_MAX)
}

/// The longest time in a score, 11 days. Only a transfer over a dead line comes near it.
pub(crate) const MICROS_MAX: i64 = 1_000_000_000_000;
