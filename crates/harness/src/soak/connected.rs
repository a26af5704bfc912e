//! Tracks which servers and links are disturbed, and since when: it decides which pauses and disconnects count.
//!
//! A *group* is a majority of servers. It is connected while all its servers serve, no link between them is disturbed,
//! and the link of some client to one of them is not disturbed either: otherwise there is nobody whose writes could
//! succeed. A pause counts while the same group was connected all the time.

use std::collections::BTreeMap;

use super::history::At;
use crate::network::Place;

/// The state of servers and links over time.
#[derive(Debug)]
pub(super) struct Connected {
    servers: usize,
    /// Disturbed servers and links. The key of a server is the server twice; the key of a link is its ends in order.
    disturbed: BTreeMap<(Place, Place), Disturbed>,
    /// The site of each client and the server that it was last connected to. A client that such a server disconnects
    /// still counts: a service that drops all clients must not look as if it had none.
    clients: BTreeMap<usize, (Place, usize)>,
    /// The connected groups, as bit sets of servers, and the time since when each is connected.
    groups: BTreeMap<u32, At>,
    /// The last known leader, and the time since when neither it nor its links were disturbed.
    leader: Option<(usize, At)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disturbed {
    /// The number of faults that affect it now.
    Now(usize),
    /// The end of the last fault.
    Until(At),
}

/// The times since when a pause counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Since {
    /// Since when some group is connected.
    pub(super) group: Option<At>,
    /// Since when a group with the leader is connected and the leader is undisturbed.
    pub(super) leader: Option<At>,
}

impl Connected {
    /// All servers and links are undisturbed, and no client is connected.
    pub(super) fn new(servers: usize) -> Self {
        let (disturbed, clients, groups) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { servers, disturbed, clients, groups, leader: None }
    }

    /// A client connects to a server.
    pub(super) fn connect(&mut self, client: usize, site: Place, server: usize, at: At) {
        self.clients.insert(client, (site, server));
        self.recount(at);
    }

    /// A fault begins at a link, or at a server if both places are the same.
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

    /// A fault ends.
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

    /// Sets the leader. `None` if it is unknown or about to change.
    pub(super) fn leads(&mut self, leader: Option<usize>, at: At) {
        let is_undisturbed = |leader: usize| {
            let touches = |pair: &(Place, Place)| [pair.0, pair.1].contains(&Place::Server(leader));
            self.disturbed.iter().all(|(pair, now)| !touches(pair) || !matches!(now, Disturbed::Now(_)))
        };
        self.leader = match (leader, self.leader) {
            (Some(leader), Some((same, since))) if leader == same => Some((leader, since)),
            (Some(leader), _) if is_undisturbed(leader) => Some((leader, at)),
            (_, _) => None,
        };
    }

    /// The leader, if it is undisturbed.
    pub(super) fn leader(&self) -> Option<usize> {
        self.leader.map(|(leader, _)| leader)
    }

    pub(super) fn since(&self) -> Since {
        let group = self.groups.values().min().copied();
        let leader = self.leader.and_then(|(leader, since)| {
            let with = self.groups.iter().filter(|(group, _)| **group & (1 << leader) != 0);
            with.map(|(_, connected)| since.max(*connected)).min()
        });
        Since { group, leader }
    }

    /// Whether a client at this site has no reason to lose this server now: for at least `span`, its link, the
    /// server, and a group that contains the server were undisturbed.
    pub(super) fn is_undisturbed(&self, site: Place, server: usize, at: At, span: At) -> bool {
        let is_clean = |one: Place, other: Place| match self.disturbed.get(&ordered(one, other)) {
            None => true,
            Some(Disturbed::Now(_)) => false,
            Some(Disturbed::Until(end)) => end + span <= at,
        };
        is_clean(site, Place::Server(server))
            && self.majorities().any(|group| group & (1 << server) != 0 && self.all_in(group, is_clean))
    }

    fn recount(&mut self, at: At) {
        let is_open =
            |one: Place, other: Place| !matches!(self.disturbed.get(&ordered(one, other)), Some(Disturbed::Now(_)));
        let reaches = |group: u32, (site, server): &(Place, usize)| {
            group & (1 << server) != 0 && is_open(*site, Place::Server(*server))
        };
        let has_client = |group: u32| self.clients.values().any(|client| reaches(group, client));
        let groups = self.majorities().filter(|group| self.all_in(*group, is_open) && has_client(*group));
        self.groups = groups.map(|group| (group, self.groups.get(&group).copied().unwrap_or(at))).collect();
    }

    fn majorities(&self) -> impl Iterator<Item = u32> + use<> {
        let least = self.servers as u32 / 2 + 1;
        (0..1_u32 << self.servers).filter(move |group| group.count_ones() >= least)
    }

    /// Whether a condition holds for every server of a group and every link between two of them.
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

    /// Three servers with a client at each.
    fn three() -> Connected {
        let mut connected = Connected::new(3);
        (0..3).for_each(|server| connected.connect(server, Place::Site(9), server, 0));
        connected
    }

    #[test]
    fn a_majority_that_no_client_can_reach_does_not_count() {
        let site = Place::Site(1);
        let mut connected = Connected::new(3);
        assert_eq!(connected.since().group, None);
        connected.connect(7, site, 2, 1);
        assert_eq!(connected.since().group, Some(1));
        connected.disturb(S(2), S(2), 2);
        assert_eq!(connected.since().group, None, "its server is down");
        connected.connect(7, site, 0, 3);
        assert_eq!(connected.since().group, Some(3));
        connected.disturb(site, S(0), 4);
        assert_eq!(connected.since().group, None, "its link is cut");
        connected.restore(site, S(0), 5);
        assert_eq!(connected.since().group, Some(5));
    }

    #[test]
    fn a_majority_counts_from_when_the_same_servers_are_connected() {
        let mut connected = three();
        assert_eq!(connected.since().group, Some(0));
        connected.disturb(S(0), S(0), 5);
        assert_eq!(connected.since().group, Some(0), "the other two were connected all along");
        connected.disturb(S(1), S(2), 7);
        assert_eq!(connected.since().group, None);
        connected.restore(S(0), S(0), 9);
        assert_eq!(connected.since().group, Some(9));
    }

    #[test]
    fn a_place_disturbed_twice_is_restored_after_both() {
        let mut connected = three();
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
    fn the_leader_counts_while_it_is_undisturbed() {
        let mut connected = three();
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
    fn a_client_is_undisturbed_if_its_server_link_and_majority_were_for_long_enough() {
        let site = Place::Site(0);
        let mut connected = three();
        connected.disturb(S(2), S(2), 10);
        assert!(connected.is_undisturbed(site, 0, 11, 5), "two of three are well");
        assert!(!connected.is_undisturbed(site, 2, 11, 5));
        connected.restore(S(2), S(2), 20);
        assert!(!connected.is_undisturbed(site, 2, 24, 5));
        assert!(connected.is_undisturbed(site, 2, 25, 5));
        connected.disturb(site, S(1), 30);
        assert!(!connected.is_undisturbed(site, 1, 31, 5));
        connected.disturb(S(0), S(1), 40);
        connected.disturb(S(0), S(2), 40);
        assert!(!connected.is_undisturbed(site, 0, 41, 5), "it is cut off from any majority");
    }
}
