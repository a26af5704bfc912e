//! kazoo: the tests of the Python client itself, as its source package has them.
//!
//! In: a product, the number of servers, test files. Out: how each test ended, and the comparison of two products.
//! Why its own tests: they were written by people who never saw our server.
//! How: each test file is a job of its own, with servers of its own that kazoo's harness starts; a plugin of ours
//! (`compat/kazoo/pole_compat.py`) chooses the server. Some jobs run at the same time.
//! Holds: a test that passes on Apache and not on Pole is run twice more, alone, on both, before it counts.
//! Not here: where kazoo comes from (`python`).

mod ports;
mod recording;
mod results;

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::options::Options;
use super::python::Python;
use super::{Tally, java, work_dir};
use crate::Failure;
use crate::command::{logged, root};
use crate::ensemble::{Launcher, Product};
use results::{Comparison, Ended, Outcome, Results};

/// Makes sure that there is a Python with kazoo.
pub(super) fn prepare() -> Result<(), Failure> {
    Python::prepare().map(drop)
}

/// Runs the tests on what the options say and compares.
pub(super) fn run(options: &Options, size: usize, launchers: &[Launcher]) -> Result<Tally, Failure> {
    let python = Python::prepare()?;
    let files = if options.ci { FOR_CI.iter().map(|&name| name.to_owned()).collect() } else { python.test_files()? };
    let mut apache = None;
    let mut pole = None;
    for launcher in launchers {
        let suite = Suite { python: &python, launcher, size };
        let start = Instant::now();
        let mut results = suite.run(&files, options.jobs)?;
        println!("{}", suite.line(&results, start.elapsed()));
        if launcher.product == Product::Apache {
            suite.look_again(&mut results)?;
        }
        match launcher.product {
            Product::Apache => apache = Some((suite, results)),
            Product::Pole => pole = Some((suite, results)),
        }
    }
    if let Some((_, results)) = &apache
        && options.record
    {
        recording::write(size, results)?;
    }
    let Some((on_pole, pole)) = pole else { return Ok(tally_of(&apache.expect("something was chosen").1)) };
    let recorded = if apache.is_none() { Some(recording::read(size, &files)?) } else { None };
    let expected = apache.as_ref().map_or_else(|| recorded.as_ref().expect("no Apache"), |(_, results)| results);
    judge(&results::compare(expected, &pole), &pole, apache.as_ref().map(|(suite, _)| suite), &on_pole)
}

/// The tests on one product.
struct Suite<'a> {
    python: &'a Python,
    launcher: &'a Launcher,
    size: usize,
}

impl Suite<'_> {
    /// All tests of these files, some files at a time.
    fn run(&self, files: &[String], jobs: usize) -> Result<Results, Failure> {
        let waiting = Mutex::new(files.iter().collect::<VecDeque<_>>());
        let next = || waiting.lock().expect("no job panics").pop_front();
        let worker = || {
            let mut results = Results::new();
            while let Some(file) = next() {
                results.extend(self.run_one(file, file)?);
            }
            Ok(results)
        };
        let parts: Vec<Result<Results, Failure>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().map(|worker| worker.join().expect("no job panics")).collect()
        });
        let mut all = Results::new();
        for part in parts {
            all.extend(part?);
        }
        Ok(all)
    }

    /// One pytest, with servers of its own. `tests` is a file or one test in it.
    fn run_one(&self, name: &str, tests: &str) -> Result<Results, Failure> {
        let folder = self.folder();
        fs::create_dir_all(&folder).map_err(|why| Failure::io("create", &folder, &why))?;
        let results = folder.join(format!("{name}.jsonl"));
        fs::write(&results, "").map_err(|why| Failure::io("write", &results, &why))?;
        let ours = root().join("compat/kazoo");
        let mut command = self.python.pytest();
        command
            .args(["-p", "pole_compat", "-q", "--color=no", "-W", "ignore", "--timeout"])
            .arg(TEST_LIMIT.as_secs().to_string())
            .arg(format!("kazoo/tests/{tests}"))
            .env("PYTHONPATH", &ours)
            .env("COMPAT_SKIPS", ours.join("skips.txt"))
            .env("COMPAT_RESULTS", &results)
            .env("COMPAT_SERVER_LOG", folder.join(format!("{name}.servers.log")))
            .env("ZOOKEEPER_VERSION", "3.8.0")
            .env("ZOOKEEPER_CLUSTER_SIZE", self.size.to_string())
            .env("ZOOKEEPER_PORT_OFFSET", ports::block(PORTS)?.to_string())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            // The tests then ask the server for its version, as they do everywhere but on kazoo's own CI.
            .env_remove("CI");
        match self.launcher.product {
            // kazoo's harness knows how to start Apache, and says some things by Java properties alone.
            Product::Apache => command.env("ZOOKEEPER_CLASSPATH", java::class_path(java::SERVER)?),
            // It asks for a class path all the same.
            Product::Pole => command.env("COMPAT_SERVER", words_of(self.launcher)).env("ZOOKEEPER_CLASSPATH", "none"),
        };
        logged(&mut command, &folder.join(format!("{name}.log")), Some(FILE_LIMIT))?;
        let text = fs::read_to_string(&results).map_err(|why| Failure::io("read", &results, &why))?;
        results::read(&text)
    }

    /// What failed on Apache in company and passes alone counts as passed: Pole should not get away with it.
    fn look_again(&self, results: &mut Results) -> Result<(), Failure> {
        for (test, ended) in results.iter_mut().filter(|(_, ended)| ended.outcome == Outcome::Failed) {
            if self.again(test)?.iter().all(|outcome| *outcome == Outcome::Passed) {
                println!("    flaky on Apache: {} {}", short(test), ended.why);
                ended.outcome = Outcome::Passed;
            }
        }
        Ok(())
    }

    /// How one test ends when it is run again, alone.
    fn again(&self, test: &str) -> Result<Vec<Outcome>, Failure> {
        let tests = short(test);
        let name = format!("again-{}", tests.replace(['/', ':'], "-"));
        let tries = (0..TRIES_AGAIN).map(|_| {
            let results = self.run_one(&name, tests)?;
            Ok(results.get(test).map_or(Outcome::Failed, |ended| ended.outcome))
        });
        tries.collect()
    }

    fn folder(&self) -> PathBuf {
        work_dir().join(format!("kazoo/{}-{}", self.launcher.product, self.size))
    }

    fn line(&self, results: &Results, took: Duration) -> String {
        let count = |outcome| results.values().filter(|ended| ended.outcome == outcome).count();
        let (passed, failed, skipped) = (count(Outcome::Passed), count(Outcome::Failed), count(Outcome::Skipped));
        let (product, size, logs) = (self.launcher.product, self.size, self.folder());
        let seconds = took.as_secs_f64();
        format!(
            "kazoo on {product}, servers: {size}: {passed} passed, {failed} failed, {skipped} skipped in {seconds:.0} s; \
             logs: {}",
            logs.display()
        )
    }
}

/// The command that starts a server, as the plugin takes it: a list in JSON, to which the configuration is added.
fn words_of(launcher: &Launcher) -> String {
    let command = launcher.command(Path::new(""));
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let mut words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.pop();
    serde_json::to_string(&words).expect("words are JSON")
}

/// Prints the lists and looks again at what differs.
fn judge(sorted: &Comparison, pole: &Results, apache: Option<&Suite>, on_pole: &Suite) -> Result<Tally, Failure> {
    let mut lost = Vec::new();
    let mut flaky = Vec::new();
    let no_accident = sorted.pass_on_apache_only.len() > AGAIN_MAX;
    for test in &sorted.pass_on_apache_only {
        if no_accident {
            lost.push(test.clone());
            continue;
        }
        let again_on_apache = apache.map_or(Ok(Vec::new()), |suite| suite.again(test))?;
        let again_on_pole = on_pole.again(test)?;
        let list = if results::is_lost(&again_on_apache, &again_on_pole) { &mut lost } else { &mut flaky };
        list.push(test.clone());
    }
    let why = |test: &String| pole.get(test).map_or("its run was cut off", |ended: &Ended| &ended.why).to_owned();
    print_list("passes on Apache only", &lost, why);
    print_list("flaky: differs once, not again, or fails on Apache too when run alone", &flaky, why);
    print_list("fails on both", &sorted.fail_on_both, why);
    print_list("passes on Pole only", &sorted.pass_on_pole_only, |_| String::new());
    print_list("skipped", &sorted.skipped, why);
    println!("  passes on both: {}", sorted.pass_on_both.len());
    Ok(Tally { passed: sorted.pass_on_both.len() + flaky.len(), failed: lost.len(), not_run: sorted.skipped.len() })
}

fn print_list(title: &str, tests: &[String], why: impl Fn(&String) -> String) {
    if !tests.is_empty() {
        println!("  {title}: {}", tests.len());
    }
    for test in tests {
        println!("    {} {}", short(test), why(test));
    }
}

fn short(test: &str) -> &str {
    test.trim_start_matches("kazoo/tests/")
}

/// Of Apache alone: nothing can be lost, but what fails is shown.
fn tally_of(results: &Results) -> Tally {
    let of = |outcome| results.iter().filter(move |(_, ended)| ended.outcome == outcome);
    for (test, ended) in of(Outcome::Failed).chain(of(Outcome::Skipped)) {
        println!("    {:?} {} {}", ended.outcome, short(test), ended.why);
    }
    Tally { passed: of(Outcome::Passed).count(), failed: 0, not_run: of(Outcome::Skipped).count() }
}

/// The files for the test command: every operation, watches, sessions that are lost and resumed, and the recipes that
/// are quick. Without servers that are stopped on purpose, which takes the longest.
const FOR_CI: &[&str] = &[
    "test_client.py",
    "test_watchers.py",
    "test_lock.py",
    "test_cache.py",
    "test_counter.py",
    "test_election.py",
    "test_queue.py",
    "test_security.py",
];

/// A test that differs is run so often again, alone.
const TRIES_AGAIN: usize = 2;
/// So many tests at once are no accident, and to run them all again would take longer than the whole.
const AGAIN_MAX: usize = 15;
/// kazoo's longest test takes 20 s; more means that a server hangs.
const TEST_LIMIT: Duration = Duration::from_secs(120);
/// A file of tests that all hang is given up.
const FILE_LIMIT: Duration = Duration::from_secs(1800);
/// kazoo's harness uses ten ports for each of three servers, from a first one that we choose.
const PORTS: u16 = 30;
