//! Programs with Curator's recipes, Apache's Java client and its C client, while servers are killed.
//!
//! The programs are in `compat/java` and `compat/c`, and check themselves. Each has two contending clients. When it
//! holds the relevant state it prints `@fault`; then the leader is killed with `kill -9`, another leader is awaited,
//! the killed server is started again, and the program receives `done`. A standalone server is stopped and started.
//! `@fault N` does the same for server N; `@pause` stops the leader with SIGSTOP until `@resume`. The program chooses the
//! time, because a fault at a random time rarely meets a held lock.
//!
//! Each program has fresh servers.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::options::Options;
use super::{Tally, c, java, message, servers, work_dir};
use crate::Failure;
use crate::ensemble::{Ensemble, Launcher, Product, READY_LIMIT, Setup};

pub(super) fn curator(_options: &Options, size: usize, launchers: &[Launcher]) -> Result<Tally, Failure> {
    java::compile()?;
    run_all(RECIPES, java::command, size, launchers)
}

/// Apache's Java client while every server is killed once.
pub(super) fn failover(_options: &Options, size: usize, launchers: &[Launcher]) -> Result<Tally, Failure> {
    java::compile()?;
    run_all(&["failover"], java::command, size, launchers)
}

/// Apache's C client: all operations, and where there is more than one server failover and changes of the members.
pub(super) fn in_c(_options: &Options, size: usize, launchers: &[Launcher]) -> Result<Tally, Failure> {
    c::compile()?;
    let programs: &[&str] = if size == 1 { &[c::OPERATIONS] } else { &[c::OPERATIONS, c::FAILOVER] };
    let mut tally = run_all(programs, c::command, size, launchers)?;
    if size > 1 {
        let lines = ["reconfigEnabled=true", servers::SUPERUSER].map(str::to_owned);
        tally.add(&run_with(&lines, &[c::RECONFIG], c::command, size, launchers)?);
    }
    Ok(tally)
}

/// The command that runs a program of this name on these servers.
pub(super) type Start = fn(&str, &str) -> Result<Command, Failure>;

fn run_all(programs: &[&str], command: Start, size: usize, launchers: &[Launcher]) -> Result<Tally, Failure> {
    run_with(&[], programs, command, size, launchers)
}

/// Runs programs on servers with these lines in their configuration.
pub(super) fn run_with(
    lines: &[String],
    programs: &[&str],
    command: Start,
    size: usize,
    launchers: &[Launcher],
) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    for program in programs {
        for launcher in launchers {
            let start = Instant::now();
            let result = run(program, command, lines, size, launcher).unwrap_or_else(|why| Err(message(why)));
            let result = result.and_then(|said| check_guarantees(launcher.product, said));
            let seconds = start.elapsed().as_secs_f64();
            let (product, said) = (launcher.product, result.as_ref().unwrap_or_else(|why| why));
            let verdict = if result.is_ok() { "ok" } else { "FAILED" };
            println!("{program} on {product}, servers: {size}: {verdict} in {seconds:.0} s: {said}");
            tally.add(&Tally::of(result.is_ok()));
        }
    }
    Ok(tally)
}

/// Pole guarantees more than Apache: a client whose own server is alive keeps its connection.
fn check_guarantees(product: Product, said: String) -> Result<String, String> {
    let needless = said.split(' ').find_map(|word| word.strip_prefix("needless="));
    match (product, needless) {
        (Product::Pole, Some(count)) if count != "0" => Err(format!("{said}: cut off from a server that lived")),
        _ => Ok(said),
    }
}

/// The last output of the program, or what went wrong.
fn run(
    program: &str,
    command: Start,
    lines: &[String],
    size: usize,
    launcher: &Launcher,
) -> Result<Result<String, String>, Failure> {
    let name = format!("compat-{program}-{}-{size}", launcher.product);
    let setup = lines.iter().fold(Setup::new(&name, size), |setup, line| setup.with(line));
    let mut ensemble = servers::with_addresses(launcher, &setup)?;
    let log = log_path(&name)?;
    let command = command(program, &ensemble.connect_string())?;
    let said = run_on(&mut ensemble, command, &log, PROGRAM_LIMIT)?;
    if said.is_ok() {
        ensemble.done()?;
    }
    Ok(said)
}

/// Runs a program on running servers and carries out the faults that it requests.
pub(super) fn run_on(
    ensemble: &mut Ensemble,
    command: Command,
    log: &Path,
    limit: Duration,
) -> Result<Result<String, String>, Failure> {
    let mut running = Running::start(command, log)?;
    let deadline = Instant::now() + limit;
    let mut paused = None;
    loop {
        match running.next_line(deadline) {
            Output::Line(line) => {
                if let Some(said) = line.strip_prefix("ok: ") {
                    return Ok(Ok(said.to_owned()));
                }
                if let Some(which) = line.strip_prefix("@fault") {
                    fault(ensemble, which.trim().parse().ok())?;
                } else if line == "@pause" {
                    let leader = ensemble.wait_ready(READY_LIMIT)?;
                    ensemble.server(leader).freeze()?;
                    paused = Some(leader);
                } else if line == "@resume" {
                    if let Some(server) = paused.take() {
                        ensemble.server(server).thaw()?;
                    }
                    ensemble.wait_ready(READY_LIMIT)?;
                } else {
                    continue;
                }
                running.send("done")?;
            }
            Output::Ended => return Ok(Err(format!("{}; full output: {}", failure_line(log), log.display()))),
            Output::Timeout => return Ok(Err(format!("no end after {limit:?}; see {}", log.display()))),
        }
    }
}

/// Kills the leader, or the server with this number, and restarts it when the others serve.
fn fault(ensemble: &mut Ensemble, number: Option<usize>) -> Result<(), Failure> {
    let server = match number {
        Some(number) => number - 1,
        None => ensemble.wait_ready(READY_LIMIT)?,
    };
    if ensemble.servers().len() == 1 {
        ensemble.server(server).terminate(STOP_LIMIT)?;
    } else {
        ensemble.server(server).kill()?;
        ensemble.server(server).reap()?;
        ensemble.wait_ready(READY_LIMIT)?;
    }
    ensemble.server(server).start()?;
    ensemble.wait_ready(READY_LIMIT).map(drop)
}

/// A program that runs.
pub(super) struct Running {
    process: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

pub(super) enum Output {
    Line(String),
    Ended,
    /// The deadline has passed.
    Timeout,
}

impl Running {
    pub(super) fn start(mut command: Command, log: &Path) -> Result<Self, Failure> {
        let mut log = File::create(log).map_err(|why| Failure::io("create", log, &why))?;
        let errors = log.try_clone().map_err(|why| Failure::Check(format!("cannot share a log: {why}")))?;
        let process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors).spawn();
        let mut process = process.map_err(|why| Failure::Check(format!("cannot start the program: {why}")))?;
        let stdin = process.stdin.take().expect("it was asked for");
        let stdout = process.stdout.take().expect("it was asked for");
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // The log is for people, so errors are ignored.
                let _ = writeln!(log, "{line}");
                let _ = sender.send(line);
            }
        });
        Ok(Self { process, stdin, lines })
    }

    pub(super) fn next_line(&mut self, deadline: Instant) -> Output {
        match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => Output::Line(line),
            Err(RecvTimeoutError::Disconnected) => Output::Ended,
            Err(RecvTimeoutError::Timeout) => Output::Timeout,
        }
    }

    pub(super) fn send(&mut self, answer: &str) -> Result<(), Failure> {
        // A program that has ended meanwhile reports it by its last line.
        match writeln!(self.stdin, "{answer}") {
            Err(why) if why.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(Failure::Check(format!("cannot answer the program: {why}")))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(super) fn log_path(name: &str) -> Result<PathBuf, Failure> {
    let folder = work_dir().join("programs");
    fs::create_dir_all(&folder).map_err(|why| Failure::io("create", &folder, &why))?;
    Ok(folder.join(format!("{name}.log")))
}

/// The message of the failed check, or the first line with an exception or error.
pub(super) fn failure_line(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let line = text.lines().find(|line| line.contains("this does not hold"));
    line.or_else(|| text.lines().find(|line| line.contains("Exception") || line.contains("Error")))
        .unwrap_or("it ended without a word")
        .to_owned()
}

const RECIPES: &[&str] = &["latch", "selector", "mutex", "read-write", "barrier", "counter", "cache"];

/// The longest takes half a minute on Apache, mostly until its leader is back.
const PROGRAM_LIMIT: Duration = Duration::from_secs(180);
/// A server that runs longer after SIGTERM hangs.
const STOP_LIMIT: Duration = Duration::from_secs(20);

#[test]
fn pole_must_not_cut_off_clients_of_survivors() {
    let said = |count: u32| format!("disconnected=3 needless={count} expired=0");
    assert!(check_guarantees(Product::Apache, said(2)).is_ok());
    assert!(check_guarantees(Product::Pole, said(0)).is_ok());
    assert!(check_guarantees(Product::Pole, said(1)).is_err());
    assert!(check_guarantees(Product::Pole, "60 times held".to_owned()).is_ok());
}
