//! `cargo xtask soak`: kills and stops real servers at random under load, and checks everything that clients observed.
//!
//! Prints a line per second, then counts and every violation of a guarantee. The exit code is 1 if there is a
//! violation, if a client lost its connection without a fault of its server, or if there were too few faults. The
//! simulator tests the protocol; the soak also tests the kernel, the disk and the sockets.
//!
//! Only a minority of the servers is down at any time, so clients of the others must not be disturbed. Apache is not
//! held to that, because its followers drop all their clients when the leader fails. All other checks apply to both
//! products.
//!
//! With `--network`, all links go through proxies and are also cut, slowed and reset (`links`), disks are wiped and
//! filled, the leadership is transferred and the oracle changed (`orders`), and clients hold locks and move amounts
//! between accounts (`recipes`). A majority may be disconnected then; pauses count only while one is connected
//! (`connected`).
//!
//! The guarantees themselves are in `check`.

mod check;
mod clients;
mod connected;
mod disk;
mod disk_probe;
mod ending;
mod faults;
mod history;
mod ledger;
mod links;
mod orders;
mod recipes;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::client::drive;
use crate::ensemble::{Ensemble, Launcher, Product, Server, Setup};
use crate::network::{self, Place};
use crate::rng::Rng;
use crate::{Failure, arguments};
use check::{Violation, violations};
use clients::{WATCHED, Writer};
use disk_probe::DiskProbe;
use faults::{Faults, STEP};
use history::History;
use ledger::{Counts, Ledger, Pause, SITES, TICK};
use links::LinkFaults;
use orders::Orders;
use recipes::Recipes;

/// Kills and stops real servers under load and checks what clients saw.
#[derive(Debug, Parser)]
struct Options {
    /// How long faults are injected, in seconds. 600 give at least 100 kills and 50 stops.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// The product whose servers are tested.
    #[arg(long, value_enum, default_value = "pole")]
    product: Product,
    /// The number of servers.
    #[arg(long, default_value_t = 5)]
    servers: usize,
    /// The number of sessions that last until the end.
    #[arg(long, default_value_t = 30)]
    sessions: usize,
    /// Writes per second, over all sessions.
    #[arg(long, default_value_t = 1000)]
    rate: u32,
    /// How often all servers are killed at once. Errors of clients are excused then.
    #[arg(long, default_value_t = 0)]
    majority: u32,
    /// The seed of the random number generator; from the clock by default.
    #[arg(long)]
    seed: Option<u64>,
    /// Routes links through proxies: partitions, delay, loss, flapping, resets; also wiped and full disks, leadership
    /// transfers and changes of the oracle.
    #[arg(long)]
    network: bool,
    /// With a network: the longest time without a write while a majority is connected, in milliseconds.
    #[arg(long, default_value_t = 1000)]
    pause_ms: u64,
    /// With a network: the same while nothing was done to the leader.
    #[arg(long, default_value_t = 100)]
    leader_pause_ms: u64,
}

/// Runs `cargo xtask soak`.
pub fn run(args: &[String]) -> Result<ExitCode, Failure> {
    let options: Options = arguments("soak", args)?;
    if options.servers < 3 || options.sessions == 0 || options.rate == 0 {
        return Err(Failure::Usage("a soak needs three servers, a session and a rate".into()));
    }
    if options.network && (options.product != Product::Pole || options.servers > SERVERS_MAX || options.majority > 0) {
        let what = format!("--network is for Pole, at most {SERVERS_MAX} servers, and goes without --majority");
        return Err(Failure::Usage(what));
    }
    if options.network {
        disk::enter_namespace();
    }
    let seed =
        options.seed.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs()));
    let with = if options.network { ", with a network" } else { "" };
    println!("{} servers of {}, {} s, seed {seed}{with}", options.servers, options.product, options.seconds);
    let launcher = options.product.launcher()?;
    let report = drive(soak(&launcher, &options, seed))?;
    Ok(report.print(&options))
}

/// The result of a soak.
struct Report {
    counts: Counts,
    kills: usize,
    stops: usize,
    leaders: usize,
    blackouts: usize,
    operations: usize,
    violations: Vec<Violation>,
    /// With a network: a description of the faults of links, disks and leadership, and the number of link faults.
    network: Option<(String, usize)>,
}

async fn soak(launcher: &Launcher, options: &Options, seed: u64) -> Result<Report, Failure> {
    let mut rng = Rng::new(seed);
    // The logs of a soak that failed stay when another one is run.
    let setup = Setup::new(&format!("soak-{seed}"), options.servers);
    let setup = SETTINGS.iter().fold(setup, |setup, line| setup.with(line));
    // A log that grows in small steps hits a full disk soon.
    let setup = if options.network { setup.with("preAllocSize=256") } else { setup };
    let mut ensemble = Ensemble::prepare(launcher, &setup)?;
    let small = (options.network && disk::is_possible()).then(|| options.servers - 1);
    if let Some(small) = small {
        disk::mount(&ensemble.servers()[small].data_dir())?;
        ensemble.servers()[small].write_id()?;
    }
    let network = options.network.then(|| set_up_network(&ensemble)).transpose()?;
    ensemble.start_all()?;
    let servers = ensemble.addresses();
    // The addresses of the servers, as seen from each client site.
    let sites = match &network {
        Some((_, sites)) => sites.clone(),
        None => vec![servers.clone()],
    };
    let ledger = Ledger::new(options.sessions, options.servers);
    clients::prepare(&servers, options.sessions).await?;
    let mut writers = Vec::new();
    for number in 0..options.sessions {
        writers.push(Writer::start(number, &sites[number % sites.len()], &ledger).await?);
    }

    let (stop, stopped) = watch::channel(false);
    let pace = Duration::from_secs(1) * u32::try_from(options.sessions).unwrap_or(u32::MAX) / options.rate;
    for writer in &writers {
        tokio::task::spawn_local(writer.clone().work(pace, Rng::new(rng.below(usize::MAX) as u64), stopped.clone()));
    }
    let recipes = match &network {
        Some(_) => Some(Recipes::start(&sites, Rng::new(rng.below(usize::MAX) as u64), &stopped).await?),
        None => None,
    };
    let short = clients::run_short_sessions(sites[0].clone(), ledger.clone(), rng.clone(), stopped);
    let short = tokio::task::spawn_local(short);

    ledger.begin();
    let probe = DiskProbe::start(ensemble.folder()).map_err(|why| Failure::Check(format!("no disk probe: {why}")))?;
    let ticks = tokio::task::spawn_local(tick(ledger.clone(), probe));
    let mut links = network.map(|(network, _)| {
        ledger.with_network(options.servers, limits(options));
        let rng = Rng::new(rng.below(usize::MAX) as u64);
        let links = LinkFaults::new(network, options.servers, SITES, rng.clone(), ledger.clone());
        let orders = Orders::new(&ensemble, rng);
        Network { links, orders, next_leader_check: Instant::now(), leader: None }
    });
    let mut faults = Faults::new(ensemble, rng, ledger.clone());
    if links.is_some() {
        faults.with_disks(small);
    }
    inject_faults(&mut faults, &mut links, &ledger, options).await?;
    println!("healing, after {} kills and {} stops", faults.kills, faults.stops);
    if let Some(network) = &mut links {
        network.links.end();
    }
    faults.restore_all().await?;
    ledger.end();
    // With its probe, which would keep a file open.
    ticks.abort();
    let _ = stop.send(true);
    drain(&ledger).await;
    let left_behind = short.await.expect("no task of ours panics");
    let counts = ledger.counts();
    let unwatched = last_change(&writers[0], &ledger).await;

    println!("looking at every server, the first of them with a new disk");
    faults.replace_disk(0).await?;
    let shown = ending::read_all_servers(&servers, options.sessions, &ledger).await?;
    let history = History { shown, unwatched, ..ledger.take_history() };
    let mut violations = violations(&history);
    // Observed during the run by a session that may have been at any server.
    violations.extend(left_behind.into_iter().map(|path| Violation::EphemeralLeft { server: 0, path }));
    violations.extend(recipes.iter().flat_map(Recipes::violations));
    let network = links.map(|network| {
        let kinds: Vec<String> = network.links.counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let (wiped, filled, orders) = (faults.wiped, faults.filled, network.orders.summary());
        let recipes = recipes.map(|recipes| recipes.summary()).unwrap_or_default();
        let summary = format!("links: {}\ndisks wiped {wiped}, full {filled}; {orders}\n{recipes}", kinds.join(", "));
        (summary, network.links.counts.values().sum())
    });
    let Faults { kills, stops, leaders, blackouts, ensemble, .. } = faults;
    let report =
        Report { counts, kills, stops, leaders, blackouts, operations: history.ops.len(), violations, network };
    if let Some(small) = small {
        disk::unmount(&ensemble.servers()[small].data_dir())?;
    }
    if report.is_good(options) {
        ensemble.done()?;
    }
    Ok(report)
}

/// Injects faults until the time is over, and prints a line per second.
async fn inject_faults(
    faults: &mut Faults,
    network: &mut Option<Network>,
    ledger: &Ledger,
    options: &Options,
) -> Result<(), Failure> {
    let start = Instant::now();
    let length = Duration::from_secs(options.seconds);
    let mut next_line = start + Duration::from_secs(1);
    let mut blackouts = (1..=options.majority).map(|n| start + length * n / (options.majority + 1)).peekable();
    while start.elapsed() < length {
        let calm = network.as_ref().is_none_or(|network| network.links.is_quiet());
        faults.step(calm).await?;
        if let Some(network) = network {
            network.step(faults, ledger).await;
        }
        if blackouts.next_if(|at| *at <= Instant::now()).is_some() {
            faults.blackout()?;
        }
        if Instant::now() >= next_line {
            next_line += Duration::from_secs(1);
            let counts = ledger.counts();
            let link = network.as_ref().map_or("", |network| network.links.name());
            println!(
                "{:>4} s: {} kills, {} stops, {} acknowledged, {} unknown, {} innocent errors, down {:?} {link}",
                start.elapsed().as_secs(),
                faults.kills,
                faults.stops,
                counts.acknowledged,
                counts.unknown,
                counts.unexcused_errors,
                faults.down()
            );
        }
        sleep(STEP).await;
    }
    Ok(())
}

/// The additional faults of a soak with a network, besides kills and stops.
struct Network {
    links: LinkFaults,
    orders: Orders,
    /// When to look for the leader again.
    next_leader_check: Instant,
    leader: Option<usize>,
}

impl Network {
    async fn step(&mut self, faults: &Faults, ledger: &Ledger) {
        if Instant::now() >= self.next_leader_check {
            self.next_leader_check = Instant::now() + LEADER_CHECK_PAUSE;
            self.leader = faults.find_leader().await;
            ledger.leads(self.leader);
        }
        self.links.step(self.leader, faults.is_wiped() || faults.wants_calm());
        if self.orders.is_due() {
            // Even if the order is refused, the leader no longer counts as undisturbed.
            ledger.leads(None);
            let order = self.orders.give(&faults.down()).await;
            ledger.fault(order);
        }
    }
}

/// Routes every link of an ensemble through proxies. The servers must not have been started yet. Returns the
/// addresses of the servers, as seen from each client site.
fn set_up_network(ensemble: &Ensemble) -> Result<(network::Network, Vec<Vec<SocketAddr>>), Failure> {
    let network = network::Network::between(ensemble)?;
    ensemble.configure(|server, text| {
        text + &format!("admin.enableServer=true\nadmin.serverPort={}\n", server.ports().secure)
    })?;
    let servers = ensemble.servers();
    let site = |site: usize| -> Result<Vec<SocketAddr>, Failure> {
        let open =
            |(to, server): (usize, &Server)| network.open(Place::Site(site), Place::Server(to), server.address());
        servers.iter().enumerate().map(open).collect()
    };
    let sites = (0..SITES).map(site).collect::<Result<_, _>>()?;
    Ok((network, sites))
}

/// Calls [`Ledger::tick`], and notes slow writes of the probe, for as long as the soak lasts.
async fn tick(ledger: Ledger, probe: DiskProbe) {
    loop {
        ledger.tick();
        probe.slow_writes().into_iter().for_each(|took| ledger.slow_disk(took));
        sleep(TICK).await;
    }
}

/// Waits until every request has an outcome. Requests without one by then stay unknown.
async fn drain(ledger: &Ledger) {
    let deadline = Instant::now() + DRAIN_LIMIT;
    while ledger.open_in_all() > 0 && Instant::now() < deadline {
        sleep(STEP).await;
    }
}

/// Changes the watched key once more. Returns the sessions whose watch does not fire.
async fn last_change(writer: &Writer, ledger: &Ledger) -> Vec<usize> {
    writer.write(WATCHED);
    drain(ledger).await;
    let version = ledger.last_version(WATCHED);
    let deadline = Instant::now() + DRAIN_LIMIT;
    while !ledger.not_watched(version).is_empty() && Instant::now() < deadline {
        sleep(STEP).await;
    }
    ledger.not_watched(version)
}

impl Report {
    fn is_good(&self, options: &Options) -> bool {
        let blamed = self.counts.unexcused_errors > 0 && options.product == Product::Pole;
        self.violations.is_empty() && !self.has_too_few_faults(options) && !blamed && !self.has_long_pauses(options)
    }

    fn has_long_pauses(&self, options: &Options) -> bool {
        let (longest, limits) = (self.counts.longest, limits(options));
        longest.connected > limits.connected || longest.with_leader > limits.with_leader
    }

    fn has_too_few_faults(&self, options: &Options) -> bool {
        let (kills, stops) = least_faults(options);
        let links = self.network.as_ref().is_some_and(|(_, links)| (*links as u64) < options.seconds / 15);
        (self.kills as u64) < kills || (self.stops as u64) < stops || links
    }

    /// Prints the counts and the verdict. Returns the exit code.
    fn print(&self, options: &Options) -> ExitCode {
        let counts = &self.counts;
        println!("kills {}, stops {}, of these on the leader {}", self.kills, self.stops, self.leaders);
        println!("all servers killed at once {} times", self.blackouts);
        println!("writes acknowledged {}, unknown {}; reads {}", counts.acknowledged, counts.unknown, counts.reads);
        println!("watch events {}; operations checked {}", counts.watch_events, self.operations);
        println!("errors seen by clients whose server had got a signal: {}", counts.excused_errors);
        println!("errors seen by innocent clients: {}", counts.unexcused_errors);
        for example in &counts.unexcused_examples {
            println!("  {example}");
        }
        println!("attempts not taken by servers without a signal: {}", counts.failed_connects);
        println!("longest time without a write: {:.3} s", counts.longest_gap.as_secs_f64());
        println!(
            "this program was stalled for {:.3} s in total, which is not counted in pauses",
            counts.stalled.as_secs_f64()
        );
        println!(
            "writes of this program to the same disk that took over 30 ms: {}, the longest {} ms",
            counts.slow_writes,
            counts.slowest_write.as_millis()
        );
        if let Some((summary, _)) = &self.network {
            println!("{summary}");
            let (majority, leader) = (counts.longest.connected.as_secs_f64(), counts.longest.with_leader.as_secs_f64());
            println!("longest time without a write while a majority was connected: {majority:.3} s");
            println!("longest time without a write while nothing was done to the leader: {leader:.3} s");
        }
        for violation in self.violations.iter().take(VIOLATIONS_SHOWN) {
            println!("VIOLATION {violation}");
        }
        if self.has_too_few_faults(options) {
            let (kills, stops) = least_faults(options);
            println!("too few faults: at least {kills} kills and {stops} stops belong to {} s", options.seconds);
        }
        println!("{} violations, {} errors of innocent clients", self.violations.len(), counts.unexcused_errors);
        ExitCode::from(u8::from(!self.is_good(options)))
    }
}

/// The longest pauses that are allowed.
fn limits(options: &Options) -> Pause {
    let (connected, with_leader) = (options.pause_ms, options.leader_pause_ms);
    Pause { connected: Duration::from_millis(connected), with_leader: Duration::from_millis(with_leader) }
}

/// The minimum numbers of kills and stops in a soak of this length.
fn least_faults(options: &Options) -> (u64, u64) {
    // With a network, there are fewer, because wiping a disk needs a time without other faults.
    let rarer = if options.network { 3 } else { 1 };
    (options.seconds / 6 / rarer, options.seconds / 12 / rarer)
}

/// Failures are detected within two seconds, so that many fit into a run, and sessions can survive them.
const SETTINGS: &[&str] = &["tickTime=500", "initLimit=40", "syncLimit=4", "maxSessionTimeout=40000"];

/// The interval between two searches for the leader. Each asks all servers.
const LEADER_CHECK_PAUSE: Duration = Duration::from_millis(250);

/// All subsets of the servers are enumerated, so their number is limited.
const SERVERS_MAX: usize = 9;

/// All faults are over when the drain begins, so this is generous.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);

/// One violation often causes others, so the first few are enough.
const VIOLATIONS_SHOWN: usize = 20;
