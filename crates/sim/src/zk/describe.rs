//! Descriptions of the requests and answers of ZooKeeper clients, for scripts.

use pole_jute::{
    CreateResponse, ErrorCode, EventType, GetChildren2Response, GetDataResponse, MultiOp, MultiResponse, MultiResult,
    Record, Request, WatcherEvent,
};

use super::client::Incoming;
use crate::checker::{Response, split};

/// Describes what a client received. `asked` is the request that it waits for; `Some(None)` is a sync. None if
/// scripts do not print the message.
pub(super) fn message(message: &Incoming, server: usize, asked: Option<Option<&Request>>) -> Option<String> {
    Some(match message {
        Incoming::Attached(response) if split(response).0 == 0 => {
            format!("has its session at {}, {}", server + 1, response.zxid)
        }
        Incoming::Attached(response) => format!("hears that its session is over, {}", response.zxid),
        Incoming::Reply(_, response) => match asked? {
            Some(asked) => format!("{}: {}", request(asked), answer(asked, response)),
            None => format!("sync: ok, {}", response.zxid),
        },
        Incoming::Pong(_) => return None,
        Incoming::Event(zxid, body) => {
            let event = WatcherEvent::decode(body.clone()).ok()?;
            format!("hears that {} {}, {zxid}", event.path, happened(event.kind))
        }
        Incoming::Closed(reason) => format!("is sent away by {}: {reason}", server + 1),
        Incoming::Reset => format!("loses its connection to {}", server + 1),
    })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "simulated clients send no other requests")]
fn request(request: &Request) -> String {
    match request {
        Request::Create(asked) | Request::Create2(asked) => format!("create {}", asked.path),
        Request::SetData(asked) => format!("set {}", asked.path),
        Request::Delete(asked) => format!("delete {}", asked.path),
        Request::SetAcl(asked) => format!("acl {}", asked.path),
        Request::GetData(asked) => format!("get {}", asked.path),
        Request::Exists(asked) => format!("exists {}", asked.path),
        Request::GetChildren2(asked) => format!("children {}", asked.path),
        Request::AddWatch(asked) => format!("watch {}", asked.path),
        Request::Multi(asked) => {
            let part = |op: &MultiOp| match op {
                MultiOp::Create(op) | MultiOp::Create2(op) | MultiOp::CreateContainer(op) => {
                    format!("create {}", op.path)
                }
                MultiOp::CreateTtl(op) => format!("create {}", op.path),
                MultiOp::Delete(op) => format!("delete {}", op.path),
                MultiOp::SetData(op) => format!("set {}", op.path),
                MultiOp::Check(op) => format!("check {}", op.path),
            };
            format!("multi {}", asked.ops.iter().map(part).collect::<Vec<_>>().join(" and "))
        }
        other => format!("{:?}", other.op()).to_lowercase(),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the other answers have no content to print")]
fn answer(asked: &Request, response: &Response) -> String {
    let (code, body) = split(response);
    let zxid = response.zxid;
    if code != 0 {
        return ErrorCode::from_number(code).map_or(format!("code {code}, {zxid}"), |code| format!("{code:?}, {zxid}"));
    }
    let decoded = match asked {
        Request::Create(_) => CreateResponse::decode(body).map(|decoded| decoded.path).ok(),
        Request::GetData(_) => {
            let data = GetDataResponse::decode(body).ok().and_then(|decoded| decoded.data);
            data.map(|data| format!("\"{}\"", String::from_utf8_lossy(&data)))
        }
        Request::GetChildren2(_) => GetChildren2Response::decode(body).ok().map(|mut decoded| {
            decoded.children.sort_unstable();
            format!("[{}]", decoded.children.join(" "))
        }),
        Request::Multi(_) => MultiResponse::decode(body).ok().map(|decoded| {
            let part = |result: &MultiResult| match result {
                MultiResult::Error(code) => format!("{code:?}"),
                MultiResult::Create(_)
                | MultiResult::Create2(_)
                | MultiResult::Delete
                | MultiResult::SetData(_)
                | MultiResult::Check => "ok".to_owned(),
            };
            decoded.results.iter().map(part).collect::<Vec<_>>().join(" and ")
        }),
        _ => None,
    };
    format!("{}, {zxid}", decoded.unwrap_or_else(|| "ok".to_owned()))
}

fn happened(kind: EventType) -> &'static str {
    match kind {
        EventType::NodeCreated => "is there",
        EventType::NodeDeleted => "is gone",
        EventType::NodeDataChanged => "has changed",
        EventType::NodeChildrenChanged => "has other children",
        EventType::None
        | EventType::DataWatchRemoved
        | EventType::ChildWatchRemoved
        | EventType::PersistentWatchRemoved => "is not watched any more",
    }
}
