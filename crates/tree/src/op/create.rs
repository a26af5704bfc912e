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

use super::Done;
use crate::acls::AclHandle;
use crate::desk::{Desk, bytes};
use crate::node::{Node, NodeId, hash};
use crate::overlay::Shape;
use crate::owner::{Owner, TTL_MAX};
use crate::quota::Usage;
use crate::tree::read_only;
use crate::{Changes, Tree, path};

/// By which operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Create,
    Create2,
    Container,
}

pub(crate) fn prepare(desk: &mut Desk, form: Form, request: CreateRequest) -> Result<Txn, ErrorCode> {
    let mode = CreateMode::from_number(request.flags).ok_or(ErrorCode::BadArguments)?;
    if mode.has_ttl() && !desk.tree.rules.extended_types {
        return Err(ErrorCode::Unimplemented);
    }
    let owner = match (form, mode) {
        (Form::Container, CreateMode::Container) => Owner::Container,
        (Form::Create | Form::Create2, CreateMode::Persistent | CreateMode::PersistentSequential) => Owner::Nobody,
        (Form::Create | Form::Create2, CreateMode::Ephemeral | CreateMode::EphemeralSequential) => {
            // The admin path comes this far without one.
            desk.open_session(desk.session).ok_or(ErrorCode::SessionExpired)?;
            // Those in flight do not count: there are few of them.
            if desk.tree.ephemerals_of(desk.session) >= desk.tree.rules.ephemerals_max {
                desk.refusals.ephemerals += 1;
                return Err(ErrorCode::QuotaExceeded);
            }
            Owner::Session(desk.session)
        }
        // Apache makes an ordinary node of a container that comes by create: not what was asked for.
        (_, _) => return Err(ErrorCode::BadArguments),
    };
    let wanted = Wanted {
        path: request.path,
        data_length: request.data.as_ref().map_or(0, Bytes::len),
        acl: &request.acl,
        mode,
        owner,
    };
    let Granted { path, acl, parent_cversion } = wanted.enter(desk)?;
    let (data, ephemeral) = (request.data, mode.is_ephemeral());
    Ok(match form {
        Form::Create => Txn::Create(CreateTxn { path, data, acl, ephemeral, parent_cversion }),
        Form::Create2 => Txn::Create2(CreateTxn { path, data, acl, ephemeral, parent_cversion }),
        Form::Container => Txn::CreateContainer(CreateContainerTxn { path, data, acl, parent_cversion }),
    })
}

pub(crate) fn prepare_ttl(desk: &mut Desk, request: CreateTtlRequest) -> Result<Txn, ErrorCode> {
    let mode = CreateMode::from_number(request.flags).ok_or(ErrorCode::BadArguments)?;
    if mode.has_ttl() && !desk.tree.rules.extended_types {
        return Err(ErrorCode::Unimplemented);
    }
    if !mode.has_ttl() || !(1..=TTL_MAX).contains(&request.ttl) {
        return Err(ErrorCode::BadArguments);
    }
    let owner = Owner::Ttl(request.ttl);
    let wanted = Wanted {
        path: request.path,
        data_length: request.data.as_ref().map_or(0, Bytes::len),
        acl: &request.acl,
        mode,
        owner,
    };
    let Granted { path, acl, parent_cversion } = wanted.enter(desk)?;
    Ok(Txn::CreateTtl(CreateTtlTxn { path, data: request.data, acl, parent_cversion, ttl: request.ttl }))
}

/// A node that somebody wants.
struct Wanted<'a> {
    path: String,
    data_length: usize,
    acl: &'a [Acl],
    mode: CreateMode,
    owner: Owner,
}

/// The node that it will be.
struct Granted {
    path: String,
    acl: Vec<Acl>,
    parent_cversion: i32,
}

impl Wanted<'_> {
    /// Checks it in the order of Apache, and enters it.
    fn enter(self, desk: &mut Desk) -> Result<Granted, ErrorCode> {
        let (parent, _) = path::split(&self.path).ok_or(ErrorCode::BadArguments)?;
        if self.path.contains('\0') {
            return Err(ErrorCode::BadArguments);
        }
        let acl = match path::is_settings(&self.path) {
            true => read_only().to_vec(),
            false => desk.keep_acl(self.acl)?,
        };
        let mut parent = desk.get(parent)?;
        desk.check_write(&self.path, &parent.acl, Perms::CREATE)?;
        let mut path = self.path;
        if self.mode.is_sequential() {
            // The count of creates, not the cversion that clients see.
            write!(path, "{:010}", parent.cversion).expect("a string takes everything");
        }
        if path.len() > desk.tree.rules.path_bytes_max {
            desk.refusals.path += 1;
            return Err(ErrorCode::BadArguments);
        }
        if !path::is_valid(&path) {
            return Err(ErrorCode::BadArguments);
        }
        if desk.find(&path).is_some() {
            return Err(ErrorCode::NodeExists);
        }
        if matches!(parent.owner, Owner::Session(_)) {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        let usage = Usage { nodes: 1, bytes: bytes(self.data_length) };
        desk.check_quota(&path, usage)?;

        desk.charge(&path, usage);
        parent.cversion = parent.cversion.wrapping_add(1);
        parent.children += 1;
        let parent_cversion = parent.cversion;
        desk.put(parent);
        desk.put(Shape {
            path: path.as_str().into(),
            hash: hash(&path),
            version: 0,
            cversion: 0,
            aversion: 0,
            mtime: desk.at.wall_ms,
            owner: self.owner,
            acl: AclHandle::unnumbered(acl.clone()),
            children: 0,
            data_length: self.data_length,
        });
        Ok(Granted { path, acl, parent_cversion })
    }
}

/// For create and create2.
pub(crate) fn apply(
    tree: &mut Tree,
    header: &TxnHeader,
    txn: &CreateTxn,
    changes: &mut Changes,
) -> Result<NodeId, ErrorCode> {
    let owner = if txn.ephemeral { Owner::Session(header.client_id) } else { Owner::Nobody };
    let CreateTxn { path, data, acl, parent_cversion, .. } = txn;
    let fresh = Fresh { path, data: data.as_ref(), acl, owner, parent_cversion: *parent_cversion };
    fresh.apply(tree, header, changes)
}

pub(crate) fn apply_container(
    tree: &mut Tree,
    header: &TxnHeader,
    txn: &CreateContainerTxn,
    changes: &mut Changes,
) -> Result<Done, ErrorCode> {
    let CreateContainerTxn { path, data, acl, parent_cversion } = txn;
    let owner = Owner::Container;
    let fresh = Fresh { path, data: data.as_ref(), acl, owner, parent_cversion: *parent_cversion };
    fresh.apply(tree, header, changes).map(Done::CreatedWithStat)
}

pub(crate) fn apply_ttl(
    tree: &mut Tree,
    header: &TxnHeader,
    txn: &CreateTtlTxn,
    changes: &mut Changes,
) -> Result<Done, ErrorCode> {
    let CreateTtlTxn { path, data, acl, parent_cversion, ttl } = txn;
    let owner = Owner::Ttl(*ttl);
    let fresh = Fresh { path, data: data.as_ref(), acl, owner, parent_cversion: *parent_cversion };
    fresh.apply(tree, header, changes).map(Done::CreatedWithStat)
}

/// What the four kinds of transactions have in common.
struct Fresh<'a> {
    path: &'a str,
    data: Option<&'a Bytes>,
    acl: &'a [Acl],
    owner: Owner,
    parent_cversion: i32,
}

impl Fresh<'_> {
    fn apply(self, tree: &mut Tree, header: &TxnHeader, changes: &mut Changes) -> Result<NodeId, ErrorCode> {
        let named = path::split(self.path).filter(|(_, name)| !name.is_empty());
        let parent = named.and_then(|(parent, _)| tree.nodes.find(parent)).ok_or(ErrorCode::NoNode)?;
        let parent_path = tree.nodes.change(parent, |node| {
            // Logs before 3.4 have no number: one more than it was.
            let next = node.stat.cversion.wrapping_add(1);
            let cversion = if self.parent_cversion == -1 { next } else { self.parent_cversion };
            // Only forward, by a comparison that survives the overflow of a counter: the transaction may be one that a
            // snapshot already holds.
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
        // Copied: the bytes are a part of something larger that must not stay in memory for them.
        let data = self.data.map(|data| Arc::from(&data[..]));
        let path: Arc<str> = self.path.into();
        changes.push(EventType::NodeCreated, &path, &acl);
        changes.push_children(&parent_path);
        Ok(tree.graft(parent, Node::new(path, data, acl, stat)))
    }
}

pub(crate) fn reply(tree: &Tree, id: NodeId) -> Bytes {
    let node = tree.nodes.get(id);
    let mut writer = Writer::over(BytesMut::with_capacity(4 + node.path.len()));
    writer.string(&node.path);
    writer.into_bytes()
}

pub(crate) fn reply_with_stat(tree: &Tree, id: NodeId) -> Bytes {
    let node = tree.nodes.get(id);
    let mut writer = Writer::over(BytesMut::with_capacity(4 + node.path.len() + Stat::BYTES_MIN));
    writer.string(&node.path);
    node.shown().write(&mut writer);
    writer.into_bytes()
}

pub(crate) fn result(tree: &Tree, id: NodeId) -> MultiResult {
    MultiResult::Create(CreateResponse { path: (*tree.nodes.get(id).path).to_owned() })
}

pub(crate) fn result_with_stat(tree: &Tree, id: NodeId) -> MultiResult {
    let node = tree.nodes.get(id);
    MultiResult::Create2(Create2Response { path: (*node.path).to_owned(), stat: node.shown() })
}
