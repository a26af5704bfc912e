//! Checks ephemeral nodes: each belongs to a live session and is deleted once, with that session or before it.
//!
//! The tree's own list is not enough: it could forget a node on every server alike, and no digest would differ.

use std::collections::{BTreeMap, BTreeSet};

use pole_jute::{Txn, TxnEntry};
use pole_types::Zxid;

use super::CheckResult;

/// The owner of each ephemeral node, by the committed history.
#[derive(Debug, Default)]
pub(crate) struct Ephemerals {
    owners: BTreeMap<String, i64>,
    alive: BTreeSet<i64>,
}

impl Ephemerals {
    /// Applies the next transaction of the history.
    pub(crate) fn committed(&mut self, zxid: Zxid, entry: &TxnEntry) -> CheckResult {
        self.apply(zxid, entry.header.client_id, &entry.txn)
    }

    fn apply(&mut self, zxid: Zxid, session: i64, txn: &Txn) -> CheckResult {
        match txn {
            Txn::CreateSession(_) => {
                self.alive.insert(session);
            }
            Txn::Create(txn) | Txn::Create2(txn) if txn.ephemeral => {
                if !self.alive.contains(&session) {
                    return Err(format!("{zxid} creates {} for session {session:#x}, which is no more", txn.path));
                }
                if let Some(owner) = self.owners.insert(txn.path.clone(), session) {
                    return Err(format!("{zxid} creates {}, which session {owner:#x} has", txn.path));
                }
            }
            Txn::Delete(txn) | Txn::DeleteContainer(txn) => {
                self.owners.remove(&txn.path);
            }
            Txn::CloseSession(paths) => {
                self.alive.remove(&session);
                for path in paths.iter().flat_map(|txn| &txn.paths_to_delete) {
                    let owner = self.owners.remove(path);
                    if owner != Some(session) {
                        return Err(format!("{zxid} ends session {session:#x} with {path}, which is of {owner:x?}"));
                    }
                }
                if let Some((path, _)) = self.owners.iter().find(|(_, owner)| **owner == session) {
                    return Err(format!("{zxid} ends session {session:#x}, but {path} stays"));
                }
            }
            Txn::Multi(multi) if !multi.txns.iter().any(|txn| matches!(txn, Txn::Error(_))) => {
                multi.txns.iter().try_for_each(|txn| self.apply(zxid, session, txn))?;
            }
            Txn::Create(_)
            | Txn::Create2(_)
            | Txn::Multi(_)
            | Txn::CreateContainer(_)
            | Txn::CreateTtl(_)
            | Txn::SetData(_)
            | Txn::Reconfig(_)
            | Txn::SetAcl(_)
            | Txn::Check(_)
            | Txn::Error(_) => {}
        }
        Ok(())
    }
}
