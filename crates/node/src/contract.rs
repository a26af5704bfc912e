//! Checks that a driver keeps its side of the contract with the node.
//!
//! The contract is stated in two places: `event` for links, timers and the disk, and [`crate::Connection`] for clients.
//! A driver reports to this checker every event that it passes to the node, every effect that it is given and carries
//! out, and every point at which connections may read what was applied. The simulator always does so, `server` in
//! builds with debug assertions, so all their tests run under it.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use pole_types::ServerId;
use pole_zab::Ticket;

use crate::{Channel, ClientId, Effect, Event, Timer};

/// The state of the interaction between a driver and its node.
#[derive(Clone, Debug, Default)]
pub struct Contract {
    has_started: bool,
    links: BTreeSet<(ServerId, Channel)>,
    clients: BTreeSet<ClientId>,
    /// The last write requested.
    last_ticket: Option<Ticket>,
    /// Whether the last event was a report of touched sessions.
    touched: bool,
    /// The number of effects for clients that were given and not yet carried out.
    pending_client_effects: usize,
}

impl Contract {
    /// Checks an event that the driver passes to the node.
    ///
    /// # Errors
    /// A description of the violation.
    pub fn event(&mut self, event: &Event) -> Result<(), String> {
        if matches!(event, Event::Start) == self.has_started {
            return Err(format!("Start comes first and once, not {event:?}"));
        }
        self.has_started = true;
        let touched = core::mem::replace(&mut self.touched, matches!(event, Event::Touched { .. }));
        match event {
            Event::LinkUp { peer, channel } if !self.links.insert((*peer, *channel)) => {
                Err(format!("the {channel:?} link to {peer} opens while it is open"))
            }
            Event::LinkDown { peer, channel } if !self.links.remove(&(*peer, *channel)) => {
                Err(format!("the {channel:?} link to {peer} closes while it is closed"))
            }
            Event::Received { from, channel, .. } if !self.links.contains(&(*from, *channel)) => {
                Err(format!("a message arrives on the closed {channel:?} link to {from}"))
            }
            // A late report, after one of a later write, is harmless.
            Event::Written { through } if self.last_ticket < Some(*through) => {
                Err(format!("{through:?} is reported as durable, with writes up to {:?}", self.last_ticket))
            }
            Event::Expired(Timer::Liveness) if !touched => {
                Err("the liveness timer expires without a report of touched sessions just before it".into())
            }
            Event::Attach { client, .. } if !self.clients.insert(*client) => {
                Err(format!("connection {} asks for a second session", client.0))
            }
            Event::Request { client, .. } | Event::Read { client, .. } | Event::Sync { client, .. }
                if !self.clients.contains(client) =>
            {
                Err(format!("connection {} asks something before it asks for a session, or after its end", client.0))
            }
            Event::Detach { client } if !self.clients.remove(client) => {
                Err(format!("connection {} ends twice", client.0))
            }
            Event::Start
            | Event::LinkUp { .. }
            | Event::LinkDown { .. }
            | Event::Received { .. }
            | Event::Written { .. }
            | Event::PieceReady { .. }
            | Event::LogRead { .. }
            | Event::Restored { .. }
            | Event::Continue
            | Event::DiskFailed { .. }
            | Event::Expired(_)
            | Event::Attach { .. }
            | Event::Request { .. }
            | Event::Read { .. }
            | Event::Sync { .. }
            | Event::Touched { .. }
            | Event::Detach { .. }
            | Event::Transfer { .. } => Ok(()),
        }
    }

    /// Records an effect that the node returned.
    pub fn given(&mut self, effect: &Effect) {
        self.pending_client_effects += usize::from(is_for_client(effect));
        if let Effect::Write { ticket, .. } = effect {
            self.last_ticket = Some(*ticket);
        }
    }

    /// Records an effect that the driver has carried out.
    pub fn carried_out(&mut self, effect: &Effect) {
        self.pending_client_effects -= usize::from(is_for_client(effect));
        if let Effect::Reset { peer, channel } = effect {
            self.links.remove(&(*peer, *channel));
        }
    }

    /// Checks that connections may read what was applied.
    ///
    /// # Errors
    /// If a client could read a change before the event of its watch is queued.
    pub fn published(&self) -> Result<(), String> {
        match self.pending_client_effects {
            0 => Ok(()),
            count => Err(format!("the tree is published before {count} replies and events are queued")),
        }
    }
}

fn is_for_client(effect: &Effect) -> bool {
    matches!(effect, Effect::Attached { .. } | Effect::Reply { .. } | Effect::Notify { .. } | Effect::Close { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CloseReason;
    use alloc::vec::Vec;

    fn started() -> Contract {
        let mut contract = Contract::default();
        contract.event(&Event::Start).expect("the first event");
        contract
    }

    #[test]
    fn a_driver_must_report_touches_before_each_liveness_check() {
        let mut contract = started();
        let check = Event::Expired(Timer::Liveness);
        for _ in 0..2 {
            contract.event(&Event::Touched { sessions: Vec::new() }).expect("right");
            contract.event(&check).expect("right");
        }
        contract.event(&check).expect_err("no touches");
    }

    #[test]
    fn a_tree_published_before_its_events_are_queued_is_an_error() {
        let mut contract = started();
        let event = Effect::Notify { client: ClientId(1), zxid: pole_types::Zxid(1), body: bytes::Bytes::new() };
        contract.given(&event);
        contract.published().expect_err("the event is not queued");
        contract.carried_out(&event);
        contract.published().expect("it is");
    }

    #[test]
    fn connections_begin_once_and_end_once() {
        let mut contract = started();
        let (client, session) = (ClientId(1), pole_types::SessionId(7));
        contract.event(&Event::Detach { client }).expect_err("never attached");
        contract.event(&Event::Sync { client, cxid: pole_types::Cxid(1) }).expect_err("never attached");
        let attach = Event::Attach { client, session, body: bytes::Bytes::new() };
        contract.event(&attach).expect("right");
        contract.event(&attach).expect_err("twice");
        let close = Effect::Close { client, reason: CloseReason::SessionMoved };
        contract.given(&close);
        contract.carried_out(&close);
        contract.event(&Event::Detach { client }).expect("right");
        contract.event(&Event::Detach { client }).expect_err("twice");
    }

    #[test]
    fn links_open_and_close_alternately_and_a_reset_closes() {
        let (peer, channel) = (ServerId(2), Channel::Quorum);
        let mut contract = started();
        contract.event(&Event::LinkUp { peer, channel }).expect("right");
        contract.event(&Event::LinkUp { peer, channel }).expect_err("open already");
        contract.carried_out(&Effect::Reset { peer, channel });
        contract.event(&Event::LinkDown { peer, channel }).expect_err("closed already");
        contract.event(&Event::LinkUp { peer, channel }).expect("right");
    }
}
