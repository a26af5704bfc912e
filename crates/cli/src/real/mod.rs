//! The paper's experiments on real servers: processes on this machine, with emulated links between them.
//!
//! In: a plan of the lab. Out: what was measured, for its report.
//! How: several ensembles at a time, each from start to end for one run, since most of a run is waiting.
//! Holds: processes and their files go with the run, also at a signal and at an error.
//! Not here: which runs, which of their writes count, and what should come out (`lab`).

mod client;
mod servers;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pole_lab::paper::{Real, RealOutcome, RealPlan, RealRun};
use pole_lab::sim::Sample;
use pole_topology::Topology;

use crate::args::UpArgs;
use crate::failure::{Failure, Kind};
use crate::lab::Bar;
use crate::signals::Signals;
use crate::up::{Happening, Plan};

use client::{Client, Wake};
use servers::{Servers, interrupted};

/// Runs them all.
pub(crate) fn run(plan: RealPlan) -> Result<Real, Failure> {
    let runs = plan.runs();
    let interrupt = Arc::new(Interrupt::default());
    let signals = Signals::catch().map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))?;
    let heard = Arc::clone(&interrupt);
    signals.each(move || heard.signal());
    eprintln!("{}", announced(&runs));
    let done = all(&runs, &interrupt)?;
    plan.gathered(runs.into_iter().zip(done).collect()).map_err(Failure::failed)
}

fn announced(runs: &[RealRun]) -> String {
    let each = runs.first().map_or(0, |run| run.experiment.before + run.experiment.after);
    let seconds = (Duration::from_nanos(each) + AROUND).as_secs_f64() * runs.len().div_ceil(AT_ONCE) as f64;
    let rate = runs.first().map_or(0, |run| 10 * run.experiment.load_percent);
    let count = runs.len();
    format!(
        "{count} runs on real servers, {AT_ONCE} at a time, {rate} writes a second each: about {seconds:.0} s. Then the same in \
         the simulator."
    )
}

/// What came of each, in their order. A run that fails is one that failed, unless none before it succeeded: then no other
/// would. A signal is the end of all.
fn all(runs: &[RealRun], interrupt: &Interrupt) -> Result<Vec<Result<RealOutcome, String>>, Failure> {
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel();
    let mut done: BTreeMap<usize, Result<RealOutcome, String>> = BTreeMap::new();
    let mut hopeless = None;
    thread::scope(|scope| {
        for lane in 0..AT_ONCE.min(runs.len()) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(run) = runs.get(at).filter(|_| !interrupt.is_over()) else { return };
                    if sender.send((at, one(run, lane, interrupt))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut bar = Bar::new();
        for (at, outcome) in results {
            if let Err(failure) = &outcome
                && !interrupt.is_over()
                && done.values().all(Result::is_err)
            {
                hopeless = Some(failure.clone());
                interrupt.signal();
            }
            done.insert(at, outcome.map_err(|failure| failure.to_string()));
            bar.shows(done.len(), runs.len(), &runs[at].name);
        }
    });
    match hopeless {
        Some(failure) => Err(failure),
        None if interrupt.is_over() => Err(interrupted()),
        None => Ok(done.into_values().collect()),
    }
}

/// One run, from the start of its servers to their end.
fn one(run: &RealRun, lane: usize, interrupt: &Interrupt) -> Result<RealOutcome, Failure> {
    let plan = planned(run, lane)?;
    let (tell, happenings) = mpsc::channel();
    interrupt.also(lane, tell.clone())?;
    let mut servers = Servers::start(&plan, &tell, happenings)?;
    let first = plan.ids().max().unwrap_or(1);
    servers.make_lead(first, run.experiment.oracle == "rotating")?;
    let zero = Instant::now();
    let clients = clients(run, &plan, zero);
    let (before, after) = (run.experiment.before, run.experiment.after);
    let mut crash = zero;
    let (ended, samples) = under_load(&clients, || {
        servers.pass(zero + Duration::from_nanos(before))?;
        servers.kill(first);
        crash = Instant::now();
        servers.pass(crash + Duration::from_nanos(after))
    });
    ended?;
    let winner = servers.leader().ok_or_else(|| Failure::new(Kind::NoQuorum, "nobody leads after the crash"))?;
    let disk_ms = servers.disk_ms(winner)?;
    let crash = u64::try_from((crash - zero).as_nanos()).unwrap_or(u64::MAX);
    Ok(RealOutcome { outcome: run.experiment.outcome(winner, samples, 0, crash), disk_ms })
}

/// An ensemble on ports that are free. Resignation is off, as in the paper; heartbeats come often enough for a short run,
/// as in the simulator.
fn planned(run: &RealRun, lane: usize) -> Result<Plan, Failure> {
    let links = Topology::parse(run.links).map_err(|error| Failure::bad_input(error.to_string()))?;
    // Processes that do the same at the same time begin at different places.
    let start = std::process::id() as usize % PLACES;
    let mut taken = Failure::failed("no ports to try");
    for place in (0..PLACES).map(|n| (start + n) % PLACES) {
        // Lanes are ten apart, and a place has the ports of an ensemble with ids up to 99.
        let base_port = FIRST_PORT + 400 * place as u16 + 10 * lane as u16;
        let args = UpArgs { oracle: run.experiment.oracle.clone(), base_port, ..UpArgs::default() };
        let plan = Plan::on(links.clone(), run.links.to_owned(), &args)?.with_lines(LINES);
        match plan.check_ports() {
            Ok(()) => return plan.write_files().map(|()| plan),
            Err(failure) => taken = failure,
        }
    }
    Err(taken)
}

/// One for each server that has a load, at the server's rate.
fn clients(run: &RealRun, plan: &Plan, zero: Instant) -> Vec<Client> {
    let topology = &run.experiment.topology;
    let rate_milli = |id: u64| topology.rate_milli(id) * u64::from(run.experiment.load_percent) / 100;
    let loaded: Vec<u64> = plan.ids().filter(|id| rate_milli(*id) > 0).collect();
    let client = |(n, home): (usize, &u64)| {
        let mut nearest: Vec<u64> = plan.ids().collect();
        nearest.sort_by_key(|id| topology.rtt(*home, *id));
        let ports = nearest.iter().map(|id| plan.ports(*id).client).collect();
        let interval = Duration::from_secs(1_000) / rate_milli(*home) as u32;
        let first = interval * n as u32 / loaded.len() as u32;
        Client { home: *home, ports, interval, first, zero }
    };
    loaded.iter().enumerate().map(client).collect()
}

/// Does something while clients write; what came of it, and their samples.
fn under_load<T>(clients: &[Client], work: impl FnOnce() -> T) -> (T, Vec<Sample>) {
    thread::scope(|scope| {
        let started: Vec<_> = clients
            .iter()
            .map(|client| {
                let (wake, wakes) = mpsc::channel();
                let woken = wake.clone();
                (wake, scope.spawn(move || client.run(&woken, &wakes)))
            })
            .collect();
        let done = work();
        // One that has ended already cannot be told, and need not be.
        started.iter().for_each(|(wake, _)| drop(wake.send(Wake::Stop)));
        let samples = started.into_iter().flat_map(|(_, client)| client.join().unwrap_or_default());
        (done, samples.collect())
    })
}

/// Whether somebody wants us to stop, and who is to hear of it.
#[derive(Default)]
struct Interrupt(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    is_over: bool,
    /// By lane: each has one run at a time.
    lanes: BTreeMap<usize, Sender<Happening>>,
}

impl Interrupt {
    /// It is over. True, for there may be another signal.
    fn signal(&self) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.is_over = true;
        // A run that has ended does not hear, and need not.
        waiting.lanes.values().for_each(|tell| drop(tell.send(Happening::Signal)));
        true
    }

    /// Tells this run as well, in the place of the one before it.
    fn also(&self, lane: usize, tell: Sender<Happening>) -> Result<(), Failure> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.lanes.insert(lane, tell);
        if waiting.is_over { Err(interrupted()) } else { Ok(()) }
    }

    fn is_over(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_over
    }
}

/// Ensembles at a time: most of their time they wait for emulated links.
const AT_ONCE: usize = 3;
/// What a run takes beside its load: to start, to hand over, to end.
const AROUND: Duration = Duration::from_secs(1);
const LINES: &str = "pole.resign=off\npole.heartbeatMs=100\n";
/// Below the ports that systems give to outgoing connections.
const FIRST_PORT: u16 = 22_310;
const PLACES: usize = 24;
