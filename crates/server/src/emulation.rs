//! The emulated lines follow their file: who edits it sees the ensemble react.
//!
//! In: the topology file of the configuration, whenever it changes. Out: new delays on the links to other servers.
//! Holds: a file that is wrong changes nothing, and is told with its line and its reason; sites and servers stay as they
//! were at the start, since the links and not the ensemble are emulated.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pole_election::ServerId;
use pole_topology::Topology;
use tokio::time::{MissedTickBehavior, interval};

use crate::config::Config;
use crate::log;
use crate::mailbox::Letter;
use crate::peer::Delays;
use crate::shared::Shared;

/// Watches the file for as long as the server lives; returns at once if nothing is emulated.
pub(crate) async fn follow(config: Option<(PathBuf, ServerId)>, shared: Arc<Shared>) {
    let Some((file, me)) = config else { return };
    let mut ticks = interval(LOOK_EVERY);
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
                shared.mailbox.post(Letter::Look(Box::new(move |driver| driver.set_delays(delays))));
                log::info("topology", &[("what", "the links are as the file says now")]);
            }
            Err(why) => log::warn("topology", &[("what", &why), ("links", "as before")]),
        }
    }
}

/// The file and the server, where lines are emulated.
pub(crate) fn of(config: &Config) -> Option<(PathBuf, ServerId)> {
    let emulation = config.pole.emulation.as_ref()?;
    Some((emulation.file.clone(), config.ensemble.as_ref()?.me))
}

/// When the file was last written, and how long it is.
fn stamp(file: &Path) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

fn read(file: &Path) -> Result<Topology, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Topology::parse(&text).map_err(|error| error.in_file(file.display().to_string()).to_string())
}

/// Soon enough for someone who watches, rarely enough to cost nothing.
const LOOK_EVERY: Duration = Duration::from_millis(250);
