//! The contract that every store keeps, and the election on it: one suite of tests for all stores.
//!
//! A test of an adapter implements [`Factory`] and calls [`run`]. Each case uses an election of its own, so cases do not
//! disturb each other and a server can be used for several runs. A case that a store cannot run (a restart of a server
//! that the tests did not start) is skipped, by name and with the reason.
//!
//! ```text
//! records    what the trait promises, one operation after the other
//! election   what the algorithm promises on top of it
//! ```

mod elections;
mod faulty;
mod records;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::candidate::random;
use crate::store::{BoxFuture, Error, Store};

pub use faulty::Faulty;

/// A store under test.
pub trait Factory: Send + Sync {
    /// The name for the report.
    fn name(&self) -> String;

    /// Connects a new, independent client to the election with that name. Names are unique for each case and run.
    fn connect<'a>(&'a self, election: &'a str) -> BoxFuture<'a, Result<Arc<dyn Store>, Error>>;

    /// The time-to-live for the cases: as short as the store and the machine allow, so that the suite is quick.
    fn ttl(&self) -> Duration;

    /// Restarts the server and returns when it may be used again. None if this store cannot be restarted.
    fn restart(&self) -> Option<BoxFuture<'_, Result<(), Error>>> {
        None
    }
}

/// The result of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As promised.
    Passed,
    /// Not run, with the reason.
    Skipped(String),
    /// Not as promised, with what was expected and what was found.
    Failed(String),
}

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The store.
    pub store: String,
    /// Each case with its result.
    pub cases: Vec<(&'static str, Outcome)>,
}

impl Report {
    /// Whether no case failed.
    #[must_use]
    pub fn passed(&self) -> bool {
        !self.cases.iter().any(|(_, outcome)| matches!(outcome, Outcome::Failed(_)))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut counts = [0; 3];
        for (name, outcome) in &self.cases {
            match outcome {
                Outcome::Passed => counts[0] += 1,
                Outcome::Skipped(why) => {
                    counts[1] += 1;
                    writeln!(f, "{}: {name}: skipped, {why}", self.store)?;
                }
                Outcome::Failed(why) => {
                    counts[2] += 1;
                    writeln!(f, "{}: {name}: FAILED, {why}", self.store)?;
                }
            }
        }
        let [passed, skipped, failed] = counts;
        write!(f, "{}: {passed} passed, {failed} failed, {skipped} skipped", self.store)
    }
}

/// What a case returns: None if it passed, or why it was skipped.
type CaseResult = Result<Option<String>, String>;

type Case = for<'a> fn(&'a Bench<'a>) -> BoxFuture<'a, CaseResult>;

/// Runs all cases, one after the other. Prints nothing; the caller prints the report.
pub async fn run(factory: &dyn Factory) -> Report {
    let mut report = Report { store: factory.name(), cases: Vec::new() };
    let cases = records::CASES.iter().chain(elections::CASES);
    for (name, case) in cases {
        report.cases.push((name, run_case(factory, name, *case).await));
    }
    report
}

async fn run_case(factory: &dyn Factory, name: &str, case: Case) -> Outcome {
    let election = format!("contract-{name}-{:08x}", random() as u32);
    let bench = Bench { factory, election };
    match tokio::time::timeout(CASE_LIMIT + factory.ttl() * 20, case(&bench)).await {
        Ok(Ok(None)) => Outcome::Passed,
        Ok(Ok(Some(why))) => Outcome::Skipped(why),
        Ok(Err(why)) => Outcome::Failed(why),
        Err(_) => Outcome::Failed("did not end in time".to_owned()),
    }
}

/// The limit of one case, in addition to twenty times the time-to-live.
const CASE_LIMIT: Duration = Duration::from_secs(30);

/// What a case works with.
struct Bench<'a> {
    factory: &'a dyn Factory,
    election: String,
}

impl Bench<'_> {
    async fn connect(&self) -> Result<Arc<dyn Store>, String> {
        self.factory.connect(&self.election).await.map_err(|error| format!("cannot connect: {error}"))
    }

    fn ttl(&self) -> Duration {
        self.factory.ttl()
    }
}

/// Fails the case unless both are equal.
fn same<T: PartialEq + fmt::Debug>(what: &str, got: T, expected: T) -> Result<(), String> {
    if got == expected { Ok(()) } else { Err(format!("{what}: expected {expected:?}, got {got:?}")) }
}
