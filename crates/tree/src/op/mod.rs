//! The operations, one file each.
//!
//! The file of a write contains its validation, the application of its transaction, and its reply. The file of a read
//! contains its reply and the watch that it sets.
//!
//! The two `match` expressions here list all operations without a default arm, so the compiler reports where a new
//! one is missing.

pub(crate) mod check;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod exists;
pub(crate) mod get_acl;
pub(crate) mod get_children;
pub(crate) mod get_data;
pub(crate) mod get_ephemerals;
pub(crate) mod multi;
pub(crate) mod multi_read;
pub(crate) mod reconfig;
pub(crate) mod session;
pub(crate) mod set_acl;
pub(crate) mod set_data;
pub(crate) mod watch;
pub(crate) mod who_am_i;

use bytes::Bytes;
use pole_jute::{ErrorCode, MultiResult, OpCode, Request, Txn};

use crate::node::NodeId;
use crate::validation::Validation;
use crate::{SessionChange, Tree};

/// Whether the operation changes the state and therefore goes to the leader.
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

/// Validates a client's write and returns its transaction.
pub(crate) fn prepare(validation: &mut Validation, request: Request) -> Result<Txn, ErrorCode> {
    match request {
        Request::Create(request) => create::prepare(validation, create::CreateOp::Create, request),
        Request::Create2(request) => create::prepare(validation, create::CreateOp::Create2, request),
        Request::CreateContainer(request) => create::prepare(validation, create::CreateOp::Container, request),
        Request::CreateTtl(request) => create::prepare_ttl(validation, request),
        Request::Delete(request) => delete::prepare(validation, request),
        Request::SetData(request) => set_data::prepare(validation, request),
        Request::SetAcl(request) => set_acl::prepare(validation, request),
        Request::Multi(request) => Ok(Txn::Multi(multi::prepare(validation, request))),
        Request::CloseSession => session::prepare_close(validation),
        Request::Reconfig(request) => reconfig::prepare(validation, &request),
        // A check outside a multi has no transaction that Apache could read, and only the leader deletes containers.
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

/// The result of an applied transaction. The content of the reply is read from the tree right after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Created(NodeId),
    CreatedWithStat(NodeId),
    Deleted,
    DataSet(NodeId),
    AclSet(NodeId),
    MembersSet(NodeId),
    Checked,
    Session(SessionChange),
}

impl Outcome {
    /// The body of the reply.
    pub(crate) fn reply(self, tree: &Tree) -> Bytes {
        match self {
            Self::Created(id) => create::reply(tree, id),
            Self::CreatedWithStat(id) => create::reply_with_stat(tree, id),
            Self::DataSet(id) | Self::AclSet(id) => set_data::reply(tree, id),
            Self::MembersSet(id) => reconfig::reply(tree, id),
            Self::Deleted | Self::Checked | Self::Session(_) => Bytes::new(),
        }
    }

    /// The result as part of a multi.
    pub(crate) fn result(self, tree: &Tree) -> MultiResult {
        match self {
            Self::Created(id) => create::result(tree, id),
            Self::CreatedWithStat(id) => create::result_with_stat(tree, id),
            Self::DataSet(id) => set_data::result(tree, id),
            Self::Deleted => MultiResult::Delete,
            // The other operations cannot be part of a multi.
            Self::Checked | Self::AclSet(_) | Self::MembersSet(_) | Self::Session(_) => MultiResult::Check,
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
            | Self::MembersSet(_)
            | Self::Checked => None,
        }
    }
}
