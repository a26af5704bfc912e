//! The znode tree, sessions, watches, ACLs, quotas and multi: a deterministic state machine over transactions.

#![no_std]

extern crate alloc;
