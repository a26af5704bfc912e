//! The trait of all oracles: what a user implements to say what a good leader is.
//!
//! In: a `View`, the epoch of the election. Out: a score with the inputs it was made of.
//! Why so small: the election sees only integers; this is all that stands between them and any idea of quality.
//! Not here: the ideas (`oracles`), how a score travels (`election`).

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use pole_election::{Score, Span};

use crate::view::View;

/// Scores this server. The required methods are three: a name, a score, and the range that a score may have.
pub trait Oracle: Send {
    /// The name, as `pole.oracle` and the records of elections say it.
    fn name(&self) -> &str;

    /// The name with all parameters, in one canonical spelling: two oracles that describe themselves alike score alike.
    /// An oracle with parameters must override this.
    fn describe(&self) -> String {
        self.name().to_string()
    }

    /// The oracle and its parameters as a number, the same on all servers with the same configuration. Scores of
    /// different fingerprints are never compared by value.
    fn fingerprint(&self) -> u64 {
        fingerprint(&self.describe())
    }

    /// How many components a score of this oracle has.
    fn components(&self) -> usize {
        1
    }

    /// This server's score, smaller is better; nothing while there are not enough measurements. Never "the best" for
    /// want of measurements: an isolated server would win.
    fn assess(&self, view: &View, epoch: u64) -> Option<Assessed>;

    /// Whether a score that a peer sent can be one of this oracle's.
    ///
    /// # Errors
    /// What is wrong with it, and what would be right. Such a score ranks as unknown; its sender still counts.
    fn validate(&self, score: &Score) -> Result<(), InvalidScore>;

    /// Whether a score heard in a heartbeat says enough about the score in an election to end it early (rule (c)), or to
    /// resign for. Not if a score depends on the epoch or changes with every transaction.
    fn gossip_decides(&self) -> bool {
        true
    }

    /// Whether `a` ranks below `b` by more than a class: so much that a little older gossip cannot hide the contrary.
    fn clearly_worse(&self, a: &Score, b: &Score) -> bool {
        match (a.components().first(), b.components().first()) {
            (Some(a), Some(b)) => a.saturating_sub(*b) > self.scale().class(*b),
            (None, _) | (_, None) => false,
        }
    }

    /// What a better score is worth: see [`Advantage`].
    fn advantage(&self, own: &Score, other: &Score) -> Advantage {
        match (own.components().first(), other.components().first()) {
            (Some(own), Some(other)) if self.gossip_decides() => self.scale().advantage(*own, *other),
            (Some(_) | None, Some(_) | None) => Advantage::NONE,
        }
    }

    /// What the first component of a score counts.
    fn scale(&self) -> Scale {
        Scale::PLAIN
    }

    /// The score as a human reads it, in the unit of the scale (`/v1/scores`). For eyes only: nothing is decided by it.
    fn value(&self, score: &Score) -> f64 {
        score.components().first().map_or(0.0, |component| self.scale().value(*component))
    }
}

/// A score, and what it was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessed {
    /// The score.
    pub score: Score,
    /// Names end in their unit: `_us` microseconds, `_milli` thousandths, `_bytes`. See [`shown`].
    pub inputs: Vec<(String, i64)>,
}

impl Assessed {
    /// A score of one component.
    #[must_use]
    pub fn new(score: i64, inputs: &[(&str, i64)]) -> Self {
        let inputs = inputs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Self { score: Score::from(score), inputs }
    }
}

/// Inputs as a human reads them: `consensus_us` becomes `consensus_ms`, `rate_milli` becomes `rate`.
#[must_use]
pub fn shown(inputs: &[(String, i64)]) -> Vec<(String, f64)> {
    let show = |name: &str, value: i64| match (name.strip_suffix("_us"), name.strip_suffix("_milli")) {
        (Some(stem), _) => (stem.to_owned() + "_ms", value as f64 / 1000.0),
        (None, Some(stem)) => (stem.to_owned(), value as f64 / 1000.0),
        (None, None) => (name.to_owned(), value as f64),
    };
    inputs.iter().map(|(name, value)| show(name, *value)).collect()
}

/// A score that cannot be one of this oracle's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidScore {
    /// Another number of components: another oracle's score, or an older version's.
    #[error("a score of {oracle} has {expected} components, got {got}")]
    Components {
        /// The oracle that was to compare it.
        oracle: String,
        /// How many its scores have.
        expected: usize,
        /// How many came.
        got: usize,
    },
    /// A component that is out of range.
    #[error("component {component} of a score of {oracle} must be between {least} and {most}, got {got}")]
    Range {
        /// The oracle that was to compare it.
        oracle: String,
        /// Which component, from 0.
        component: usize,
        /// What it was.
        got: i64,
        /// The least allowed.
        least: i64,
        /// The most allowed.
        most: i64,
    },
}

impl InvalidScore {
    /// Checks a score against the range of each component, in order.
    ///
    /// # Errors
    /// The first thing that does not fit.
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

/// Which way a human reads a score. On the wire smaller is always better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Better {
    /// As a latency.
    Lower,
    /// As a rate: the component is its negative.
    Higher,
}

impl Better {
    /// The word in `/v1/scores`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Higher => "higher",
        }
    }
}

/// What a component counts: its unit for humans, and what makes two of them clearly different.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scale {
    /// The unit that humans see.
    pub unit: &'static str,
    /// Which way humans read it.
    pub better: Better,
    /// How many of the component's own unit make one of the human's.
    pub per_unit: i64,
    /// Whether it counts microseconds that a request waits, so that a difference can be weighed against a pause.
    pub waiting: bool,
}

impl Scale {
    /// Microseconds that a request waits, shown as milliseconds.
    pub const TIME: Self = Self { unit: "ms", better: Better::Lower, per_unit: 1000, waiting: true };
    /// The negative of thousandths of a request a second.
    pub const RATE: Self = Self { unit: "1/s", better: Better::Higher, per_unit: 1000, waiting: false };
    /// A bare number, lower is better.
    pub const PLAIN: Self = Self { unit: "", better: Better::Lower, per_unit: 1, waiting: false };

    /// The class that `component` stands in when no class was configured: 10 % of it, and of a time at least 1 ms
    /// (section 5). Older gossip errs by no more.
    #[must_use]
    pub fn class(&self, component: i64) -> i64 {
        let tenth = i64::try_from(component.unsigned_abs() / 10).unwrap_or(i64::MAX);
        if self.waiting { tenth.max(1000) } else { tenth }
    }

    /// The component as a human reads it.
    #[must_use]
    pub fn value(&self, component: i64) -> f64 {
        let magnitude = component as f64 / self.per_unit as f64;
        match self.better {
            Better::Lower => magnitude,
            // Not `-magnitude`, which would show an idle server as -0.
            Better::Higher => 0.0 - magnitude,
        }
    }

    /// What it is worth to have `other` instead of `own`.
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
    /// Thousandths of our own score.
    pub permille: u64,
    /// What each request would wait less; nothing if the oracle does not score waiting.
    pub saved: Option<Span>,
}

impl Advantage {
    /// Not better at all, or not by anything worth moving for.
    pub const NONE: Self = Self { permille: 0, saved: None };
    /// Better by order alone, as in a list of preferences: any difference counts in full.
    pub const FULL: Self = Self { permille: 1000, saved: None };
}

/// FNV-1a over a text: for [`Oracle::fingerprint`]. Not a defence against anyone, only against confusion.
#[must_use]
pub fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A span as a component of a score: whole microseconds.
pub(crate) fn micros(span: Span) -> i64 {
    i64::try_from(span.as_us()).unwrap_or(i64::MAX).min(MICROS_MAX)
}

/// The longest time that a score may state: 11 days. Only a transfer over a dead line comes near it.
pub(crate) const MICROS_MAX: i64 = 1_000_000_000_000;
