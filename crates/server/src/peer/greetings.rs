//! How many connections one address may open to a port for other servers.
//!
//! Every connection costs a handshake, with TLS some milliseconds. Counted in windows of a second; addresses of one IPv6
//! network count as one, since whoever has one of them has all.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// What each address has opened in the present window.
#[derive(Debug)]
pub(super) struct Greetings {
    since: Instant,
    opened: BTreeMap<IpAddr, u32>,
    /// By addresses for which there is no place above.
    others: u32,
}

impl Greetings {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, opened: BTreeMap::new(), others: 0 }
    }

    /// An address opens a connection. Whether it may.
    pub(super) fn admit(&mut self, from: IpAddr, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= WINDOW {
            *self = Self::new(now);
        }
        let network = network(from);
        let is_known = self.opened.len() < ADDRESSES_MAX || self.opened.contains_key(&network);
        let count = if is_known { self.opened.entry(network).or_default() } else { &mut self.others };
        *count = count.saturating_add(1);
        *count <= GREETINGS_MAX
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
    }
}

const WINDOW: Duration = Duration::from_secs(1);

/// Connections of one address to one port in a [`WINDOW`]. A peer dials at most some ten times a second, and an ensemble
/// for tests may have all of its servers at one address.
const GREETINGS_MAX: u32 = 100;

/// Addresses that are told apart in a [`WINDOW`].
const ADDRESSES_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(greetings: &mut Greetings, from: &str, count: u32, now: Instant) -> u32 {
        let from = from.parse().expect("an address");
        (0..count).filter(|_| greetings.admit(from, now)).count() as u32
    }

    #[test]
    fn an_address_that_opens_too_many_waits_for_the_next_second_and_disturbs_no_other() {
        let now = Instant::now();
        let mut greetings = Greetings::new(now);
        assert_eq!(admitted(&mut greetings, "10.0.0.1", 400, now), GREETINGS_MAX);
        assert_eq!(admitted(&mut greetings, "10.0.0.2", 10, now), 10);
        assert_eq!(admitted(&mut greetings, "10.0.0.1", 400, now + WINDOW), GREETINGS_MAX);
    }

    #[test]
    fn addresses_of_one_network_count_as_one() {
        let now = Instant::now();
        let mut greetings = Greetings::new(now);
        assert_eq!(admitted(&mut greetings, "2001:db8::1", 60, now), 60);
        assert_eq!(admitted(&mut greetings, "2001:db8::ffff:2", 60, now), 40);
        assert_eq!(admitted(&mut greetings, "2001:db8:0:1::1", 60, now), 60);
        assert_eq!(admitted(&mut greetings, "::ffff:10.0.0.1", 60, now), 60);
        assert_eq!(admitted(&mut greetings, "10.0.0.1", 60, now), 40, "the same in the other form");
    }

    #[test]
    fn more_addresses_than_have_a_place_share_one() {
        let now = Instant::now();
        let mut greetings = Greetings::new(now);
        let address = |n: u32| IpAddr::V4(n.into());
        assert!((0..ADDRESSES_MAX as u32).all(|n| greetings.admit(address(n), now)));
        let admitted = (0..1_000).filter(|n| greetings.admit(address(1 << 31 | n), now)).count();
        assert_eq!((admitted, greetings.opened.len()), (GREETINGS_MAX as usize, ADDRESSES_MAX));
    }
}
