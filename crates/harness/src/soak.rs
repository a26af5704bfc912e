//! `cargo xtask soak`: real servers killed and stopped at random under load, and everything that clients saw checked.
//!
//! In: for how long, whose servers, a seed. Out: a line a second, counts, every broken promise; exit code 1 if there is one,
//! if an innocent client saw an error, or if there were too few faults.
//! Why: the simulator proves the protocol; this meets the kernel, the disk and the sockets.
//! Holds: a minority is down at any time, so clients of the others have nothing to complain about. Apache is not blamed for
//! errors of innocent clients: its followers drop all theirs with the leader. All else holds for both.
//! Not here: the promises themselves (`check`).

mod check;
mod clients;
mod ending;
mod faults;
mod history;
mod ledger;

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::client::drive;
use crate::dice::Dice;
use crate::ensemble::{Ensemble, Launcher, Product, Setup};
use crate::{Failure, arguments};
use check::{Violation, violations};
use clients::{WATCHED, Writer};
use faults::{Faults, STEP};
use history::History;
use ledger::{Counts, Ledger};

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
}

/// Runs the chore.
pub fn run(args: &[String]) -> Result<ExitCode, Failure> {
    let options: Options = arguments("soak", args)?;
    if options.servers < 3 || options.sessions == 0 || options.rate == 0 {
        return Err(Failure::Usage("a soak needs three servers, a session and a rate".into()));
    }
    let seed =
        options.seed.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs()));
    println!("{} servers of {}, {} s, seed {seed}", options.servers, options.product, options.seconds);
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
}

async fn soak(launcher: &Launcher, options: &Options, mut dice: Dice) -> Result<Found, Failure> {
    let setup = SETTINGS.iter().fold(Setup::new("soak", options.servers), |setup, line| setup.with(line));
    let ensemble = Ensemble::ready(launcher, &setup)?;
    let servers = ensemble.addresses();
    let ledger = Ledger::new(options.sessions, options.servers);
    clients::prepare(&servers, options.sessions).await?;
    let mut writers = Vec::new();
    for number in 0..options.sessions {
        writers.push(Writer::start(number, &servers, &ledger).await?);
    }

    let (stop, stopped) = watch::channel(false);
    let pace = Duration::from_secs(1) * u32::try_from(options.sessions).unwrap_or(u32::MAX) / options.rate;
    for writer in &writers {
        tokio::task::spawn_local(writer.clone().work(pace, Dice::new(dice.below(usize::MAX) as u64), stopped.clone()));
    }
    let short = clients::come_and_go(servers.clone(), ledger.clone(), dice.clone(), stopped);
    let short = tokio::task::spawn_local(short);

    ledger.begin();
    let mut faults = Faults::new(ensemble, dice, ledger.clone());
    strike(&mut faults, &ledger, options).await?;
    println!("healing, after {} kills and {} stops", faults.kills, faults.stops);
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
    let Faults { kills, stops, leaders, blackouts, ensemble, .. } = faults;
    let found = Found { counts, kills, stops, leaders, blackouts, operations: history.ops.len(), violations };
    if found.is_good(options) {
        ensemble.done()?;
    }
    Ok(found)
}

/// Faults until the time is over, with a line a second.
async fn strike(faults: &mut Faults, ledger: &Ledger, options: &Options) -> Result<(), Failure> {
    let start = Instant::now();
    let length = Duration::from_secs(options.seconds);
    let mut next_line = start + Duration::from_secs(1);
    let mut blackouts = (1..=options.majority).map(|n| start + length * n / (options.majority + 1)).peekable();
    while start.elapsed() < length {
        faults.step().await?;
        if blackouts.next_if(|at| *at <= Instant::now()).is_some() {
            faults.blackout()?;
        }
        if Instant::now() >= next_line {
            next_line += Duration::from_secs(1);
            let counts = ledger.counts();
            println!(
                "{:>4} s: {} kills, {} stops, {} acknowledged, {} unknown, {} innocent errors, down {:?}",
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
        self.violations.is_empty() && !self.has_too_few_faults(options) && !blamed
    }

    fn has_too_few_faults(&self, options: &Options) -> bool {
        let (kills, stops) = least_faults(options);
        (self.kills as u64) < kills || (self.stops as u64) < stops
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

/// Kills and stops that belong to a soak of this length.
fn least_faults(options: &Options) -> (u64, u64) {
    (options.seconds / 6, options.seconds / 12)
}

/// Failures are noticed within two seconds, so that many fit into a run; sessions may live through them.
const SETTINGS: &[&str] = &["tickTime=500", "initLimit=40", "syncLimit=4", "maxSessionTimeout=40000"];

/// Nothing is broken any more when this begins.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);

/// One broken promise breaks others; the first few tell the story.
const VIOLATIONS_SHOWN: usize = 20;
