//! create, create2, createContainer, createTTL.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write as _;

use bytes::{Bytes, BytesMut};
use pole_jute::{
    Acl, Create2Response, CreateContainerTxn, CreateMode, CreateRequest, CreateResponse, CreateTtlRequest,
    CreateTtlTxn, CreateTxn, ErrorCode, EventType, MultiResult, Perms, Record, Stat, StatPersisted, Txn, TxnHeader,
    Writer,
};

use super::Outcome;
use crate::acls::AclHandle;
use crate::node::{Node, NodeId, hash};
use crate::overlay::NodeView;
use crate::owner::{Owner, TTL_MAX};
use crate::quota::Usage;
use crate::tree::read_only_acl;
use crate::validation::{Validation, bytes};
use crate::{Changes, Tree, path};

/// The operation by which a node is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CreateOp {
    Create,
    Create2,
    Container,
}

pub(crate) fn prepare(validation: &mut Validation, op: CreateOp, request: CreateRequest) -> Result<Txn, ErrorCode> {
    let mode = CreateMode::from_number(request.flags).ok_or(ErrorCode::BadArguments)?;
    if mode.has_ttl() && !validation.tree.rules.extended_types {
        return Err(ErrorCode::Unimplemented);
    }
    let owner = match (op, mode) {
        (CreateOp::Container, CreateMode::Container) => Owner::Container,
        (CreateOp::Create | CreateOp::Create2, CreateMode::Persistent | CreateMode::PersistentSequential) => {
            Owner::Nobody
        }
        (CreateOp::Create | CreateOp::Create2, CreateMode::Ephemeral | CreateMode::EphemeralSequential) => {
            // The admin path has no session but passes the checks before this one.
            validation.open_session(validation.session).ok_or(ErrorCode::SessionExpired)?;
            // Nodes in flight are not counted; there are few of them.
            if validation.tree.ephemerals_count_of(validation.session) >= validation.tree.rules.ephemerals_max {
                validation.refusals.ephemerals += 1;
                return Err(ErrorCode::QuotaExceeded);
            }
            Owner::Session(validation.session)
        }
        // Apache creates a persistent node when create has the container flag. Pole rejects it instead.
        (_, _) => return Err(ErrorCode::BadArguments),
    };
    let params = CreateParams {
        path: request.path,
        data_length: request.data.as_ref().map_or(0, Bytes::len),
        acl: &request.acl,
        mode,
        owner,
    };
    let ValidatedCreate { path, acl, parent_cversion } = params.validate(validation)?;
    let (data, ephemeral) = (request.data, mode.is_ephemeral());
    Ok(match op {
        CreateOp::Create => Txn::Create(CreateTxn { path, data, acl, ephemeral, parent_cversion }),
        CreateOp::Create2 => Txn::Create2(CreateTxn { path, data, acl, ephemeral, parent_cversion }),
        CreateOp::Container => Txn::CreateContainer(CreateContainerTxn { path, data, acl, parent_cversion }),
    })
}

pub(crate) fn prepare_ttl(validation: &mut Validation, request: CreateTtlRequest) -> Result<Txn, ErrorCode> {
    let mode = CreateMode::from_number(request.flags).ok_or(ErrorCode::BadArguments)?;
    if mode.has_ttl() && !validation.tree.rules.extended_types {
        return Err(ErrorCode::Unimplemented);
    }
    if !mode.has_ttl() || !(1..=TTL_MAX).contains(&request.ttl) {
        return Err(ErrorCode::BadArguments);
    }
    let owner = Owner::Ttl(request.ttl);
    let params = CreateParams {
        path: request.path,
        data_length: request.data.as_ref().map_or(0, Bytes::len),
        acl: &request.acl,
        mode,
        owner,
    };
    let ValidatedCreate { path, acl, parent_cversion } = params.validate(validation)?;
    Ok(Txn::CreateTtl(CreateTtlTxn { path, data: request.data, acl, parent_cversion, ttl: request.ttl }))
}

/// The parameters of a requested node.
struct CreateParams<'a> {
    path: String,
    data_length: usize,
    acl: &'a [Acl],
    mode: CreateMode,
    owner: Owner,
}

/// The parameters of the node after validation.
struct ValidatedCreate {
    path: String,
    acl: Vec<Acl>,
    parent_cversion: i32,
}

impl CreateParams<'_> {
    /// Validates the request in the same order as Apache, and records the node in the overlay.
    fn validate(self, validation: &mut Validation) -> Result<ValidatedCreate, ErrorCode> {
        let (parent, _) = path::split(&self.path).ok_or(ErrorCode::BadArguments)?;
        if self.path.contains('\0') {
            return Err(ErrorCode::BadArguments);
        }
        let acl = match path::is_settings(&self.path) {
            true => read_only_acl().to_vec(),
            false => validation.resolve_acl(self.acl)?,
        };
        let mut parent = validation.get(parent)?;
        validation.check_write(&self.path, &parent.acl, Perms::CREATE)?;
        let mut path = self.path;
        if self.mode.is_sequential() {
            // The count of creates, not the cversion that clients see.
            write!(path, "{:010}", parent.cversion).expect("a string takes everything");
        }
        if path.len() > validation.tree.rules.path_bytes_max {
            validation.refusals.path += 1;
            return Err(ErrorCode::BadArguments);
        }
        if path::depth(&path) > validation.tree.rules.depth_max {
            validation.refusals.depth += 1;
            return Err(ErrorCode::BadArguments);
        }
        if !path::is_valid(&path) {
            return Err(ErrorCode::BadArguments);
        }
        if validation.find(&path).is_some() {
            return Err(ErrorCode::NodeExists);
        }
        if matches!(parent.owner, Owner::Session(_)) {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        let usage = Usage { nodes: 1, bytes: bytes(self.data_length) };
        validation.check_quota(&path, usage)?;

        validation.charge(&path, usage);
        parent.cversion = parent.cversion.wrapping_add(1);
        parent.children += 1;
        let parent_cversion = parent.cversion;
        validation.put(parent);
        validation.put(NodeView {
            path: path.as_str().into(),
            hash: hash(&path),
            version: 0,
            cversion: 0,
            aversion: 0,
            mtime: validation.at.wall_ms,
            owner: self.owner,
            acl: AclHandle::unnumbered(acl.clone()),
            children: 0,
            data_length: self.data_length,
        });
        Ok(ValidatedCreate { path, acl, parent_cversion })
    }
}

/// Applies create and create2.
pub(crate) fn apply(
    tree: &mut Tree,
    header: &TxnHeader,
    txn: &CreateTxn,
    changes: &mut Changes,
) -> Result<NodeId, ErrorCode> {
    let owner = if txn.ephemeral { Owner::Session(header.client_id) } else { Owner::Nobody };
    let CreateTxn { path, data, acl, parent_cversion, .. } = txn;
    let new_node = NewNode { path, data: data.as_ref(), acl, owner, parent_cversion: *parent_cversion };
    new_node.apply(tree, header, changes)
}

pub(crate) fn apply_container(
    tree: &mut Tree,
    header: &TxnHeader,
    txn: &CreateContainerTxn,
    changes: &mut Changes,
) -> Result<Outcome, ErrorCode> {
    let CreateContainerTxn { path, data, acl, parent_cversion } = txn;
    let owner = Owner::Container;
    let new_node = NewNode { path, data: data.as_ref(), acl, owner, parent_cversion: *parent_cversion };
    new_node.apply(tree, header, changes).map(Outcome::CreatedWithStat)
}

pub(crate) fn apply_ttl(
    tree: &mut Tree,
    header: &TxnHeader,
    txn: &CreateTtlTxn,
    changes: &mut Changes,
) -> Result<Outcome, ErrorCode> {
    let CreateTtlTxn { path, data, acl, parent_cversion, ttl } = txn;
    let owner = Owner::Ttl(*ttl);
    let new_node = NewNode { path, data: data.as_ref(), acl, owner, parent_cversion: *parent_cversion };
    new_node.apply(tree, header, changes).map(Outcome::CreatedWithStat)
}

/// The fields that the four kinds of create transactions share.
struct NewNode<'a> {
    path: &'a str,
    data: Option<&'a Bytes>,
    acl: &'a [Acl],
    owner: Owner,
    parent_cversion: i32,
}

impl NewNode<'_> {
    fn apply(self, tree: &mut Tree, header: &TxnHeader, changes: &mut Changes) -> Result<NodeId, ErrorCode> {
        let named = path::split(self.path).filter(|(_, name)| !name.is_empty());
        let parent = named.and_then(|(parent, _)| tree.nodes.find(parent)).ok_or(ErrorCode::NoNode)?;
        let parent_path = tree.nodes.change(parent, |node| {
            // Logs before 3.4 have no cversion; it is then incremented.
            let next = node.stat.cversion.wrapping_add(1);
            let cversion = if self.parent_cversion == -1 { next } else { self.parent_cversion };
            // The cversion only moves forward, because a snapshot may already contain the transaction. The comparison
            // survives the overflow of the counter.
            if cversion.wrapping_sub(node.stat.cversion) > 0 {
                node.stat.cversion = cversion;
                node.stat.pzxid = header.zxid;
            }
            Arc::clone(&node.path)
        });
        if tree.nodes.find(self.path).is_some() {
            return Err(ErrorCode::NodeExists);
        }
        let stat = StatPersisted {
            czxid: header.zxid,
            mzxid: header.zxid,
            pzxid: header.zxid,
            ctime: header.time,
            mtime: header.time,
            ephemeral_owner: self.owner.number(),
            ..StatPersisted::default()
        };
        let acl = tree.acls.intern(self.acl);
        // Copied, because the slice would keep a larger buffer in memory.
        let data = self.data.map(|data| Arc::from(&data[..]));
        let path: Arc<str> = self.path.into();
        changes.push(EventType::NodeCreated, &path, &acl);
        changes.push_children(&parent_path);
        Ok(tree.insert_node(parent, Node::new(path, data, acl, stat)))
    }
}

pub(crate) fn reply(tree: &Tree, id: NodeId) -> Bytes {
    let node = tree.nodes.get(id);
    let mut writer = Writer::with_buffer(BytesMut::with_capacity(4 + node.path.len()));
    writer.string(&node.path);
    writer.into_bytes()
}

pub(crate) fn reply_with_stat(tree: &Tree, id: NodeId) -> Bytes {
    let node = tree.nodes.get(id);
    let mut writer = Writer::with_buffer(BytesMut::with_capacity(4 + node.path.len() + Stat::BYTES_MIN));
    writer.string(&node.path);
    node.client_stat().write(&mut writer);
    writer.into_bytes()
}

pub(crate) fn result(tree: &Tree, id: NodeId) -> MultiResult {
    MultiResult::Create(CreateResponse { path: (*tree.nodes.get(id).path).to_owned() })
}

pub(crate) fn result_with_stat(tree: &Tree, id: NodeId) -> MultiResult {
    let node = tree.nodes.get(id);
    MultiResult::Create2(Create2Response { path: (*node.path).to_owned(), stat: node.client_stat() })
}
