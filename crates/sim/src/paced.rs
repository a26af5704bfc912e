//! Clients of the paper's experiments: open loop, evenly spaced writes to a server of their own data centre.
//!
//! They follow the loads of a topology and record how long each write took. When a server crashes, its clients move to
//! the nearest running server, as in the paper.

use pole_topology::Topology;

use super::workload::Client;
use super::world::World;
use super::{SECOND, Setup};
use crate::Rng;

/// The load of one client of an experiment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The server in the client's own data centre.
    pub(crate) home: usize,
    /// The time from one write to the next, in nanoseconds.
    pub(crate) interval: u64,
}

/// A completed write of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When it was sent, in nanoseconds.
    pub asked: u64,
    /// The id of the server in the client's own data centre, even while that server is down.
    pub home: u64,
    /// How long it took, in nanoseconds.
    pub took: u64,
}

/// One client for each server that has a load, writing at the server's rate.
pub(crate) fn clients(setup: &Setup, topology: &Topology, rng: &Rng) -> Vec<Client> {
    let loaded = topology.servers().filter_map(|server| {
        let milli = topology.rate_milli(server.id) * u64::from(setup.load_percent) / 100;
        let interval = (1_000 * SECOND).checked_div(milli)?;
        Some(Pace { home: server.id as usize - 1, interval })
    });
    loaded.enumerate().map(|(index, pace)| Client::paced(setup, index, pace, rng)).collect()
}

impl World {
    /// The nearest running server.
    pub(crate) fn nearest(&self, home: usize) -> usize {
        let far = |server: usize| match &self.setup.topology {
            Some(topology) if server != home => topology.rtt(home as u64 + 1, server as u64 + 1).unwrap_or(u64::MAX),
            Some(_) | None => 0,
        };
        (0..self.hosts.len()).filter(|server| !self.is_down(*server)).min_by_key(|server| far(*server)).unwrap_or(home)
    }

    /// The completed writes of an experiment, in the order of their answers.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }
}
