//! What a client of the service asks and hears, in few words for scripts.

use pole_jute::{
    CreateResponse, ErrorCode, EventType, GetChildren2Response, GetDataResponse, MultiOp, MultiResponse, MultiResult,
    Record, Request, WatcherEvent,
};

use super::guest::Word;
use crate::sim::judge::{Heard, split};

/// What a client hears; `asked` is the request that it waits for, none: a sync. None: nothing to tell of.
pub(super) fn word(word: &Word, server: usize, asked: Option<Option<&Request>>) -> Option<String> {
    Some(match word {
        Word::Attached(heard) if split(heard).0 == 0 => format!("has its session at {}, {}", server + 1, heard.zxid),
        Word::Attached(heard) => format!("hears that its session is over, {}", heard.zxid),
        Word::Reply(_, heard) => match asked? {
            Some(asked) => format!("{}: {}", request(asked), answer(asked, heard)),
            None => format!("sync: ok, {}", heard.zxid),
        },
        Word::Pong(_) => return None,
        Word::Event(zxid, body) => {
            let event = WatcherEvent::decode(body.clone()).ok()?;
            format!("hears that {} {}, {zxid}", event.path, happened(event.kind))
        }
        Word::Closed(reason) => format!("is sent away by {}: {reason}", server + 1),
        Word::Reset => format!("loses its connection to {}", server + 1),
    })
}

/// A request in few words.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others do not come here")]
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

#[expect(clippy::wildcard_enum_match_arm, reason = "the others do not come here")]
fn answer(asked: &Request, heard: &Heard) -> String {
    let (code, body) = split(heard);
    let zxid = heard.zxid;
    if code != 0 {
        return ErrorCode::from_number(code).map_or(format!("code {code}, {zxid}"), |code| format!("{code:?}, {zxid}"));
    }
    let said = match asked {
        Request::Create(_) => CreateResponse::decode(body).map(|said| said.path).ok(),
        Request::GetData(_) => {
            let data = GetDataResponse::decode(body).ok().and_then(|said| said.data);
            data.map(|data| format!("\"{}\"", String::from_utf8_lossy(&data)))
        }
        Request::GetChildren2(_) => GetChildren2Response::decode(body).ok().map(|mut said| {
            said.children.sort_unstable();
            format!("[{}]", said.children.join(" "))
        }),
        Request::Multi(_) => MultiResponse::decode(body).ok().map(|said| {
            let part = |result: &MultiResult| match result {
                MultiResult::Error(code) => format!("{code:?}"),
                MultiResult::Create(_)
                | MultiResult::Create2(_)
                | MultiResult::Delete
                | MultiResult::SetData(_)
                | MultiResult::Check => "ok".to_owned(),
            };
            said.results.iter().map(part).collect::<Vec<_>>().join(" and ")
        }),
        _ => None,
    };
    format!("{}, {zxid}", said.unwrap_or_else(|| "ok".to_owned()))
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
