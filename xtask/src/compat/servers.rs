//! Ensembles whose servers tell clients of each other.

use std::fs;

use crate::Failure;
use crate::ensemble::{Ensemble, Launcher, READY_LIMIT, Setup};

/// Starts servers whose lines `server.N` have the client's part, `;host:port`, and waits until they serve.
///
/// Then `/zookeeper/config` lists where clients can connect, and Curator goes by that list instead of its own.
pub(super) fn with_addresses(launcher: &Launcher, setup: &Setup) -> Result<Ensemble, Failure> {
    let mut ensemble = Ensemble::prepare(launcher, setup)?;
    for server in ensemble.servers() {
        let path = server.config_path();
        let text = fs::read_to_string(&path).map_err(|why| Failure::io("read", &path, &why))?;
        let text: String = text.lines().map(|line| with_address(line, &ensemble) + "\n").collect();
        fs::write(&path, text).map_err(|why| Failure::io("write", &path, &why))?;
    }
    for index in 0..setup.servers {
        ensemble.server(index).start()?;
    }
    ensemble.wait_ready(READY_LIMIT)?;
    Ok(ensemble)
}

fn with_address(line: &str, ensemble: &Ensemble) -> String {
    let server = ensemble.servers().iter().find(|server| line.starts_with(&format!("server.{}=", server.id())));
    server.map_or_else(|| line.to_owned(), |server| format!("{line}:participant;{}", server.address()))
}
