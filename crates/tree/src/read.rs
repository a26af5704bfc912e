//! Reads, answered from this server's tree, and the watches that they set.
//!
//! A read yields the body of the reply or an error code, and the events that must be sent before the reply.
//!
//! The watches are passed as a function, because most reads set none and the table is behind a lock.
//!
//! Invariant: a watch is set while the tree is locked, so no change is lost between the reply and the watch.
//!
//! Not handled here: sync and ping, which depend on time, and auth and sasl, which change the connection.

use core::ops::DerefMut;

use alloc::vec::Vec;

use pole_jute::{ErrorCode, Perms, Request, WatcherEvent, Writer};

use crate::access::Permissions;
use crate::node::Node;
use crate::op;
use crate::watches::Modes;
use crate::{Caller, Tree, Watcher, Watches};

/// Answers a read. On `Ok` the body of the reply has been appended to `reply`, otherwise nothing has. `events` are
/// for the same connection and must be sent before the reply.
#[expect(
    clippy::too_many_arguments,
    reason = "the arguments have different owners, and a struct would live for one call"
)]
pub fn read<W: DerefMut<Target = Watches>>(
    tree: &Tree,
    watches: impl FnOnce() -> W,
    watcher: Watcher,
    session: i64,
    caller: &Caller,
    request: &Request,
    reply: &mut Writer,
    events: &mut Vec<WatcherEvent>,
) -> ErrorCode {
    let context = ReadContext { tree, caller, watcher, permissions: Permissions::new(tree.rules, caller) };
    let answered = match request {
        Request::Exists(request) => op::exists::read(&context, watches, request, reply),
        Request::GetData(request) => op::get_data::read(&context, watches, request, reply),
        Request::GetChildren(request) => op::get_children::read(&context, watches, request, reply),
        Request::GetChildren2(request) => op::get_children::read_with_stat(&context, watches, request, reply),
        Request::GetAllChildrenNumber(request) => op::get_children::count_all(&context, request, reply),
        Request::GetAcl(request) => op::get_acl::read(&context, request, reply),
        Request::MultiRead(request) => op::multi_read::read(&context, request, reply),
        Request::GetEphemerals(request) => op::get_ephemerals::read(&context, session, request, reply),
        Request::WhoAmI => op::who_am_i::read(caller, reply),
        Request::SetWatches(request) => op::watch::set_watches(&context, watches, request, events),
        Request::SetWatches2(request) => op::watch::set_watches2(&context, watches, request, events),
        Request::AddWatch(request) => op::watch::add(&context, watches, request, reply),
        Request::CheckWatches(request) => op::watch::check(&context, watches, request),
        Request::RemoveWatches(request) => op::watch::remove(&context, watches, request),
        Request::Create(_)
        | Request::Delete(_)
        | Request::SetData(_)
        | Request::SetAcl(_)
        | Request::Sync(_)
        | Request::Ping
        | Request::Check(_)
        | Request::Multi(_)
        | Request::Create2(_)
        | Request::Reconfig(_)
        | Request::CreateContainer(_)
        | Request::DeleteContainer(_)
        | Request::CreateTtl(_)
        | Request::Auth(_)
        | Request::Sasl(_)
        | Request::CloseSession => Err(ErrorCode::Unimplemented),
    };
    answered.err().unwrap_or(ErrorCode::Ok)
}

/// The context in which a read is answered.
pub(crate) struct ReadContext<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) caller: &'a Caller,
    pub(crate) watcher: Watcher,
    pub(crate) permissions: Permissions<'a>,
}

impl<'a> ReadContext<'a> {
    /// A node that the caller may read.
    pub(crate) fn readable(&self, path: &str) -> Result<&'a Node, ErrorCode> {
        self.permitted(path, Perms::READ)
    }

    /// A node for which the caller has any of these permissions.
    pub(crate) fn permitted(&self, path: &str, any_of: Perms) -> Result<&'a Node, ErrorCode> {
        let node = self.find(path).ok_or(ErrorCode::NoNode)?;
        self.permissions.check(&node.acl, any_of)?;
        Ok(node)
    }

    /// A node, without a permission check.
    pub(crate) fn find(&self, path: &str) -> Option<&'a Node> {
        self.tree.nodes.find(path).map(|id| self.tree.nodes.get(id))
    }

    /// Sets a watch if `wanted`.
    pub(crate) fn watch<W: DerefMut<Target = Watches>>(
        &self,
        watches: impl FnOnce() -> W,
        wanted: bool,
        path: &str,
        mode: Modes,
    ) -> Result<(), ErrorCode> {
        if wanted {
            let mut watches = watches();
            if watches.modes(path, self.watcher) == Modes::NONE {
                self.check_room(&mut watches, [path])?;
            }
            watches.add(path, self.watcher, self.caller, mode);
        }
        Ok(())
    }

    /// Checks whether the connection may watch these paths too.
    pub(crate) fn check_room<'p>(
        &self,
        watches: &mut Watches,
        more: impl IntoIterator<Item = &'p str>,
    ) -> Result<(), ErrorCode> {
        let room = watches.has_room(self.watcher, more, self.tree.rules.watches_max);
        if room { Ok(()) } else { Err(ErrorCode::QuotaExceeded) }
    }
}
