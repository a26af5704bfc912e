//! A server of the ensemble: its addresses and its role, as a `server.N` line has them.
//!
//! The form is `host:quorumPort:electionPort[:role][;[address:]clientPort]`, with IPv6 addresses in brackets. A
//! [`Server`] is printed as Apache prints it for the same line, and reads back the same. Names are not resolved here
//! but when a connection is made.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

/// A server of the ensemble.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    /// Its host name or IP address, without brackets.
    pub host: String,
    /// The port for the agreement between servers.
    pub quorum_port: u16,
    /// The port for elections.
    pub election_port: u16,
    /// Whether it votes.
    pub role: MemberRole,
    /// The address for clients, if its line contains one.
    pub client: Option<Address>,
}

/// The part of a server in the ensemble, as `server.N` and `peerType` name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemberRole {
    /// It votes and may lead.
    #[default]
    Participant,
    /// It follows and serves clients, and never votes.
    Observer,
}

impl MemberRole {
    /// Reads a role, in any case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Participant, Self::Observer].into_iter().find(|role| text.eq_ignore_ascii_case(role.name()))
    }

    /// The role as Apache writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Participant => "participant",
            Self::Observer => "observer",
        }
    }
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// A host name or an IP address, without brackets.
    pub host: String,
    /// The port number.
    pub port: u16,
}

impl Server {
    /// Reads the value of a `server.N` line.
    ///
    /// # Errors
    /// What is wrong with it, and the expected form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (server, client) = match text.split_once(';') {
            Some((server, client)) => (server.trim(), Some(client.trim())),
            None => (text.trim(), None),
        };
        if server.contains('|') {
            return Err("several addresses for one server are not supported: name one".to_owned());
        }
        let (host, rest) = split_host(server)?;
        let mut parts = rest.split(':').map(str::trim);
        let quorum_port = port(parts.next().unwrap_or_default())?;
        let election_port = port(parts.next().unwrap_or_default())?;
        let role = match parts.next() {
            None => MemberRole::Participant,
            Some(role) => MemberRole::parse(role)
                .ok_or_else(|| format!("\"{role}\" is no role: allowed are participant and observer"))?,
        };
        if parts.next().is_some() {
            return Err(FORM.to_owned());
        }
        let client = client.map(parse_client).transpose()?;
        Ok(Self { host, quorum_port, election_port, role, client })
    }

    /// The ports of the server with their hosts. A wildcard address counts as the server's own host.
    #[must_use]
    pub fn sockets(&self) -> Vec<(String, u16)> {
        let mut sockets = vec![(self.host.clone(), self.quorum_port), (self.host.clone(), self.election_port)];
        sockets.extend(self.client.as_ref().map(|client| client.on(&self.host)));
        sockets
    }
}

impl fmt::Display for Server {
    /// Formats it as Apache does in `/zookeeper/config`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}:{}", Host(&self.host), self.quorum_port, self.election_port, self.role.name())?;
        match &self.client {
            Some(client) => write!(f, ";{client}"),
            None => Ok(()),
        }
    }
}

impl Address {
    /// Combines a host and a port.
    #[must_use]
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// Whether it is the wildcard address, which means all addresses of the machine.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        self.host.parse().is_ok_and(|address: IpAddr| address.is_unspecified())
    }

    /// The host and port, with this host in place of a wildcard.
    #[must_use]
    pub fn on(&self, host: &str) -> (String, u16) {
        (if self.is_wildcard() { host.to_owned() } else { self.host.clone() }, self.port)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", Host(&self.host), self.port)
    }
}

/// Prints a host as it is written before a port, an IPv6 address in brackets.
struct Host<'a>(&'a str);

impl fmt::Display for Host<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.contains(':') { write!(f, "[{}]", self.0) } else { f.write_str(self.0) }
    }
}

/// Parses a host with or without brackets, as in `clientPortAddress`, and returns it without.
///
/// # Errors
/// What is expected instead.
pub fn parse_host(text: &str) -> Result<String, String> {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let plausible = |char: char| char.is_alphanumeric() || matches!(char, '.' | '-' | '_' | ':' | '%');
    if inner.is_empty() || !inner.chars().all(plausible) {
        return Err(format!("\"{text}\" is no host: allowed is a name or an address"));
    }
    Ok(inner.parse().map_or_else(|_| inner.to_owned(), |address| in_full(&address)))
}

/// Java does not abbreviate zeros in an IPv6 address, and clients compare the content of `/zookeeper/config`.
fn in_full(address: &Ipv6Addr) -> String {
    address.segments().map(|segment| format!("{segment:x}")).join(":")
}

fn parse_client(text: &str) -> Result<Address, String> {
    if !text.contains(':') {
        return Ok(Address::new("0.0.0.0", port(text)?));
    }
    let (host, rest) = split_host(text)?;
    Ok(Address::new(host, port(rest)?))
}

/// Splits off the host and returns it with what follows its colon.
fn split_host(text: &str) -> Result<(String, &str), String> {
    let end = match text.strip_prefix('[') {
        Some(_) => text.find(']').map(|end| end + 1),
        None => text.find(':'),
    };
    let (name, rest) = text.split_at(end.ok_or(FORM)?);
    Ok((parse_host(name)?, rest.strip_prefix(':').ok_or(FORM)?))
}

fn port(text: &str) -> Result<u16, String> {
    let number = text.trim().parse().ok().filter(|port| *port > 0);
    number.ok_or_else(|| format!("\"{text}\" is no port (1 to 65535): {FORM}"))
}

const FORM: &str = "the form is host:quorumPort:electionPort[:role][;[address:]clientPort], \
                    with an IPv6 address in brackets";

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn every_form_of_a_server_is_written_as_apache_writes_it() {
        let forms = [
            ("a:1:2", "a:1:2:participant"),
            ("a:1:2:PARTICIPANT;5", "a:1:2:participant;0.0.0.0:5"),
            ("a:1:2:Observer;5", "a:1:2:observer;0.0.0.0:5"),
            ("[::1]:1:2;[::]:5", "[0:0:0:0:0:0:0:1]:1:2:participant;[0:0:0:0:0:0:0:0]:5"),
            ("[fe80::1%eth0]:1:2", "[fe80::1%eth0]:1:2:participant"),
            (" a : 1 : 2 ; b:5 ", ""),
            ("a:1:2;b:5", "a:1:2:participant;b:5"),
        ];
        for (text, written) in forms {
            let read = Server::parse(text).map(|server| server.to_string()).unwrap_or_default();
            assert_eq!(read, written, "{text}");
        }
    }

    #[test]
    fn all_addresses_are_known_in_both_families() {
        let client = |text: &str| Server::parse(text).unwrap().client.unwrap();
        assert!(client("a:1:2;5").is_wildcard() && client("a:1:2;[::]:5").is_wildcard());
        assert!(!client("a:1:2;[::1]:5").is_wildcard() && !client("a:1:2;b:5").is_wildcard());
    }

    #[test]
    fn what_is_not_supported_is_named() {
        assert!(Server::parse("a:1:2|b:1:2").unwrap_err().contains("several addresses"));
        assert!(Server::parse("a:1:2:king").unwrap_err().contains("king"));
    }

    #[test]
    fn an_error_about_a_broken_line_contains_the_form() {
        for text in
            ["", "a", "a:1", "a:1:0", "a:1:70000", ":1:2", "[::1:1:2", "a:1:2;", "a:1:2;b:", "a:1:2:participant:x"]
        {
            let error = Server::parse(text).unwrap_err();
            assert!(error.contains("the form is") || error.contains("no host"), "{text}: {error}");
        }
    }
}
