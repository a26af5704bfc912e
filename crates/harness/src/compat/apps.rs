//! Applications that use ZooKeeper, unmodified, each doing its work while servers are killed.
//!
//! Each application is a file here, and a program in `compat/apps/NAME` that starts it, gives it work, requests faults
//! and checks the result. The program is written in Python and runs in an environment with the packages of its
//! `requirements.txt`. It ends with the line `ok: ` and its figures, or fails. Both products get the same program, so a
//! figure may differ between them; what Pole guarantees is in [`App::on_pole`].
//!
//! A program runs in a process namespace of its own (`unshare`), so that nothing it started outlives it.
//!
//! Nothing of an application is in this repository. `tools` downloads and unpacks packages.

mod chdb;
mod clickhouse;
mod flink;
mod kafka;
mod patroni;
mod prometheus;
mod spark;
mod tools;
mod tooz;
mod zuul;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use super::options::Options;
use super::{Tally, message, programs, servers};
use crate::Failure;
use crate::command::{is_installed, output_of, program, root};
use crate::ensemble::{Ensemble, Launcher, Product, Setup};

/// An application.
pub(super) struct App {
    pub(super) name: &'static str,
    /// Finds or installs what it needs.
    prepare: fn() -> Result<(), Failure>,
    /// Completes the command of its program, which has no arguments yet.
    command: fn(&mut Command, &Ensemble) -> Result<(), Failure>,
    /// Completes the configuration of the servers.
    configure: fn(&Ensemble, Product) -> Result<(), Failure>,
    /// The number of observers beside the servers that vote. They never lead, so their clients keep their server when a
    /// leader is killed.
    observers: usize,
    /// Figures that must have this value on Pole, as `name=value`.
    on_pole: &'static [&'static str],
    limit: Duration,
}

/// All applications.
pub(super) const APPS: &[App] = &[
    patroni::APP,
    kafka::APP,
    spark::APP,
    zuul::APP,
    tooz::APP,
    chdb::APP,
    clickhouse::APP,
    prometheus::APP,
    flink::APP,
];

/// Checks that programs can run in a process namespace.
pub(super) fn prepare() -> Result<(), Failure> {
    if !is_installed("unshare") || !is_installed("setpriv") {
        return Err(Failure::Check("there is no `unshare` or no `setpriv`: install Debian's util-linux".to_owned()));
    }
    output_of(contained("true")?.arg("--")).map(drop)
}

pub(super) fn run(options: &Options, size: usize, launchers: &[Launcher]) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    let selected = |app: &&App| options.apps.is_empty() || options.apps.iter().any(|name| name == app.name);
    for app in APPS.iter().filter(selected) {
        if let Err(why) = (app.prepare)() {
            println!("{} could not be run: {}", app.name, message(why));
            tally.not_run += launchers.len();
            continue;
        }
        for launcher in launchers {
            let start = Instant::now();
            let result = app.run(size, launcher).unwrap_or_else(|why| Err(message(why)));
            let result = result.and_then(|said| app.check(launcher.product, said));
            let (seconds, product) = (start.elapsed().as_secs_f64(), launcher.product);
            let verdict = if result.is_ok() { "ok" } else { "FAILED" };
            let said = result.as_ref().unwrap_or_else(|why| why);
            println!("{} on {product}, servers: {size}: {verdict} in {seconds:.0} s: {said}", app.name);
            tally.add(&Tally::of(result.is_ok()));
        }
    }
    Ok(tally)
}

impl App {
    /// Runs the program on new servers. Returns its figures, or what went wrong.
    fn run(&self, size: usize, launcher: &Launcher) -> Result<Result<String, String>, Failure> {
        let name = format!("compat-app-{}-{}-{size}", self.name, launcher.product);
        let setup = Setup { observers: self.observers, ..Setup::new(&name, size + self.observers) };
        let mut ensemble = servers::prepared(launcher, &setup)?;
        (self.configure)(&ensemble, launcher.product)?;
        ensemble.start_all()?;
        let folder = tools::folder(self.name).join(launcher.product.to_string());
        tools::empty(&folder)?;
        let mut command = contained(&tools::python(self.name).to_string_lossy())?;
        command.arg(ours(self.name).join("main.py"));
        command
            .env("PYTHONPATH", root().join("compat/apps"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PYTHONUNBUFFERED", "1")
            .env("APP_SERVERS", ensemble.connect_string())
            .env("APP_FOLDER", &folder);
        (self.command)(&mut command, &ensemble)?;
        let log = folder.join("log");
        let said = programs::run_on(&mut ensemble, command, &log, self.limit)?;
        if said.is_ok() {
            ensemble.done()?;
        }
        Ok(said)
    }

    /// Checks the figures that Pole guarantees.
    fn check(&self, product: Product, said: String) -> Result<String, String> {
        let missing = self.on_pole.iter().find(|&&figure| !said.split(' ').any(|word| word == figure));
        match (product, missing) {
            (Product::Pole, Some(figure)) => Err(format!("{said}: Pole guarantees {figure}")),
            _ => Ok(said),
        }
    }
}

/// A program whose descendants all end with it, and with our thread.
fn contained(name: &str) -> Result<Command, Failure> {
    let mut command = program("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "unshare", "--fork", "--pid", "--kill-child", "--mount-proc"]);
    if output_of(program("id").arg("-u"))? != "0" {
        command.args(["--user", "--map-current-user"]);
    }
    command.args(["--", name]);
    Ok(command)
}

/// The folder with the program of an application.
fn ours(name: &str) -> PathBuf {
    root().join("compat/apps").join(name)
}

/// The configuration as generated.
fn unchanged(_ensemble: &Ensemble, _product: Product) -> Result<(), Failure> {
    Ok(())
}

/// A program that needs no arguments.
fn no_arguments(_command: &mut Command, _ensemble: &Ensemble) -> Result<(), Failure> {
    Ok(())
}
