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
//!
//! Most cases wait for leases to end. [`Extent::Essential`] leaves out those that repeat what another case shows of the
//! store: the algorithm alone is also tested on the in-process store and in the simulator, where time costs nothing.

mod elections;
mod faulty;
mod records;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

    /// Connects a client through a proxy of its own, which can cut its network. None if the store has no network.
    fn connect_through_proxy<'a>(&'a self, _election: &'a str) -> Option<BoxFuture<'a, Result<Proxied, Error>>> {
        None
    }

    /// Whether time passes by itself, also while a thread stands still. Not in a test with paused time.
    fn has_real_time(&self) -> bool {
        true
    }

    /// Restarts the server and returns when it may be used again. None if this store cannot be restarted.
    fn restart(&self) -> Option<BoxFuture<'_, Result<(), Error>>> {
        None
    }
}

/// A client behind a proxy.
pub struct Proxied {
    /// The client.
    pub store: Arc<dyn Store>,
    /// Its network.
    pub link: Box<dyn Link>,
}

/// The network between one client and the store.
pub trait Link: Send + Sync {
    /// Lets nothing through from now on, in either direction, and closes nothing.
    fn cut(&self);
    /// Lets new connections through. Those that were cut are reset.
    fn mend(&self);
}

/// How many of the cases are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// Every promise of the store, and the elections that depend on the store.
    Essential,
    /// All cases.
    Full,
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
    /// Each case with its result and its time.
    pub cases: Vec<(&'static str, Outcome, Duration)>,
}

impl Report {
    /// Whether no case failed.
    #[must_use]
    pub fn passed(&self) -> bool {
        !self.cases.iter().any(|(_, outcome, _)| matches!(outcome, Outcome::Failed(_)))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut counts = [0; 3];
        for (name, outcome, _) in &self.cases {
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
        let seconds = self.cases.iter().map(|(_, _, took)| took).sum::<Duration>().as_secs_f64();
        write!(f, "{}: {passed} passed, {failed} failed, {skipped} skipped in {seconds:.1} s", self.store)
    }
}

/// What a case returns: None if it passed, or why it was skipped.
type CaseResult = Result<Option<String>, String>;

type Case = for<'a> fn(&'a Bench<'a>) -> BoxFuture<'a, CaseResult>;

/// Runs the cases of that extent, one after the other. Prints nothing; the caller prints the report.
pub async fn run(factory: &dyn Factory, extent: Extent) -> Report {
    run_selected(factory, |_, from| from <= extent).await
}

/// Runs the case with this name, of any extent. The report is empty if there is none.
pub async fn run_one(factory: &dyn Factory, name: &str) -> Report {
    run_selected(factory, |case, _| case == name).await
}

async fn run_selected(factory: &dyn Factory, selects: impl Fn(&str, Extent) -> bool) -> Report {
    let mut report = Report { store: factory.name(), cases: Vec::new() };
    let cases = records::CASES.iter().chain(elections::CASES);
    for (name, _, case) in cases.filter(|(name, from, _)| selects(name, *from)) {
        let start = Instant::now();
        let outcome = run_case(factory, name, *case).await;
        report.cases.push((name, outcome, start.elapsed()));
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

/// The limit of one case, in addition to twenty times the time-to-live. Only a case that hangs takes so long: its steps
/// have limits of their own, and 200 candidates need a minute on a busy machine.
const CASE_LIMIT: Duration = Duration::from_secs(120);

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
