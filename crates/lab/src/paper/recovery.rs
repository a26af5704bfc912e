//! One run of a recovery experiment: servers that were down come back just before the leader crashes.
//!
//! In: a deployment, who is behind and how far, an oracle. Out: who led, and how long until its first commit.
//! Source: sections 4.4 and 5 of the paper.

use pole_node::{Account, Milestone};
use pole_topology::Topology;

use super::experiment::Experiment;
use crate::sim::{MS, SECOND, World};

/// One run of a recovery experiment.
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
    /// How far each of the outdated was behind at the moment of the crash, in bytes: some of it had come in already.
    pub behind: Vec<(u64, u64)>,
}

impl Recovery {
    /// Runs it.
    ///
    /// # Errors
    /// If the last server could not be made leader, if nobody recovered, or if an invariant broke.
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
        base.make_the_last_lead(&mut world)?;
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
        let end = world.last_committed().counter();
        self.outdated.iter().for_each(|id| world.start_again(*id as usize - 1));
        // Long enough to measure the round trips to them, too short to bring them level.
        world.run_until(world.now() + 200 * MS);
        let crash = world.now();
        let lacks = |id: u64| {
            let has = world.last_logged(id as usize - 1).map_or(0, |zxid| zxid.counter());
            u64::from(end.saturating_sub(has)) * PAYLOAD as u64
        };
        let behind = self.outdated.iter().map(|id| (*id, lacks(*id))).collect();
        world.kill(base.first_leader());
        let (winner, account, took) = first_commit(&mut world, crash)?;
        Ok(Recovered { winner, account, took, behind })
    }
}

fn first_commit(world: &mut World, crash: u64) -> Result<(u64, Account, u64), String> {
    while world.now() < crash + 120 * SECOND {
        world.run_until(world.now() + MS / 2);
        if let Some(failure) = world.failure() {
            return Err(failure.to_owned());
        }
        let Some(leader) = world.leader() else { continue };
        let (Some(account), epoch) = (world.last_leadership_change(leader as u64 + 1), world.epoch_of(leader)) else {
            continue;
        };
        if epoch == Some(world.last_committed().epoch()) {
            let decided = account.steps.iter().find(|(step, _)| *step == Milestone::Decided);
            let began = crash + decided.map_or(0, |(_, after)| after.0);
            return Ok((leader as u64 + 1, account, world.now() - began));
        }
    }
    Err("nobody recovered within two minutes".to_owned())
}

/// The size of a write in a recovery experiment: large, so that a backlog is few events.
const PAYLOAD: usize = 256 << 10;
