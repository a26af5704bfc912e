//! kazoo: the tests of the Python client itself, from its source package.
//!
//! They were written independently of our server. Each test file is a job with servers of its own, which kazoo's
//! harness starts; our plugin (`compat/kazoo/pole_compat.py`) selects the server. Several jobs run at the same time.
//!
//! kazoo is installed by `python`, and differences are evaluated by `suite`.

mod ports;

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use super::options::Options;
use super::python::Python;
use super::recording::Recording;
use super::results::{self, Outcome, Results};
use super::suite::{self, Suite};
use super::{Tally, java, words_before_config, work_dir};
use crate::Failure;
use crate::command::{logged, root};
use crate::ensemble::{Launcher, Product};

/// Makes sure that there is a Python with kazoo.
pub(super) fn prepare() -> Result<(), Failure> {
    Python::prepare().map(drop)
}

/// Runs the tests on the selected products and compares.
pub(super) fn run(options: &Options, size: usize, launchers: &[Launcher]) -> Result<Tally, Failure> {
    let python = Python::prepare()?;
    let files = if options.ci { FOR_CI.iter().map(|&name| name.to_owned()).collect() } else { python.test_files()? };
    let recording = Recording {
        path: root().join(format!("compat/kazoo/apache-{size}.txt")),
        only: files.iter().map(|file| format!("{FOLDER}{file}::")).collect(),
    };
    let on = |launcher| Kazoo { python: &python, launcher, size, files: &files, jobs: options.jobs };
    let suites: Vec<_> = launchers.iter().map(on).collect();
    suite::compare(&suites, &recording, options.record)
}

/// The tests on one product.
struct Kazoo<'a> {
    python: &'a Python,
    launcher: &'a Launcher,
    size: usize,
    files: &'a [String],
    /// Files that run at the same time.
    jobs: usize,
}

impl Suite for Kazoo<'_> {
    fn product(&self) -> Product {
        self.launcher.product
    }

    fn title(&self) -> String {
        format!("kazoo on {}, servers: {}", self.launcher.product, self.size)
    }

    fn logs(&self) -> PathBuf {
        work_dir().join(format!("kazoo/{}-{}", self.launcher.product, self.size))
    }

    fn short<'a>(&self, test: &'a str) -> &'a str {
        test.trim_start_matches(FOLDER)
    }

    fn run(&self) -> Result<Results, Failure> {
        let waiting = Mutex::new(self.files.iter().collect::<VecDeque<_>>());
        let next = || waiting.lock().expect("no job panics").pop_front();
        let worker = || {
            let mut results = Results::new();
            while let Some(file) = next() {
                results.extend(self.run_one(file, file)?);
            }
            Ok(results)
        };
        let parts: Vec<Result<Results, Failure>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.jobs).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().map(|worker| worker.join().expect("no job panics")).collect()
        });
        let mut all = Results::new();
        for part in parts {
            all.extend(part?);
        }
        Ok(all)
    }

    fn run_alone(&self, test: &str) -> Result<Outcome, Failure> {
        let tests = self.short(test);
        let name = format!("again-{}", tests.replace(['/', ':'], "-"));
        let results = self.run_one(&name, tests)?;
        Ok(results.get(test).map_or(Outcome::Failed, |ended| ended.outcome))
    }
}

impl Kazoo<'_> {
    /// Runs pytest once, with servers of its own. `tests` is a file or one test in it.
    fn run_one(&self, name: &str, tests: &str) -> Result<Results, Failure> {
        let folder = self.logs();
        fs::create_dir_all(&folder).map_err(|why| Failure::io("create", &folder, &why))?;
        let results = folder.join(format!("{name}.jsonl"));
        fs::write(&results, "").map_err(|why| Failure::io("write", &results, &why))?;
        let ours = root().join("compat/kazoo");
        let mut command = self.python.pytest();
        command
            .args(["-p", "pole_compat", "-q", "--color=no", "-W", "ignore", "--timeout"])
            .arg(TEST_LIMIT.as_secs().to_string())
            .arg(format!("{FOLDER}{tests}"))
            .env("PYTHONPATH", &ours)
            .env("COMPAT_SKIPS", ours.join("skips.txt"))
            .env("COMPAT_RESULTS", &results)
            .env("COMPAT_SERVER_LOG", folder.join(format!("{name}.servers.log")))
            .env("ZOOKEEPER_VERSION", "3.8.0")
            .env("ZOOKEEPER_CLUSTER_SIZE", self.size.to_string())
            .env("ZOOKEEPER_PORT_OFFSET", ports::block(PORTS)?.to_string())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            // The tests then ask the server for its version, as they do everywhere except on kazoo's own CI.
            .env_remove("CI");
        match self.launcher.product {
            // kazoo's harness knows how to start Apache, and configures some things through Java properties only.
            Product::Apache => command.env("ZOOKEEPER_CLASSPATH", java::class_path(java::SERVER)?),
            // The harness requires a class path anyway.
            Product::Pole => {
                command.env("COMPAT_SERVER", server_command(self.launcher)).env("ZOOKEEPER_CLASSPATH", "none")
            }
        };
        logged(&mut command, &folder.join(format!("{name}.log")), Some(FILE_LIMIT))?;
        let text = fs::read_to_string(&results).map_err(|why| Failure::io("read", &results, &why))?;
        results::read_json(&text)
    }
}

/// The command that starts a server, in the plugin's format: a list in JSON, to which the configuration is appended.
fn server_command(launcher: &Launcher) -> String {
    let words = words_before_config(&launcher.command(Path::new("")));
    serde_json::to_string(&words).expect("words are JSON")
}

/// The files for CI: every operation, watches, lost and resumed sessions, and the quick recipes. Without tests that
/// stop servers, which take the longest.
const FOR_CI: &[&str] = &[
    "test_client.py",
    "test_watchers.py",
    "test_lock.py",
    "test_cache.py",
    "test_counter.py",
    "test_election.py",
    "test_queue.py",
    "test_security.py",
    "test_sasl.py",
];

/// The prefix of the names of its tests.
const FOLDER: &str = "kazoo/tests/";
/// kazoo's longest test takes 20 s; more means that a server hangs.
const TEST_LIMIT: Duration = Duration::from_secs(120);
/// The limit for a file whose tests all hang.
const FILE_LIMIT: Duration = Duration::from_secs(1800);
/// kazoo's harness uses ten ports for each of three servers, from a first one that we choose.
const PORTS: u16 = 30;
