//! The paper's experiments: a leader at p5, a load, its crash, and the server that wins.
//!
//! In: a deployment, a load, an oracle. Out: the next leader and the latencies before and after, measured in the
//! simulator on the production code.
//! Source: section 4 (setting) and section 5 (figures) of the paper, as `docs/` tells them.

use pole_election::{ServerId, Span};
use pole_node::{Account, Event};
use pole_topology::Topology;

use crate::sim::{MS, SECOND, Sample, Setup, World};

/// One run of an experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The deployment, with its load.
    pub topology: Topology,
    /// The oracle, as `pole.oracle` names it.
    pub oracle: String,
    /// The seed of delays and arrivals.
    pub seed: u64,
    /// How much of the deployment's load is made, in percent.
    pub load_percent: u32,
    /// How long the load runs before the crash, in nanoseconds.
    pub before: u64,
    /// How long it runs after, in nanoseconds.
    pub after: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Who led after the crash.
    pub winner: u64,
    /// How it came to lead.
    pub account: Option<Account>,
    /// The writes that the first leader answered, without the warm-up.
    pub before: Vec<Sample>,
    /// The writes that the next one answered, without the change.
    pub after: Vec<Sample>,
}

impl Experiment {
    /// The classes in which the paper's scores are compared, so that ties go to the higher id.
    #[must_use]
    pub fn oracle_in_classes(name: &str) -> String {
        match name {
            "consensus" | "latency" | "worst-case" => format!("{name}/1ms"),
            "request" => "request/10%".to_owned(),
            other => other.to_owned(),
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// If p5 could not be made leader, if nobody won, or if an invariant broke.
    pub fn run(&self) -> Result<Outcome, String> {
        let mut world = World::new(self.setup(), None);
        self.make_p5_lead(&mut world)?;
        let warm = world.now() + self.before / 4;
        world.run_until(world.now() + self.before);
        let crash = world.kill(5);
        let steady = crash + self.after / 3;
        world.run_until(crash + self.after);
        let winner = world.leader().map(|server| server as u64 + 1);
        let account = winner.and_then(|winner| world.account_of(winner));
        let asked_in = |from: u64, to: u64| {
            world.samples().iter().copied().filter(|s| (from..to).contains(&s.asked)).collect::<Vec<_>>()
        };
        let (before, after) = (asked_in(warm, crash - SECOND / 2), asked_in(steady, u64::MAX));
        match (winner, world.into_report().failure) {
            (_, Some(failure)) => Err(failure),
            (None, None) => Err("nobody leads after the crash".to_owned()),
            (Some(winner), None) => Ok(Outcome { winner, account, before, after }),
        }
    }

    fn setup(&self) -> Setup {
        let mut setup = Setup::on(self.topology.clone(), self.seed);
        setup.oracle.clone_from(&self.oracle);
        setup.load_percent = self.load_percent;
        // Often enough for the round trips to settle within a short run.
        setup.heartbeat = Span::from_ms(100);
        setup.set_fsync(DISK);
        setup
    }

    /// By hand-overs. Under `rotating` p5 must lead in an epoch that is 0 mod 5, so that p1 is next in turn.
    fn make_p5_lead(&self, world: &mut World) -> Result<(), String> {
        world.run_until(2 * SECOND);
        for _ in 0..HANDOVERS_MAX {
            let leader = world.leader().ok_or("nobody leads at the start")?;
            let epoch = world.round_of(leader as u64 + 1).epoch;
            if leader == 4 && (self.oracle != "rotating" || epoch % 5 == 0) {
                return Ok(());
            }
            let turn = if self.oracle == "rotating" { (epoch + 1) % 5 } else { 0 };
            let to = if turn == 0 { 5 } else { turn };
            let to = if to == leader as u64 + 1 { to % 5 + 1 } else { to };
            world.tell(leader, Event::Transfer { to: Some(ServerId(to)) });
            world.run_until(world.now() + SECOND);
        }
        Err(format!("server {:?} leads instead of 5", world.leader().map(|server| server + 1)))
    }
}

impl Outcome {
    /// The mean of the writes after the crash, in milliseconds.
    #[must_use]
    pub fn mean_after_ms(&self) -> f64 {
        mean_ms(self.after.iter())
    }

    /// The mean of the writes before the crash, in milliseconds.
    #[must_use]
    pub fn mean_before_ms(&self) -> f64 {
        mean_ms(self.before.iter())
    }
}

fn mean_ms<'a>(samples: impl Iterator<Item = &'a Sample>) -> f64 {
    let (sum, count) = samples.fold((0, 0), |(sum, count), sample| (sum + sample.took, count + 1));
    if count == 0 { 0.0 } else { sum as f64 / f64::from(count) / MS as f64 }
}

/// What an fsync takes in these runs: the one constant for disk and processing, of the size that the paper's figures
/// show. Not a round number: scores that should tie would lie at the borders of classes of 1 ms.
pub const DISK: u64 = 2_610_000;

/// Enough for every server to have its turn twice.
const HANDOVERS_MAX: usize = 10;
