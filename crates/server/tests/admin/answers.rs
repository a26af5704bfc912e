//! Rare requests are answered as Apache ZooKeeper 3.9.2 answers them. The expected answers were recorded from it.

use std::net::TcpStream;

use pole_client::blocking::{Connection, Session};
use pole_client::{add_auth, connect_request, create};
use pole_jute::{
    Acl, CreateMode, CreateRequest, ErrorCode, GetAclRequest, Id, OpCode, Perms, Reader, Record, Reply, ReplyHeader,
    Request, RequestHeader, Writer, Xid,
};

use crate::test_server::{TEST_TIMEOUT, TestServer};

/// What a client sees after a request.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// The code of the reply; the connection goes on.
    Code(i32),
    /// The code of the reply, then the end.
    CodeThenEnd(i32),
    /// The end of the connection without a reply.
    End,
}

/// Sends one request on a connection of its own, then a ping to see whether the connection goes on.
fn send(server: &TestServer, content: &dyn Fn(&mut Writer)) -> Seen {
    let stream = TcpStream::connect(server.client).expect("the client port is open");
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a time limit");
    let mut connection = Connection::new(stream);
    connection.open(&connect_request(TEST_TIMEOUT)).expect("a session");
    let mut writer = Writer::new();
    writer.frame(content);
    writer.frame(|w| RequestHeader { xid: Xid::PING, op: OpCode::Ping.number() }.write(w));
    std::io::Write::write_all(connection.stream(), &writer.into_bytes()).expect("it is sent");
    // A ping does not wait for the answers to requests before it.
    let next = || connection.frame().ok().map(|frame| ReplyHeader::read(&mut Reader::new(frame)).expect("a reply"));
    let headers: Vec<ReplyHeader> = std::iter::from_fn(next).take(2).collect();
    match (headers.iter().find(|header| header.xid != Xid::PING), headers.len()) {
        (None, _) => Seen::End,
        (Some(answer), 2) => Seen::Code(answer.err.number()),
        (Some(answer), _) => Seen::CodeThenEnd(answer.err.number()),
    }
}

fn text(writer: &mut Writer, text: Option<&str>) {
    match text {
        Some(text) => writer.string(text),
        None => writer.int(-1),
    }
}

/// A create whose ACL has this scheme and id.
fn create_with(scheme: Option<&str>, id: Option<&str>) -> impl Fn(&mut Writer) {
    move |writer| {
        RequestHeader { xid: 1, op: OpCode::Create.number() }.write(writer);
        writer.string("/some");
        writer.int(-1);
        writer.int(1);
        writer.int(Perms::ALL.0);
        text(writer, scheme);
        text(writer, id);
        writer.int(0);
    }
}

#[test]
fn an_acl_without_an_id_is_refused() {
    let server = TestServer::standalone("");
    server.wait_until_serving();
    let (marshalling, invalid) = (ErrorCode::MarshallingError.number(), ErrorCode::InvalidAcl.number());
    let cases = [
        (Some("world"), None, marshalling),
        (Some("digest"), None, marshalling),
        (Some("ip"), None, marshalling),
        (Some("auth"), None, invalid),
        (Some("x509"), None, invalid),
        (None, Some("anyone"), invalid),
        (None, None, invalid),
    ];
    for (scheme, id, code) in cases {
        assert_eq!(send(&server, &create_with(scheme, id)), Seen::Code(code), "{scheme:?} {id:?}");
    }
}

#[test]
fn an_unknown_operation_is_answered_and_the_connection_closed() {
    let server = TestServer::standalone("");
    server.wait_until_serving();
    for op in [23, 50, 64, 99, 108, 1000, -2, -12, 0, -1] {
        let request = move |writer: &mut Writer| {
            RequestHeader { xid: 1, op }.write(writer);
            writer.raw(&[0; 20]);
        };
        assert_eq!(send(&server, &request), Seen::CodeThenEnd(ErrorCode::Unimplemented.number()), "{op}");
    }
}

#[test]
fn a_request_over_the_limit_ends_the_connection() {
    let server = TestServer::standalone("jute.maxbuffer=4096\n");
    server.wait_until_serving();
    let of_size = |bytes: usize| {
        move |writer: &mut Writer| {
            RequestHeader { xid: 1, op: OpCode::Exists.number() }.write(writer);
            writer.string("/");
            writer.bool(false);
            writer.raw(&vec![0; bytes - 14]);
        }
    };
    assert_eq!(send(&server, &of_size(4096)), Seen::Code(0));
    assert_eq!(send(&server, &of_size(4097)), Seen::End);
}

/// The answer to an auth request: its code, or `None` if the connection ended without one.
fn authenticate(server: &TestServer, scheme: &str, data: Option<&[u8]>) -> Option<i32> {
    let request = |writer: &mut Writer| {
        RequestHeader { xid: Xid::AUTH, op: OpCode::Auth.number() }.write(writer);
        writer.int(0);
        writer.string(scheme);
        writer.buffer(data);
    };
    match send(server, &request) {
        Seen::Code(code) | Seen::CodeThenEnd(code) => Some(code),
        Seen::End => None,
    }
}

#[test]
fn a_client_that_expects_another_ensemble_is_disconnected() {
    let provider = "authProvider.1=org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider\n";
    let server = TestServer::standalone(&format!("{provider}ensembleAuthName=east, west\n"));
    server.wait_until_serving();
    assert_eq!(authenticate(&server, "ensemble", Some(b"west")), Some(0));
    assert_eq!(authenticate(&server, "ensemble", Some(b"")), Some(0));
    assert_eq!(authenticate(&server, "ensemble", None), Some(0));
    assert_eq!(authenticate(&server, "ensemble", Some(b"north")), None);
    assert_eq!(authenticate(&server, "digest", None), Some(ErrorCode::AuthFailed.number()));
}

#[test]
fn digests_can_be_disabled() {
    let server = TestServer::standalone("DigestAuthenticationProvider.enabled=false\n");
    server.wait_until_serving();
    assert_eq!(authenticate(&server, "digest", Some(b"u:p")), Some(ErrorCode::AuthFailed.number()));
    let seen = send(&server, &create_with(Some("digest"), Some("u:h")));
    assert_eq!(seen, Seen::Code(ErrorCode::InvalidAcl.number()));
}

#[test]
fn the_hash_of_digests_can_be_chosen() {
    let server = TestServer::standalone("DigestAuthenticationProvider.digestAlg=SHA3-256\n");
    server.wait_until_serving();
    let mut session: Session = server.session();
    session.ask(add_auth("digest", b"u:p")).expect("it is authenticated");
    let Request::Create(open) = create("/own", b"", CreateMode::Persistent) else { panic!("a create") };
    let acl = vec![Acl { perms: Perms::ALL, id: Id { scheme: "auth".into(), id: String::new() } }];
    session.ask(Request::Create(CreateRequest { acl, ..open })).expect("it is created");
    let reply = session.ask(Request::GetAcl(GetAclRequest { path: "/own".into() })).expect("its ACL");
    let Reply::GetAcl(stored) = reply else { panic!("{reply:?}") };
    assert_eq!(stored.acl[0].id.id, "u:3+U94Pf1dSrKR/q5qu/huTFf1Fha6TtpdtpSdhWvIS0=");
}
