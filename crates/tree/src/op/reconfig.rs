//! reconfig: other members for the ensemble.
//!
//! The members stand in `/zookeeper/config`. A request names either the servers that join and leave, or all members. The
//! transaction holds the complete list, so every server reads the same from it.
//!
//! While a change is not committed the leader prepares nothing, so a second request waits for the first one. Apache refuses
//! it with `ReconfigInProgress`.

use alloc::string::String;

use bytes::{Bytes, BytesMut};
use pole_jute::{
    ErrorCode, GetDataResponse, Perms, Reader, ReconfigRequest, Record, SetDataTxn, Txn, TxnEntry, TxnHeader, Writer,
};
use pole_types::Membership;

use super::{Outcome, set_data};
use crate::members::parse_id;
use crate::node::NodeId;
use crate::overlay::NodeView;
use crate::path::CONFIG;
use crate::tree::parse_members;
use crate::validation::Validation;
use crate::{Changes, Members, MembersReader, Server, Tree};

/// Checks the request in Apache's order, so that the first of several errors is the same.
pub(crate) fn prepare(validation: &mut Validation, request: &ReconfigRequest) -> Result<Txn, ErrorCode> {
    if !validation.tree.rules.reconfig {
        return Err(ErrorCode::ReconfigDisabled);
    }
    // A standalone server has no list of members.
    let (members, version) = validation.tree.members().ok_or(ErrorCode::Unimplemented)?;
    if request.cur_config_id != -1 && request.cur_config_id != version {
        return Err(ErrorCode::BadVersion);
    }
    let members = match &request.new_members {
        Some(list) => complete(list)?,
        None => {
            let of = |list: &Option<String>| list.clone().unwrap_or_default();
            changed(members, &of(&request.joining_servers), &of(&request.leaving_servers))?
        }
    };
    let voters_min = if validation.tree.rules.standalone { 2 } else { 1 };
    if members.participants() < voters_min || members.shared_port().is_some() {
        return Err(ErrorCode::BadArguments);
    }
    if !(validation.may_change)(&members.membership()) {
        return Err(ErrorCode::NewConfigNoQuorum);
    }
    let node = validation.get(CONFIG)?;
    if !validation.caller().is_admin() {
        validation.check(&node.acl, Perms::WRITE)?;
    }
    let data = Bytes::from(members.description(validation.at.zxid));
    validation.put(NodeView { version: -1, mtime: validation.at.wall_ms, data_length: data.len(), ..node });
    Ok(Txn::Reconfig(SetDataTxn { path: CONFIG.into(), data: Some(data), version: -1 }))
}

/// The members of a complete list. Its lines end with commas or line ends.
fn complete(list: &str) -> Result<Members, ErrorCode> {
    let mut reader = MembersReader::default();
    for line in list.split([',', '\n']).map(str::trim).filter(|line| !line.is_empty()) {
        let (key, value) = line.split_once('=').ok_or(ErrorCode::BadArguments)?;
        // The list may be a copy of the present one.
        if key.trim() != "version" {
            reader.add(key.trim(), value.trim()).map_err(|_| ErrorCode::BadArguments)?;
        }
    }
    reader.finish().map_err(|_| ErrorCode::BadArguments)
}

/// The members with some servers less and others added or replaced. How their votes would count is not obvious if not all
/// count the same, so that needs a complete list.
fn changed(mut members: Members, joining: &str, leaving: &str) -> Result<Members, ErrorCode> {
    if !members.votes.is_empty() {
        return Err(ErrorCode::BadArguments);
    }
    for id in items(leaving) {
        members.servers.remove(&parse_id(id).ok_or(ErrorCode::BadArguments)?);
    }
    for joiner in items(joining) {
        let (key, value) = joiner.split_once('=').ok_or(ErrorCode::BadArguments)?;
        let id = key.rsplit('.').next().and_then(parse_id).ok_or(ErrorCode::BadArguments)?;
        let server = Server::parse(value).map_err(|_| ErrorCode::BadArguments)?;
        if server.client.is_none() {
            return Err(ErrorCode::BadArguments);
        }
        members.servers.insert(id, server);
    }
    Ok(members)
}

fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty())
}

pub(crate) fn apply(
    tree: &mut Tree,
    header: &TxnHeader,
    txn: &SetDataTxn,
    changes: &mut Changes,
) -> Result<Outcome, ErrorCode> {
    set_data::write(tree, header, txn, changes).map(Outcome::MembersSet)
}

/// The new content of `/zookeeper/config`, and its stat.
pub(crate) fn reply(tree: &Tree, id: NodeId) -> Bytes {
    let node = tree.nodes.get(id);
    let data = node.data.as_deref().map(Bytes::copy_from_slice);
    let mut writer = Writer::with_buffer(BytesMut::new());
    GetDataResponse { data, stat: node.client_stat() }.write(&mut writer);
    writer.into_bytes()
}

/// The members that a transaction sets, if it does.
#[must_use]
pub fn members_of(txn: &Bytes) -> Option<Membership> {
    // Every transaction passes here, so others are told apart by one number of the header.
    let op = txn.get(OP_AT..OP_AT + 4)?;
    if op != OP_RECONFIG.to_be_bytes() {
        return None;
    }
    let entry = TxnEntry::read(&mut Reader::new(txn.clone())).ok()?;
    let Txn::Reconfig(SetDataTxn { data: Some(data), .. }) = entry.txn else { return None };
    parse_membership(&data)
}

/// The members that a content of `/zookeeper/config` describes.
#[must_use]
pub fn parse_membership(description: &[u8]) -> Option<Membership> {
    parse_members(description).map(|(members, _)| members.membership())
}

/// The number of the operation follows the session, cxid, zxid and time.
const OP_AT: usize = 8 + 4 + 8 + 8;

const OP_RECONFIG: i32 = pole_jute::OpCode::Reconfig.number();
