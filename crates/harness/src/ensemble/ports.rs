//! Finds free ports on loopback.
//!
//! The ports are below the range that the kernel uses for outgoing connections. Within that range, a client that
//! reconnects a thousand times would sometimes get the port of a server that is down, which then could not restart.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Failure;

/// Returns this number of free ports. They are not reserved: another program could bind one first, which is unlikely in
/// this range.
pub fn free(count: usize) -> Result<Vec<u16>, Failure> {
    let range = LAST - FIRST;
    // Two concurrent runs start at different ports. Within a run, each call starts where the last one ended, because it
    // would otherwise find the ports of servers that are down only for a moment.
    let taken = TAKEN.fetch_add(count, Ordering::Relaxed);
    let start = (std::process::id() as usize * STRIDE + taken) % usize::from(range);
    let candidates = (0..range).map(|n| FIRST + (n + start as u16) % range);
    let mut held = Vec::new();
    for port in candidates {
        held.extend(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok().map(|listener| (port, listener)));
        if held.len() == count {
            return Ok(held.into_iter().map(|(port, _)| port).collect());
        }
    }
    Err(Failure::Check(format!("fewer than {count} of the ports {FIRST} to {LAST} on loopback are free")))
}

const FIRST: u16 = 24_000;
const LAST: u16 = 32_000;

/// More than the ports of one run, so that runs with consecutive process ids do not overlap.
const STRIDE: usize = 61;

/// The number of ports that this process has requested so far.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

#[test]
fn ports_are_free_distinct_and_below_those_of_outgoing_connections() {
    let mut ports = free(30).unwrap();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 30);
    assert!(ports.iter().all(|port| (FIRST..LAST).contains(port)));
}

#[test]
fn ports_that_were_given_are_not_given_again() {
    let first = free(3).unwrap();
    assert!(free(3).unwrap().iter().all(|port| !first.contains(port)));
}
