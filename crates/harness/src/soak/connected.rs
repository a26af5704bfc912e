//! Which servers and links are well, and since when: who is innocent, and which pauses count.
//!
//! A *group* is a majority of servers. It is connected while all its servers serve and no link between them is disturbed. A pause
//! in which the same group was connected all the time has no excuse.

use std::collections::BTreeMap;

use super::history::At;
use crate::network::Place;

/// The state of servers and links over time.
#[derive(Debug)]
pub(super) struct Connected {
    servers: usize,
    /// What was disturbed: a server by itself, a link by its ends in order.
    disturbed: BTreeMap<(Place, Place), Disturbed>,
    /// Since when each group is connected. A group is a set of servers, as bits.
    groups: BTreeMap<u32, At>,
    /// The server that leads, as last heard, and since when nothing was done to it or its links.
    leader: Option<(usize, At)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disturbed {
    /// The number of faults that affect it at once.
    Now(usize),
    /// Until then.
    Until(At),
}

/// Since when things are well enough for a pause to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Since {
    /// Some group is connected.
    pub(super) group: Option<At>,
    /// A group with the leader is connected, and nothing was done to the leader.
    pub(super) leader: Option<At>,
}

impl Connected {
    pub(super) fn new(servers: usize) -> Self {
        let mut connected = Self { servers, disturbed: BTreeMap::new(), groups: BTreeMap::new(), leader: None };
        connected.recount(0);
        connected
    }

    /// A server is signalled, or a link disturbed. The same place twice means the server.
    pub(super) fn disturb(&mut self, one: Place, other: Place, at: At) {
        let entry = self.disturbed.entry(ordered(one, other)).or_insert(Disturbed::Now(0));
        *entry = match *entry {
            Disturbed::Now(count) => Disturbed::Now(count + 1),
            Disturbed::Until(_) => Disturbed::Now(1),
        };
        if let Some((leader, _)) = self.leader
            && [one, other].contains(&Place::Server(leader))
        {
            self.leader = None;
        }
        self.recount(at);
    }

    /// One fault less.
    pub(super) fn restore(&mut self, one: Place, other: Place, at: At) {
        if let Some(entry) = self.disturbed.get_mut(&ordered(one, other)) {
            *entry = match *entry {
                Disturbed::Now(count) if count > 1 => Disturbed::Now(count - 1),
                Disturbed::Now(_) => Disturbed::Until(at),
                Disturbed::Until(end) => Disturbed::Until(end),
            };
        }
        self.recount(at);
    }

    /// Somebody said who leads; none if that is about to change.
    pub(super) fn leads(&mut self, leader: Option<usize>, at: At) {
        let quiet = |leader: usize| {
            let touches = |pair: &(Place, Place)| [pair.0, pair.1].contains(&Place::Server(leader));
            self.disturbed.iter().all(|(pair, now)| !touches(pair) || !matches!(now, Disturbed::Now(_)))
        };
        self.leader = match (leader, self.leader) {
            (Some(leader), Some((same, since))) if leader == same => Some((leader, since)),
            (Some(leader), _) if quiet(leader) => Some((leader, at)),
            (_, _) => None,
        };
    }

    /// The server that leads and was left alone.
    pub(super) fn leader(&self) -> Option<usize> {
        self.leader.map(|(leader, _)| leader)
    }

    /// Since when a pause counts.
    pub(super) fn since(&self) -> Since {
        let group = self.groups.values().min().copied();
        let leader = self.leader.and_then(|(leader, since)| {
            let with = self.groups.iter().filter(|(group, _)| **group & (1 << leader) != 0);
            with.map(|(_, connected)| since.max(*connected)).min()
        });
        Since { group, leader }
    }

    /// Whether a client at a site that loses this server now has a right to complain: for so long its link and the server were
    /// well, and so was a group that the server belongs to.
    pub(super) fn is_innocent(&self, site: Place, server: usize, at: At, for_long: At) -> bool {
        let is_clean = |one: Place, other: Place| match self.disturbed.get(&ordered(one, other)) {
            None => true,
            Some(Disturbed::Now(_)) => false,
            Some(Disturbed::Until(end)) => end + for_long <= at,
        };
        is_clean(site, Place::Server(server))
            && self.majorities().any(|group| group & (1 << server) != 0 && self.all_in(group, is_clean))
    }

    fn recount(&mut self, at: At) {
        let is_open =
            |one: Place, other: Place| !matches!(self.disturbed.get(&ordered(one, other)), Some(Disturbed::Now(_)));
        let groups = self.majorities().filter(|group| self.all_in(*group, is_open));
        self.groups = groups.map(|group| (group, self.groups.get(&group).copied().unwrap_or(at))).collect();
    }

    fn majorities(&self) -> impl Iterator<Item = u32> + use<> {
        let least = self.servers as u32 / 2 + 1;
        (0..1_u32 << self.servers).filter(move |group| group.count_ones() >= least)
    }

    /// Whether this holds of every server of a group and of every link between two of them.
    fn all_in(&self, group: u32, holds: impl Fn(Place, Place) -> bool) -> bool {
        let members = || (0..self.servers).filter(move |server| group & (1 << server) != 0);
        members().all(|one| {
            members().filter(|other| *other >= one).all(|other| holds(Place::Server(one), Place::Server(other)))
        })
    }
}

fn ordered(one: Place, other: Place) -> (Place, Place) {
    (one.min(other), one.max(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(usize) -> Place = Place::Server;

    #[test]
    fn a_majority_counts_from_when_the_same_servers_are_connected() {
        let mut connected = Connected::new(3);
        assert_eq!(connected.since().group, Some(0));
        connected.disturb(S(0), S(0), 5);
        assert_eq!(connected.since().group, Some(0), "the other two were connected all along");
        connected.disturb(S(1), S(2), 7);
        assert_eq!(connected.since().group, None);
        connected.restore(S(0), S(0), 9);
        assert_eq!(connected.since().group, Some(9));
    }

    #[test]
    fn a_place_disturbed_twice_is_well_after_both() {
        let mut connected = Connected::new(3);
        for server in [0, 1] {
            connected.disturb(S(server), S(2), 1);
        }
        connected.disturb(S(0), S(1), 1);
        connected.disturb(S(0), S(1), 2);
        connected.restore(S(0), S(1), 3);
        assert_eq!(connected.since().group, None);
        connected.restore(S(0), S(1), 4);
        assert_eq!(connected.since().group, Some(4));
    }

    #[test]
    fn the_leader_counts_while_nothing_is_done_to_it() {
        let mut connected = Connected::new(3);
        connected.leads(Some(1), 3);
        assert_eq!(connected.since().leader, Some(3));
        connected.disturb(S(0), S(2), 4);
        assert_eq!(connected.since().leader, Some(3), "a majority with the leader is untouched");
        connected.disturb(S(1), S(2), 5);
        assert_eq!(connected.since().leader, None);
        connected.leads(Some(1), 6);
        assert_eq!(connected.since().leader, None, "its link is still disturbed");
    }

    #[test]
    fn innocent_is_whose_server_link_and_majority_were_well_for_long() {
        let site = Place::Site(0);
        let mut connected = Connected::new(3);
        connected.disturb(S(2), S(2), 10);
        assert!(connected.is_innocent(site, 0, 11, 5), "two of three are well");
        assert!(!connected.is_innocent(site, 2, 11, 5));
        connected.restore(S(2), S(2), 20);
        assert!(!connected.is_innocent(site, 2, 24, 5));
        assert!(connected.is_innocent(site, 2, 25, 5));
        connected.disturb(site, S(1), 30);
        assert!(!connected.is_innocent(site, 1, 31, 5));
        connected.disturb(S(0), S(1), 40);
        connected.disturb(S(0), S(2), 40);
        assert!(!connected.is_innocent(site, 0, 41, 5), "it is cut off from any majority");
    }
}
