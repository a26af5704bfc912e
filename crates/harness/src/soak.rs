//! `cargo xtask soak`: real servers killed and stopped at random under load, and everything that clients saw checked.
//!
//! In: for how long, whose servers, a seed. Out: a line a second, counts, every broken promise; exit code 1 if there is one,
//! if an innocent client saw an error, or if there were too few faults.
//! Why: the simulator proves the protocol; this meets the kernel, the disk and the sockets.
//! Holds: a minority is down at any time, so clients of the others have nothing to complain about. Apache is not blamed for
//! errors of innocent clients: its followers drop all theirs with the leader. All else holds for both.
//!
//! With `--network` all links go through proxies and are cut, slowed and broken too (`links`), disks are wiped and filled, the
//! leadership is handed over and the oracle changed (`orders`), and clients hold locks and move between accounts (`recipes`). A
//! majority may be apart then; what counts is what happens while one is connected (`connected`).
//!
//! Not here: the promises themselves (`check`).

mod check;
mod clients;
mod connected;
mod disk;
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
use crate::dice::Dice;
use crate::ensemble::{Ensemble, Launcher, Product, Server, Setup};
use crate::network::{self, Place};
use crate::{Failure, arguments};
use check::{Violation, violations};
use clients::{WATCHED, Writer};
use faults::{Faults, STEP};
use history::History;
use ledger::{Counts, Ledger, Pause, SITES, TICK};
use links::LinkFaults;
use orders::Orders;
use recipes::Recipes;

/// Kills and stops real servers under load and checks what clients saw.
#[derive(Debug, Parser)]
struct Options {
    /// How long the faults go on. 600 make at least 100 kills and 50 stops.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Whose servers.
    #[arg(long, value_enum, default_value = "pole")]
    product: Product,
    /// How many servers.
    #[arg(long, default_value_t = 5)]
    servers: usize,
    /// How many sessions live to the end.
    #[arg(long, default_value_t = 30)]
    sessions: usize,
    /// Writes a second, of all sessions.
    #[arg(long, default_value_t = 1000)]
    rate: u32,
    /// How often all servers are killed at once. Errors are nobody's fault then.
    #[arg(long, default_value_t = 0)]
    majority: u32,
    /// For the dice; from the clock unless given.
    #[arg(long)]
    seed: Option<u64>,
    /// Links go through proxies: partitions, delay, loss, flapping, resets; also wiped and full disks, transfers and other
    /// oracles.
    #[arg(long)]
    network: bool,
    /// With a network: the longest time without a write while a majority is connected, in milliseconds.
    #[arg(long, default_value_t = 1000)]
    pause_ms: u64,
    /// With a network: the same while nothing was done to the leader.
    #[arg(long, default_value_t = 100)]
    leader_pause_ms: u64,
}

/// Runs the chore.
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
    let found = drive(soak(&launcher, &options, Dice::new(seed)))?;
    Ok(found.tell(&options))
}

/// What a soak found.
struct Found {
    counts: Counts,
    kills: usize,
    stops: usize,
    leaders: usize,
    blackouts: usize,
    operations: usize,
    violations: Vec<Violation>,
    /// What was done to the network, to disks and to the leadership, in words, and how often to the network.
    network: Option<(String, usize)>,
}

async fn soak(launcher: &Launcher, options: &Options, mut dice: Dice) -> Result<Found, Failure> {
    let setup = SETTINGS.iter().fold(Setup::new("soak", options.servers), |setup, line| setup.with(line));
    // A log that grows in small steps meets a full disk soon.
    let setup = if options.network { setup.with("preAllocSize=256") } else { setup };
    let mut ensemble = Ensemble::prepare(launcher, &setup)?;
    let small = (options.network && disk::is_possible()).then(|| options.servers - 1);
    if let Some(small) = small {
        disk::mount(&ensemble.servers()[small].data_dir())?;
        ensemble.servers()[small].write_id()?;
    }
    let network = options.network.then(|| lay(&ensemble)).transpose()?;
    ensemble.start_all()?;
    let servers = ensemble.addresses();
    // Where clients connect, from each of their places.
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
        tokio::task::spawn_local(writer.clone().work(pace, Dice::new(dice.below(usize::MAX) as u64), stopped.clone()));
    }
    let recipes = match &network {
        Some(_) => Some(Recipes::start(&sites, Dice::new(dice.below(usize::MAX) as u64), &stopped).await?),
        None => None,
    };
    let short = clients::come_and_go(sites[0].clone(), ledger.clone(), dice.clone(), stopped);
    let short = tokio::task::spawn_local(short);

    ledger.begin();
    tokio::task::spawn_local(tick(ledger.clone()));
    let mut links = network.map(|(network, _)| {
        ledger.with_network(options.servers, limits(options));
        let dice = Dice::new(dice.below(usize::MAX) as u64);
        let links = LinkFaults::new(network, options.servers, SITES, dice.clone(), ledger.clone());
        let orders = Orders::new(&ensemble, dice);
        Network { links, orders, next_look: Instant::now(), leader: None }
    });
    let mut faults = Faults::new(ensemble, dice, ledger.clone());
    if links.is_some() {
        faults.with_disks(small);
    }
    strike(&mut faults, &mut links, &ledger, options).await?;
    println!("healing, after {} kills and {} stops", faults.kills, faults.stops);
    if let Some(network) = &mut links {
        network.links.end();
    }
    faults.heal().await?;
    let _ = stop.send(true);
    drain(&ledger).await;
    let left_behind = short.await.expect("no task of ours panics");
    let counts = ledger.counts();
    let unwatched = last_change(&writers[0], &ledger).await;

    println!("looking at every server, the first of them with a new disk");
    faults.replace_disk(0).await?;
    let shown = ending::look(&servers, options.sessions, &ledger).await?;
    let history = History { shown, unwatched, ..ledger.take_history() };
    let mut violations = violations(&history);
    // Seen while it ran, by a witness at no server in particular.
    violations.extend(left_behind.into_iter().map(|path| Violation::EphemeralLeft { server: 0, path }));
    violations.extend(recipes.iter().flat_map(Recipes::violations));
    let network = links.map(|network| {
        let kinds: Vec<String> = network.links.counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let (wiped, filled, orders) = (faults.wiped, faults.filled, network.orders.told());
        let recipes = recipes.map(|recipes| recipes.told()).unwrap_or_default();
        let told = format!("links: {}\ndisks wiped {wiped}, full {filled}; {orders}\n{recipes}", kinds.join(", "));
        (told, network.links.counts.values().sum())
    });
    let Faults { kills, stops, leaders, blackouts, ensemble, .. } = faults;
    let found = Found { counts, kills, stops, leaders, blackouts, operations: history.ops.len(), violations, network };
    if let Some(small) = small {
        disk::unmount(&ensemble.servers()[small].data_dir())?;
    }
    if found.is_good(options) {
        ensemble.done()?;
    }
    Ok(found)
}

/// Faults until the time is over, with a line a second.
async fn strike(
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
                counts.innocent_errors,
                faults.down()
            );
        }
        sleep(STEP).await;
    }
    Ok(())
}

/// What is done beside kills and stops, in a soak with a network.
struct Network {
    links: LinkFaults,
    orders: Orders,
    /// When to ask again who leads.
    next_look: Instant,
    leader: Option<usize>,
}

impl Network {
    async fn step(&mut self, faults: &Faults, ledger: &Ledger) {
        if Instant::now() >= self.next_look {
            self.next_look = Instant::now() + LOOK_PAUSE;
            self.leader = faults.find_leader().await;
            ledger.leads(self.leader);
        }
        self.links.step(self.leader, faults.is_wiped() || faults.wants_calm());
        if self.orders.is_due() {
            // Whatever comes of it, the leader is no longer left alone.
            ledger.leads(None);
            let order = self.orders.give(&faults.down()).await;
            ledger.fault(order);
        }
    }
}

/// Leads every link of an ensemble that has not been started through proxies. Returns where clients find the servers, from each of their
/// places.
fn lay(ensemble: &Ensemble) -> Result<(network::Network, Vec<Vec<SocketAddr>>), Failure> {
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

/// Signs of life, as long as the soak lasts.
async fn tick(ledger: Ledger) {
    loop {
        ledger.tick();
        sleep(TICK).await;
    }
}

/// Waits until everything asked for has an outcome. What has none then is unknown, as it is.
async fn drain(ledger: &Ledger) {
    let deadline = Instant::now() + DRAIN_LIMIT;
    while ledger.open_in_all() > 0 && Instant::now() < deadline {
        sleep(STEP).await;
    }
}

/// Changes the watched key once more. Returns the sessions whose watch does not tell them.
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

impl Found {
    fn is_good(&self, options: &Options) -> bool {
        let blamed = self.counts.innocent_errors > 0 && options.product == Product::Pole;
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

    /// Prints the counts and the verdict.
    fn tell(&self, options: &Options) -> ExitCode {
        let counts = &self.counts;
        println!("kills {}, stops {}, of these on the leader {}", self.kills, self.stops, self.leaders);
        println!("all servers killed at once {} times", self.blackouts);
        println!("writes acknowledged {}, unknown {}; reads {}", counts.acknowledged, counts.unknown, counts.reads);
        println!("watch events {}; operations checked {}", counts.watch_events, self.operations);
        println!("errors seen by clients whose server had got a signal: {}", counts.excused_errors);
        println!("errors seen by innocent clients: {}", counts.innocent_errors);
        for example in &counts.innocent_examples {
            println!("  {example}");
        }
        println!("attempts not taken by servers without a signal: {}", counts.not_taken);
        println!("longest time without a write: {:.3} s", counts.longest_gap.as_secs_f64());
        println!(
            "this program stood still for {:.3} s in all, which counts for no pause",
            counts.stalled.as_secs_f64()
        );
        if let Some((told, _)) = &self.network {
            println!("{told}");
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
        println!("{} violations, {} errors of innocent clients", self.violations.len(), counts.innocent_errors);
        ExitCode::from(u8::from(!self.is_good(options)))
    }
}

/// The longest pauses that are allowed.
fn limits(options: &Options) -> Pause {
    let (connected, with_leader) = (options.pause_ms, options.leader_pause_ms);
    Pause { connected: Duration::from_millis(connected), with_leader: Duration::from_millis(with_leader) }
}

/// Kills and stops that belong to a soak of this length.
fn least_faults(options: &Options) -> (u64, u64) {
    // With a network, servers wait for calm now and then.
    let rarer = if options.network { 3 } else { 1 };
    (options.seconds / 6 / rarer, options.seconds / 12 / rarer)
}

/// Failures are noticed within two seconds, so that many fit into a run; sessions may live through them.
const SETTINGS: &[&str] = &["tickTime=500", "initLimit=40", "syncLimit=4", "maxSessionTimeout=40000"];

/// Between two questions who leads: five servers are asked each time.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// Groups of servers are counted one by one.
const SERVERS_MAX: usize = 9;

/// Nothing is broken any more when this begins.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);

/// One broken promise breaks others; the first few tell the story.
const VIOLATIONS_SHOWN: usize = 20;
