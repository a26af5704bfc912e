//! The operations: for each write, what makes it a transaction, what the transaction does, and its reply; for each read,
//! its reply and the watch that it sets.
//!
//! The two lists here name them all. They are matches without a default, so a new operation is met by the compiler.

pub(crate) mod access;
pub(crate) mod check;
pub(crate) mod children;
pub(crate) mod create;
pub(crate) mod data;
pub(crate) mod delete;
pub(crate) mod ephemerals;
pub(crate) mod exists;
pub(crate) mod multi;
pub(crate) mod multi_read;
pub(crate) mod session;
pub(crate) mod set_acl;
pub(crate) mod set_data;
pub(crate) mod watch;
pub(crate) mod who_am_i;

use bytes::Bytes;
use pole_jute::{ErrorCode, MultiResult, OpCode, Request, Txn};

use crate::desk::Desk;
use crate::node::NodeId;
use crate::{SessionChange, Tree};

/// Whether it changes the state, so that it goes to the leader.
#[must_use]
pub fn is_write(op: OpCode) -> bool {
    match op {
        OpCode::Create
        | OpCode::Create2
        | OpCode::CreateContainer
        | OpCode::CreateTtl
        | OpCode::Delete
        | OpCode::DeleteContainer
        | OpCode::SetData
        | OpCode::SetAcl
        | OpCode::Check
        | OpCode::Multi
        | OpCode::Reconfig
        | OpCode::CreateSession
        | OpCode::CloseSession => true,
        OpCode::Notification
        | OpCode::Exists
        | OpCode::GetData
        | OpCode::GetAcl
        | OpCode::GetChildren
        | OpCode::Sync
        | OpCode::Ping
        | OpCode::GetChildren2
        | OpCode::CheckWatches
        | OpCode::RemoveWatches
        | OpCode::MultiRead
        | OpCode::Auth
        | OpCode::SetWatches
        | OpCode::Sasl
        | OpCode::GetEphemerals
        | OpCode::GetAllChildrenNumber
        | OpCode::SetWatches2
        | OpCode::AddWatch
        | OpCode::WhoAmI
        | OpCode::Error => false,
    }
}

/// Makes a client's write into a transaction.
pub(crate) fn prepare(desk: &mut Desk, request: Request) -> Result<Txn, ErrorCode> {
    match request {
        Request::Create(request) => create::prepare(desk, create::Form::Create, request),
        Request::Create2(request) => create::prepare(desk, create::Form::Create2, request),
        Request::CreateContainer(request) => create::prepare(desk, create::Form::Container, request),
        Request::CreateTtl(request) => create::prepare_ttl(desk, request),
        Request::Delete(request) => delete::prepare(desk, request),
        Request::SetData(request) => set_data::prepare(desk, request),
        Request::SetAcl(request) => set_acl::prepare(desk, request),
        Request::Multi(request) => Ok(Txn::Multi(multi::prepare(desk, request))),
        Request::CloseSession => session::prepare_close(desk),
        // Members are those of the configuration file, as where Apache has `reconfigEnabled=false`.
        Request::Reconfig(_) => Err(ErrorCode::ReconfigDisabled),
        // A check alone has no transaction that Apache could read; and only the leader ends containers.
        Request::Check(_) | Request::DeleteContainer(_) => Err(ErrorCode::Unimplemented),
        Request::Exists(_)
        | Request::GetData(_)
        | Request::GetAcl(_)
        | Request::GetChildren(_)
        | Request::Sync(_)
        | Request::Ping
        | Request::GetChildren2(_)
        | Request::CheckWatches(_)
        | Request::RemoveWatches(_)
        | Request::MultiRead(_)
        | Request::Auth(_)
        | Request::SetWatches(_)
        | Request::Sasl(_)
        | Request::GetEphemerals(_)
        | Request::GetAllChildrenNumber(_)
        | Request::SetWatches2(_)
        | Request::AddWatch(_)
        | Request::WhoAmI => Err(ErrorCode::Unimplemented),
    }
}

/// What a transaction has done; what its reply says is read from the tree right after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Created(NodeId),
    CreatedWithStat(NodeId),
    Deleted,
    DataSet(NodeId),
    AclSet(NodeId),
    Checked,
    Session(SessionChange),
}

impl Done {
    /// The body of the reply.
    pub(crate) fn reply(self, tree: &Tree) -> Bytes {
        match self {
            Self::Created(id) => create::reply(tree, id),
            Self::CreatedWithStat(id) => create::reply_with_stat(tree, id),
            Self::DataSet(id) | Self::AclSet(id) => set_data::reply(tree, id),
            Self::Deleted | Self::Checked | Self::Session(_) => Bytes::new(),
        }
    }

    /// The same as the result of a part of a multi.
    pub(crate) fn result(self, tree: &Tree) -> MultiResult {
        match self {
            Self::Created(id) => create::result(tree, id),
            Self::CreatedWithStat(id) => create::result_with_stat(tree, id),
            Self::DataSet(id) => set_data::result(tree, id),
            Self::Deleted => MultiResult::Delete,
            // The rest has no place in a multi.
            Self::Checked | Self::AclSet(_) | Self::Session(_) => MultiResult::Check,
        }
    }

    pub(crate) fn session_change(self) -> Option<SessionChange> {
        match self {
            Self::Session(change) => Some(change),
            Self::Created(_)
            | Self::CreatedWithStat(_)
            | Self::Deleted
            | Self::DataSet(_)
            | Self::AclSet(_)
            | Self::Checked => None,
        }
    }
}
