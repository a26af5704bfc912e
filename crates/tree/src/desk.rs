//! Where one transaction is made: the tree with everything in flight, as seen by one request.
//!
//! In: questions of an operation about nodes and permissions. Out: answers, with what is in flight counted in; and the
//! differences that the operation will make.
//! Holds: an operation enters differences only once nothing can fail any more; a multi, whose later parts can, is taken
//! back as a whole.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use pole_jute::{Acl, ErrorCode, Perms};

use crate::acls::AclHandle;
use crate::ask::Identity;
use crate::node::hash;
use crate::overlay::{Overlay, Shape};
use crate::quota::Usage;
use crate::tree::Session;
use crate::{Caller, Position, Refusals, Tree, access, path};

/// One request before the leader.
pub(crate) struct Desk<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) overlay: &'a mut Overlay,
    pub(crate) refusals: &'a mut Refusals,
    /// The place of the transaction.
    pub(crate) at: Position,
    /// Whose request it is.
    pub(crate) session: i64,
    pub(crate) identity: &'a Identity,
    /// Bytes that are left for the ACLs of the transaction: a short request may stand for long ones.
    pub(crate) acl_room: usize,
}

impl Desk<'_> {
    /// Who asks.
    pub(crate) fn caller(&self) -> &Caller {
        self.identity.caller()
    }

    /// The ACL that is kept of what was asked for. All of a transaction together must not grow beyond what others accept.
    pub(crate) fn keep_acl(&mut self, asked: &[Acl]) -> Result<Vec<Acl>, ErrorCode> {
        let mut room = self.acl_room;
        let kept = access::fix_up(asked, self.caller(), &mut room);
        self.acl_room = room;
        self.refusals.txn += u64::from(kept == Err(ErrorCode::BadArguments));
        kept
    }

    /// The node, if it will be there.
    pub(crate) fn find(&self, path: &str) -> Option<Shape> {
        let hash = hash(path);
        match self.overlay.node(hash, path) {
            Some(pending) => pending.cloned(),
            None => self.tree.nodes.find_hashed(hash, path).map(|id| self.tree.nodes.get(id).into()),
        }
    }

    /// The node, which must be there.
    pub(crate) fn get(&self, path: &str) -> Result<Shape, ErrorCode> {
        self.find(path).ok_or(ErrorCode::NoNode)
    }

    /// The session, if it will be open.
    pub(crate) fn open_session(&self, id: i64) -> Option<Session> {
        self.overlay.session(id).unwrap_or_else(|| self.tree.sessions.get(&id).copied())
    }

    /// Whether the caller may write to `path`, where `acl` decides. Pole's settings are the admin path's alone.
    pub(crate) fn check_write(&self, path: &str, acl: &AclHandle, perms: Perms) -> Result<(), ErrorCode> {
        if path::is_settings(path) {
            return if self.caller().is_admin() { Ok(()) } else { Err(ErrorCode::NoAuth) };
        }
        self.check(acl, perms)
    }

    /// Whether the caller has any of these permissions.
    pub(crate) fn check(&self, acl: &AclHandle, any_of: Perms) -> Result<(), ErrorCode> {
        let everyone_may = acl.world().intersects(any_of);
        if everyone_may { Ok(()) } else { access::check(self.tree.rules, acl, any_of, self.caller()) }
    }

    /// Whether a quota has room for this.
    pub(crate) fn check_quota(&self, path: &str, change: Usage) -> Result<(), ErrorCode> {
        if !self.tree.rules.enforce_quota {
            return Ok(());
        }
        let is_over = |(top, used): (&Arc<str>, Usage)| {
            self.tree.hard_limits(top).refuse(change, used.plus(self.overlay.usage(top)).plus(change))
        };
        if self.tree.quotas_over(path).any(is_over) { Err(ErrorCode::QuotaExceeded) } else { Ok(()) }
    }

    /// The node will be so.
    pub(crate) fn put(&mut self, shape: Shape) {
        self.overlay.put(self.at.zxid, shape.hash, Arc::clone(&shape.path), Some(shape));
    }

    /// The node will be gone, and its parent have one child less.
    pub(crate) fn erase(&mut self, node: Shape, parent: Shape) {
        self.charge(&node.path, Usage { nodes: -1, bytes: -bytes(node.data_length) });
        self.put(Shape { children: parent.children.saturating_sub(1), ..parent });
        self.overlay.put(self.at.zxid, node.hash, node.path, None);
    }

    /// The session will be so.
    pub(crate) fn put_session(&mut self, id: i64, session: Option<Session>) {
        self.overlay.put_session(self.at.zxid, id, session);
    }

    /// So much will be added to the quotas over a path. Only kept where somebody looks at it.
    pub(crate) fn charge(&mut self, path: &str, change: Usage) {
        if self.tree.rules.enforce_quota {
            for (top, _) in self.tree.quotas_over(path) {
                self.overlay.add_usage(self.at.zxid, top, change);
            }
        }
    }

    /// The ephemeral nodes that the session will have.
    pub(crate) fn ephemerals(&self, session: i64) -> BTreeSet<Arc<str>> {
        let committed = self.tree.ephemerals(session).into_iter();
        let untouched = committed.filter(|path| self.overlay.node(hash(path), path).is_none());
        untouched.chain(self.overlay.ephemerals(session).cloned()).collect()
    }
}

/// The next version, if the client expected the one that is there; -1 is any. Versions wrap around, as in Apache.
pub(crate) fn next_version(current: i32, expected: i32) -> Result<i32, ErrorCode> {
    if expected == -1 || expected == current { Ok(current.wrapping_add(1)) } else { Err(ErrorCode::BadVersion) }
}

/// A length as a difference.
pub(crate) fn bytes(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}
