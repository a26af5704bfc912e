//! Twenty clients with TLS that send requests and stop reading. They must be disconnected when their sessions expire.

use std::io;
use std::time::{Duration, Instant};

use super::raw::RawClient;
use super::unread_reads::{prepare, send_reads};
use super::{Attack, EnsembleAttack, Findings, Target};

pub(super) const ATTACK: Attack = Attack::on_ensemble(
    "unread-tls",
    "20 clients with TLS that ask for 100 MB each and stop reading; dropped within a session timeout",
    EnsembleAttack { new_sessions: false, ..EnsembleAttack::new(prepare, run) },
);

fn run(target: &Target) -> io::Result<Findings> {
    let connections = |target: &Target| target.probes()[target.leader].connections();
    let before = connections(target).unwrap_or(0);
    let clients: Vec<RawClient> =
        (0..CLIENTS).map(|_| target.secure_session(target.leader, SESSION)).collect::<io::Result<_>>()?;
    let mut clients = clients;
    let start = Instant::now();
    clients.iter_mut().for_each(|raw| send_reads(raw, REQUESTS));
    // The sockets do not show it: the close may be queued behind unread replies.
    let gone = target.wait_until(SESSION + SLACK, |target| connections(target).is_some_and(|now| now <= before));
    let left = connections(target).map(|now| now.saturating_sub(before));
    let note = format!(
        "{CLIENTS} clients asked for {REQUESTS} MB each; {left:?} left after {:.1} s",
        start.elapsed().as_secs_f64()
    );
    drop(clients);
    Ok(Findings::note(note).require(gone, || {
        format!(
            "clients that read nothing are still connected after {:?}, or the server does not answer: {left:?}",
            SESSION + SLACK
        )
    }))
}

const CLIENTS: usize = 20;
const REQUESTS: usize = 100;
const SESSION: Duration = Duration::from_secs(4);

/// Sessions expire in steps of a tick.
const SLACK: Duration = Duration::from_secs(4);
