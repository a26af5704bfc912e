//! Ports on loopback that nobody uses.
//!
//! They lie below the range from which the kernel takes ports for outgoing connections. From within it, a client that
//! reconnects a thousand times would now and then take the port of a server that is down, which then could not come
//! back.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Failure;

/// So many free ports. Nothing holds them for us: another program may come first, but hardly on a port out of these.
pub fn free(count: usize) -> Result<Vec<u16>, Failure> {
    let range = LAST - FIRST;
    // Two runs at the same time begin at different places; and within a run each call begins where the last one ended, or
    // it would find the ports of servers that are only down for a moment.
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

/// More ports than one run takes, so that neighbouring process ids do not begin among each other's.
const STRIDE: usize = 61;

/// How many ports this process has asked for.
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
