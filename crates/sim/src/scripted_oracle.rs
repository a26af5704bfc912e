//! Oracles whose score a script sets.
//!
//! The wrapped oracle keeps its name, fingerprint and checks; only its score is replaced. A script about scores is
//! about what an election makes of the scores of a real oracle, so a separate test oracle would not do.

use pole_election::Score;
use pole_oracle::{Advantage, Assessed, Better, InvalidScore, Oracle, Scale, Spec, View};
use pole_types::Zxid;

/// The oracle of one server, with a fixed score if one is set.
#[derive(Clone, Debug)]
pub(crate) struct ScriptedOracle {
    /// The value of `pole.oracle`.
    pub(crate) oracle: String,
    /// Replaces the measured score: a number in the unit of the oracle, or one of the words of [`parse_score`].
    pub(crate) score: Option<String>,
    /// The position of the transaction that configured it.
    pub(crate) version: Zxid,
}

impl ScriptedOracle {
    /// An oracle as the configuration file sets it.
    pub(crate) fn of(oracle: &str, score: Option<String>) -> Self {
        Self { oracle: oracle.to_owned(), score, version: Zxid::ZERO }
    }

    /// Checks that the oracle can be built and the score can be parsed.
    pub(crate) fn check(&self) -> Result<(), String> {
        let oracle = Spec::parse(&self.oracle).and_then(|spec| spec.build()).map_err(|why| why.to_string())?;
        match &self.score {
            Some(score) => parse_score(score, oracle.scale()).map(|_| ()),
            None => Ok(()),
        }
    }

    /// # Panics
    /// If it did not pass its check.
    pub(crate) fn build(&self) -> Box<dyn Oracle> {
        let oracle = Spec::parse(&self.oracle).and_then(|spec| spec.build()).expect("a checked name");
        match &self.score {
            Some(score) => {
                let score = parse_score(score, oracle.scale()).expect("a checked score");
                Box::new(FixedScore { oracle, score })
            }
            None => oracle,
        }
    }
}

/// An oracle with a fixed score.
struct FixedScore {
    oracle: Box<dyn Oracle>,
    /// None: the score stays unknown.
    score: Option<Score>,
}

impl Oracle for FixedScore {
    fn name(&self) -> &str {
        self.oracle.name()
    }

    fn describe(&self) -> String {
        self.oracle.describe()
    }

    fn components(&self) -> usize {
        self.oracle.components()
    }

    fn assess(&self, _view: &View, _epoch: u64) -> Option<Assessed> {
        self.score.clone().map(|score| Assessed { score, inputs: Vec::new() })
    }

    /// Accepts its own score even if it is invalid: otherwise no invalid score would ever reach a peer.
    fn validate(&self, score: &Score) -> Result<(), InvalidScore> {
        if self.score.as_ref() == Some(score) {
            return Ok(());
        }
        self.oracle.validate(score)
    }

    fn gossip_decides(&self) -> bool {
        self.oracle.gossip_decides()
    }

    fn clearly_worse(&self, a: &Score, b: &Score) -> bool {
        self.oracle.clearly_worse(a, b)
    }

    fn advantage(&self, own: &Score, other: &Score) -> Advantage {
        self.oracle.advantage(own, other)
    }

    fn scale(&self) -> Scale {
        self.oracle.scale()
    }
}

/// Parses a score as a script writes it. `unknown` and `block` mean no score; `nan` and `overflow` are what a careless
/// encoder would make of such values; `empty` has no component.
fn parse_score(score: &str, scale: Scale) -> Result<Option<Score>, String> {
    let score = match score {
        "unknown" | "block" => return Ok(None),
        "nan" => Score::from(f64::NAN.to_bits() as i64),
        "overflow" => Score::from(i64::MIN),
        "empty" => Score::new(Vec::new()),
        number => {
            let value: f64 = number.parse().map_err(|_| format!("`{number}` is no score"))?;
            let component = (value * scale.per_unit as f64) as i64;
            Score::from(match scale.better {
                Better::Lower => component,
                Better::Higher => -component,
            })
        }
    };
    Ok(Some(score))
}
