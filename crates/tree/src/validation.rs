//! Validation of one request on the leader, against the tree plus all transactions in flight.
//!
//! An operation looks up nodes and permissions through [`Validation`] and records the changes it will make in the
//! overlay. It records them only after its last check has passed, so a failed operation leaves nothing behind. A
//! multi, whose later parts can still fail, is rolled back as a whole.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::OnceCell;

use pole_jute::{Acl, ErrorCode, Perms};

use crate::access::Permissions;
use crate::acls::AclHandle;
use crate::node::hash;
use crate::overlay::{NodeView, Overlay};
use crate::quota::Usage;
use crate::tree::Session;
use crate::write_request::Identity;
use crate::{Caller, MayChange, Position, Refusals, Tree, access, path};

/// The context in which one request is validated.
pub(crate) struct Validation<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) overlay: &'a mut Overlay,
    pub(crate) refusals: &'a mut Refusals,
    /// Zxid and time of the transaction under construction.
    pub(crate) at: Position,
    /// The session that sent the request.
    pub(crate) session: i64,
    pub(crate) identity: &'a Identity,
    /// Made when a node is not open to everyone, because the identities are decoded for it.
    pub(crate) permissions: OnceCell<Permissions<'a>>,
    pub(crate) may_change: MayChange<'a>,
    /// Remaining budget for the ACLs of the transaction, in bytes. A short request can expand to long ACLs.
    pub(crate) acl_bytes_left: usize,
}

impl Validation<'_> {
    pub(crate) fn caller(&self) -> &Caller {
        self.identity.caller()
    }

    /// The ACL to store for the requested one. Fails when the ACLs of the transaction together exceed the size limit.
    pub(crate) fn resolve_acl(&mut self, asked: &[Acl]) -> Result<Vec<Acl>, ErrorCode> {
        let mut room = self.acl_bytes_left;
        let kept = access::fix_up(self.tree.rules, asked, self.caller(), &mut room);
        self.acl_bytes_left = room;
        self.refusals.txn += u64::from(kept == Err(ErrorCode::BadArguments));
        kept
    }

    /// The node as it will be after all transactions in flight; none if it will not exist.
    pub(crate) fn find(&self, path: &str) -> Option<NodeView> {
        let hash = hash(path);
        match self.overlay.node(hash, path) {
            Some(pending) => pending.cloned(),
            None => self.tree.nodes.find_hashed(hash, path).map(|id| self.tree.nodes.get(id).into()),
        }
    }

    /// Like [`Self::find`], but a missing node is an error.
    pub(crate) fn get(&self, path: &str) -> Result<NodeView, ErrorCode> {
        self.find(path).ok_or(ErrorCode::NoNode)
    }

    /// The session, if it will be open after all transactions in flight.
    pub(crate) fn open_session(&self, id: i64) -> Option<Session> {
        self.overlay.session(id).unwrap_or_else(|| self.tree.sessions.get(&id).copied())
    }

    /// Checks whether the caller may write to `path`, guarded by `acl`. Only the admin path may write Pole's
    /// settings, and only reconfig the members.
    pub(crate) fn check_write(&self, path: &str, acl: &AclHandle, perms: Perms) -> Result<(), ErrorCode> {
        if path::is_settings(path) {
            return if self.caller().is_admin() { Ok(()) } else { Err(ErrorCode::NoAuth) };
        }
        if path == path::CONFIG && perms.intersects(Perms::WRITE) {
            return Err(ErrorCode::NoAuth);
        }
        self.check(acl, perms)
    }

    /// Checks whether the caller has any of these permissions.
    pub(crate) fn check(&self, acl: &AclHandle, any_of: Perms) -> Result<(), ErrorCode> {
        if acl.world().intersects(any_of) {
            return Ok(());
        }
        let permissions = || Permissions::new(self.tree.rules, self.identity.caller());
        self.permissions.get_or_init(permissions).check(acl, any_of)
    }

    /// Checks whether every quota over `path` has room for the change.
    pub(crate) fn check_quota(&self, path: &str, change: Usage) -> Result<(), ErrorCode> {
        if !self.tree.rules.enforce_quota {
            return Ok(());
        }
        let is_over = |(top, used): (&Arc<str>, Usage)| {
            self.tree.hard_limits(top).refuse(change, used.plus(self.overlay.usage(top)).plus(change))
        };
        if self.tree.quotas_over(path).any(is_over) { Err(ErrorCode::QuotaExceeded) } else { Ok(()) }
    }

    /// Records the new state of a node.
    pub(crate) fn put(&mut self, node: NodeView) {
        self.overlay.put(self.at.zxid, node.hash, Arc::clone(&node.path), Some(node));
    }

    /// Records that a node is deleted and that its parent has one child less.
    pub(crate) fn delete(&mut self, node: NodeView, parent: NodeView) {
        self.charge(&node.path, Usage { nodes: -1, bytes: -bytes(node.data_length) });
        self.put(NodeView { children: parent.children.saturating_sub(1), ..parent });
        self.overlay.put(self.at.zxid, node.hash, node.path, None);
    }

    /// Records the new state of a session; none if it is closed.
    pub(crate) fn put_session(&mut self, id: i64, session: Option<Session>) {
        self.overlay.put_session(self.at.zxid, id, session);
    }

    /// Adds a change to the pending usage of all quotas over a path. Kept only while quotas are enforced.
    pub(crate) fn charge(&mut self, path: &str, change: Usage) {
        if self.tree.rules.enforce_quota {
            for (top, _) in self.tree.quotas_over(path) {
                self.overlay.add_usage(self.at.zxid, top, change);
            }
        }
    }

    /// The ephemeral nodes of the session after all transactions in flight.
    pub(crate) fn ephemerals(&self, session: i64) -> BTreeSet<Arc<str>> {
        let committed = self.tree.ephemerals(session).into_iter();
        let untouched = committed.filter(|path| self.overlay.node(hash(path), path).is_none());
        untouched.chain(self.overlay.ephemerals(session).cloned()).collect()
    }
}

/// The next version, if the client expected the current one; -1 matches any. Versions wrap around, as in Apache.
pub(crate) fn next_version(current: i32, expected: i32) -> Result<i32, ErrorCode> {
    if expected == -1 || expected == current { Ok(current.wrapping_add(1)) } else { Err(ErrorCode::BadVersion) }
}

/// A length as a signed difference.
pub(crate) fn bytes(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}
