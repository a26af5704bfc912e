//! What a visitor of the dashboard, or the tour, can do with the ensemble.

use std::sync::mpsc::Sender;

use tokio::sync::oneshot;

use super::Event;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Ends the process as a crash would. It stays down until it is restarted.
    Kill(u64),
    /// Stops the process without ending it.
    Pause(u64),
    /// Continues a paused process.
    Resume(u64),
    /// Starts the process, or ends it gracefully and starts it again.
    Restart(u64),
    /// Replaces the load.
    Load { rate: f64, site: Option<String> },
    /// Changes the round trip between two sites.
    Link { a: String, b: String, rtt_ms: f64 },
    /// Cuts a site off, or reconnects it.
    Cut { site: String, is_cut: bool },
}

/// Where the outcome of an action goes.
pub(crate) type Reply = oneshot::Sender<Result<(), String>>;

/// Has the event loop do something, and waits for the outcome, on a thread without a runtime.
pub(crate) fn perform(actions: &Sender<Event>, action: Action) -> Result<(), String> {
    let (reply, outcome) = oneshot::channel();
    let stopping = || "the ensemble is stopping".to_owned();
    actions.send(Event::Act { action, reply }).map_err(|_| stopping())?;
    outcome.blocking_recv().unwrap_or_else(|_| Err(stopping()))
}

/// The highest rate: more would measure this machine instead of the links.
pub(crate) const RATE_MAX: f64 = 5_000.0;
