//! Reloads the emulated delays between servers when their topology file changes, so that an experiment can be changed
//! while it runs.
//!
//! A valid file replaces the delays on the links to other servers. An invalid file changes nothing and is logged with
//! its line and reason. Sites and servers stay as they were at the start, since only the links are emulated, not the
//! ensemble.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::topology::Topology;
use pole_types::ServerId;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

use crate::config::Config;
use crate::log::target::PEER;
use crate::mailbox::Command;
use crate::peer::Delays;
use crate::shared::Shared;

/// Polls the file as long as the server runs; returns at once if nothing is emulated.
pub(crate) async fn watch(config: Option<(PathBuf, ServerId)>, shared: Arc<Shared>) {
    let Some((file, me)) = config else { return };
    let mut ticks = interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen = stamp(&file);
    loop {
        ticks.tick().await;
        let now = stamp(&file);
        if now == seen || now.is_none() {
            continue;
        }
        seen = now;
        match read(&file) {
            Ok(topology) => {
                let delays = Delays::of(&topology, me, me.0);
                shared.mailbox.post(Command::SetDelays(delays));
                info!(target: PEER, what = "the links are as the file says now", "topology");
            }
            Err(reason) => warn!(target: PEER, what = reason, links = "as before", "topology"),
        }
    }
}

/// The topology file and the id of this server; `None` if nothing is emulated.
pub(crate) fn watched_file(config: &Config) -> Option<(PathBuf, ServerId)> {
    let emulation = config.pole.emulation.as_ref()?;
    Some((emulation.file.clone(), config.ensemble.as_ref()?.me))
}

/// Modification time and length of the file.
fn stamp(file: &Path) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

fn read(file: &Path) -> Result<Topology, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Topology::parse(&text).map_err(|error| error.in_file(file.display().to_string()).to_string())
}

/// Short enough for an interactive experiment, at negligible cost.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
