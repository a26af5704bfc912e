//! The paper's experiments on real servers: processes on this machine, with emulated links between them.
//!
//! Takes a plan of the lab and returns the measurements for its report. Several ensembles run at a time, each for one
//! experiment, since most of the time is spent waiting. Processes and their files are removed with the run, also
//! after a signal or an error.
//!
//! Which runs there are, which of their writes count, and which result is expected is decided in `lab`.

mod client;
mod servers;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pole_lab::paper::{Real, RealOutcome, RealPlan, RealRun};
use pole_progress::Bar;
use pole_sim::Sample;
use pole_topology::Topology;

use crate::args::UpArgs;
use crate::failure::{Failure, Kind};
use crate::signals::Signals;
use crate::up::{Event, Plan};

use client::{Client, Wake};
use servers::{Servers, interrupted};

/// Runs all experiments of the plan.
pub(crate) fn run(plan: RealPlan) -> Result<Real, Failure> {
    let runs = plan.runs();
    let interrupt = Arc::new(Interrupt::default());
    let signals = Signals::catch().map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))?;
    let handle = Arc::clone(&interrupt);
    signals.on_each(move || handle.signal());
    eprintln!("{}", announcement(&runs));
    let done = run_all(&runs, &interrupt)?;
    plan.gathered(runs.into_iter().zip(done).collect()).map_err(Failure::failed)
}

fn announcement(runs: &[RealRun]) -> String {
    let each = runs.first().map_or(0, |run| run.experiment.before + run.experiment.after);
    let seconds = (Duration::from_nanos(each) + OVERHEAD).as_secs_f64() * runs.len().div_ceil(CONCURRENT_RUNS) as f64;
    let rate = runs.first().map_or(0, |run| 10 * run.experiment.load_percent);
    let count = runs.len();
    format!(
        "{count} runs on real servers, {CONCURRENT_RUNS} at a time, {rate} writes a second each: about {seconds:.0} s. Then the same in \
         the simulator."
    )
}

/// The result of each run, in order. A failed run counts as a result unless no run before it succeeded, because then
/// the others would fail too. A signal ends all runs.
fn run_all(runs: &[RealRun], interrupt: &Interrupt) -> Result<Vec<Result<RealOutcome, String>>, Failure> {
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel();
    let mut done: BTreeMap<usize, Result<RealOutcome, String>> = BTreeMap::new();
    let mut fatal = None;
    thread::scope(|scope| {
        for slot in 0..CONCURRENT_RUNS.min(runs.len()) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(run) = runs.get(at).filter(|_| !interrupt.is_set()) else { return };
                    if sender.send((at, run_one(run, slot, interrupt))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let bar = Bar::new("runs");
        for (at, outcome) in results {
            if let Err(failure) = &outcome
                && !interrupt.is_set()
                && done.values().all(Result::is_err)
            {
                fatal = Some(failure.clone());
                interrupt.signal();
            }
            done.insert(at, outcome.map_err(|failure| failure.to_string()));
            bar.update(done.len(), runs.len(), &runs[at].name);
        }
    });
    match fatal {
        Some(failure) => Err(failure),
        None if interrupt.is_set() => Err(interrupted()),
        None => Ok(done.into_values().collect()),
    }
}

/// One run, from the start of its servers to their end.
fn run_one(run: &RealRun, slot: usize, interrupt: &Interrupt) -> Result<RealOutcome, Failure> {
    let plan = plan_run(run, slot)?;
    let (sender, events) = mpsc::channel();
    interrupt.register(slot, sender.clone())?;
    let mut servers = Servers::start(&plan, &sender, events)?;
    let first = plan.ids().max().unwrap_or(1);
    servers.make_lead(first, run.experiment.oracle == "rotating")?;
    let start = Instant::now();
    let clients = clients(run, &plan, start);
    let (before, after) = (run.experiment.before, run.experiment.after);
    let mut crash = start;
    let (ended, samples) = under_load(&clients, || {
        servers.run_until(start + Duration::from_nanos(before))?;
        servers.kill(first);
        crash = Instant::now();
        servers.run_until(crash + Duration::from_nanos(after))
    });
    ended?;
    let winner = servers.leader().ok_or_else(|| Failure::new(Kind::NoQuorum, "nobody leads after the crash"))?;
    let disk_ms = servers.disk_ms(winner)?;
    let crash = u64::try_from((crash - start).as_nanos()).unwrap_or(u64::MAX);
    Ok(RealOutcome { outcome: run.experiment.outcome(winner, samples, 0, crash), disk_ms })
}

/// An ensemble on free ports. Resignation is off, as in the paper; heartbeats are frequent enough for a short run, as
/// in the simulator.
fn plan_run(run: &RealRun, slot: usize) -> Result<Plan, Failure> {
    let links = Topology::parse(run.links).map_err(|error| Failure::bad_input(error.to_string()))?;
    // Concurrent processes start at different ranges.
    let start = std::process::id() as usize % PORT_RANGES;
    let mut last_failure = Failure::failed("no ports to try");
    for range in (0..PORT_RANGES).map(|n| (start + n) % PORT_RANGES) {
        // Slots are ten ports apart, and a range has the ports of an ensemble with ids up to 99.
        let base_port = FIRST_PORT + 400 * range as u16 + 10 * slot as u16;
        let args = UpArgs { oracle: run.experiment.oracle.clone(), base_port, ..UpArgs::default() };
        let plan = Plan::with_topology(links.clone(), run.links.to_owned(), &args)?
            .with_extra_config(&extra_config(run.experiment.direct));
        match plan.check_ports() {
            Ok(()) => return plan.write_files().map(|()| plan),
            Err(failure) => last_failure = failure,
        }
    }
    Err(last_failure)
}

fn extra_config(direct: bool) -> String {
    let direct = if direct { "auto" } else { "off" };
    format!("pole.resign=off\npole.heartbeatMs=100\npole.directAcks={direct}\n")
}

/// One client for each server that has a load, at the server's rate.
fn clients(run: &RealRun, plan: &Plan, start: Instant) -> Vec<Client> {
    let topology = &run.experiment.topology;
    let rate_milli = |id: u64| topology.rate_milli(id) * u64::from(run.experiment.load_percent) / 100;
    let loaded: Vec<u64> = plan.ids().filter(|id| rate_milli(*id) > 0).collect();
    let client = |(n, server): (usize, &u64)| {
        let mut nearest: Vec<u64> = plan.ids().collect();
        nearest.sort_by_key(|id| topology.rtt(*server, *id));
        let ports = nearest.iter().map(|id| plan.ports(*id).client).collect();
        let interval = Duration::from_secs(1_000) / rate_milli(*server) as u32;
        let first = interval * n as u32 / loaded.len() as u32;
        Client { server: *server, ports, interval, first, start }
    };
    loaded.iter().enumerate().map(client).collect()
}

/// Runs `work` while the clients write, and returns its result and their samples.
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
        // An error means that the client has ended already.
        started.iter().for_each(|(wake, _)| drop(wake.send(Wake::Stop)));
        let samples = started.into_iter().flat_map(|(_, client)| client.join().unwrap_or_default());
        (done, samples.collect())
    })
}

/// Whether a signal arrived, and the runs to notify.
#[derive(Default)]
struct Interrupt(Mutex<InterruptState>);

#[derive(Default)]
struct InterruptState {
    is_set: bool,
    /// By slot: each has one run at a time.
    slots: BTreeMap<usize, Sender<Event>>,
}

impl Interrupt {
    /// Notifies all runs. Returns true, because there may be another signal.
    fn signal(&self) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_set = true;
        // An error means that the run has ended.
        state.slots.values().for_each(|sender| drop(sender.send(Event::Signal)));
        true
    }

    /// Registers a run, in place of the previous one of this slot.
    fn register(&self, slot: usize, sender: Sender<Event>) -> Result<(), Failure> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.slots.insert(slot, sender);
        if state.is_set { Err(interrupted()) } else { Ok(()) }
    }

    fn is_set(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_set
    }
}

/// Ensembles at a time. They mostly wait for emulated links.
const CONCURRENT_RUNS: usize = 3;
/// The time of a run besides its load: start, hand-over and end.
const OVERHEAD: Duration = Duration::from_secs(1);
/// Below the ephemeral ports of common systems.
const FIRST_PORT: u16 = 22_310;
const PORT_RANGES: usize = 24;
