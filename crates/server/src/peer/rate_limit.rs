//! Limits how many connections one address may open to a port for other servers.
//!
//! Every connection costs a handshake, which takes some milliseconds with TLS. Connections are counted in windows of a
//! second. The addresses of one IPv6 /64 network count as one, because a host can usually use all of them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// The connections of each address in the current window.
#[derive(Debug)]
pub(super) struct RateLimit {
    since: Instant,
    opened: BTreeMap<IpAddr, u32>,
    /// Connections of addresses that did not fit into `opened`.
    overflow: u32,
}

impl RateLimit {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, opened: BTreeMap::new(), overflow: 0 }
    }

    /// Counts a connection, and returns whether it is within the limit.
    pub(super) fn admit(&mut self, from: IpAddr, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= WINDOW {
            *self = Self::new(now);
        }
        let network = network(from);
        let is_known = self.opened.len() < ADDRESSES_MAX || self.opened.contains_key(&network);
        let count = if is_known { self.opened.entry(network).or_default() } else { &mut self.overflow };
        *count = count.saturating_add(1);
        *count <= CONNECTIONS_MAX
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
    }
}

const WINDOW: Duration = Duration::from_secs(1);

/// Connections of one address to one port per [`WINDOW`]. A peer dials about ten times a second at most, and a test
/// ensemble may have all its servers at one address.
const CONNECTIONS_MAX: u32 = 100;

/// Addresses that are counted separately in a [`WINDOW`].
const ADDRESSES_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(limit: &mut RateLimit, from: &str, count: u32, now: Instant) -> u32 {
        let from = from.parse().expect("an address");
        (0..count).filter(|_| limit.admit(from, now)).count() as u32
    }

    #[test]
    fn an_address_that_opens_too_many_waits_for_the_next_second_and_disturbs_no_other() {
        let now = Instant::now();
        let mut limit = RateLimit::new(now);
        assert_eq!(admitted(&mut limit, "10.0.0.1", 400, now), CONNECTIONS_MAX);
        assert_eq!(admitted(&mut limit, "10.0.0.2", 10, now), 10);
        assert_eq!(admitted(&mut limit, "10.0.0.1", 400, now + WINDOW), CONNECTIONS_MAX);
    }

    #[test]
    fn addresses_of_one_network_count_as_one() {
        let now = Instant::now();
        let mut limit = RateLimit::new(now);
        assert_eq!(admitted(&mut limit, "2001:db8::1", 60, now), 60);
        assert_eq!(admitted(&mut limit, "2001:db8::ffff:2", 60, now), 40);
        assert_eq!(admitted(&mut limit, "2001:db8:0:1::1", 60, now), 60);
        assert_eq!(admitted(&mut limit, "::ffff:10.0.0.1", 60, now), 60);
        assert_eq!(admitted(&mut limit, "10.0.0.1", 60, now), 40, "the same in the other form");
    }

    #[test]
    fn addresses_beyond_the_limit_share_one_count() {
        let now = Instant::now();
        let mut limit = RateLimit::new(now);
        let address = |n: u32| IpAddr::V4(n.into());
        assert!((0..ADDRESSES_MAX as u32).all(|n| limit.admit(address(n), now)));
        let admitted = (0..1_000).filter(|n| limit.admit(address(1 << 31 | n), now)).count();
        assert_eq!((admitted, limit.opened.len()), (CONNECTIONS_MAX as usize, ADDRESSES_MAX));
    }
}
