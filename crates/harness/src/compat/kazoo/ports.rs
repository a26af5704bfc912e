//! Blocks of ports for kazoo's harness, which counts up from a first one.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Mutex;

use crate::Failure;

/// The first of `count` ports that are free and were not given to another job of this process.
pub(super) fn block(count: u16) -> Result<u16, Failure> {
    static NEXT: Mutex<Option<u16>> = Mutex::new(None);
    let mut next = NEXT.lock().expect("nobody panics with the lock");
    // Concurrent processes start at different ports.
    let mut first = next.unwrap_or(FIRST + (std::process::id() % 100) as u16 * count);
    for _ in 0..(LAST - FIRST) / count {
        if first + count > LAST {
            first = FIRST;
        }
        let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if (first..first + count).all(is_free) {
            *next = Some(first + count);
            return Ok(first);
        }
        first += count;
    }
    Err(Failure::Check(format!("no {count} ports in a row from {FIRST} to {LAST} are free on loopback")))
}

/// Below the ports of `ensemble`, and far below those of outgoing connections.
const FIRST: u16 = 20_000;
const LAST: u16 = 24_000;

#[test]
fn two_jobs_get_different_ports() {
    let (a, b) = (block(30).unwrap(), block(30).unwrap());
    assert!(a.abs_diff(b) >= 30, "{a} {b}");
}
