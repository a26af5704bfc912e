//! The scheme `ip`: the address of a client. An ACL contains an address, or a network (`10.1.0.0/16`).
//!
//! Pole adds IPv6 to what Apache supports.

use alloc::vec::Vec;
use core::net::IpAddr;

use pole_jute::Id;

use super::{AuthFailed, AuthSettings, Provider};

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
        network(id).is_some()
    }

    fn matches(&self, id: &str, entry: &str) -> bool {
        let (Ok(address), Some((network, bits))) = (id.parse::<IpAddr>(), network(entry)) else { return false };
        match (address.to_canonical(), network) {
            (IpAddr::V4(address), IpAddr::V4(network)) => {
                (address.to_bits() ^ network.to_bits()).leading_zeros() >= bits
            }
            (IpAddr::V6(address), IpAddr::V6(network)) => {
                (address.to_bits() ^ network.to_bits()).leading_zeros() >= bits
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// An address and the length of its prefix in bits.
fn network(expression: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) =
        expression.split_once('/').map_or((expression, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().ok()?;
    let bits_max = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(bits_max), |bits| bits.parse().ok().filter(|bits| *bits <= bits_max))?;
    Some((address, bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_compared_by_its_leading_bits() {
        let in_network = |address, expression| Ip.matches(address, expression);
        assert!(in_network("10.1.2.3", "10.1.0.0/16") && in_network("10.1.2.3", "10.1.2.3"));
        assert!(!in_network("10.2.2.3", "10.1.0.0/16") && !in_network("10.1.2.3", "10.1.2.4"));
        assert!(in_network("10.1.2.3", "0.0.0.0/0") && in_network("::ffff:10.1.2.3", "10.1.2.3"));
        assert!(in_network("2001:db8::7", "2001:db8::/32") && !in_network("2001:db9::7", "2001:db8::/32"));
        assert!(!in_network("10.1.2.3", "10.1.2.3/33") && !in_network("nonsense", "10.1.2.3"));
    }
}
