//! Applies committed transactions to the tree, on every server.
//!
//! Transactions arrive in log order. The result is the reply, if this server has the client's connection, and the
//! list of changes.
//!
//! Applying never fails. A transaction that Pole prepared always fits the tree. Apache, however, takes its snapshots
//! while writes go on, so its log is applied to a tree that already contains part of it. Therefore:
//!
//! - a node to be created may exist; its parent still takes over cversion and pzxid;
//! - a node to be deleted may be gone; its parent still takes over pzxid;
//! - a node to be deleted may have children; they are deleted too, and created again later in the log;
//! - a node to be set may be missing; nothing happens.
//!
//! After the overlapping part of the log, the tree is the same as if each transaction had been applied once.

use pole_jute::{ErrorCode, Txn, TxnEntry, TxnHeader};

use crate::path::POLE;
use crate::{Applied, Changes, Tree, op};

impl Tree {
    /// Applies a transaction and appends what changed to `changes`. The reply is built only with `want_reply`.
    pub fn apply(&mut self, entry: &TxnEntry, want_reply: bool, changes: &mut Changes) -> Applied {
        let before = changes.iter().count();
        changes.rules = self.rules;
        let mut applied = Applied::default();
        match &entry.txn {
            Txn::Multi(multi) => {
                let body = op::multi::apply(self, &entry.header, multi, want_reply, changes);
                applied.reply = body.map(|body| (ErrorCode::Ok, body));
            }
            txn @ (Txn::Create(_)
            | Txn::Create2(_)
            | Txn::CreateContainer(_)
            | Txn::CreateTtl(_)
            | Txn::Delete(_)
            | Txn::DeleteContainer(_)
            | Txn::SetData(_)
            | Txn::Reconfig(_)
            | Txn::SetAcl(_)
            | Txn::Check(_)
            | Txn::CreateSession(_)
            | Txn::CloseSession(_)
            | Txn::Error(_)) => {
                let outcome = apply_one(self, &entry.header, txn, changes);
                if let Ok(outcome) = outcome {
                    applied.session = outcome.session_change();
                }
                if want_reply {
                    let body = outcome.as_ref().map_or_else(|_| bytes::Bytes::new(), |outcome| outcome.reply(self));
                    applied.reply = Some((outcome.err().unwrap_or(ErrorCode::Ok), body));
                }
            }
        }
        applied.settings_changed =
            changes.iter().skip(before).any(|change| &*change.path == POLE && change.is_about_node());
        self.advance_zxid(entry.header.zxid);
        applied
    }
}

/// Applies one transaction other than a multi.
pub(crate) fn apply_one(
    tree: &mut Tree,
    header: &TxnHeader,
    txn: &Txn,
    changes: &mut Changes,
) -> Result<op::Outcome, ErrorCode> {
    match txn {
        Txn::Create(txn) => op::create::apply(tree, header, txn, changes).map(op::Outcome::Created),
        Txn::Create2(txn) => op::create::apply(tree, header, txn, changes).map(op::Outcome::CreatedWithStat),
        Txn::CreateContainer(txn) => op::create::apply_container(tree, header, txn, changes),
        Txn::CreateTtl(txn) => op::create::apply_ttl(tree, header, txn, changes),
        Txn::Delete(txn) | Txn::DeleteContainer(txn) => op::delete::apply(tree, header.zxid, &txn.path, changes),
        Txn::SetData(txn) => op::set_data::apply(tree, header, txn, changes),
        Txn::Reconfig(txn) => op::reconfig::apply(tree, header, txn, changes),
        Txn::SetAcl(txn) => op::set_acl::apply(tree, txn),
        Txn::Check(_) => Ok(op::Outcome::Checked),
        Txn::CreateSession(txn) => Ok(op::session::apply_create(tree, header, *txn)),
        Txn::CloseSession(txn) => Ok(op::session::apply_close(tree, header, txn.as_ref(), changes)),
        Txn::Error(txn) => Err(txn.code().unwrap_or(ErrorCode::SystemError)),
        // The decoder of transactions rejects a multi inside a multi.
        Txn::Multi(_) => Err(ErrorCode::RuntimeInconsistency),
    }
}
