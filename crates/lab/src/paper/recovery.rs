//! One run of a recovery experiment: servers that were down restart just before the leader crashes.
//!
//! The result is the next leader, and the time until its first commit.
//!
//! Source: sections 4.4 and 5 of the paper.

use pole_node::{LeadershipChange, Milestone};
use pole_topology::Topology;

use super::experiment::Experiment;
use pole_sim::{MS, SECOND, World};

/// One run of a recovery experiment.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// The deployment.
    pub topology: Topology,
    /// The oracle, as a value of `pole.oracle`.
    pub oracle: String,
    /// The seed of delays.
    pub seed: u64,
    /// The servers that are behind.
    pub outdated: Vec<u64>,
    /// How far they are behind, in bytes.
    pub backlog_bytes: usize,
}

/// The result of a recovery experiment.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// The leader after the crash, by id.
    pub winner: u64,
    /// How it became leader.
    pub leadership_change: LeadershipChange,
    /// From the election of the leader to its first committed write, in nanoseconds.
    pub took: u64,
    /// How far each outdated server was behind at the crash, in bytes. It had already received a part.
    pub behind: Vec<(u64, u64)>,
}

impl Recovery {
    /// Runs the experiment.
    ///
    /// # Errors
    /// If the last server could not be made leader, if there was no recovery, or if an invariant was violated.
    pub fn run(&self) -> Result<Recovered, String> {
        let base = Experiment {
            topology: self.topology.clone(),
            oracle: self.oracle.clone(),
            seed: self.seed,
            load_percent: 5,
            before: 0,
            after: 0,
            direct: false,
        };
        let mut setup = base.setup();
        setup.payload_bytes = PAYLOAD;
        let mut world = World::new(setup, None);
        base.make_last_server_lead(&mut world)?;
        self.outdated.iter().for_each(|id| world.kill(*id as usize - 1));
        let behind = world.last_committed();
        while (world.last_committed().counter() - behind.counter()) as usize * PAYLOAD < self.backlog_bytes {
            world.run_until(world.now() + 10 * MS);
            if let Some(failure) = world.failure() {
                return Err(failure.to_owned());
            }
        }
        // Small writes from here on, since the positions that servers know of each other are a heartbeat old.
        world.set_payload(0);
        let end = world.last_committed().counter();
        self.outdated.iter().for_each(|id| world.start_again(*id as usize - 1));
        // Long enough to measure the round trips to the restarted servers, too short to bring them level.
        world.run_until(world.now() + 200 * MS);
        let crash = world.now();
        let lacks = |id: u64| {
            let has = world.last_logged(id as usize - 1).map_or(0, |zxid| zxid.counter());
            u64::from(end.saturating_sub(has)) * PAYLOAD as u64
        };
        let behind = self.outdated.iter().map(|id| (*id, lacks(*id))).collect();
        world.kill(base.first_leader());
        let (winner, leadership_change, took) = first_commit(&mut world, crash)?;
        Ok(Recovered { winner, leadership_change, took, behind })
    }
}

fn first_commit(world: &mut World, crash: u64) -> Result<(u64, LeadershipChange, u64), String> {
    while world.now() < crash + 120 * SECOND {
        world.run_until(world.now() + MS / 2);
        if let Some(failure) = world.failure() {
            return Err(failure.to_owned());
        }
        let Some(leader) = world.leader() else { continue };
        let (Some(leadership_change), epoch) =
            (world.last_leadership_change(leader as u64 + 1), world.epoch_of(leader))
        else {
            continue;
        };
        if epoch == Some(world.last_committed().epoch()) {
            let decided = leadership_change.steps.iter().find(|(step, _)| *step == Milestone::Decided);
            let began = crash + decided.map_or(0, |(_, after)| after.0);
            return Ok((leader as u64 + 1, leadership_change, world.now() - began));
        }
    }
    Err("nobody recovered within two minutes".to_owned())
}

/// The size of a write: large, so that a backlog consists of few events.
const PAYLOAD: usize = 256 << 10;
