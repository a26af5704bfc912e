//! Requests with the arguments that are usual in tests and loads. Others are built from the types of `jute`.

use std::time::Duration;

use bytes::Bytes;
use pole_jute::{
    Acl, AuthPacket, ConnectRequest, CreateMode, CreateRequest, DeleteRequest, ExistsRequest, GetChildrenRequest,
    GetDataRequest, Id, Perms, Request, SetDataRequest, SyncRequest,
};

/// The first message of a client without a session.
pub fn connect_request(timeout: Duration) -> ConnectRequest {
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0,
        timeout: i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX),
        session_id: 0,
        passwd: Some(Bytes::from_static(&[0; 16])),
        read_only: Some(false),
    }
}

/// A `create` request with the open ACL.
pub fn create(path: &str, data: &[u8], mode: CreateMode) -> Request {
    let data = Some(data.to_vec().into());
    Request::Create(CreateRequest { path: path.to_owned(), data, acl: open_acl(), flags: mode.number() })
}

/// A `delete` request for any version.
pub fn delete(path: &str) -> Request {
    Request::Delete(DeleteRequest { path: path.to_owned(), version: -1 })
}

/// A `setData` request for any version.
pub fn set_data(path: &str, data: &[u8]) -> Request {
    set_data_at(path, data, -1)
}

/// A `setData` request for this version.
pub fn set_data_at(path: &str, data: &[u8], version: i32) -> Request {
    Request::SetData(SetDataRequest { path: path.to_owned(), data: Some(data.to_vec().into()), version })
}

/// A `getData` request.
pub fn get_data(path: &str, watch: bool) -> Request {
    Request::GetData(GetDataRequest { path: path.to_owned(), watch })
}

/// An `exists` request without a watch.
pub fn exists(path: &str) -> Request {
    Request::Exists(ExistsRequest { path: path.to_owned(), watch: false })
}

/// A `getChildren` request without a watch.
pub fn children(path: &str) -> Request {
    Request::GetChildren(GetChildrenRequest { path: path.to_owned(), watch: false })
}

/// A `sync` request: reads after it see everything that was committed before it.
pub fn sync() -> Request {
    Request::Sync(SyncRequest { path: "/".to_owned() })
}

/// A request that adds an identity to the session.
pub fn add_auth(scheme: &str, auth: &[u8]) -> Request {
    Request::Auth(AuthPacket { kind: 0, scheme: scheme.to_owned(), auth: Some(auth.to_vec().into()) })
}

/// `world:anyone` with all permissions.
pub fn open_acl() -> Vec<Acl> {
    vec![Acl { perms: Perms::ALL, id: Id { scheme: "world".into(), id: "anyone".into() } }]
}
