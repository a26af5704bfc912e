//! Twenty clients with TLS that ask and stop reading. They must be gone when their sessions are.

use std::io;
use std::time::{Duration, Instant};

use super::raw::Raw;
use super::unread_reads::{ask_much, prepare};
use super::{Attack, Found, Service, Target};

pub(super) const ATTACK: Attack = Attack::service(
    "unread-tls",
    "20 clients with TLS that ask for 100 MB each and stop reading; dropped within a session timeout",
    Service { newcomers: false, ..Service::new(prepare, strike) },
);

fn strike(target: &Target) -> io::Result<Found> {
    let connections = |target: &Target| target.probes()[target.leader].connections();
    let before = connections(target).unwrap_or(0);
    let clients: Vec<Raw> =
        (0..CLIENTS).map(|_| target.secure_session(target.leader, SESSION)).collect::<io::Result<_>>()?;
    let mut clients = clients;
    let start = Instant::now();
    clients.iter_mut().for_each(|raw| ask_much(raw, REQUESTS));
    // Not seen at the sockets: a close may stand behind what nobody reads.
    let gone = target.within(SESSION + SLACK, |target| connections(target).is_some_and(|now| now <= before));
    let left = connections(target).map(|now| now.saturating_sub(before));
    let note = format!(
        "{CLIENTS} clients asked for {REQUESTS} MB each; {left:?} left after {:.1} s",
        start.elapsed().as_secs_f64()
    );
    drop(clients);
    Ok(Found::note(note).unless(gone, || {
        format!(
            "clients that read nothing are still connected after {:?}, or the server does not answer: {left:?}",
            SESSION + SLACK
        )
    }))
}

const CLIENTS: usize = 20;
const REQUESTS: usize = 100;
const SESSION: Duration = Duration::from_secs(4);

/// Sessions end in steps of a tick.
const SLACK: Duration = Duration::from_secs(4);
