//! kazoo over TLS, on Pole: replies and events must not wait in a TLS record for the client's next ping.
//!
//! `compat/kazoo/tls.py` explains why, and checks itself. It runs once for each server.

use std::time::Duration;

use super::options::Options;
use super::python::Python;
use super::{Tally, work_dir};
use crate::Failure;
use crate::command::{logged, root};
use crate::ensemble::{Ensemble, Launcher, Product, Setup};
use crate::tls::Certificates;

/// Runs the program on every server of an ensemble.
pub(super) fn run(_options: &Options, size: usize, launchers: &[Launcher]) -> Result<Tally, Failure> {
    let python = Python::prepare()?;
    let mut tally = Tally::default();
    for launcher in launchers.iter().filter(|launcher| launcher.product == Product::Pole) {
        let mut ensemble = Ensemble::prepare(launcher, &Setup::new(&format!("compat-tls-{size}"), size))?;
        let certificates = Certificates::make(ensemble.folder())?;
        ensemble.configure(|server, text| text + &certificates.lines(server.ports().secure))?;
        ensemble.start_all()?;
        for server in ensemble.servers() {
            let mut command = python.command();
            command.arg(root().join("compat/kazoo/tls.py"));
            command.arg(format!("127.0.0.1:{}", server.ports().secure)).arg(certificates.authority());
            let log = work_dir().join(format!("kazoo/tls-{size}-{}.log", server.id()));
            let finished = logged(&mut command, &log, Some(LIMIT))?;
            let said = finished.output.lines().last().unwrap_or("it said nothing").to_owned();
            let passed = finished.passed() && said.starts_with("ok: ");
            let verdict = if passed { "ok" } else { "FAILED" };
            let said = said.trim_start_matches("ok: ");
            println!("kazoo over TLS at server {} of {size}: {verdict}: {said}", server.id());
            // Each server counts as a check.
            tally.add(&Tally::of(passed));
        }
        if tally.failed == 0 {
            ensemble.done()?;
        }
    }
    Ok(tally)
}

const LIMIT: Duration = Duration::from_secs(300);
