//! The members of the ensemble as text: `server.N`, `group.N` and `weight.N` lines.
//!
//! They stand in the configuration file, in a request to change them, and in `/zookeeper/config`, where the line
//! `version` follows: the zxid of the change that set them, in hexadecimal. All of them are read by [`MembersReader`].

mod server;

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use pole_types::{Membership, ServerId, Voter, Voters};

pub use server::{Address, MemberRole, Server, parse_host};

/// The servers of an ensemble, and how much their votes count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// All servers, with their addresses and roles.
    pub servers: BTreeMap<ServerId, Server>,
    /// The votes of all participants; empty if all count the same.
    pub votes: BTreeMap<ServerId, Voter>,
}

impl Members {
    /// The keys and values of the lines, in Apache's order: servers, groups, weights.
    #[must_use]
    pub fn entries(&self) -> Vec<(String, String)> {
        let mut groups: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        self.votes.iter().for_each(|(id, vote)| groups.entry(vote.group).or_default().push(id.to_string()));
        let servers = self.servers.iter().map(|(id, server)| (format!("server.{id}"), server.to_string()));
        let groups = groups.into_iter().map(|(group, ids)| (format!("group.{group}"), ids.join(":")));
        let weights = self.votes.iter().map(|(id, vote)| (format!("weight.{id}"), vote.weight.to_string()));
        servers.chain(groups).chain(weights).collect()
    }

    /// The lines, each with its end.
    #[must_use]
    pub fn lines(&self) -> String {
        self.entries().into_iter().map(|(key, value)| format!("{key}={value}\n")).collect()
    }

    /// The content of `/zookeeper/config` for members that were set at this zxid, or 0 if they come from a file.
    #[must_use]
    pub fn description(&self, version: i64) -> String {
        format!("{}version={version:x}", self.lines())
    }

    /// Reads the content of `/zookeeper/config`: the members and their version.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse_description(text: &str) -> Result<(Self, i64), String> {
        let mut version = 0;
        let mut reader = MembersReader::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (key, value) = line.split_once('=').ok_or_else(|| format!("\"{line}\" is no line of members"))?;
            if key == "version" {
                let number = u64::from_str_radix(value, 16).map_err(|_| format!("\"{value}\" is no version"))?;
                version = number.cast_signed();
            } else {
                reader.add(key, value)?;
            }
        }
        Ok((reader.finish().map_err(|problems| problems.join("; "))?, version))
    }

    /// Who votes, and who only follows.
    #[must_use]
    pub fn membership(&self) -> Membership {
        let of_role = |role| self.servers.iter().filter(move |(_, server)| server.role == role).map(|(id, _)| *id);
        let vote = |id| (id, self.votes.get(&id).copied().unwrap_or_default());
        Membership::new(Voters::weighted(of_role(MemberRole::Participant).map(vote)), of_role(MemberRole::Observer))
    }

    /// The number of servers that vote.
    #[must_use]
    pub fn participants(&self) -> usize {
        self.servers.values().filter(|server| server.role == MemberRole::Participant).count()
    }

    /// A port that two servers claim, with both servers; none if there is no such port.
    #[must_use]
    pub fn shared_port(&self) -> Option<(ServerId, ServerId, u16)> {
        let mut taken = BTreeMap::new();
        let sockets = self.servers.iter().flat_map(|(id, server)| server.sockets().into_iter().map(|at| (*id, at)));
        for (id, (host, port)) in sockets {
            if let Some(other) = taken.insert((host.to_ascii_lowercase(), port), id) {
                return Some((other, id, port));
            }
        }
        None
    }
}

/// Reads lines of members, one at a time, so that its caller can say where a wrong one stands.
#[derive(Clone, Debug, Default)]
pub struct MembersReader {
    servers: BTreeMap<ServerId, Server>,
    groups: BTreeMap<ServerId, u64>,
    weights: BTreeMap<ServerId, u32>,
}

/// What an accepted line was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberLine {
    /// The first line of a server, or a group or weight.
    Added,
    /// Another line for a server that was named before. It counts.
    Replaced,
}

impl MembersReader {
    /// Whether a key belongs to the members.
    #[must_use]
    pub fn is_about(key: &str) -> bool {
        ["server.", "group.", "weight."].iter().any(|family| key.starts_with(family))
    }

    /// Adds a line.
    ///
    /// # Errors
    /// What is wrong with it, and the expected form.
    pub fn add(&mut self, key: &str, value: &str) -> Result<MemberLine, String> {
        let (family, ending) = key.split_once('.').unwrap_or((key, ""));
        match family {
            "server" => {
                let server = Server::parse(value)?;
                let id = parse_id(ending).ok_or("the id of a server is a number")?;
                let before = self.servers.insert(id, server);
                Ok(if before.is_some() { MemberLine::Replaced } else { MemberLine::Added })
            }
            "group" => {
                let (Ok(group), Some(ids)) = (ending.parse(), ids(value)) else {
                    return Err("the form is group.N=1:2:3, with the ids of servers".to_owned());
                };
                for id in ids {
                    if self.groups.insert(id, group).is_some_and(|before| before != group) {
                        return Err(format!("server {id} is in another group already"));
                    }
                }
                Ok(MemberLine::Added)
            }
            "weight" => {
                let weight = value.trim().parse().ok().filter(|weight| *weight <= WEIGHT_MAX);
                let (Ok(id), Some(weight)) = (ending.parse(), weight) else {
                    return Err(format!("the form is weight.N=0 to {WEIGHT_MAX}, N a server"));
                };
                self.weights.insert(ServerId(id), weight);
                Ok(MemberLine::Added)
            }
            _ => Err("only server.N, group.N and weight.N describe members".to_owned()),
        }
    }

    /// The members. Without any group or weight all votes count the same; with one, every voting server has to be in a
    /// group, as in Apache.
    ///
    /// # Errors
    /// What is missing.
    pub fn finish(self) -> Result<Members, Vec<String>> {
        let Self { servers, groups, weights } = self;
        if groups.is_empty() && weights.is_empty() {
            return Ok(Members { servers, votes: BTreeMap::new() });
        }
        let unknown = groups.keys().chain(weights.keys()).filter(|id| !servers.contains_key(id));
        let mut problems: Vec<String> = unknown.map(|id| format!("there is no server.{id} line")).collect();
        let mut votes = BTreeMap::new();
        for id in servers.iter().filter(|(_, server)| server.role == MemberRole::Participant).map(|(id, _)| *id) {
            match groups.get(&id) {
                Some(group) => {
                    let weight = weights.get(&id).copied().unwrap_or(1);
                    votes.insert(id, Voter { weight, group: *group });
                }
                None => problems.push(format!(
                    "server {id} is in no group: with group.N or weight.N every server that votes needs one"
                )),
            }
        }
        if !votes.is_empty() && votes.values().all(|voter| voter.weight == 0) {
            problems.push("no server has any weight, so nothing could ever be decided".to_owned());
        }
        if problems.is_empty() { Ok(Members { servers, votes }) } else { Err(problems) }
    }
}

/// Reads the id of a server. A server itself needs one of at most a byte, but a list may name others, as in Apache.
pub(crate) fn parse_id(text: &str) -> Option<ServerId> {
    text.trim().parse().ok().filter(|id| i64::try_from(*id).is_ok()).map(ServerId)
}

fn ids(value: &str) -> Option<Vec<ServerId>> {
    value.split(':').map(parse_id).collect()
}

/// The largest weight of a vote: far above what anybody needs, and small enough that sums do not overflow.
const WEIGHT_MAX: u32 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const WEIGHTED: &str = "server.1=a:1:2:participant;0.0.0.0:3\nserver.2=b:1:2:participant\n\
                            server.3=c:1:2:observer;d:3\ngroup.5=1:2\nweight.1=2\nweight.2=1\nversion=10000000a";

    #[test]
    fn a_description_reads_back_and_is_written_the_same() {
        let (members, version) = Members::parse_description(WEIGHTED).unwrap();
        assert_eq!((members.description(version).as_str(), version), (WEIGHTED, 0x1_0000_000a));
        assert_eq!(members.participants(), 2);
        let membership = members.membership();
        assert_eq!(membership.to_string(), "voters 1 2, observers 3");
        assert_eq!(membership.voters().get(ServerId(1)), Some(Voter { weight: 2, group: 5 }));
    }

    #[test]
    fn what_is_no_description_is_refused_with_the_reason() {
        for (text, reason) in [
            ("server.1", "no line of members"),
            ("server.1=a:1:2\nversion=x", "no version"),
            ("server.-1=a:1:2", "is a number"),
            ("server.1=a:1:2\nweight.1=-1", "weight.N"),
            ("server.1=a:1:2\nweight.1=1", "in no group"),
            ("server.1=a:1:2\ngroup.1=1:2", "no server.2 line"),
            ("server.1=a:1:2\ngroup.1=1\nweight.1=0", "any weight"),
            ("server.1=a:1:2\ngroup.1=1\ngroup.2=1", "another group"),
            ("tickTime=2", "describe members"),
        ] {
            let error = Members::parse_description(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn a_port_of_two_servers_is_found() {
        let parse = |text: &str| Members::parse_description(text).unwrap().0;
        assert_eq!(parse("server.1=a:1:2;3\nserver.2=b:1:2;3").shared_port(), None);
        let shared = parse("server.1=a:1:2;3\nserver.2=A:4:5;a:3").shared_port();
        assert_eq!(shared, Some((ServerId(1), ServerId(2), 3)));
    }
}
