//! Trace events on the way of a write, for `cargo xtask timeline`: which step this server took at which microsecond.
//!
//! They have a target of their own, [`TIMELINE`], at the level `trace`. No filter enables it unless it is named
//! (`pole.logFilter=pole::timeline=trace`); otherwise a step costs one comparison. Times are those of the wall clock, so
//! that several servers on one machine can be compared.

use std::time::{SystemTime, UNIX_EPOCH};

use pole_node::{Effect, Event, Message};
use pole_zab::DiskOp;
use tracing::{Level, enabled, trace};

use crate::log::target::TIMELINE;

/// Records a step with this name.
pub(crate) fn step(name: &str) {
    if enabled!(target: TIMELINE, Level::TRACE) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        trace!(target: TIMELINE, step = name, at_us = since.as_micros(), "timeline");
    }
}

/// Records what the node gets, if it belongs to a write.
pub(crate) fn event(event: &Event) {
    let name = match event {
        Event::Request { .. } => "takes the request",
        Event::Written { .. } => "learns that its log is durable",
        Event::Received { message, .. } => match received(message) {
            Some(name) => name,
            None => return,
        },
        Event::Start
        | Event::LinkUp { .. }
        | Event::LinkDown { .. }
        | Event::DiskFailed { .. }
        | Event::PieceReady { .. }
        | Event::LogRead { .. }
        | Event::Restored { .. }
        | Event::Continue
        | Event::Expired(_)
        | Event::Attach { .. }
        | Event::Read { .. }
        | Event::Sync { .. }
        | Event::Touched { .. }
        | Event::Detach { .. }
        | Event::Transfer { .. } => return,
    };
    step(name);
}

fn received(message: &Message) -> Option<&'static str> {
    match message.name() {
        "Forward" => Some("gets Forward"),
        "Propose" => Some("gets Propose"),
        "Ack" => Some("gets Ack"),
        "Commit" => Some("gets Commit"),
        _ => None,
    }
}

/// Records what the node wants done, if it belongs to a write. Messages leave together, see [`step`] in the driver.
pub(crate) fn effect(effect: &Effect) {
    if let Effect::Write { op: DiskOp::Append(_), .. } = effect {
        step("queues its log's write");
    } else if let Effect::Reply { .. } = effect {
        step("has applied the write");
    }
}
