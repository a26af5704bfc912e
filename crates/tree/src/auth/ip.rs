//! The scheme `ip`: the address of a client. An ACL contains an address, or a network (`10.1.0.0/16`).
//!
//! Pole adds IPv6 to what Apache supports.

use alloc::vec::Vec;
use core::net::IpAddr;

use pole_jute::Id;

use super::{AuthFailed, AuthSettings, Matching, Provider};

pub(super) struct Ip;

impl Provider for Ip {
    fn scheme(&self) -> &'static str {
        "ip"
    }

    /// Nothing new: a connection has its address anyway.
    fn authenticate(&self, _data: &[u8], _settings: &AuthSettings) -> Result<Vec<Id>, AuthFailed> {
        Ok(Vec::new())
    }

    fn is_authenticated(&self) -> bool {
        false
    }

    fn is_valid(&self, id: &str) -> bool {
        Network::parse(id).is_some()
    }

    fn matching(&self, id: &str) -> Matching {
        id.parse().map_or(Matching::None, |address: IpAddr| Matching::Networks(address.to_canonical()))
    }

    fn network(&self, id: &str) -> Option<Network> {
        Network::parse(id)
    }
}

/// The addresses with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Network {
    prefix: Prefix,
    /// The address, with zeros after the prefix.
    bits: u128,
}

/// The length of a prefix in bits, and whether it is one of IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Prefix {
    is_v4: bool,
    length: u32,
}

impl Network {
    /// Reads an address, or a network like `10.1.0.0/16`.
    pub(crate) fn parse(expression: &str) -> Option<Self> {
        let (address, length) =
            expression.split_once('/').map_or((expression, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.parse().ok()?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Some(longest), |bits| bits.parse().ok().filter(|bits| *bits <= longest))?;
        Self::of(address, Prefix { is_v4: address.is_ipv4(), length })
    }

    pub(crate) fn prefix(self) -> Prefix {
        self.prefix
    }

    /// The network of an address with this prefix; none if the address is of another version of IP.
    pub(crate) fn of(address: IpAddr, prefix: Prefix) -> Option<Self> {
        let (bits, width) = match address {
            IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        let bits = bits.checked_shr(width - prefix.length).and_then(|bits| bits.checked_shl(width - prefix.length));
        (address.is_ipv4() == prefix.is_v4).then(|| Self { prefix, bits: bits.unwrap_or(0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the address is in the network, by the definition.
    fn is_in(address: &str, expression: &str) -> bool {
        let (Matching::Networks(address), Some(network)) = (Ip.matching(address), Network::parse(expression)) else {
            return false;
        };
        Network::of(address, network.prefix()) == Some(network)
    }

    #[test]
    fn an_address_is_compared_by_its_leading_bits() {
        assert!(is_in("10.1.2.3", "10.1.0.0/16") && is_in("10.1.2.3", "10.1.2.3") && is_in("10.1.2.3", "10.1.9.9/16"));
        assert!(!is_in("10.2.2.3", "10.1.0.0/16") && !is_in("10.1.2.3", "10.1.2.4"));
        assert!(is_in("10.1.2.3", "0.0.0.0/0") && is_in("::ffff:10.1.2.3", "10.1.2.3") && is_in("::1", "::/0"));
        assert!(is_in("2001:db8::7", "2001:db8::/32") && !is_in("2001:db9::7", "2001:db8::/32"));
        assert!(!is_in("10.1.2.3", "10.1.2.3/33") && !is_in("nonsense", "10.1.2.3") && !is_in("::1", "0.0.0.0/0"));
    }
}
