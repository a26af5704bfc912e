//! Quotas: the usage and the limits of subtrees, in nodes and bytes.
//!
//! Every created, deleted or written node updates the usage, which is stored in the `zookeeper_stats` nodes.
//! Validation asks whether a change would exceed a hard limit.
//!
//! Invariant: for every path P with a node `/zookeeper/quota/P/zookeeper_limits`, the sibling `zookeeper_stats`, if
//! it exists, holds the actual usage of P. It therefore has the same content after a restart. No work grows with the size of
//! a subtree.
//!
//! Apache guarantees less: there only the innermost of nested quotas is kept up to date, and clients may write
//! anything into the stats. Quotas on the root are not supported, as in Apache, nor quotas on reserved nodes.
//!
//! The text of limits and stats is that of Apache's `StatsTrack`.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashTable;

use crate::Tree;
use crate::node::hash;
use crate::path::{self, QUOTA, ROOT, ZOOKEEPER};

/// The subtrees with a quota. Their usage is known from the totals of `nodes`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quotas {
    tops: HashTable<Arc<str>>,
}

impl Quotas {
    fn insert(&mut self, top: &str) {
        let hash_of = |top: &Arc<str>| hash(top);
        self.tops.entry(hash(top), |other| **other == *top, hash_of).or_insert_with(|| top.into());
    }

    fn remove(&mut self, top: &str) {
        if let Ok(found) = self.tops.find_entry(hash(top), |other| **other == *top) {
            found.remove();
        }
    }

    fn contains(&self, top: &str) -> bool {
        self.tops.find(hash(top), |other| **other == *top).is_some()
    }

    /// Those that apply to a path, outermost first.
    fn over<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a Arc<str>> {
        let above = (!self.tops.is_empty()).then(|| path::ancestors_and_self_hashed(path));
        above.into_iter().flatten().filter_map(|(hash, top)| self.tops.find(hash, |other| **other == *top))
    }
}

/// The usage of a subtree, including its top node; or a difference of two usages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) nodes: i64,
    pub(crate) bytes: i64,
}

/// The hard limits of a subtree; none means unlimited. Soft limits only cause warnings and are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HardLimits {
    nodes: Option<i64>,
    bytes: Option<i64>,
}

impl Tree {
    /// The quotas that apply to a path, outermost first, with their usage.
    pub(crate) fn quotas_over<'a>(&'a self, path: &'a str) -> impl Iterator<Item = (&'a Arc<str>, Usage)> {
        self.quotas.over(path).map(|top| (top, self.measure(top)))
    }

    pub(crate) fn hard_limits(&self, top: &str) -> HardLimits {
        self.data(&format!("{QUOTA}{top}/{LIMITS}")).flatten().map_or_else(HardLimits::default, HardLimits::parse)
    }

    /// Counts a created node.
    pub(crate) fn count_created(&mut self, path: &Arc<str>) {
        self.update_stats_over(path);
        match quota_node(path) {
            Some((top, LIMITS)) => {
                self.quotas.insert(top);
                self.write_stats(top);
            }
            // Without limits the usage is written only once, as in Apache.
            Some((top, STATS)) => self.write_stats(top),
            Some(_) | None => (),
        }
    }

    /// Counts a deleted node.
    pub(crate) fn count_deleted(&mut self, path: &Arc<str>) {
        self.update_stats_over(path);
        if let Some((top, LIMITS)) = quota_node(path) {
            self.quotas.remove(top);
        }
    }

    /// Counts replaced data.
    pub(crate) fn count_written(&mut self, path: &Arc<str>, before: usize, after: usize) {
        if before != after {
            self.update_stats_over(path);
        }
        if let Some((top, STATS)) = quota_node(path)
            && self.quotas.contains(top)
        {
            self.write_stats(top);
        }
    }

    /// Finds all quotas. Needed after a snapshot is restored, whose stats may be older or newer than its nodes.
    pub(crate) fn restore_quotas(&mut self) {
        let Some(quota) = self.nodes.find(QUOTA) else { return };
        let paths = self.nodes.subtree(quota).map(|id| Arc::clone(&self.nodes.get(id).path));
        let limits = paths.filter(|path| matches!(quota_node(path), Some((_, LIMITS))));
        for path in limits.collect::<Vec<_>>() {
            let Some((top, _)) = quota_node(&path) else { continue };
            self.quotas.insert(top);
            self.write_stats(top);
        }
    }

    /// Updates the stats of every quota that applies to the path.
    fn update_stats_over(&mut self, path: &str) {
        let tops: Vec<Arc<str>> = self.quotas.over(path).map(Arc::clone).collect();
        tops.iter().for_each(|top| self.write_stats(top));
    }

    fn measure(&self, top: &str) -> Usage {
        self.nodes.find(top).map_or_else(Usage::default, |id| Usage {
            nodes: i64::from(self.nodes.descendants(id)) + 1,
            bytes: signed(self.nodes.bytes_below(id)) + signed(self.nodes.get(id).data_length() as u64),
        })
    }

    /// Writes the usage into the stats node. Its stat stays the same and no watch fires, because this is not a
    /// client's change.
    fn write_stats(&mut self, top: &str) {
        if let Some(id) = self.nodes.find(&format!("{QUOTA}{top}/{STATS}")) {
            let usage = self.measure(top);
            let text = format!("count={},bytes={}", usage.nodes, usage.bytes);
            self.nodes.change(id, |node| node.set_data(Some(text.as_bytes().into())));
        }
    }
}

impl Usage {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self { nodes: self.nodes + other.nodes, bytes: self.bytes + other.bytes }
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Self { nodes: self.nodes - other.nodes, bytes: self.bytes - other.bytes }
    }
}

impl HardLimits {
    /// Parses `count=1,bytes=2=;byteHardLimit=4;countHardLimit=3`. What cannot be parsed is no limit.
    fn parse(text: &[u8]) -> Self {
        let mut limits = Self::default();
        for pair in text.split(|byte| matches!(byte, b',' | b';')) {
            let Some((key, value)) = core::str::from_utf8(pair).ok().and_then(|pair| pair.split_once('=')) else {
                continue;
            };
            let value = value.trim_end_matches('=').parse().ok().filter(|limit: &i64| *limit > -1);
            match key {
                "countHardLimit" => limits.nodes = value,
                "byteHardLimit" => limits.bytes = value,
                _ => (),
            }
        }
        limits
    }

    /// Whether a change that leads to usage `after` must be rejected. A change that does not grow the usage never is.
    pub(crate) fn refuse(self, change: Usage, after: Usage) -> bool {
        let over = |limit: Option<i64>, change: i64, after: i64| change > 0 && limit.is_some_and(|limit| after > limit);
        over(self.nodes, change.nodes, after.nodes) || over(self.bytes, change.bytes, after.bytes)
    }
}

/// The subtree that a node below `/zookeeper/quota` applies to, and the name of the node.
fn quota_node(path: &str) -> Option<(&str, &str)> {
    let (quota, name) = path.strip_prefix(QUOTA)?.rsplit_once('/')?;
    let is_kept = quota.starts_with('/') && quota != ROOT && !path::is_within(quota, ZOOKEEPER);
    is_kept.then_some((quota, name))
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

const LIMITS: &str = "zookeeper_limits";
const STATS: &str = "zookeeper_stats";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_apache_writes_them() {
        let limits = HardLimits::parse(b"count=5,bytes=-1=;byteHardLimit=10;countHardLimit=3");
        assert_eq!(limits, HardLimits { nodes: Some(3), bytes: Some(10) });
        assert_eq!(HardLimits::parse(b"count=5,bytes=10"), HardLimits::default());
        assert_eq!(HardLimits::parse(b"countHardLimit=-1;byteHardLimit=x;;=,\xff"), HardLimits::default());
    }

    #[test]
    fn a_change_that_does_not_grow_usage_is_accepted() {
        let limits = HardLimits { nodes: Some(1), bytes: Some(1) };
        let over = Usage { nodes: 9, bytes: 9 };
        assert!(!limits.refuse(Usage { nodes: 0, bytes: -1 }, over));
        assert!(limits.refuse(Usage { nodes: 0, bytes: 1 }, over));
        assert!(!limits.refuse(Usage { nodes: 1, bytes: 1 }, Usage { nodes: 1, bytes: 1 }));
    }

    #[test]
    fn the_path_of_a_quota_node_names_its_subtree() {
        assert_eq!(quota_node("/zookeeper/quota/a/b/zookeeper_limits"), Some(("/a/b", LIMITS)));
        assert_eq!(quota_node("/zookeeper/quota/zookeeper_limits"), None, "none on the root");
        assert_eq!(quota_node("/zookeeper/quota/zookeeper/zookeeper_limits"), None, "none on our own");
        assert_eq!(quota_node("/a/zookeeper_limits"), None);
    }
}
