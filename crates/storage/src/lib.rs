//! Transaction log and snapshots in Apache ZooKeeper's own on-disk format.
