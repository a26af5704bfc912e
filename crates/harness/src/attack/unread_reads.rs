//! 5,000 reads of a node of a megabyte, whose answers nobody takes: once without TLS, once with it.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::bulk::node;
use super::raw::Raw;
use super::target::SESSION_TIMEOUT;
use super::{Attack, Found, Service, Target};
use crate::client;

pub(super) const ATTACK: Attack = Attack::service(
    "unread-reads",
    "5,000 getData of a node of 1 MB whose answers nobody takes, plain and with TLS",
    Service::new(prepare, strike),
);

/// A node that is as large as servers take.
pub(super) fn prepare(target: &Target) -> io::Result<()> {
    node(&mut target.session(target.leader)?, LARGE, &Bytes::from(vec![b'x'; LARGE_BYTES]))
}

fn strike(target: &Target) -> io::Result<Found> {
    let mut plain = target.session(target.leader)?;
    ask_much(&mut plain, REQUESTS);
    std::thread::sleep(HOLD);
    drop(plain);
    let mut secure = target.secure_session(target.leader, SESSION_TIMEOUT)?;
    ask_much(&mut secure, REQUESTS);
    std::thread::sleep(HOLD);
    Ok(Found::note(format!("{REQUESTS} reads on each of two connections, held for {HOLD:?} each")))
}

/// Asks for the large node many times, without reading. A server that does not take all the requests is free to.
pub(super) fn ask_much(raw: &mut Raw, requests: usize) {
    let read = client::get_data(LARGE, false);
    let mut bytes = BytesMut::new();
    for _ in 0..requests {
        bytes.extend_from_slice(&raw.numbered(&read));
    }
    let _ = raw.limit(SEND_LIMIT);
    let _ = raw.send(&bytes);
}

pub(super) const LARGE: &str = "/large";
const LARGE_BYTES: usize = 1_000_000;
const REQUESTS: usize = 5000;

/// Long enough for a server to produce what it will.
const HOLD: Duration = Duration::from_secs(3);

const SEND_LIMIT: Duration = Duration::from_millis(500);
