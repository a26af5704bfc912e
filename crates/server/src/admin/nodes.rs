//! `GET /v1/nodes?path=/a`: one node with its data, its stat, its ACL and a part of its children, for the dashboard.
//!
//! The reads are those of a client: [`pole_tree::read`] checks the ACL against the address of the caller and the identity
//! that it proves with `Authorization: ZooKeeper BASE64`, where BASE64 encodes `scheme:auth`, such as
//! `digest:alice:secret`. No session is opened, so looking at a node writes nothing to the log.
//!
//! Answers are bounded: data is cut, and children come in pages. Few requests run at the same time, because the names of
//! all children are collected for each.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{ConnectInfo, Query, State};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use pole_api::{AclEntry, NodeStat, NodeView};
use pole_jute::{
    Acl, ErrorCode, GetAclRequest, GetAclResponse, GetChildrenRequest, GetChildrenResponse, GetDataRequest,
    GetDataResponse, Id, Perms, Reader, Record, Request, Stat, Writer,
};
use pole_tree::{Caller, Tree, Watcher};
use tokio::sync::Semaphore;

use super::access::check_nodes;
use super::error::ApiError;
use super::listener::RemoteAddress;
use super::page;
use crate::shared::Shared;
use crate::status::Role;

pub(crate) async fn nodes(
    State(shared): State<Arc<Shared>>,
    Extension(permits): Extension<Arc<NodePermits>>,
    ConnectInfo(RemoteAddress(from, encryption)): ConnectInfo<RemoteAddress>,
    headers: HeaderMap,
    Query(params): Query<HashMap<String, String>>,
) -> Result<Response, ApiError> {
    check_nodes(&shared, from, encryption.is_on(), &headers)?;
    let path = params.get("path").map_or("/", String::as_str);
    let after = params.get("after").map_or("", String::as_str);
    let limit = match params.get("limit").map(|text| text.parse()) {
        None => CHILDREN_DEFAULT,
        Some(Ok(limit @ 1..=CHILDREN_MAX)) => limit,
        Some(Ok(_) | Err(_)) => {
            return Err(ApiError::bad_value(format!("limit: expected a whole number from 1 to {CHILDREN_MAX}")));
        }
    };
    // A client has no session without a quorum.
    if !matches!(shared.status.role(), Role::Serving { .. }) {
        return Err(ApiError::no_quorum());
    }
    let caller = caller(&shared, from, &headers)?;
    let _permit = permits.0.acquire().await.expect("the semaphore is never closed");
    let view = view(&shared, &caller, path, after, limit).map_err(|code| refused(path, code))?;
    Ok(page(&view))
}

/// Limits the requests that run at the same time.
pub(crate) struct NodePermits(Semaphore);

impl NodePermits {
    pub(crate) fn new() -> Self {
        Self(Semaphore::new(CONCURRENT_MAX))
    }
}

/// The identities of the caller: its address, and what it proves.
fn caller(shared: &Shared, from: SocketAddr, headers: &HeaderMap) -> Result<Caller, ApiError> {
    let mut ids = vec![Id { scheme: "ip".into(), id: from.ip().to_canonical().to_string() }];
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if let Some(encoded) = given.and_then(|value| value.strip_prefix("ZooKeeper ")) {
        let wrong = || {
            ApiError::denied("Authorization: ZooKeeper: expected scheme:auth in base64, such as digest:user:password")
        };
        let text = STANDARD.decode(encoded.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let text = text.ok_or_else(wrong)?;
        let (scheme, auth) = text.split_once(':').ok_or_else(wrong)?;
        let proved = pole_tree::authenticate(scheme, auth.as_bytes(), &shared.settings.limits.authentication.providers);
        ids.extend(proved.map_err(|error| ApiError::denied(error.to_string()))?);
    }
    Ok(Caller { ids })
}

/// Reads a node. All parts are of the same moment, since the tree is locked meanwhile.
fn view(shared: &Shared, caller: &Caller, path: &str, after: &str, limit: usize) -> Result<NodeView, ErrorCode> {
    let tree = shared.tree.read();
    let GetDataResponse { data, stat } =
        read(shared, &tree, caller, &Request::GetData(GetDataRequest { path: path.into(), watch: false }))?;
    let GetChildrenResponse { mut children } =
        read(shared, &tree, caller, &Request::GetChildren(GetChildrenRequest { path: path.into(), watch: false }))?;
    // A caller that may read a node may read its ACL, so a refusal is impossible here.
    let GetAclResponse { acl, .. } =
        read(shared, &tree, caller, &Request::GetAcl(GetAclRequest { path: path.into() }))?;
    drop(tree);
    children.retain(|name| name.as_str() > after);
    children.sort_unstable();
    let has_more = children.len() > limit;
    children.truncate(limit);
    let mut view = NodeView {
        path: path.to_owned(),
        stat: stat_of(&stat),
        acl: acl.iter().map(acl_entry).collect(),
        children,
        has_more,
        ..NodeView::default()
    };
    show_data(&mut view, data.unwrap_or_default());
    Ok(view)
}

fn read<T: Record>(shared: &Shared, tree: &Tree, caller: &Caller, request: &Request) -> Result<T, ErrorCode> {
    let mut reply = Writer::new().limited(REPLY_BYTES_MAX);
    let mut events = Vec::new();
    // Neither a watcher nor a session: the requests above use none.
    let code = pole_tree::read(tree, || shared.watches.lock(), Watcher(0), 0, caller, request, &mut reply, &mut events);
    if code != ErrorCode::Ok {
        return Err(code);
    }
    if reply.is_over_limit() {
        return Err(ErrorCode::MarshallingError);
    }
    T::read(&mut Reader::new(reply.into_bytes())).map_err(|_| ErrorCode::MarshallingError)
}

/// Adds the data as text if it is text, else in hexadecimal digits.
fn show_data(view: &mut NodeView, data: Bytes) {
    let is_text = |text: &&str| text.chars().all(|c| !c.is_control() || "\n\r\t".contains(c));
    if let Some(text) = std::str::from_utf8(&data).ok().filter(is_text) {
        let end = text.floor_char_boundary(TEXT_BYTES_MAX);
        view.is_cut = end < text.len();
        view.text = Some(text[..end].to_owned());
    } else {
        let shown = &data[..data.len().min(HEX_BYTES_MAX)];
        view.is_cut = shown.len() < data.len();
        view.hex = Some(shown.iter().map(|byte| format!("{byte:02x}")).collect());
    }
}

fn stat_of(stat: &Stat) -> NodeStat {
    let hex = |number: i64| format!("{number:#x}");
    NodeStat {
        czxid: hex(stat.czxid),
        mzxid: hex(stat.mzxid),
        pzxid: hex(stat.pzxid),
        ctime_ms: stat.ctime,
        mtime_ms: stat.mtime,
        version: stat.version,
        cversion: stat.cversion,
        aversion: stat.aversion,
        ephemeral_owner: (stat.ephemeral_owner != 0).then(|| hex(stat.ephemeral_owner)),
        data_length: stat.data_length,
        num_children: stat.num_children,
    }
}

fn acl_entry(acl: &Acl) -> AclEntry {
    let letters =
        [(Perms::CREATE, 'c'), (Perms::DELETE, 'd'), (Perms::READ, 'r'), (Perms::WRITE, 'w'), (Perms::ADMIN, 'a')];
    let perms = letters.into_iter().filter(|(perm, _)| acl.perms.intersects(*perm)).map(|(_, letter)| letter).collect();
    // Hashes are left out, even for a caller that may change the ACL.
    let id = match acl.id.id.split_once(':') {
        Some((user, _)) if acl.id.scheme == "digest" => user.to_owned(),
        Some(_) | None => acl.id.id.clone(),
    };
    AclEntry { perms, scheme: acl.id.scheme.clone(), id }
}

fn refused(path: &str, code: ErrorCode) -> ApiError {
    if code == ErrorCode::NoNode {
        return ApiError::not_found(format!("{path}: there is no such node"));
    }
    if code == ErrorCode::NoAuth {
        let advice = "authenticate as a client would";
        return ApiError::denied(format!("{path}: its ACL does not let you read it; {advice}"));
    }
    if code == ErrorCode::MarshallingError {
        return ApiError::conflict(format!("{path}: it has more children than can be shown"));
    }
    ApiError::bad_value(format!("{path}: {code}"))
}

/// Children in one answer, unless the request asks for another number.
const CHILDREN_DEFAULT: usize = 200;
const CHILDREN_MAX: usize = 1_000;

/// Larger than any data (`jute.maxbuffer`) and than the names of 100,000 children.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// Each holds [`REPLY_BYTES_MAX`] for a moment.
const CONCURRENT_MAX: usize = 2;

const TEXT_BYTES_MAX: usize = 64 << 10;
const HEX_BYTES_MAX: usize = 1 << 10;
