//! `pole migrate follow`: copies a running ensemble, with a line of progress every second.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pole_migrate::{Control, Progress};

use super::args::FollowArgs;
use super::ensemble::{Source, failed};
use super::hex;
use crate::check::counted;
use crate::failure::Failure;
use crate::signals::Signals;
use crate::{print, print_error};

pub(crate) fn run(args: &FollowArgs, json: bool) -> Result<(), Failure> {
    let source = Source::load(args)?;
    let mut replica = source.open()?;
    let stop = stop_on_signal()?;
    let mut lines = Lines::new(json);
    let followed = source.follow.run(&mut replica, &mut |progress| {
        lines.show(progress);
        let level = args.until_level && is_level(progress);
        if stop.load(Ordering::Relaxed) || level { Control::Stop } else { Control::Continue }
    });
    followed.map_err(|error| failed(&error))?;
    let (nodes, sessions) = (replica.tree().node_count(), replica.tree().session_count());
    let last = replica.close().map_err(|error| Failure::failed(error.to_string()))?;
    if json {
        return Ok(());
    }
    print(&format!(
        "The copy ends at {}: {}, {}. Go on with `pole migrate follow`, or end with `pole migrate take-over`.\n",
        hex(last),
        counted(nodes, "znode"),
        counted(sessions, "session"),
    ))
}

/// Set by SIGTERM or SIGINT.
pub(super) fn stop_on_signal() -> Result<Arc<AtomicBool>, Failure> {
    let signals = Signals::catch().map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))?;
    let stop = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&stop);
    signals.on_each(move || {
        set.store(true, Ordering::Relaxed);
        true
    });
    Ok(stop)
}

/// Whether the copy has everything that the leader has proposed, as far as is known.
pub(super) fn is_level(progress: &Progress) -> bool {
    progress.up_to_date && progress.proposed.is_some_and(|proposed| behind(progress, proposed) == Some(0))
}

/// How many transactions the leader is ahead; `None` if it is of another epoch, which the copy has yet to adopt.
fn behind(progress: &Progress, proposed: pole_types::Zxid) -> Option<u32> {
    let counter = if progress.last.epoch() == proposed.epoch() { progress.last.counter() } else { 0 };
    (progress.epoch == proposed.epoch()).then(|| proposed.counter().saturating_sub(counter))
}

/// The progress, a line a second.
pub(super) struct Lines {
    json: bool,
    next: Instant,
    failure: Option<String>,
}

impl Lines {
    pub(super) fn new(json: bool) -> Self {
        Self { json, next: Instant::now() + EVERY, failure: None }
    }

    pub(super) fn show(&mut self, progress: &Progress) {
        if progress.failure != self.failure {
            self.failure.clone_from(&progress.failure);
            if let Some(failure) = &self.failure {
                print_error(&format!("pole: {failure}; tries again\n"));
            }
        }
        let now = Instant::now();
        if now < self.next {
            return;
        }
        self.next = now + EVERY;
        if !self.json {
            // Nobody reads it if standard output is closed; the copy goes on.
            let _ = print(&line(progress));
        }
    }
}

fn line(progress: &Progress) -> String {
    let leader = match (progress.leader, progress.up_to_date) {
        (None, _) => "no leader found".to_owned(),
        (Some(id), false) => format!("receives the state of server {id}"),
        (Some(id), true) => format!("follows server {id}"),
    };
    let behind = match progress.proposed.and_then(|proposed| behind(progress, proposed)) {
        Some(count) => count.to_string(),
        None => "?".to_owned(),
    };
    format!(
        "{}  behind {behind}  {} bytes  {}  {}  {leader}\n",
        hex(progress.last),
        progress.bytes,
        counted(progress.nodes, "znode"),
        counted(progress.sessions, "session"),
    )
}

const EVERY: Duration = Duration::from_secs(1);
