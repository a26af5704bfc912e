//! The tests of `zookeeper-client`, an independent client in Rust.
//!
//! They come from its published source package and run on Apache and on Pole, once without TLS and once with it. The
//! tests start servers in containers. The crate for that is replaced by one of ours with the same name
//! (`compat/rust/testcontainers`), which starts a process instead.
//!
//! Differences are evaluated by `suite`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::options::Options;
use super::recording::Recording;
use super::results::{self, Outcome, Results, TestResult};
use super::suite::{self, Suite};
use super::{Tally, java, words_before_config, work_dir};
use crate::Failure;
use crate::command::{killed_with_parent, logged, output_of, program, root};
use crate::ensemble::{Launcher, Product};

/// Fetches the source.
pub(super) fn prepare() -> Result<(), Failure> {
    source().map(drop)
}

/// Builds the tests, runs them on the selected products and compares.
pub(super) fn run(options: &Options, _size: usize, launchers: &[Launcher]) -> Result<Tally, Failure> {
    let tests = build(&source()?)?;
    let skips = listed("skips.txt")?;
    let beyond = listed("beyond.txt")?;
    let mut tally = Tally::default();
    for tls in [false, true] {
        let on = |launcher| Client { tests: &tests, skips: &skips, beyond: &beyond, launcher, tls };
        let suites: Vec<_> = launchers.iter().map(on).collect();
        let name = if tls { "apache-tls" } else { "apache" };
        let recording = Recording { path: ours().join(format!("{name}.txt")), only: Vec::new() };
        tally.add(&suite::compare(&suites, &recording, options.record)?);
    }
    Ok(tally)
}

/// The tests on one product.
struct Client<'a> {
    /// The test program.
    tests: &'a Path,
    skips: &'a [Listed],
    beyond: &'a [Listed],
    launcher: &'a Launcher,
    tls: bool,
}

/// A test that is treated differently, with the reason.
struct Listed {
    test: String,
    why: String,
}

impl Suite for Client<'_> {
    fn product(&self) -> Product {
        self.launcher.product
    }

    fn title(&self) -> String {
        format!("zookeeper-client on {}, {} TLS", self.launcher.product, if self.tls { "with" } else { "without" })
    }

    fn logs(&self) -> PathBuf {
        work_dir().join(format!("rust/{}{}", self.launcher.product, if self.tls { "-tls" } else { "" }))
    }

    fn run(&self) -> Result<Results, Failure> {
        // Remove the logs of the last run.
        let servers = self.logs().join("servers");
        if servers.exists() {
            fs::remove_dir_all(&servers).map_err(|why| Failure::io("remove", &servers, &why))?;
        }
        let skips = self.skips.iter().flat_map(|skip| ["--skip", &skip.test]);
        let mut results = self.run_some("all", &skips.collect::<Vec<_>>())?;
        let left_out =
            |skip: &Listed| (skip.test.clone(), TestResult { outcome: Outcome::Skipped, why: skip.why.clone() });
        results.extend(self.skips.iter().map(left_out));
        Ok(results)
    }

    fn is_beyond_apache(&self, test: &str) -> bool {
        self.beyond.iter().any(|listed| test == listed.test)
    }

    fn run_alone(&self, test: &str) -> Result<Outcome, Failure> {
        let results = self.run_some(&format!("again-{}", test.replace(':', "-")), &["--exact", test])?;
        Ok(results.get(test).map_or(Outcome::Failed, |ended| ended.outcome))
    }
}

impl Client<'_> {
    fn run_some(&self, name: &str, arguments: &[&str]) -> Result<Results, Failure> {
        let logs = self.logs();
        let mut command = killed_with_parent(&self.tests.to_string_lossy());
        command.args(["--test-threads", THREADS]).args(arguments);
        command
            .env("COMPAT_PRODUCT", self.launcher.product.to_string())
            .env("COMPAT_SERVER", server_command(self.launcher)?)
            .env("COMPAT_LOGS", logs.join("servers"))
            // Otherwise each test would choose these at random.
            .env("ZK_TEST_TLS", self.tls.to_string())
            .env("ZK_TLS_HOSTNAME_VERIFICATION", "true");
        let log = logs.join(format!("{name}.log"));
        let finished = logged(&mut command, &log, Some(LIMIT))?;
        let results = results::read_rust(&finished.output);
        if results.is_empty() {
            return Err(Failure::Check(format!("no test was run; full output: {}", log.display())));
        }
        Ok(results)
    }
}

/// The command that starts a server, one word per line, to which the configuration is appended.
fn server_command(launcher: &Launcher) -> Result<String, Failure> {
    let command = match launcher.product {
        Product::Pole => launcher.command(Path::new("")),
        // With the jars that TLS needs.
        Product::Apache => {
            let mut java = killed_with_parent("java");
            java.arg("-cp").arg(java::class_path(java::SERVER)?);
            java.args(["org.apache.zookeeper.server.quorum.QuorumPeerMain", ""]);
            java
        }
    };
    Ok(words_before_config(&command).join("\n"))
}

/// The published source, with our replacement crate as a dev-dependency.
fn source() -> Result<PathBuf, Failure> {
    let published = published()?;
    let folder = work_dir().join("rust").join(format!("{CRATE}-{VERSION}"));
    let stand_in = ours().join("testcontainers");
    let manifest = read(&published.join("Cargo.toml"))?;
    let manifest = format!("{manifest}\n[workspace]\n\n[dev-dependencies.testcontainers]\npath = {stand_in:?}\n");
    fs::create_dir_all(&folder).map_err(|why| Failure::io("create", &folder, &why))?;
    for name in ["src", "tests"] {
        output_of(
            program("cp").args(["-r", "--no-target-directory"]).arg(published.join(name)).arg(folder.join(name)),
        )?;
    }
    if read(&folder.join("Cargo.toml")).ok().as_ref() != Some(&manifest) {
        let path = folder.join("Cargo.toml");
        fs::write(&path, manifest).map_err(|why| Failure::io("write", &path, &why))?;
    }
    Ok(folder)
}

/// The folder in which cargo keeps the source, fetched if necessary.
fn published() -> Result<PathBuf, Failure> {
    let folder = work_dir().join("rust/fetch");
    let manifest = folder.join("Cargo.toml");
    let library = folder.join("src/lib.rs");
    fs::create_dir_all(folder.join("src")).map_err(|why| Failure::io("create", &folder, &why))?;
    let text = format!(
        "[package]\nname = \"fetch\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n{CRATE} = \"={VERSION}\"\n"
    );
    fs::write(&manifest, text).map_err(|why| Failure::io("write", &manifest, &why))?;
    fs::write(&library, "").map_err(|why| Failure::io("write", &library, &why))?;
    let mut cargo = program("cargo");
    cargo.args(["metadata", "--quiet", "--format-version", "1", "--manifest-path"]).arg(&manifest);
    let metadata: Metadata = parsed(&output_of(&mut cargo)?)?;
    let package = metadata.packages.into_iter().find(|package| package.name == CRATE);
    let manifest = package.ok_or_else(|| Failure::Check(format!("cargo fetched no {CRATE}")))?.manifest_path;
    Ok(manifest.parent().expect("a manifest lies in a folder").to_owned())
}

fn build(source: &Path) -> Result<PathBuf, Failure> {
    println!("building the tests of {CRATE} {VERSION}");
    let mut cargo = program("cargo");
    cargo.args([
        "test",
        "--quiet",
        "--no-run",
        "--features",
        "tls,sasl-digest-md5",
        "--test",
        "zookeeper",
        "--message-format",
        "json",
    ]);
    // Not in our target folder: the same crates with other features would be rebuilt in turns. Optimised for build
    // time.
    cargo.env("CARGO_TARGET_DIR", work_dir().join("rust/target")).env("CARGO_PROFILE_DEV_LTO", "off");
    let said = output_of(cargo.arg("--manifest-path").arg(source.join("Cargo.toml")))?;
    let mut built = said.lines().filter_map(|line| parsed::<Built>(line).ok()?.executable);
    built.next().ok_or_else(|| Failure::Check(format!("cargo built no tests of {CRATE}")))
}

/// The metadata of cargo, as far as needed.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
}

/// A message of cargo.
#[derive(Deserialize)]
struct Built {
    executable: Option<PathBuf>,
}

fn parsed<T: for<'a> Deserialize<'a>>(text: &str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|why| Failure::Check(format!("cargo said what we do not understand: {why}")))
}

/// One test per line, separated from its reason by a colon and a space.
fn listed(file: &str) -> Result<Vec<Listed>, Failure> {
    let text = read(&ours().join(file))?;
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once(": "));
    Ok(pairs.map(|(test, why)| Listed { test: test.to_owned(), why: why.to_owned() }).collect())
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|why| Failure::io("read", path, &why))
}

fn ours() -> PathBuf {
    root().join("compat/rust")
}

const CRATE: &str = "zookeeper-client";
const VERSION: &str = "0.11.2";
/// Most tests wait for time to pass; some have three servers.
const THREADS: &str = "3";
/// All tests take a minute; more means that a server hangs. Tests that were not reached count as failed.
const LIMIT: Duration = Duration::from_secs(900);
