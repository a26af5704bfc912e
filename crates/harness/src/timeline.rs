//! `cargo xtask timeline`: where a write waits, from the client's request to its reply, on all three servers.
//!
//! Three servers of Pole log each step of a write with its microsecond (`pole.logFilter=pole::timeline=trace`). One client
//! writes 1 KiB at a time, so every step between its request and its reply belongs to that write. The steps of all writes
//! are drawn at their median times, one lane for each server.
//!
//! The log costs each step a few microseconds, so a write takes longer here than in the benchmark. What is followed is the
//! order of the steps and the share of each wait.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Parser, ValueEnum};
use pole_client::blocking::Session;
use pole_client::{create, set_data};
use pole_jute::CreateMode;

use crate::ensemble::{Ensemble, Product, READY_LIMIT, Setup};
use crate::{Failure, arguments};

/// Draws the way of a write through three servers.
#[derive(Debug, Parser)]
struct Options {
    /// The server of the client.
    #[arg(long, value_enum, default_value = "follower")]
    via: Via,
    /// The number of writes that count.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    writes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Via {
    Leader,
    Follower,
}

/// A write as the client saw it, in microseconds of the wall clock.
#[derive(Clone, Copy, Debug)]
struct Asked {
    sent: u64,
    replied: u64,
}

/// A step of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    /// In the log: microseconds of the wall clock. In a [`Lane`]: since the request.
    at: u64,
    name: String,
}

/// What a server usually does in a write: the most frequent sequence of steps, each at its median time.
struct Lane {
    server: String,
    steps: Vec<Step>,
    /// How many of the writes have this sequence.
    share_percent: usize,
}

/// Runs `cargo xtask timeline`.
pub fn run(args: &[String]) -> Result<ExitCode, Failure> {
    let options: Options = arguments("timeline", args)?;
    let setup = Setup::new("timeline", SERVERS).with("pole.logFilter=pole::timeline=trace").with("pole.resign=off");
    let mut ensemble = Ensemble::ready(&Product::Pole.launcher()?, &setup)?;
    let leader = ensemble.wait_ready(READY_LIMIT)?;
    let server = if options.via == Via::Leader { leader } else { (leader + 1) % SERVERS };
    let asked = write(ensemble.addresses()[server], options.writes).map_err(failed)?;
    let mut lanes = Vec::new();
    for index in 0..SERVERS {
        // An orderly end writes the rest of the log.
        ensemble.server(index).terminate(STOP_LIMIT)?;
        let path = ensemble.servers()[index].log_path();
        let log = fs::read_to_string(&path).map_err(|why| Failure::io("read", &path, &why))?;
        let role = if index == leader { "leader" } else { "follower" };
        let steps = steps_of(&log);
        if steps.is_empty() {
            return Err(Failure::Check(format!("{} has no step of a write", path.display())));
        }
        lanes.push(Lane::of(format!("{} {role}", index + 1), &steps, &asked));
    }
    let via = ensemble.servers()[server].id();
    println!("{} writes of 1 KiB, one at a time, via server {via}; medians", asked.len());
    print!("{}", drawn(&lanes, &asked));
    ensemble.done()?;
    Ok(ExitCode::SUCCESS)
}

/// Writes one at a time, some of them before those that count.
fn write(server: std::net::SocketAddr, count: u32) -> Result<Vec<Asked>, pole_client::Error> {
    let mut session = Session::connect(server, SESSION)?;
    session.ask(create(PATH, b"", CreateMode::Persistent))?;
    let mut asked = Vec::new();
    for number in 0..WARM_UP + count {
        let sent = now_us();
        session.ask(set_data(PATH, &[b'x'; 1024]))?;
        if number >= WARM_UP {
            asked.push(Asked { sent, replied: now_us() });
        }
    }
    Ok(asked)
}

/// The steps in a log, in order.
fn steps_of(log: &str) -> Vec<Step> {
    let step = |line: &str| {
        let (_, fields) = line.split_once(" timeline step=\"")?;
        let (name, rest) = fields.split_once('"')?;
        let at = rest.trim().strip_prefix("at_us=")?.parse().ok()?;
        Some(Step { at, name: name.to_owned() })
    };
    log.lines().filter_map(step).collect()
}

impl Lane {
    fn of(server: String, steps: &[Step], asked: &[Asked]) -> Self {
        let mut by_sequence: BTreeMap<Vec<&str>, Vec<Vec<u64>>> = BTreeMap::new();
        for (at, write) in asked.iter().enumerate() {
            // What follows the reply still belongs to this write, until the next one is sent.
            let end = asked.get(at + 1).map_or(write.replied, |next| next.sent);
            let from = steps.partition_point(|step| step.at < write.sent);
            let within = || steps[from..].iter().take_while(|step| step.at < end);
            let times = within().map(|step| step.at - write.sent).collect();
            by_sequence.entry(within().map(|step| step.name.as_str()).collect()).or_default().push(times);
        }
        let (names, times) = by_sequence.into_iter().max_by_key(|(_, times)| times.len()).unwrap_or_default();
        let at = |nth: usize| median(times.iter().map(|times| times[nth]));
        let steps =
            names.into_iter().enumerate().map(|(nth, name)| Step { at: at(nth), name: name.to_owned() }).collect();
        Self { server, steps, share_percent: 100 * times.len() / asked.len().max(1) }
    }
}

fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// A line for each step, a lane for the client and for each server.
fn drawn(lanes: &[Lane], asked: &[Asked]) -> String {
    let replied = median(asked.iter().map(|write| write.replied - write.sent));
    let mut rows = vec![(0, 0, "sends its request"), (replied, 0, "has the reply")];
    for (number, lane) in lanes.iter().enumerate() {
        rows.extend(lane.steps.iter().map(|step| (step.at, number + 1, step.name.as_str())));
    }
    rows.sort_by_key(|(at, _, _)| *at);
    let names: Vec<&str> = std::iter::once("client").chain(lanes.iter().map(|lane| lane.server.as_str())).collect();
    let mut text = format!("{:>7}", "µs");
    for name in &names {
        let _ = write!(text, "  {name:^LANE$}");
    }
    text += "\n";
    for (at, lane, name) in rows {
        let _ = write!(text, "{at:>7}");
        for other in 0..names.len() {
            let _ = write!(text, "  {:^LANE$}", if other == lane { "●" } else { "│" });
        }
        let _ = writeln!(text, "  {} {name}", names[lane]);
    }
    for Lane { server, share_percent, .. } in lanes {
        let _ = writeln!(text, "server {server}: {share_percent} % of the writes took these steps");
    }
    text
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

fn failed(why: pole_client::Error) -> Failure {
    Failure::Check(format!("a client failed: {why}"))
}

const SERVERS: usize = 3;
const PATH: &str = "/timeline";
const WARM_UP: u32 = 200;
/// The width of a lane.
const LANE: usize = 10;
const SESSION: Duration = Duration::from_secs(10);
const STOP_LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_steps_are_drawn_at_their_median_times() {
        let asked: Vec<Asked> = (0..5).map(|n| Asked { sent: 1_000 * n, replied: 1_000 * n + 400 }).collect();
        let mut log = String::from("2026-01-31T23:59:59.123Z INFO serving leader=1 epoch=3\n");
        for n in 0..5 {
            for (after, step) in [(10 + n, "reads from its client"), (450, "has sent to its client")] {
                let at = 1_000 * n + after;
                let _ = writeln!(log, "2026-01-31T23:59:59.123Z TRACE timeline step={step:?} at_us={at}");
            }
        }
        let _ = writeln!(log, "2026-01-31T23:59:59.123Z TRACE timeline step=\"gets Ack\" at_us=2600");
        let steps = steps_of(&log);
        assert_eq!(steps.len(), 11);
        let mut sorted = steps.clone();
        sorted.sort_by_key(|step| step.at);
        let lane = Lane::of("1 leader".to_owned(), &sorted, &asked);
        let expected = [(11, "reads from its client"), (450, "has sent to its client")];
        assert_eq!(lane.steps, expected.map(|(at, name)| Step { at, name: name.to_owned() }));
        // The third write has one step more, and the end of the last one is not known.
        assert_eq!(lane.share_percent, 60);
        let text = drawn(&[lane], &asked);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[1].ends_with("client sends its request") && lines[4].ends_with("1 leader has sent to its client"),
            "{text}"
        );
    }
}
