//! `combined`: several oracles in order of priority, each optionally divided into classes.
//!
//! A score has the components of all parts, most important first. Without classes the first part would always decide,
//! if only by noise. A single oracle with a class (`latency/1ms`) is a combination of one.
//!
//! Invariant: the order is lexicographic on the messages alone. The hysteresis at class borders affects only how a
//! server computes its own class, from its own last score (`View::previous`); see [`Class`].
//!
//! The paper combines oracles with classes; hysteresis, and later parts that are unknown, are additions.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use pole_election::Score;

use crate::class::Class;
use crate::oracle::{Advantage, Assessed, InvalidScore, Oracle, Scale};
use crate::view::View;

/// One oracle of a combination.
pub struct Part {
    /// The oracle.
    pub oracle: Box<dyn Oracle>,
    /// The classes of its score, which must have one component.
    pub class: Option<Class>,
}

/// Oracles in order of priority.
pub struct Combined {
    name: String,
    parts: Vec<Part>,
}

impl Combined {
    /// Creates a combination of these parts, most important first.
    ///
    /// # Errors
    /// If there are no parts, a class is given for a score of several components, or there are too many components in
    /// total.
    pub fn new(parts: Vec<Part>) -> Result<Self, InvalidPart> {
        if parts.is_empty() {
            return Err(InvalidPart::None);
        }
        if let Some(part) = parts.iter().find(|part| part.class.is_some() && part.oracle.components() != 1) {
            return Err(InvalidPart::Class { oracle: part.oracle.name().to_owned() });
        }
        let components: usize = parts.iter().map(|part| part.oracle.components()).sum();
        if components > Score::COMPONENTS_MAX {
            return Err(InvalidPart::Components { components });
        }
        let name = match parts.as_slice() {
            [only] => only.oracle.name().to_owned(),
            [..] => "combined".to_owned(),
        };
        Ok(Self { name, parts })
    }

    /// The parts, each with its range of components in a score.
    fn parts_with_ranges(&self) -> impl Iterator<Item = (&Part, core::ops::Range<usize>)> {
        self.parts.iter().scan(0, |start, part| {
            let range = *start..*start + part.oracle.components();
            *start = range.end;
            Some((part, range))
        })
    }

    /// The first part in which two scores differ, with the components of both.
    fn difference<'a>(&'a self, a: &'a Score, b: &'a Score) -> Option<(&'a Part, &'a [i64], &'a [i64])> {
        let slices = self
            .parts_with_ranges()
            .filter_map(|(part, range)| Some((part, a.components().get(range.clone())?, b.components().get(range)?)));
        slices.into_iter().find(|(_, a, b)| a != b)
    }
}

impl Oracle for Combined {
    fn name(&self) -> &str {
        &self.name
    }

    fn describe(&self) -> String {
        let parts: Vec<String> = self.parts.iter().map(Part::describe).collect();
        if let [only] = parts.as_slice() { only.clone() } else { format!("combined={}", parts.join(",")) }
    }

    fn components(&self) -> usize {
        self.parts.iter().map(|part| part.oracle.components()).sum()
    }

    /// Unknown if the first part is unknown. A later part that is unknown counts as worst in its components: the first
    /// priority must not wait for the last.
    fn assess(&self, view: &View, epoch: u64) -> Option<Assessed> {
        let previous = view.previous(self.fingerprint()).map(Score::components);
        let mut combined = Assessed { score: Score::new(Vec::new()), inputs: Vec::new() };
        let mut components = Vec::new();
        for (part, range) in self.parts_with_ranges() {
            let Some(assessed) = part.oracle.assess(view, epoch) else {
                if range.start == 0 {
                    return None;
                }
                components.resize(range.end, UNKNOWN);
                continue;
            };
            let previous = previous.and_then(|components| components.get(range.start).copied());
            components.extend(part.quantize(&assessed.score, previous));
            combined.inputs.extend(part.inputs(assessed, self.parts.len() > 1));
        }
        combined.score = Score::new(components);
        Some(combined)
    }

    fn validate(&self, score: &Score) -> Result<(), InvalidScore> {
        let (got, expected) = (score.components().len(), self.components());
        if got != expected {
            return Err(InvalidScore::Components { oracle: self.describe(), expected, got });
        }
        self.parts_with_ranges()
            .try_for_each(|(part, range)| part.validate(&score.components()[range.clone()], range.start))
    }

    fn gossip_decides(&self) -> bool {
        self.parts.first().is_some_and(|part| part.oracle.gossip_decides())
    }

    /// Worse by more than a class in the first part that differs. False if that part, or one before it, may have
    /// changed.
    fn clearly_worse(&self, a: &Score, b: &Score) -> bool {
        for (part, range) in self.parts_with_ranges() {
            let (Some(a), Some(b)) = (a.components().get(range.clone()), b.components().get(range)) else {
                return false;
            };
            if !part.oracle.gossip_decides() || a.contains(&UNKNOWN) || b.contains(&UNKNOWN) {
                return false;
            }
            if a != b {
                return part.clearly_worse(a, b);
            }
        }
        false
    }

    fn advantage(&self, own: &Score, other: &Score) -> Advantage {
        match self.difference(own, other) {
            Some((part, own, other)) if other < own && !own.contains(&UNKNOWN) => part.advantage(own, other),
            Some(_) | None => Advantage::NONE,
        }
    }

    fn scale(&self) -> Scale {
        self.parts.first().map_or(Scale::PLAIN, |part| part.oracle.scale())
    }

    /// The value of the first part; for a class, its border nearer to zero.
    fn value(&self, score: &Score) -> f64 {
        match self.parts_with_ranges().next() {
            Some((part, range)) => score.components().get(range).map_or(0.0, |components| part.value(components)),
            None => 0.0,
        }
    }
}

impl Part {
    fn describe(&self) -> String {
        match self.class {
            Some(class) => format!("{}/{class}", self.oracle.describe()),
            None => self.oracle.describe(),
        }
    }

    /// The components of a score, or their classes, with hysteresis from the previous class of this server.
    fn quantize(&self, score: &Score, previous: Option<i64>) -> Vec<i64> {
        match self.class {
            Some(class) => score.components().iter().map(|component| class.of_after(*component, previous)).collect(),
            None => score.components().to_vec(),
        }
    }

    /// The components as the part's oracle would have returned them, up to the class width.
    fn dequantize(&self, components: &[i64]) -> Score {
        match self.class {
            Some(class) => Score::new(components.iter().map(|component| class.border(*component)).collect()),
            None => Score::new(components.to_vec()),
        }
    }

    /// The inputs of the part, prefixed with its name if there are several parts.
    fn inputs(&self, assessed: Assessed, several: bool) -> Vec<(String, i64)> {
        let name = |input: String| if several { format!("{}.{input}", self.oracle.name()) } else { input };
        assessed.inputs.into_iter().map(|(input, value)| (name(input), value)).collect()
    }

    fn validate(&self, components: &[i64], start: usize) -> Result<(), InvalidScore> {
        if start > 0 && components.iter().all(|component| *component == UNKNOWN) {
            return Ok(());
        }
        self.oracle.validate(&self.dequantize(components)).map_err(|error| match error {
            InvalidScore::Range { oracle, component, got, least, most } => {
                InvalidScore::Range { oracle, component: start + component, got, least, most }
            }
            other @ InvalidScore::Components { .. } => other,
        })
    }

    fn clearly_worse(&self, a: &[i64], b: &[i64]) -> bool {
        match (self.class, a, b) {
            // Neighbouring classes may be close together at the border; two classes apart is more than a class.
            (Some(_), [a], [b]) => a.saturating_sub(*b) > 1,
            (Some(_) | None, _, _) => self.oracle.clearly_worse(&self.dequantize(a), &self.dequantize(b)),
        }
    }

    fn advantage(&self, own: &[i64], other: &[i64]) -> Advantage {
        self.oracle.advantage(&self.dequantize(own), &self.dequantize(other))
    }

    fn value(&self, components: &[i64]) -> f64 {
        self.oracle.value(&self.dequantize(components))
    }
}

/// Why oracles cannot be combined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPart {
    /// There are no parts.
    #[error("a combination needs at least one oracle")]
    None,
    /// A class was given for a score with several components.
    #[error("{oracle} has several components and takes no class")]
    Class {
        /// The oracle.
        oracle: String,
    },
    /// The score would have too many components.
    #[error("{components} components, a score may have {}", Score::COMPONENTS_MAX)]
    Components {
        /// The number of components.
        components: usize,
    },
}

impl core::fmt::Debug for Combined {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.describe())
    }
}

/// The components of a later part that has no score yet: worst. No valid component reaches this value.
const UNKNOWN: i64 = i64::MAX;
