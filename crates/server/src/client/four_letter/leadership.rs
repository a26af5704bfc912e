//! Four-letter words that change the leader. They are Pole's own and act like `pole transfer`, for use with nothing but
//! `nc`.
//!
//! They need no session and no identity, so they are answered only if the whitelist names them, and a server accepts at
//! most one per [`COOL_DOWN`]: in a loop they would keep the ensemble changing leaders.

use pole_node::Event;
use pole_types::Span;

use crate::mailbox::Command;
use crate::shared::Shared;
use crate::status::Role;

/// `rqld`: asks the leader to hand over to this server. The answer does not wait for the hand-over.
pub(crate) fn request_leadership(shared: &Shared) -> String {
    let me = shared.settings.me;
    match shared.status.role() {
        Role::Serving { leader, .. } if leader == me => format!("Server {me} leads already.\n"),
        Role::Serving { .. } if !may_request(shared) => TOO_SOON.into(),
        Role::Serving { leader, .. } => {
            shared.mailbox.post(Command::Event(Event::Transfer { to: Some(me) }));
            format!("Server {leader} is asked to hand over to this server, {me}.\n")
        }
        Role::Starting | Role::Looking { .. } => "There is no leader to ask.\n".into(),
    }
}

/// `ydld`: makes this server hand over the leadership. The answer does not wait for the hand-over.
pub(crate) fn yield_leadership(shared: &Shared) -> String {
    match shared.status.role() {
        Role::Serving { leader, .. } if leader != shared.settings.me => {
            format!("This server does not lead: server {leader} does.\n")
        }
        Role::Serving { .. } if shared.is_standalone() => "There is no other server to hand over to.\n".into(),
        Role::Serving { .. } if !may_request(shared) => TOO_SOON.into(),
        Role::Serving { .. } => {
            shared.mailbox.post(Command::Event(Event::Transfer { to: None }));
            "Handing over to the server with the best score.\n".into()
        }
        Role::Starting | Role::Looking { .. } => "There is no leader.\n".into(),
    }
}

/// Returns whether a word may ask for another leader now. If so, the cool-down begins.
fn may_request(shared: &Shared) -> bool {
    shared.status.leader_requests.admit(shared.clock.now(), COOL_DOWN)
}

/// Pause between two such words on one server. A hand-over takes only a few round trips.
const COOL_DOWN: Span = Span::from_ms(10_000);

const TOO_SOON: &str = "Another leader was asked for less than 10 s ago: not asked again.\n";

#[cfg(test)]
mod tests {
    use pole_types::{Epoch, ServerId};

    use super::*;

    #[test]
    fn a_word_in_a_loop_asks_for_another_leader_once() {
        let shared = Shared::configured("");
        shared.status.set_role(Role::Serving { leader: ServerId(2), epoch: Epoch(1) });
        assert!(request_leadership(&shared).starts_with("Server 2 is asked to hand over"));
        assert_eq!(request_leadership(&shared), TOO_SOON);
        let mut posted = Vec::new();
        shared.mailbox.take(&mut posted);
        assert_eq!(posted.len(), 1);
    }
}
