//! Runs many seeds and reports which of them failed, or runs one seed with its trace.
//!
//! Exit code: 0 all passed, 1 a seed failed, 2 bad arguments.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use pole_progress::Bar;
use pole_sim::{Mark, Marks, Report, SECOND, Setup, Sink};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match Options::parse(&arguments) {
        Ok(options) => run(&options),
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

#[derive(Debug)]
struct Options {
    first: u64,
    seeds: u64,
    servers: usize,
    virtual_s: u64,
    tree: bool,
    trace: bool,
    stop: bool,
    threads: usize,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut options =
            Self { first: 1, seeds: 100, servers: 5, virtual_s: 60, tree: false, trace: false, stop: false, threads };
        let mut rest = arguments.iter();
        while let Some(flag) = rest.next() {
            let mut number = || -> Result<u64, String> {
                let text = rest.next().ok_or_else(|| format!("{flag} needs a number"))?;
                text.parse().map_err(|_| format!("{flag} needs a number, not \"{text}\""))
            };
            match flag.as_str() {
                "--seeds" => options.seeds = number()?,
                "--first" => options.first = number()?,
                "--seed" => (options.first, options.seeds) = (number()?, 1),
                "--servers" => options.servers = number()? as usize,
                "--virtual-s" => options.virtual_s = number()?,
                "--threads" => options.threads = number()?.max(1) as usize,
                "--tree" => options.tree = true,
                "--trace" => options.trace = true,
                "--stop-at-first-failure" => options.stop = true,
                _ => return Err(format!("unknown argument \"{flag}\"")),
            }
        }
        if options.servers < 3 || options.servers > 255 {
            return Err(format!("--servers must be from 3 to 255, not {}", options.servers));
        }
        if options.trace && options.seeds != 1 {
            return Err("--trace goes with --seed S".to_owned());
        }
        Ok(options)
    }

    /// The command that replays a seed.
    fn replay(&self, seed: u64) -> String {
        let mut line = format!("cargo xtask sim --seed {seed} --trace");
        if self.tree {
            line.push_str(" --tree");
        }
        if self.servers != 5 {
            line.push_str(&format!(" --servers {}", self.servers));
        }
        if self.virtual_s != 60 {
            line.push_str(&format!(" --virtual-s {}", self.virtual_s));
        }
        line
    }
}

fn run(options: &Options) -> ExitCode {
    let start = Instant::now();
    let reports = run_all(options);
    let failed = reports.iter().filter(|report| report.failure.is_some()).count();
    if !options.trace {
        summarise(&reports, start.elapsed().as_secs_f64());
    }
    println!("{} passed, {failed} failed", reports.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs all seeds on a pool of threads; each simulation runs on one thread.
fn run_all(options: &Options) -> Vec<Report> {
    let next = AtomicU64::new(options.first);
    let end = options.first + options.seeds;
    let stop = AtomicBool::new(false);
    let (reports, bar) = (Mutex::new(Vec::new()), Bar::new("seeds"));
    std::panic::set_hook(Box::new(|_| {}));
    std::thread::scope(|scope| {
        for _ in 0..options.threads.min(options.seeds.max(1) as usize) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let report = run_seed(options, seed);
                    if let Some(failure) = &report.failure {
                        bar.suspend(|| println!("seed {seed} failed: {failure}\n    {}", options.replay(seed)));
                        stop.fetch_or(options.stop, Ordering::Relaxed);
                    }
                    let mut reports = reports.lock().expect("no thread panics while it holds this");
                    reports.push(report);
                    bar.update(reports.len(), usize::try_from(options.seeds).unwrap_or(usize::MAX), "");
                }
            });
        }
    });
    let mut reports = reports.into_inner().expect("all threads are done");
    reports.sort_by_key(|report| report.seed);
    reports
}

/// Runs one seed. A panic counts as its failure.
fn run_seed(options: &Options, seed: u64) -> Report {
    let (servers, length, trace, tree) = (options.servers, options.virtual_s * SECOND, options.trace, options.tree);
    let run = move || {
        let mut setup = Setup::random(seed, servers, length);
        setup.tree = tree;
        let mut sink: Option<Sink> = None;
        if trace {
            println!("{setup:?}");
            let mut out = std::io::BufWriter::new(std::io::stdout());
            sink = Some(Box::new(move |line| {
                // The reader may have closed our output; that is not an error.
                let _ = writeln!(out, "{line}");
            }));
        }
        pole_sim::run(setup, sink)
    };
    std::panic::catch_unwind(run).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
        Report { seed, failure: Some(format!("panicked: {text}")), ..Report::default() }
    })
}

type Figure = fn(&Report) -> u64;

fn summarise(reports: &[Report], seconds: f64) {
    let virtual_s: f64 = reports.iter().map(|r| r.virtual_ns as f64 / 1e9).sum();
    println!("{:.1} seeds/s, {:.0} virtual s/s, {:.1} s", reports.len() as f64 / seconds, virtual_s / seconds, seconds);
    let rows: [(&str, Figure); 10] = [
        ("faults", |r| r.faults),
        ("elections", |r| r.elections),
        ("acknowledged writes", |r| r.writes),
        ("committed", |r| r.committed),
        ("steps", |r| r.steps),
        ("healed after, ms", |r| r.recovered_after / 1_000_000),
        ("unexcused client errors", |r| r.unexcused),
        ("events of watches", |r| r.events),
        ("sessions expired", |r| r.expired),
        ("answers held back", |r| r.held),
    ];
    for (name, value) in rows {
        let mut values: Vec<_> = reports.iter().map(value).collect();
        let most = reports.iter().max_by_key(|r| value(r)).map_or(0, |r| r.seed);
        values.sort_unstable();
        let at = |percent: usize| values.get(values.len().saturating_sub(1) * percent / 100).copied().unwrap_or(0);
        println!(
            "{name:<24} median {:>7}  p1 {:>6}  p99 {:>7}  max {:>7} (seed {most})  total {}",
            at(50),
            at(1),
            at(99),
            at(100),
            values.iter().sum::<u64>()
        );
    }
    let mut closed = BTreeMap::<&str, u64>::new();
    let mut unexcused = BTreeMap::<&str, u64>::new();
    let mut marks = Marks::new();
    for report in reports {
        report.closed.iter().for_each(|(reason, count)| *closed.entry(reason).or_default() += count);
        report.unexcused_by.iter().for_each(|(reason, count)| *unexcused.entry(reason).or_default() += count);
        marks.add(&report.marks);
    }
    println!("client connections lost, by reason:");
    closed.iter().for_each(|(reason, count)| println!("  {count:>7}  {reason}"));
    println!("of these without an excuse:");
    unexcused.iter().for_each(|(reason, count)| println!("  {count:>7}  {reason}"));
    let met = Mark::ALL.iter().filter(|mark| marks.count(**mark) > 0).count();
    println!("rare branches {met}/{}:", Mark::ALL.len());
    Mark::ALL.iter().for_each(|mark| println!("  {:>7}  {mark}", marks.count(*mark)));
}

const USAGE: &str =
    "usage: sim --seeds N [--first S] [--tree] [--servers N] [--virtual-s 60] [--threads N] [--stop-at-first-failure]
       sim --seed S [--tree] [--trace]";
