//! The paper's experiments: a leader at p5, a load, its crash, and the server that wins.
//!
//! In: a deployment, a load, an oracle. Out: the next leader and the latencies before and after, measured in the
//! simulator on the production code.
//! Source: section 4 (setting) and section 5 (figures) of the paper, as `docs/` tells them.

use pole_election::Span;
use pole_node::{Account, Milestone};
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
            "consensus" | "latency" | "worst-case" | "recovery" => format!("{name}/1ms"),
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
        let crash = world.now();
        world.kill(4);
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
            if leader == 4 && (self.oracle != "rotating" || epoch.is_multiple_of(5)) {
                return Ok(());
            }
            let turn = if self.oracle == "rotating" { (epoch + 1) % 5 } else { 0 };
            let to = if turn == 0 { 5 } else { turn };
            let to = if to == leader as u64 + 1 { to % 5 + 1 } else { to };
            world.transfer(leader, Some(to));
            world.run_until(world.now() + SECOND);
        }
        Err(format!("server {:?} leads instead of 5", world.leader().map(|server| server + 1)))
    }
}

/// One run of a recovery experiment: servers that were down come back just before the leader crashes.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// The deployment.
    pub topology: Topology,
    /// The oracle, as `pole.oracle` names it.
    pub oracle: String,
    /// The seed of delays.
    pub seed: u64,
    /// The servers that are behind.
    pub outdated: Vec<u64>,
    /// How far, in bytes.
    pub backlog_bytes: usize,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// Who led after the crash.
    pub winner: u64,
    /// How it came to lead.
    pub account: Account,
    /// From the choice of the leader to its first committed write, in nanoseconds.
    pub took: u64,
}

impl Recovery {
    /// Runs it.
    ///
    /// # Errors
    /// If p5 could not be made leader, if nobody recovered, or if an invariant broke.
    pub fn run(&self) -> Result<Recovered, String> {
        let base = Experiment {
            topology: self.topology.clone(),
            oracle: self.oracle.clone(),
            seed: self.seed,
            load_percent: 5,
            before: 0,
            after: 0,
        };
        let mut setup = base.setup();
        setup.payload_bytes = PAYLOAD;
        let mut world = World::new(setup, None);
        base.make_p5_lead(&mut world)?;
        self.outdated.iter().for_each(|id| world.kill(*id as usize - 1));
        let behind = world.last_committed();
        while (world.last_committed().counter() - behind.counter()) as usize * PAYLOAD < self.backlog_bytes {
            world.run_until(world.now() + 10 * MS);
            if let Some(failure) = world.failure() {
                return Err(failure.to_owned());
            }
        }
        // From here on small writes: the positions that servers report of each other are a heartbeat old.
        world.set_payload(0);
        self.outdated.iter().for_each(|id| world.start_again(*id as usize - 1));
        // Long enough to measure the round trips to them, too short to bring them level.
        world.run_until(world.now() + 200 * MS);
        let crash = world.now();
        world.kill(4);
        Self::first_commit(&mut world, crash)
    }

    fn first_commit(world: &mut World, crash: u64) -> Result<Recovered, String> {
        while world.now() < crash + 120 * SECOND {
            world.run_until(world.now() + MS / 2);
            if let Some(failure) = world.failure() {
                return Err(failure.to_owned());
            }
            let Some(leader) = world.leader() else { continue };
            let (Some(account), epoch) = (world.account_of(leader as u64 + 1), world.epoch_of(leader)) else {
                continue;
            };
            if epoch == Some(world.last_committed().epoch()) {
                let decided = account.steps.iter().find(|(step, _)| *step == Milestone::Decided);
                let began = crash + decided.map_or(0, |(_, after)| after.0);
                return Ok(Recovered { winner: leader as u64 + 1, account, took: world.now() - began });
            }
        }
        Err("nobody recovered within two minutes".to_owned())
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

/// The size of a write in a recovery experiment: large, so that a backlog is few events.
const PAYLOAD: usize = 256 << 10;
