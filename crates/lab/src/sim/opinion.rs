//! Oracles that say what a script wants them to say.
//!
//! In: the name of an oracle, and what it says on one server. Out: that oracle, with its name, its fingerprint and its
//! checks, but with the score given.
//! Why not an oracle of our own: a script about scores is about what an election makes of the scores of a real one.

use pole_election::{Score, Zxid};
use pole_oracle::{Advantage, Assessed, Better, InvalidScore, Oracle, Scale, Spec, View};

/// What the oracle of one server is, and what it says.
#[derive(Clone, Debug)]
pub(crate) struct Opinion {
    /// As `pole.oracle` names it.
    pub(crate) oracle: String,
    /// Instead of what it measures: a number as a human reads it, or one of the words of [`component`].
    pub(crate) says: Option<String>,
    /// The position of the transaction that chose it.
    pub(crate) version: Zxid,
}

impl Opinion {
    /// As the configuration file says.
    pub(crate) fn of(oracle: &str, says: Option<String>) -> Self {
        Self { oracle: oracle.to_owned(), says, version: Zxid::ZERO }
    }

    /// Whether it can be built.
    pub(crate) fn check(&self) -> Result<(), String> {
        let oracle = Spec::parse(&self.oracle).and_then(|spec| spec.build()).map_err(|why| why.to_string())?;
        match &self.says {
            Some(says) => component(says, oracle.scale()).map(|_| ()),
            None => Ok(()),
        }
    }

    /// The oracle.
    ///
    /// # Panics
    /// If it did not pass its check.
    pub(crate) fn build(&self) -> Box<dyn Oracle> {
        let oracle = Spec::parse(&self.oracle).and_then(|spec| spec.build()).expect("a checked name");
        match &self.says {
            Some(says) => {
                let score = component(says, oracle.scale()).expect("a checked score");
                Box::new(Prompted { oracle, score })
            }
            None => oracle,
        }
    }
}

/// An oracle that says what it was told to say.
struct Prompted {
    oracle: Box<dyn Oracle>,
    /// None: it has no score, now and for ever.
    score: Option<Score>,
}

impl Oracle for Prompted {
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

    /// It stands by what it says, however wrong: otherwise no wrong score would ever reach a peer.
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

/// A score as a script writes it. `unknown` and `block` are none; `nan` and `overflow` are what a careless encoder
/// would make of those; `empty` has no component at all.
fn component(says: &str, scale: Scale) -> Result<Option<Score>, String> {
    let score = match says {
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
