//! Every server's side: transactions change the tree.
//!
//! In: transactions as the log holds them, in order. Out: the answer, if this server has whoever asked; what changed.
//! Holds: nothing fails. What was prepared here fits; but an Apache server takes its snapshots while writes go on, and its
//! log is then applied to a tree that already holds a part of it. So a node to be created may exist (its parent still
//! takes over cversion and pzxid), one to be deleted may be gone (its parent still takes over pzxid) or have children
//! (they go too, and come again), one to be set may be missing (nothing happens). Once the part is passed, the tree is
//! as if each had been applied once.

use pole_jute::{ErrorCode, Txn, TxnEntry, TxnHeader};

use crate::path::POLE;
use crate::{Applied, Changes, Tree, op};

impl Tree {
    /// Applies a transaction. What changed is added to `changes`; the answer is made only if wanted.
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
                let done = apply_one(self, &entry.header, txn, changes);
                if let Ok(done) = done {
                    applied.session = done.session_change();
                }
                if want_reply {
                    let body = done.as_ref().map_or_else(|_| bytes::Bytes::new(), |done| done.reply(self));
                    applied.reply = Some((done.err().unwrap_or(ErrorCode::Ok), body));
                }
            }
        }
        applied.settings = changes.iter().skip(before).any(|change| &*change.path == POLE && change.is_about_itself());
        self.reached(entry.header.zxid);
        applied
    }
}

/// Applies one transaction that is no multi.
pub(crate) fn apply_one(
    tree: &mut Tree,
    header: &TxnHeader,
    txn: &Txn,
    changes: &mut Changes,
) -> Result<op::Done, ErrorCode> {
    match txn {
        Txn::Create(txn) => op::create::apply(tree, header, txn, changes).map(op::Done::Created),
        Txn::Create2(txn) => op::create::apply(tree, header, txn, changes).map(op::Done::CreatedWithStat),
        Txn::CreateContainer(txn) => op::create::apply_container(tree, header, txn, changes),
        Txn::CreateTtl(txn) => op::create::apply_ttl(tree, header, txn, changes),
        Txn::Delete(txn) | Txn::DeleteContainer(txn) => op::delete::apply(tree, header.zxid, &txn.path, changes),
        Txn::SetData(txn) | Txn::Reconfig(txn) => op::set_data::apply(tree, header, txn, changes),
        Txn::SetAcl(txn) => op::set_acl::apply(tree, txn),
        Txn::Check(_) => Ok(op::Done::Checked),
        Txn::CreateSession(txn) => Ok(op::session::apply_create(tree, header, *txn)),
        Txn::CloseSession(txn) => Ok(op::session::apply_close(tree, header, txn.as_ref(), changes)),
        Txn::Error(txn) => Err(txn.code().unwrap_or(ErrorCode::SystemError)),
        // The reader of transactions refuses one within another.
        Txn::Multi(_) => Err(ErrorCode::RuntimeInconsistency),
    }
}
