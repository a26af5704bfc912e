//! `preference`: the operator decides who leads, by a list or by weights.
//!
//! In a list such as `3,1,2` the first is best and unlisted servers come last. With weights such as `3:10,1:5` higher
//! is better; unlisted servers come below all weights, and 0 means "never". The score is always known. A server with
//! "never" ranks below all others, but still leads when there is no other, because an ensemble without a leader serves
//! nobody (scenario 23).

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{collections::BTreeSet, format};

use pole_election::Score;
use pole_types::ServerId;

use crate::oracle::{Advantage, Assessed, Better, InvalidScore, Oracle, Scale};
use crate::spec::SpecError;
use crate::view::View;

/// Scores by the operator's preference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preference {
    /// The position in this list, from 0; unlisted servers share the position after its end.
    List(Vec<ServerId>),
    /// The negative of the weight; 0 for unlisted servers, 1 for "never".
    Weights(Vec<(ServerId, u32)>),
}

impl Preference {
    /// Parses `3,1,2` or `3:10,1:5`.
    ///
    /// # Errors
    /// If the text is empty, an entry is not a number, a server is named twice, or positions and weights are mixed.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let entries: Vec<&str> = text.split(',').map(str::trim).collect();
        let bad = |why: &str| SpecError::Preference { text: text.to_string(), why: why.to_string() };
        let id =
            |text: &str| text.trim().parse().map(ServerId).map_err(|_| bad(&format!("\"{text}\" is no server id")));
        let weight = |text: &str| text.trim().parse().map_err(|_| bad(&format!("\"{text}\" is no weight")));
        let preference = if entries.iter().all(|entry| entry.contains(':')) {
            let pairs = entries.iter().filter_map(|entry| entry.split_once(':'));
            Self::Weights(pairs.map(|(left, right)| Ok((id(left)?, weight(right)?))).collect::<Result<_, SpecError>>()?)
        } else if entries.iter().any(|entry| entry.contains(':')) {
            return Err(bad("either a list or weights, not both"));
        } else {
            Self::List(entries.iter().map(|entry| id(entry)).collect::<Result<_, SpecError>>()?)
        };
        let mut named = BTreeSet::new();
        let twice = preference.servers().find(|server| !named.insert(*server));
        match twice {
            Some(twice) => Err(bad(&format!("server {twice} is named twice"))),
            None => Ok(preference),
        }
    }

    fn servers(&self) -> impl Iterator<Item = ServerId> + '_ {
        let (list, weights) = match self {
            Self::List(list) => (Some(list.iter().copied()), None),
            Self::Weights(weights) => (None, Some(weights.iter().map(|(id, _)| *id))),
        };
        list.into_iter().flatten().chain(weights.into_iter().flatten())
    }

    fn component(&self, id: ServerId) -> i64 {
        match self {
            Self::List(list) => list.iter().position(|listed| *listed == id).unwrap_or(list.len()) as i64,
            Self::Weights(weights) => match weights.iter().find(|(listed, _)| *listed == id) {
                Some((_, 0)) => 1,
                Some((_, weight)) => -i64::from(*weight),
                None => 0,
            },
        }
    }

    /// The list or the weights in the syntax of the configuration.
    #[must_use]
    pub fn text(&self) -> String {
        let entries: Vec<String> = match self {
            Self::List(list) => list.iter().map(ToString::to_string).collect(),
            Self::Weights(weights) => weights.iter().map(|(id, weight)| format!("{id}:{weight}")).collect(),
        };
        entries.join(",")
    }
}

impl Oracle for Preference {
    fn name(&self) -> &str {
        "preference"
    }

    fn describe(&self) -> String {
        format!("preference={}", self.text())
    }

    fn assess(&self, view: &View, _epoch: u64) -> Option<Assessed> {
        let component = self.component(view.me());
        let input = match self {
            Self::List(_) => ("place", component + 1),
            Self::Weights(_) => ("weight", (-component).max(0)),
        };
        Some(Assessed::new(component, &[input]))
    }

    fn validate(&self, score: &Score) -> Result<(), InvalidScore> {
        let range = match self {
            Self::List(list) => (0, list.len() as i64),
            Self::Weights(_) => (-i64::from(u32::MAX), 1),
        };
        InvalidScore::check(self.name(), score, &[range])
    }

    /// A preference does not jitter, so any difference is clear ...
    fn clearly_worse(&self, a: &Score, b: &Score) -> bool {
        a > b
    }

    /// ... and worth a hand-over.
    fn advantage(&self, own: &Score, other: &Score) -> Advantage {
        if other < own { Advantage::FULL } else { Advantage::NONE }
    }

    fn scale(&self) -> Scale {
        match self {
            Self::List(_) => Scale::PLAIN,
            Self::Weights(_) => Scale { better: Better::Higher, ..Scale::PLAIN },
        }
    }
}
