//! The servers that vote, and what counts as a quorum of them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt;

use crate::ids::ServerId;

/// The servers that vote, each with a weight and a group.
///
/// A quorum is more than half of the groups, where a group counts if more than half of its weight is there. Groups
/// without any weight are left out. With one group and equal weights, which is what [`Voters::new`] makes, a quorum is a
/// majority.
///
/// Two quorums always have a server in common: they share a group, and within it more than half of the weight each.
///
/// While the voters change, both the old and the new ones have to agree: [`Voters::joint`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Voters {
    current: Electorate,
    /// The voters before a change that is not committed yet. A quorum of them is needed as well.
    before: Option<Electorate>,
}

/// One set of voters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Electorate {
    voters: BTreeMap<ServerId, Voter>,
    /// The total weight of each group that has any.
    groups: BTreeMap<u64, u64>,
}

/// How much the vote of a server counts, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Voter {
    /// A server of weight zero follows like any other, but adds nothing to a quorum and does not lead.
    pub weight: u32,
    /// The group within which the weight counts.
    pub group: u64,
}

impl Default for Voter {
    fn default() -> Self {
        Self { weight: 1, group: 0 }
    }
}

impl Voters {
    /// Creates a set in which all votes count the same; duplicates are ignored.
    pub fn new(ids: impl IntoIterator<Item = ServerId>) -> Self {
        Self::weighted(ids.into_iter().map(|id| (id, Voter::default())))
    }

    /// Creates a set with weights and groups. The last of duplicates counts.
    pub fn weighted(voters: impl IntoIterator<Item = (ServerId, Voter)>) -> Self {
        let voters: BTreeMap<_, _> = voters.into_iter().collect();
        let mut groups = BTreeMap::new();
        for voter in voters.values().filter(|voter| voter.weight > 0) {
            *groups.entry(voter.group).or_default() += u64::from(voter.weight);
        }
        Self { current: Electorate { voters, groups }, before: None }
    }

    /// The voters during a change from `before` to `current`: a quorum is a quorum of both.
    #[must_use]
    pub fn joint(before: &Self, current: &Self) -> Self {
        Self { current: current.current.clone(), before: Some(before.current.clone()) }
    }

    /// Whether the voters are changing.
    #[must_use]
    pub fn is_joint(&self) -> bool {
        self.before.is_some()
    }

    /// The number of voters; during a change, of those before and after it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there are no voters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the server is a voter; during a change, before or after it.
    #[must_use]
    pub fn contains(&self, id: ServerId) -> bool {
        self.electorates().any(|electorate| electorate.voters.contains_key(&id))
    }

    /// The voters before the change that is under way, or these if there is none.
    #[must_use]
    pub fn before_change(&self) -> Self {
        Self { current: self.before.as_ref().unwrap_or(&self.current).clone(), before: None }
    }

    /// Whether the server may lead: a voter with a weight; during a change, before or after it.
    #[must_use]
    pub fn may_lead(&self, id: ServerId) -> bool {
        self.electorates().any(|electorate| electorate.voters.get(&id).is_some_and(|voter| voter.weight > 0))
    }

    /// The weight and the group of a voter; during a change, those after it.
    #[must_use]
    pub fn get(&self, id: ServerId) -> Option<Voter> {
        self.current.voters.get(&id).copied()
    }

    /// All voters, in ascending order; during a change, those before and after it.
    pub fn iter(&self) -> impl Iterator<Item = ServerId> + '_ {
        let before = self.before.iter().flat_map(|before| before.voters.keys());
        let ids: BTreeSet<_> = self.current.voters.keys().chain(before).copied().collect();
        ids.into_iter()
    }

    /// All voters except `me`, in ascending order.
    pub fn peers(&self, me: ServerId) -> impl Iterator<Item = ServerId> + '_ {
        self.iter().filter(move |id| *id != me)
    }

    /// Whether all votes count the same, so that a quorum is a majority.
    #[must_use]
    pub fn is_majority(&self) -> bool {
        let mut voters = self.current.voters.values();
        let first = voters.next().copied().unwrap_or_default();
        !self.is_joint() && first.weight > 0 && voters.all(|voter| *voter == first)
    }

    /// Whether these servers, each given once, include a quorum. Servers that are not voters do not count.
    pub fn is_quorum(&self, ids: impl IntoIterator<Item = ServerId>) -> bool {
        let Some(before) = &self.before else { return self.current.is_quorum(ids) };
        let ids: Vec<_> = ids.into_iter().collect();
        self.current.is_quorum(ids.iter().copied()) && before.is_quorum(ids)
    }

    /// The smallest value within which there is a quorum: the servers whose value is at most this one include a quorum,
    /// and those with smaller values do not. `None` if all of them together are no quorum.
    ///
    /// With round trips, it is how long a quorum takes to answer; with positions in reverse order, what a quorum has.
    pub fn quorum_value<T: Ord>(&self, values: impl IntoIterator<Item = (ServerId, T)>) -> Option<T> {
        let mut sorted: Vec<_> = values.into_iter().filter(|(id, _)| self.contains(*id)).collect();
        sorted.sort_unstable_by(|(a_id, a), (b_id, b)| a.cmp(b).then(a_id.cmp(b_id)));
        let mut tallies: Vec<_> = self.electorates().map(|electorate| (electorate, Tally::default())).collect();
        sorted.into_iter().find_map(|(id, value)| {
            tallies.iter_mut().for_each(|(electorate, tally)| tally.add(electorate, id));
            tallies.iter().all(|(electorate, tally)| tally.is_quorum(electorate)).then_some(value)
        })
    }

    fn electorates(&self) -> impl Iterator<Item = &Electorate> {
        self.before.iter().chain([&self.current])
    }

    /// The fewest servers whose failure leaves no quorum, besides those that are `down`; during a change, after it. An
    /// ensemble survives one failure less, whichever servers fail, and perhaps more of other servers.
    #[must_use]
    pub fn fatal_failures(&self, down: impl Fn(ServerId) -> bool) -> BTreeSet<ServerId> {
        self.current.fatal_failures(&down)
    }
}

impl fmt::Display for Voters {
    /// The ids; during a change, those before and after it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = |electorate: &Electorate| {
            let ids: Vec<_> = electorate.voters.keys().map(ServerId::to_string).collect();
            ids.join(" ")
        };
        match &self.before {
            Some(before) => write!(f, "{} -> {}", ids(before), ids(&self.current)),
            None => f.write_str(&ids(&self.current)),
        }
    }
}

impl Electorate {
    fn is_quorum(&self, ids: impl IntoIterator<Item = ServerId>) -> bool {
        let mut tally = Tally::default();
        ids.into_iter().for_each(|id| tally.add(self, id));
        tally.is_quorum(self)
    }

    fn fatal_failures(&self, down: &dyn Fn(ServerId) -> bool) -> BTreeSet<ServerId> {
        // A group is lost cheapest by its heaviest servers, and it suffices to lose enough groups.
        let mut by_group: Vec<Vec<ServerId>> =
            self.groups.iter().map(|(group, total)| self.fatal_in(*group, *total, down)).collect();
        by_group.sort_by_key(Vec::len);
        let groups = by_group.len().div_ceil(2);
        by_group.into_iter().take(groups).flatten().collect()
    }

    /// The fewest servers of a group without which at most half of its weight is left.
    fn fatal_in(&self, group: u64, total: u64, down: &dyn Fn(ServerId) -> bool) -> Vec<ServerId> {
        let up = self.voters.iter().filter(|(id, voter)| voter.group == group && !down(**id));
        let mut members: Vec<_> = up.collect();
        members.sort_by_key(|(id, voter)| (core::cmp::Reverse(voter.weight), core::cmp::Reverse(**id)));
        let mut left: u64 = members.iter().map(|(_, voter)| u64::from(voter.weight)).sum();
        let mut fatal = Vec::new();
        for (id, voter) in members {
            if left * 2 <= total {
                break;
            }
            left -= u64::from(voter.weight);
            fatal.push(*id);
        }
        fatal
    }
}

/// The weight counted in each group.
#[derive(Default)]
struct Tally(Vec<(u64, u64)>);

impl Tally {
    fn add(&mut self, electorate: &Electorate, id: ServerId) {
        let Some(&Voter { weight, group }) = electorate.voters.get(&id) else { return };
        match self.0.iter_mut().find(|(counted, _)| *counted == group) {
            Some((_, sum)) => *sum += u64::from(weight),
            None => self.0.push((group, u64::from(weight))),
        }
    }

    fn is_quorum(&self, electorate: &Electorate) -> bool {
        let total = |group: u64| electorate.groups.get(&group).copied();
        let has_majority = |(group, sum): &&(u64, u64)| total(*group).is_some_and(|total| sum * 2 > total);
        self.0.iter().filter(has_majority).count() * 2 > electorate.groups.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn ids(ids: &[u64]) -> impl Iterator<Item = ServerId> {
        ids.iter().copied().map(ServerId)
    }

    /// Nine servers in three groups of three.
    fn three_groups() -> Voters {
        Voters::weighted((1..=9).map(|id| (ServerId(id), Voter { weight: 1, group: (id - 1) / 3 })))
    }

    /// Seven servers with different weights in three groups.
    fn uneven() -> Voters {
        let weights = [1, 2, 2, 0, 1, 3, 1].into_iter().zip(0..);
        Voters::weighted(weights.map(|(weight, id)| (ServerId(id), Voter { weight, group: id % 3 })))
    }

    #[test]
    fn with_equal_weights_a_quorum_is_a_majority() {
        let voters = Voters::new(ids(&[1, 2, 3, 4]));
        assert!(voters.is_majority());
        assert!(voters.is_quorum(ids(&[1, 2, 3])));
        assert!(!voters.is_quorum(ids(&[1, 2])), "half is no majority");
        assert!(!voters.is_quorum(ids(&[1, 2, 9])), "9 is no voter");
    }

    #[test]
    fn a_quorum_of_groups_is_a_majority_in_a_majority_of_groups() {
        let voters = three_groups();
        assert!(!voters.is_majority());
        assert!(voters.is_quorum(ids(&[1, 2, 4, 5])), "four of nine, two in each of two groups");
        assert!(!voters.is_quorum(ids(&[1, 2, 3, 4, 7])), "five of nine, but a majority in one group only");
    }

    #[test]
    fn a_server_without_weight_adds_nothing_and_its_group_is_left_out() {
        let weight = |id: u64| (ServerId(id), Voter { weight: u32::from(id <= 2), group: id });
        let voters = Voters::weighted((1..=3).map(weight));
        assert!(!voters.may_lead(ServerId(3)));
        assert!(voters.is_quorum(ids(&[1, 2])));
        assert!(!voters.is_quorum(ids(&[1, 3])));
    }

    #[test]
    fn during_a_change_both_sets_have_to_agree() {
        let (three, other) = (Voters::new(ids(&[1, 2, 3])), Voters::new(ids(&[3, 4, 5])));
        let joint = Voters::joint(&three, &other);
        assert!(!joint.is_quorum(ids(&[1, 2])) && !joint.is_quorum(ids(&[4, 5])));
        assert!(joint.is_quorum(ids(&[1, 3, 4])));
        assert!(joint.may_lead(ServerId(1)) && joint.may_lead(ServerId(5)) && !joint.may_lead(ServerId(6)));
        assert_eq!((joint.before_change(), other.before_change()), (three.clone(), other.clone()));
        assert_eq!((joint.len(), joint.contains(ServerId(1))), (5, true));
        let acked = [(1, 9), (2, 8), (3, 1), (4, 7), (5, 7)].map(|(id, zxid)| (ServerId(id), core::cmp::Reverse(zxid)));
        assert_eq!(joint.quorum_value(acked), Some(core::cmp::Reverse(7)));
        assert_eq!(three.quorum_value(acked), Some(core::cmp::Reverse(8)));
    }

    #[test]
    fn the_heaviest_server_of_two_may_decide_alone() {
        let voters = Voters::weighted([(ServerId(1), Voter { weight: 3, group: 0 }), (ServerId(2), Voter::default())]);
        assert!(voters.is_quorum(ids(&[1])));
        assert!(!voters.is_quorum(ids(&[2])));
    }

    #[test]
    fn any_two_quorums_share_a_server() {
        let voters = uneven();
        let quorums: Vec<u32> = (0..1 << 7).filter(|set| voters.is_quorum(members(*set))).collect();
        assert!(!quorums.is_empty());
        for a in &quorums {
            assert!(quorums.iter().all(|b| a & b != 0), "{a:b} shares no server with another quorum");
        }
    }

    fn members(set: u32) -> impl Iterator<Item = ServerId> {
        (0..7).filter(move |at| set & 1 << at != 0).map(ServerId)
    }

    #[test]
    fn the_value_of_a_quorum_is_that_of_its_last_member() {
        let values = |list: &[(u64, i32)]| list.iter().map(|(id, value)| (ServerId(*id), *value)).collect::<Vec<_>>();
        let voters = Voters::new(ids(&[1, 2, 3]));
        assert_eq!(voters.quorum_value(values(&[(1, 9), (2, 3), (3, 5)])), Some(5));
        assert_eq!(voters.quorum_value(values(&[(1, 9), (9, 3)])), None);
        let grouped = three_groups();
        assert_eq!(grouped.quorum_value(values(&[(1, 1), (2, 1), (3, 1), (4, 1), (5, 7), (7, 2)])), Some(7));
    }

    #[test]
    fn the_fewest_failures_that_are_fatal_hit_the_heaviest_servers() {
        assert_eq!(Voters::new(ids(&[1, 2, 3, 4, 5])).fatal_failures(|_| false).len(), 3);
        assert_eq!(Voters::new(ids(&[1, 2, 3, 4])).fatal_failures(|_| false).len(), 2);
        assert_eq!(Voters::new(ids(&[1])).fatal_failures(|_| false).len(), 1);
        assert_eq!(three_groups().fatal_failures(|_| false).len(), 4);
        let five = Voters::new(ids(&[1, 2, 3, 4, 5]));
        assert_eq!(five.fatal_failures(|id| id.0 <= 2).len(), 1, "two are down already");
        assert_eq!(five.fatal_failures(|id| id.0 <= 3).len(), 0, "there is no quorum");
        let heavy = Voters::weighted([(ServerId(1), Voter { weight: 3, group: 0 }), (ServerId(2), Voter::default())]);
        assert_eq!(heavy.fatal_failures(|_| false).into_iter().collect::<Vec<_>>(), vec![ServerId(1)]);
    }

    #[test]
    fn what_is_called_fatal_leaves_no_quorum_and_nothing_smaller_does() {
        let voters = uneven();
        let fatal = voters.fatal_failures(|_| false);
        assert!(!voters.is_quorum(voters.iter().filter(|id| !fatal.contains(id))));
        let all = (1 << 7) - 1;
        let smallest = (0..1 << 7).filter(|set| !voters.is_quorum(members(all ^ set))).map(u32::count_ones).min();
        assert_eq!(smallest, Some(fatal.len() as u32));
    }
}
