//! 5,000 reads of a node of a megabyte whose replies are never read, without and with TLS.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::bulk::create_node;
use super::raw::RawClient;
use super::target::SESSION_TIMEOUT;
use super::{Attack, EnsembleAttack, Findings, Target};
use crate::client;

pub(super) const ATTACK: Attack = Attack::on_ensemble(
    "unread-reads",
    "5,000 getData of a node of 1 MB whose answers nobody takes, plain and with TLS",
    EnsembleAttack::new(prepare, run),
);

/// Creates a node of about the largest size that servers accept.
pub(super) fn prepare(target: &Target) -> io::Result<()> {
    create_node(&mut target.session(target.leader)?, LARGE, &Bytes::from(vec![b'x'; LARGE_BYTES]))
}

fn run(target: &Target) -> io::Result<Findings> {
    let mut plain = target.session(target.leader)?;
    send_reads(&mut plain, REQUESTS);
    std::thread::sleep(HOLD);
    drop(plain);
    let mut secure = target.secure_session(target.leader, SESSION_TIMEOUT)?;
    send_reads(&mut secure, REQUESTS);
    std::thread::sleep(HOLD);
    Ok(Findings::note(format!("{REQUESTS} reads on each of two connections, held for {HOLD:?} each")))
}

/// Requests the large node many times without reading the replies. The server need not accept all the requests.
pub(super) fn send_reads(raw: &mut RawClient, requests: usize) {
    let read = client::get_data(LARGE, false);
    let mut bytes = BytesMut::new();
    for _ in 0..requests {
        bytes.extend_from_slice(&raw.encode_next(&read));
    }
    let _ = raw.set_timeout(SEND_LIMIT);
    let _ = raw.send(&bytes);
}

pub(super) const LARGE: &str = "/large";
const LARGE_BYTES: usize = 1_000_000;
const REQUESTS: usize = 5000;

/// Long enough for a server to produce all the replies that it will.
const HOLD: Duration = Duration::from_secs(3);

const SEND_LIMIT: Duration = Duration::from_millis(500);
