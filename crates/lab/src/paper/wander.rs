//! A load that moves from data centre to data centre with the time of day, under the production policy of resignation.
//!
//! The result is the latency over time, and which server led when. The paper names resignation as an extension but
//! does not measure it. A leader that stays where it was elected is the right one for a third of the day.
//!
//! Source: section 5 of the paper, "Initial Election and Resignation"; the policy is the default of
//! `pole_oracle::ResignConfig`.

use pole_oracle::ResignConfig;
use pole_topology::Topology;
use serde::{Deserialize, Serialize};

use super::experiment::{DISK, mean_ns};
use super::formula::Formula;
use pole_sim::{MS, SECOND, Setup, World};

/// One run with a wandering load.
#[derive(Clone, Debug)]
pub struct Wander {
    /// The deployment.
    pub topology: Topology,
    /// The sites with most of the load, in sequence.
    pub places: Vec<String>,
    /// How long the load stays at each, in nanoseconds.
    pub stay: u64,
    /// Whether the leader may resign.
    pub resign: bool,
    /// The seed.
    pub seed: u64,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WanderResult {
    /// The time since the start in seconds, and the mean latency of the requests sent since the previous entry, in
    /// nanoseconds.
    pub course: Vec<(u64, u64)>,
    /// The leaders with the second from which on they led; the first entry is the initial leader.
    pub leaders: Vec<(u64, u64)>,
    /// The mean over all requests, in nanoseconds.
    pub mean_ns: u64,
    /// The longest latency of a request, in nanoseconds.
    pub longest_ns: u64,
    /// The number of requests.
    pub requests: u64,
}

impl Wander {
    /// A load that visits three continents in turn, `stays` visits in all.
    #[must_use]
    pub fn around_the_world(seed: u64, stay: u64, stays: usize, resign: bool) -> Self {
        let places = ["america", "europe", "asia"].into_iter().cycle().take(stays).map(str::to_owned).collect();
        Self { topology: world(), places, stay, resign, seed }
    }

    /// Runs the experiment.
    ///
    /// # Errors
    /// If there is no leader at the start, or if an invariant was violated.
    pub fn run(&self) -> Result<WanderResult, String> {
        let mut world = World::new(self.setup(), None);
        self.make_best_server_lead(&mut world)?;
        let begin = world.now();
        let mut leaders: Vec<(u64, u64)> = Vec::new();
        for (place, site) in self.places.iter().enumerate() {
            let load = self.load_at(site);
            load.servers().for_each(|server| world.set_rate(server.id as usize - 1, load.rate_milli(server.id)));
            let until = begin + self.stay * (place as u64 + 1);
            while world.now() < until && world.failure().is_none() {
                world.run_until(world.now() + SECOND);
                let leader = world.leader().map(|server| server as u64 + 1);
                if let Some(leader) = leader.filter(|id| leaders.last().is_none_or(|(_, last)| last != id)) {
                    leaders.push(((world.now() - begin) / SECOND, leader));
                }
            }
        }
        // Waits for the answers to the last requests.
        world.run_until(world.now() + 2 * SECOND);
        let samples: Vec<_> = world.samples().iter().copied().filter(|sample| sample.asked >= begin).collect();
        if let Some(failure) = world.into_report().failure {
            return Err(failure);
        }
        if leaders.is_empty() {
            return Err("nobody leads".to_owned());
        }
        let steps = (self.stay * self.places.len() as u64 / STEP) as usize;
        let mut course = vec![(0_u64, 0_u64); steps];
        for sample in &samples {
            if let Some((sum, count)) = course.get_mut(((sample.asked - begin) / STEP) as usize) {
                *sum += sample.took;
                *count += 1;
            }
        }
        let moment = |(step, (sum, count)): (usize, (u64, u64))| {
            Some(((step as u64 + 1) * STEP / SECOND, sum.checked_div(count)?))
        };
        Ok(WanderResult {
            course: course.into_iter().enumerate().filter_map(moment).collect(),
            leaders,
            mean_ns: mean_ns(samples.iter()),
            longest_ns: samples.iter().map(|sample| sample.took).max().unwrap_or(0),
            requests: samples.len() as u64,
        })
    }

    /// Makes the best server for the first site leader, since the leader elected before there was any load is
    /// arbitrary.
    fn make_best_server_lead(&self, world: &mut World) -> Result<(), String> {
        world.run_until(2 * SECOND);
        let first = self.first_load();
        let best = Formula::whole(&first).best();
        let leader = world.leader().ok_or("nobody leads at the start")?;
        if leader as u64 + 1 != best {
            world.transfer(leader, Some(best));
            world.run_until(world.now() + 2 * SECOND);
        }
        match world.leader() {
            Some(leader) if leader as u64 + 1 == best => Ok(()),
            Some(_) | None => Err(format!("server {best} was to lead at the start, and does not")),
        }
    }

    /// The latency under the best possible leader for each site in sequence, by the formula, in milliseconds.
    #[must_use]
    pub fn best_ms(&self) -> Vec<f64> {
        let best = |site: &String| {
            let load = self.load_at(site);
            let formula = Formula::whole(&load);
            formula.latency_ms(formula.best()) + DISK as f64 / MS as f64
        };
        self.places.iter().map(best).collect()
    }

    fn setup(&self) -> Setup {
        let mut setup = Setup::on(self.first_load(), self.seed);
        setup.oracle = "latency".to_owned();
        setup.load_percent = 100;
        setup.resign = Some(ResignConfig { enabled: self.resign, ..ResignConfig::default() });
        setup.set_fsync(DISK);
        setup
    }

    fn first_load(&self) -> Topology {
        self.places.first().map_or_else(|| self.topology.clone(), |site| self.load_at(site))
    }

    /// The topology with 96 % of the load at one site; the rest is spread over the others.
    fn load_at(&self, site: &str) -> Topology {
        self.topology.weighted(site, 960)
    }
}

/// Five servers on three continents, with round trips typical of the US east coast, western Europe and Japan.
fn world() -> Topology {
    Topology::parse(WORLD).unwrap_or_else(|error| panic!("our own topology: {error}"))
}

const WORLD: &str = r#"
name = "world"
jitter_percent = 2
server = [
  { id = 1, site = "america" }, { id = 2, site = "america" },
  { id = 3, site = "europe" }, { id = 4, site = "europe" },
  { id = 5, site = "asia" },
]
link = [
  { a = "america", b = "europe", rtt_ms = 75.0, bandwidth_mbit = 940 },
  { a = "america", b = "asia", rtt_ms = 155.0, bandwidth_mbit = 940 },
  { a = "asia", b = "europe", rtt_ms = 220.0, bandwidth_mbit = 940 },
]
load = [{ site = "america", rate = 30 }]
"#;

/// The interval over which each point is a mean.
const STEP: u64 = 10 * SECOND;
