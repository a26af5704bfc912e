//! Words about who leads: ours, not Apache's. They act like `pole transfer`, for those who have nothing but `nc`.
//!
//! They need no session and no identity, so they are answered only if the whitelist names them, and a server passes on at
//! most one in [`COOL_DOWN`]: in a loop they would do nothing but change leaders.

use pole_election::Span;
use pole_node::Event;

use crate::mailbox::Letter;
use crate::shared::Shared;
use crate::status::Role;

/// `rqld`: this server should lead; its leader is asked to hand over. The answer does not wait for it.
pub(crate) fn ask_to_lead(shared: &Shared) -> String {
    let me = shared.settings.me;
    match shared.status.role() {
        Role::Serving { leader, .. } if leader == me => format!("Server {me} leads already.\n"),
        Role::Serving { .. } if !may_ask(shared) => TOO_SOON.into(),
        Role::Serving { leader, .. } => {
            shared.mailbox.post(Letter::Event(Event::Transfer { to: Some(me) }));
            format!("Server {leader} is asked to hand over to this server, {me}.\n")
        }
        Role::Starting | Role::Looking { .. } => "There is no leader to ask.\n".into(),
    }
}

/// `ydld`: this server should not lead any more. The answer does not wait for the hand-over.
pub(crate) fn give_way(shared: &Shared) -> String {
    match shared.status.role() {
        Role::Serving { leader, .. } if leader != shared.settings.me => {
            format!("This server does not lead: server {leader} does.\n")
        }
        Role::Serving { .. } if shared.settings.voters == 1 => "There is no other server to hand over to.\n".into(),
        Role::Serving { .. } if !may_ask(shared) => TOO_SOON.into(),
        Role::Serving { .. } => {
            shared.mailbox.post(Letter::Event(Event::Transfer { to: None }));
            "Handing over to the server with the best score.\n".into()
        }
        Role::Starting | Role::Looking { .. } => "There is no leader.\n".into(),
    }
}

/// Whether a word may ask for another leader now. If so, the next one has to wait.
fn may_ask(shared: &Shared) -> bool {
    shared.status.leader_words.admit(shared.clock.now(), COOL_DOWN)
}

/// Between two words that ask for another leader, on one server. A hand-over takes a few round trips.
const COOL_DOWN: Span = Span::from_ms(10_000);

const TOO_SOON: &str = "Another leader was asked for less than 10 s ago: not asked again.\n";

#[cfg(test)]
mod tests {
    use pole_election::{Epoch, ServerId};

    use super::*;

    #[test]
    fn a_word_in_a_loop_asks_for_another_leader_once() {
        let shared = Shared::configured("");
        shared.status.set_role(Role::Serving { leader: ServerId(2), epoch: Epoch(1) });
        assert!(ask_to_lead(&shared).starts_with("Server 2 is asked to hand over"));
        assert_eq!(ask_to_lead(&shared), TOO_SOON);
        let mut posted = Vec::new();
        shared.mailbox.take(&mut posted);
        assert_eq!(posted.len(), 1);
    }
}
