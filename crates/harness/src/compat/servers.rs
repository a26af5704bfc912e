//! Ensembles whose configuration contains the client addresses of all servers.

use crate::Failure;
use crate::ensemble::{Ensemble, Launcher, Setup};

/// Starts servers whose lines `server.N` contain the client address, `;host:port`, and waits until they serve.
///
/// Then `/zookeeper/config` lists the client addresses, and Curator uses that list instead of its own.
pub(super) fn with_addresses(launcher: &Launcher, setup: &Setup) -> Result<Ensemble, Failure> {
    let mut ensemble = prepared(launcher, setup)?;
    ensemble.start_all()?;
    Ok(ensemble)
}

/// The same servers, not started.
pub(super) fn prepared(launcher: &Launcher, setup: &Setup) -> Result<Ensemble, Failure> {
    let ensemble = Ensemble::prepare(launcher, setup)?;
    ensemble.configure(|_, text| text.lines().map(|line| with_address(line, &ensemble) + "\n").collect())?;
    Ok(ensemble)
}

fn with_address(line: &str, ensemble: &Ensemble) -> String {
    let server = ensemble.servers().iter().find(|server| line.starts_with(&format!("server.{}=", server.id())));
    let role = if line.ends_with(":observer") { "" } else { ":participant" };
    server.map_or_else(|| line.to_owned(), |server| format!("{line}{role};{}", server.address()))
}

/// The line of `zoo.cfg` that adds a superuser with the password `test`.
pub(super) const SUPERUSER: &str = "DigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=";
