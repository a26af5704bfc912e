//! The lines of the audit log: `key=value`, separated by tabs, with the keys and in the order of Apache's.
//!
//! Differences: entries of an ACL are separated by commas, digests are not shown, a create with a time to live has a line
//! too, and control characters are escaped, so that no path can forge a line.

use std::fmt::Write as _;

use bytes::Bytes;
use pole_jute::{Acl, CreateMode, MultiOp, MultiResult, Perms, Reader, Reply, Request};
use pole_tree::{Caller, Operation, WriteRequest, masked_acl, user_name};

use super::Record;
use crate::log::timestamp;
use crate::metrics::process_user;

/// Appends the lines of a record.
pub(super) fn write(at_ms: i64, record: &Record, text: &mut String) {
    match record {
        Record::Request { session, address, request, reply } => {
            let Ok(WriteRequest { caller, operation: Operation::Request(request) }) = WriteRequest::decode(request)
            else {
                return;
            };
            let (session, ip) = (format!("{session:#x}"), address.to_canonical().to_string());
            let client = Client { at_ms, session: &session, user: &users(&caller), ip: &ip };
            client.request(&request, reply, text);
        }
        Record::SessionEnd { session, paths } => {
            let (session, user) = (format!("{session:#x}"), process_user());
            for path in paths {
                let fields = [
                    ("session", &*session),
                    ("user", &user),
                    ("operation", "ephemeralZNodeDeletionOnSessionCloseOrExpire"),
                    ("znode", path),
                ];
                line(at_ms, &fields, Outcome::Success, text);
            }
        }
        Record::ServerStart => {
            line(at_ms, &[("user", &process_user()), ("operation", "serverStart")], Outcome::Success, text);
        }
        Record::ServerStop => {
            line(at_ms, &[("user", &process_user()), ("operation", "serverStop")], Outcome::Invoked, text);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Success,
    Failure,
    /// It was asked for, and how it ends cannot be written any more.
    Invoked,
}

/// Who asked, from where.
struct Client<'a> {
    at_ms: i64,
    session: &'a str,
    user: &'a str,
    ip: &'a str,
}

/// What a line says about an operation.
#[derive(Debug, Default)]
struct Details {
    operation: &'static str,
    znode: Option<String>,
    znode_type: Option<&'static str>,
    acl: Option<String>,
}

impl Client<'_> {
    fn request(&self, request: &Request, reply: &Bytes, text: &mut String) {
        let code = reply.first_chunk().map_or(-1, |code| i32::from_be_bytes(*code));
        let body = reply.get(4..).map(|body| reply.slice_ref(body)).unwrap_or_default();
        let answer = (code == 0).then(|| Reply::decode(request.op(), &mut Reader::new(body)).ok()).flatten();
        if let (Request::Multi(multi), Some(Reply::Multi(results))) = (request, &answer)
            && !results.results.iter().any(|result| matches!(result, MultiResult::Error(_)))
        {
            for (op, result) in multi.ops.iter().zip(&results.results) {
                self.line(of_multi_op(op, result), Outcome::Success, text);
            }
            return;
        }
        let is_success = answer.is_some() && !matches!(request, Request::Multi(_));
        let created = match &answer {
            Some(Reply::Create(reply)) => Some(reply.path.clone()),
            Some(Reply::Create2(reply) | Reply::CreateContainer(reply) | Reply::CreateTtl(reply)) => {
                Some(reply.path.clone())
            }
            _ => None,
        };
        self.line(of_request(request, created), if is_success { Outcome::Success } else { Outcome::Failure }, text);
    }

    fn line(&self, details: Option<Details>, outcome: Outcome, text: &mut String) {
        let Some(Details { operation, znode, znode_type, acl }) = details else { return };
        let mut fields =
            vec![("session", self.session), ("user", self.user), ("ip", self.ip), ("operation", operation)];
        fields.extend(znode.as_deref().map(|znode| ("znode", znode)));
        fields.extend(znode_type.map(|kind| ("znode_type", kind)));
        fields.extend(acl.as_deref().map(|acl| ("acl", acl)));
        line(self.at_ms, &fields, outcome, text);
    }
}

/// What a request changes, with the path that was `created`; `None` for one that changes no node.
fn of_request(request: &Request, created: Option<String>) -> Option<Details> {
    let create = |path: &str, flags| Details {
        operation: "create",
        znode: Some(created.unwrap_or_else(|| path.to_owned())),
        znode_type: CreateMode::from_number(flags).map(znode_type),
        acl: None,
    };
    let at = |operation, path: &str| Details { operation, znode: Some(path.to_owned()), ..Details::default() };
    match request {
        Request::Create(request) | Request::Create2(request) | Request::CreateContainer(request) => {
            Some(create(&request.path, request.flags))
        }
        Request::CreateTtl(request) => Some(create(&request.path, request.flags)),
        Request::Delete(request) => Some(at("delete", &request.path)),
        Request::DeleteContainer(request) => Some(at("delete", &request.path)),
        Request::SetData(request) => Some(at("setData", &request.path)),
        Request::SetAcl(request) => Some(Details { acl: Some(acl_text(&request.acl)), ..at("setAcl", &request.path) }),
        Request::Multi(_) => Some(Details { operation: "multiOperation", ..Details::default() }),
        Request::Reconfig(_) => Some(Details { operation: "reconfig", ..Details::default() }),
        Request::Exists(_)
        | Request::GetData(_)
        | Request::GetAcl(_)
        | Request::GetChildren(_)
        | Request::Sync(_)
        | Request::Ping
        | Request::GetChildren2(_)
        | Request::Check(_)
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
        | Request::WhoAmI
        | Request::CloseSession => None,
    }
}

/// The same for an operation of a multi.
fn of_multi_op(op: &MultiOp, result: &MultiResult) -> Option<Details> {
    let created = match result {
        MultiResult::Create(reply) => Some(reply.path.clone()),
        MultiResult::Create2(reply) => Some(reply.path.clone()),
        MultiResult::Delete | MultiResult::SetData(_) | MultiResult::Check | MultiResult::Error(_) => None,
    };
    let request = match op.clone() {
        MultiOp::Create(request) | MultiOp::Create2(request) | MultiOp::CreateContainer(request) => {
            Request::Create(request)
        }
        MultiOp::CreateTtl(request) => Request::CreateTtl(request),
        MultiOp::Delete(request) => Request::Delete(request),
        MultiOp::SetData(request) => Request::SetData(request),
        MultiOp::Check(_) => return None,
    };
    of_request(&request, created)
}

/// The users of a caller, without secrets and each once: what Apache shows of the identities of a client.
fn users(caller: &Caller) -> String {
    let mut users: Vec<&str> = Vec::new();
    for user in caller.ids.iter().map(user_name).filter(|user| !user.is_empty()) {
        if !users.contains(&user) {
            users.push(user);
        }
    }
    users.join(",")
}

fn acl_text(list: &[Acl]) -> String {
    let entry = |acl: &Acl| {
        let Acl { perms, id } = masked_acl(acl);
        let letters =
            [(Perms::CREATE, 'c'), (Perms::DELETE, 'd'), (Perms::READ, 'r'), (Perms::WRITE, 'w'), (Perms::ADMIN, 'a')];
        let perms: String =
            letters.iter().filter(|(perm, _)| perms.contains(*perm)).map(|(_, letter)| *letter).collect();
        format!("{}:{}:{perms}", id.scheme, id.id)
    };
    list.iter().map(entry).collect::<Vec<_>>().join(",")
}

fn znode_type(mode: CreateMode) -> &'static str {
    match mode {
        CreateMode::Persistent => "persistent",
        CreateMode::Ephemeral => "ephemeral",
        CreateMode::PersistentSequential => "persistent_sequential",
        CreateMode::EphemeralSequential => "ephemeral_sequential",
        CreateMode::Container => "container",
        CreateMode::PersistentWithTtl => "persistent_with_ttl",
        CreateMode::PersistentSequentialWithTtl => "persistent_sequential_with_ttl",
    }
}

/// One line. A failure has the level ERROR, as in Apache.
fn line(at_ms: i64, fields: &[(&str, &str)], outcome: Outcome, text: &mut String) {
    let (level, result) = match outcome {
        Outcome::Success => ("INFO", "success"),
        Outcome::Failure => ("ERROR", "failure"),
        Outcome::Invoked => ("INFO", "invoked"),
    };
    let _ = write!(text, "{} {level} audit: ", timestamp(at_ms));
    for (key, value) in fields {
        let _ = write!(text, "{key}=");
        for character in value.chars().take(VALUE_CHARACTERS_MAX) {
            if character.is_control() {
                text.extend(character.escape_default());
            } else {
                text.push(character);
            }
        }
        text.push('\t');
    }
    let _ = writeln!(text, "result={result}");
}

/// Longer values are truncated; a path may have that many.
const VALUE_CHARACTERS_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use pole_jute::{
        CreateRequest, CreateResponse, DeleteRequest, Id, MultiRequest, MultiResponse, SetAclRequest, Writer,
    };

    const SESSION: i64 = 0x0100_00e0_b9e7_0000;

    fn id(scheme: &str, id: &str) -> Id {
        Id { scheme: scheme.into(), id: id.into() }
    }

    /// The lines of a request without their times.
    fn lines(request: &Request, code: i32, reply: &[u8]) -> String {
        let mut body = Writer::new();
        request.write(&mut body);
        let caller = Caller { ids: vec![id("ip", "127.0.0.1"), id("digest", "user:hash"), id("super", "")] };
        let request = WriteRequest::encode(request.op(), &caller, &body.into_bytes());
        let reply = [&code.to_be_bytes(), reply].concat().into();
        let record = Record::Request { session: SESSION, address: [127, 0, 0, 1].into(), request, reply };
        let mut text = String::new();
        write(0, &record, &mut text);
        let who = "session=0x10000e0b9e70000\tuser=127.0.0.1,user\tip=127.0.0.1\t";
        text.replace("1970-01-01T00:00:00.000Z ", "").replace(who, "WHO ")
    }

    fn create(path: &str, mode: CreateMode) -> CreateRequest {
        CreateRequest { path: path.into(), data: None, acl: Vec::new(), flags: mode.number() }
    }

    fn encoded(response: &impl pole_jute::Record) -> Bytes {
        let mut writer = Writer::new();
        response.write(&mut writer);
        writer.into_bytes()
    }

    #[test]
    fn a_create_names_the_path_that_was_made_and_its_type() {
        let request = Request::Create(create("/s-", CreateMode::PersistentSequential));
        let reply = encoded(&CreateResponse { path: "/s-0000000002".into() });
        let expected =
            "INFO audit: WHO operation=create\tznode=/s-0000000002\tznode_type=persistent_sequential\tresult=success\n";
        assert_eq!(lines(&request, 0, &reply), expected);
        let failed = "ERROR audit: WHO operation=create\tznode=/s-\tznode_type=persistent_sequential\tresult=failure\n";
        assert_eq!(lines(&request, -110, &[]), failed);
    }

    #[test]
    fn a_path_cannot_forge_a_line() {
        let request = Request::Delete(DeleteRequest { path: "/a\tresult=success\n2026".into(), version: -1 });
        let expected = "ERROR audit: WHO operation=delete\tznode=/a\\tresult=success\\n2026\tresult=failure\n";
        assert_eq!(lines(&request, -8, &[]), expected);
    }

    #[test]
    fn an_acl_is_shown_without_hashes() {
        let acl = vec![
            Acl { perms: Perms::ALL, id: id("world", "anyone") },
            Acl { perms: Perms::READ, id: id("digest", "u:secret") },
        ];
        let request = Request::SetAcl(SetAclRequest { path: "/a".into(), acl, version: -1 });
        let expected =
            "ERROR audit: WHO operation=setAcl\tznode=/a\tacl=world:anyone:cdrwa,digest:u:x:r\tresult=failure\n";
        assert_eq!(lines(&request, -101, &[]), expected);
    }

    #[test]
    fn a_multi_has_a_line_for_each_change_or_one_for_its_failure() {
        let ops = vec![
            MultiOp::Create(create("/m", CreateMode::Ephemeral)),
            MultiOp::Check(pole_jute::CheckVersionRequest { path: "/a".into(), version: -1 }),
            MultiOp::Delete(DeleteRequest { path: "/d".into(), version: -1 }),
        ];
        let request = Request::Multi(MultiRequest { ops });
        let results =
            vec![MultiResult::Create(CreateResponse { path: "/m".into() }), MultiResult::Check, MultiResult::Delete];
        let expected = "INFO audit: WHO operation=create\tznode=/m\tznode_type=ephemeral\tresult=success\n\
                        INFO audit: WHO operation=delete\tznode=/d\tresult=success\n";
        assert_eq!(lines(&request, 0, &encoded(&MultiResponse { results })), expected);
        let failed = MultiResponse { results: vec![MultiResult::Error(pole_jute::ErrorCode::NoNode); 3] };
        assert_eq!(
            lines(&request, 0, &encoded(&failed)),
            "ERROR audit: WHO operation=multiOperation\tresult=failure\n"
        );
    }

    #[test]
    fn the_end_of_a_session_has_a_line_for_each_of_its_nodes() {
        let mut text = String::new();
        write(0, &Record::SessionEnd { session: 7, paths: vec!["/e".into(), "/f".into()] }, &mut text);
        assert_eq!(text.lines().count(), 2);
        let end = "\toperation=ephemeralZNodeDeletionOnSessionCloseOrExpire\tznode=/f\tresult=success\n";
        assert!(text.contains("Z INFO audit: session=0x7\tuser=") && text.ends_with(end), "{text}");
    }
}
