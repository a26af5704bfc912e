//! Reads: answered from the tree of the server that is asked, and the watches that they set.
//!
//! In: a request, who asks, the tree as it is. Out: the body of the reply, or the reason why there is none; events that
//! must be told before it.
//! Why the watches come by a function: most reads set none, and the table is behind a lock.
//! Holds: a watch is set while the tree is held, so no change passes between the answer and the watch.
//! Not here: sync and ping, which are about time; auth and sasl, which are about the connection.

use core::ops::DerefMut;

use alloc::vec::Vec;

use pole_jute::{ErrorCode, Perms, Request, WatcherEvent, Writer};

use crate::node::Node;
use crate::op;
use crate::watches::Modes;
use crate::{Caller, Tree, Watcher, Watches, access};

/// Answers a read. With `Ok` the body of the reply has been appended to `reply`, else nothing. `events` are for the same
/// connection and go before the reply.
#[expect(clippy::too_many_arguments, reason = "each is somebody else's, and a struct of them would live for one call")]
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
    let desk = Reading { tree, caller, watcher };
    let answered = match request {
        Request::Exists(request) => op::exists::read(&desk, watches, request, reply),
        Request::GetData(request) => op::data::read(&desk, watches, request, reply),
        Request::GetChildren(request) => op::children::read(&desk, watches, request, reply),
        Request::GetChildren2(request) => op::children::read_with_stat(&desk, watches, request, reply),
        Request::GetAllChildrenNumber(request) => op::children::count_all(&desk, request, reply),
        Request::GetAcl(request) => op::access::read(&desk, request, reply),
        Request::MultiRead(request) => op::multi_read::read(&desk, request, reply),
        Request::GetEphemerals(request) => op::ephemerals::read(&desk, session, request, reply),
        Request::WhoAmI => op::who_am_i::read(caller, reply),
        Request::SetWatches(request) => op::watch::set_again(&desk, watches, request, events),
        Request::SetWatches2(request) => op::watch::set_all_again(&desk, watches, request, events),
        Request::AddWatch(request) => op::watch::add(&desk, watches, request, reply),
        Request::CheckWatches(request) => op::watch::check(&desk, watches, request),
        Request::RemoveWatches(request) => op::watch::remove(&desk, watches, request),
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

/// What a read looks at.
pub(crate) struct Reading<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) caller: &'a Caller,
    pub(crate) watcher: Watcher,
}

impl<'a> Reading<'a> {
    /// A node that the caller may read.
    pub(crate) fn readable(&self, path: &str) -> Result<&'a Node, ErrorCode> {
        self.permitted(path, Perms::READ)
    }

    /// A node to which the caller has any of these permissions.
    pub(crate) fn permitted(&self, path: &str, any_of: Perms) -> Result<&'a Node, ErrorCode> {
        let node = self.find(path).ok_or(ErrorCode::NoNode)?;
        access::check(self.tree.rules, &node.acl, any_of, self.caller)?;
        Ok(node)
    }

    /// A node, whoever may read it.
    pub(crate) fn find(&self, path: &str) -> Option<&'a Node> {
        self.tree.nodes.find(path).map(|id| self.tree.nodes.get(id))
    }

    /// Sets a watch if it is wanted.
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
                self.check_room(&mut watches, 1)?;
            }
            watches.add(path, self.watcher, self.caller, mode);
        }
        Ok(())
    }

    /// Whether the connection may set this many watches more.
    pub(crate) fn check_room(&self, watches: &mut Watches, more: usize) -> Result<(), ErrorCode> {
        let room = watches.has_room(self.watcher, more, self.tree.rules.watches_max);
        if room { Ok(()) } else { Err(ErrorCode::QuotaExceeded) }
    }
}
