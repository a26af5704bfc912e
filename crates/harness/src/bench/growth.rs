//! Growth: how memory, times and pauses change with the number of znodes, sessions, watches, children and servers.
//!
//! Every figure goes to `target/bench/growth.csv` as soon as it is measured. At the end follow a table for each curve
//! (`growth.md`), the curves as pictures, and the goals that were reached or missed. A size that a product does not hold
//! within the limits says so in its row, and the run goes on.
//!
//! The curves are in `znodes`, `sessions`, `watches`, `children` and `servers`; figures and goals in `table`.

mod children;
mod pictures;
mod servers;
mod sessions;
mod table;
mod watches;
mod znodes;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use tokio::task::JoinSet;

use super::Plan;
use super::three_servers::failed;
use crate::Failure;
use crate::client::crowd::raise_files_max;
use crate::client::{drive, load};
use crate::ensemble::{Ensemble, Launcher, Product};
use pole_jute::Request;
use table::{Point, Table};

/// What grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Curve {
    /// Znodes of 100 bytes, a thousand under each parent.
    Znodes,
    /// Sessions that only ping.
    Sessions,
    /// Watches of a thousand sessions.
    Watches,
    /// Children of one znode.
    Children,
    /// Voters.
    Servers,
}

/// Which curves and sizes are measured.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    /// All if empty.
    pub(super) curves: Vec<Curve>,
    /// Those of the curve if empty.
    pub(super) sizes: Vec<u32>,
    /// Sizes that only show that everything runs.
    pub(super) is_quick: bool,
}

impl Scope {
    fn curves(&self) -> Vec<Curve> {
        if self.curves.is_empty() { Curve::value_variants().to_vec() } else { self.curves.clone() }
    }

    fn sizes(&self, curve: Curve) -> Vec<u32> {
        match () {
            () if !self.sizes.is_empty() => self.sizes.clone(),
            () if self.is_quick => curve.quick_sizes().to_vec(),
            () => curve.full_sizes().to_vec(),
        }
    }
}

impl Curve {
    /// The name in figures and files.
    fn name(self) -> &'static str {
        match self {
            Self::Znodes => "znodes",
            Self::Sessions => "sessions",
            Self::Watches => "watches",
            Self::Children => "children",
            Self::Servers => "servers",
        }
    }

    fn full_sizes(self) -> &'static [u32] {
        match self {
            Self::Znodes => &[10_000, 100_000, 1_000_000, 5_000_000],
            Self::Sessions => &[1_000, 10_000, 50_000],
            Self::Watches => &[10_000, 100_000, 1_000_000],
            Self::Children => &[10_000, 100_000, 1_000_000],
            Self::Servers => &[3, 5, 7, 9],
        }
    }

    fn quick_sizes(self) -> &'static [u32] {
        match self {
            Self::Znodes | Self::Children | Self::Watches => &[1_000, 3_000],
            Self::Sessions => &[50, 150],
            Self::Servers => &[3, 5],
        }
    }

    /// The largest size at which Apache is measured.
    fn apache_max(self) -> u32 {
        match self {
            Self::Znodes => 1_000_000,
            Self::Sessions | Self::Watches | Self::Children | Self::Servers => u32::MAX,
        }
    }

    fn measure(self, launcher: &Launcher, plan: Plan, point: &mut Point<'_>) -> Result<(), Failure> {
        match self {
            Self::Znodes => znodes::run(launcher, plan, point),
            Self::Sessions => sessions::run(launcher, plan, point),
            Self::Watches => watches::run(launcher, plan, point),
            Self::Children => children::run(launcher, plan, point),
            Self::Servers => servers::run(launcher, plan, point),
        }
    }
}

/// Measures all curves of the scope. The exit code is 1 if Pole misses a goal or does not hold a size.
pub(super) fn run(products: &[Product], scope: &Scope, rounds: usize, plan: Plan) -> Result<ExitCode, Failure> {
    println!("a server may have {} open files", raise_files_max());
    let launchers = products.iter().map(|product| product.launcher()).collect::<Result<Vec<_>, _>>()?;
    let mut table = Table::new()?;
    let start = Instant::now();
    for round in 1..=rounds {
        for curve in scope.curves() {
            for size in scope.sizes(curve) {
                for launcher in super::alternating(&launchers, round) {
                    let product = launcher.product;
                    if product == Product::Apache && size > curve.apache_max() {
                        continue;
                    }
                    println!("{size} {}, {product}, after {:.0} s", curve.name(), start.elapsed().as_secs_f64());
                    let mut point = table.point(curve, size, product);
                    match curve.measure(launcher, plan, &mut point) {
                        Ok(()) => (),
                        Err(Failure::Check(why)) => point.not_held(&why)?,
                        Err(why @ Failure::Usage(_)) => return Err(why),
                    }
                }
            }
        }
    }
    let misses = table.finish()?;
    Ok(ExitCode::from(u8::from(misses > 0)))
}

/// Sends these requests by one session at each server, within a limit, and returns how many are answered a second.
fn send(ensemble: &Ensemble, requests: Vec<Box<dyn Iterator<Item = Request>>>) -> Result<f64, Failure> {
    let addresses = ensemble.addresses();
    let start = Instant::now();
    let sending = async {
        let mut sessions = JoinSet::new();
        for (requests, address) in requests.into_iter().zip(addresses.iter().copied().cycle()) {
            sessions.spawn_local(load::send_all(address, requests, OUTSTANDING, None));
        }
        let mut sent = 0;
        while let Some(done) = sessions.join_next().await {
            sent += done.expect("no task of ours panics").map_err(failed)?;
        }
        Ok(sent)
    };
    let sent = drive(async {
        let late = |_| Failure::Check(format!("requests are not answered within {FILL_LIMIT:?}"));
        tokio::time::timeout(FILL_LIMIT, sending).await.map_err(late)?
    })?;
    Ok(sent as f64 / start.elapsed().as_secs_f64())
}

/// The resident memory of a server in MB, on average.
fn memory_mb(ensemble: &Ensemble) -> f64 {
    ensemble.usage().resident_bytes as f64 / 1e6 / ensemble.servers().len() as f64
}

/// In milliseconds.
fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Voters of every curve but `servers`.
const SERVERS: usize = 3;

/// Requests in flight of a session that fills a server: enough to keep it busy, too few to reach one of its limits.
const OUTSTANDING: usize = 200;

/// A product that needs longer for one size does not hold it.
const FILL_LIMIT: Duration = Duration::from_secs(900);

/// The writes a second of [`Steady`](crate::client::steady::Steady) beside what is measured: little for every product.
const STEADY_RATE: u32 = 500;
