//! Quotas: the usage and the limits of subtrees, in nodes and bytes.
//!
//! Every created, deleted or written node updates the usage, which is stored in the `zookeeper_stats` nodes.
//! Validation asks whether a change would exceed a hard limit.
//!
//! Invariant: for every path P with a node `/zookeeper/quota/P/zookeeper_limits`, the sibling `zookeeper_stats`, if
//! it exists, holds the actual usage of P. It therefore has the same content after a restart, which recounts.
//!
//! Apache guarantees less: there only the innermost of nested quotas is kept up to date, and clients may write
//! anything into the stats. Quotas on the root are not supported, as in Apache, nor quotas on reserved nodes.
//!
//! The text of limits and stats is that of Apache's `StatsTrack`.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::Tree;
use crate::path::{self, QUOTA, ROOT, ZOOKEEPER};

/// The subtrees with a quota, and their usage.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quotas {
    used: BTreeMap<Arc<str>, Usage>,
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
    /// The quotas that apply to a path, innermost first, with their usage.
    pub(crate) fn quotas_over<'a>(&'a self, path: &'a str) -> impl Iterator<Item = (&'a Arc<str>, Usage)> {
        let none = self.quotas.used.is_empty();
        let above = path::self_and_ancestors(path).take_while(move |_| !none);
        above.filter_map(|path| self.quotas.used.get_key_value(path)).map(|(top, usage)| (top, *usage))
    }

    pub(crate) fn hard_limits(&self, top: &str) -> HardLimits {
        self.data(&format!("{QUOTA}{top}/{LIMITS}")).flatten().map_or_else(HardLimits::default, HardLimits::parse)
    }

    /// Counts a created node.
    pub(crate) fn count_created(&mut self, path: &Arc<str>, bytes: usize) {
        self.count(path, Usage { nodes: 1, bytes: signed(bytes) });
        match quota_node(path) {
            Some((top, LIMITS)) => {
                let usage = self.measure(top);
                self.quotas.used.insert(top.into(), usage);
                self.write_stats(top, usage);
            }
            // Without limits the usage is measured only once, as in Apache.
            Some((top, STATS)) => self.write_stats(top, self.measure(top)),
            Some(_) | None => (),
        }
    }

    /// Counts a deleted node.
    pub(crate) fn count_deleted(&mut self, path: &Arc<str>, bytes: usize) {
        self.count(path, Usage { nodes: -1, bytes: -signed(bytes) });
        if let Some((top, LIMITS)) = quota_node(path) {
            self.quotas.used.remove(top);
        }
    }

    /// Counts replaced data.
    pub(crate) fn count_written(&mut self, path: &Arc<str>, before: usize, after: usize) {
        if before != after {
            self.count(path, Usage { nodes: 0, bytes: signed(after) - signed(before) });
        }
        if let Some((top, STATS)) = quota_node(path)
            && let Some(usage) = self.quotas.used.get(top).copied()
        {
            self.write_stats(top, usage);
        }
    }

    /// Measures all quotas. Needed after a snapshot is restored, because its stats may be older or newer than its
    /// nodes.
    pub(crate) fn measure_quotas(&mut self) {
        let Some(quota) = self.nodes.find(QUOTA) else { return };
        let paths = self.nodes.subtree(quota).map(|id| Arc::clone(&self.nodes.get(id).path));
        let limits = paths.filter(|path| matches!(quota_node(path), Some((_, LIMITS))));
        for path in limits.collect::<Vec<_>>() {
            let Some((top, _)) = quota_node(&path) else { continue };
            let usage = self.measure(top);
            self.quotas.used.insert(top.into(), usage);
            self.write_stats(top, usage);
        }
    }

    /// Updates every quota that applies to the path.
    fn count(&mut self, path: &str, change: Usage) {
        if self.quotas.used.is_empty() {
            return;
        }
        for top in path::self_and_ancestors(path) {
            if let Some(usage) = self.quotas.used.get_mut(top) {
                *usage = usage.plus(change);
                let usage = *usage;
                self.write_stats(top, usage);
            }
        }
    }

    fn measure(&self, top: &str) -> Usage {
        let below = self.nodes.find(top).into_iter().flat_map(|id| self.nodes.subtree(id));
        below.fold(Usage::default(), |sum, id| {
            sum.plus(Usage { nodes: 1, bytes: signed(self.nodes.get(id).data_length()) })
        })
    }

    /// Writes the usage into the stats node. Its stat stays the same and no watch fires, because this is not a
    /// client's change.
    fn write_stats(&mut self, top: &str, usage: Usage) {
        if let Some(id) = self.nodes.find(&format!("{QUOTA}{top}/{STATS}")) {
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

fn signed(bytes: usize) -> i64 {
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
