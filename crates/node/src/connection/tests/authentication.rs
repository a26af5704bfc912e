//! Clients that authenticate by SASL, or do not.

use alloc::string::String;
use alloc::sync::Arc;
use pole_jute::{SaslRequest, SaslResponse};
use pole_tree::AuthSettings;

use super::*;
use crate::connection::sasl::tests::answer_to;

/// A connection with a session to a server with the user `bob` and these settings.
fn open(change: impl FnOnce(&mut Authentication)) -> Driver {
    let providers = AuthSettings { sasl_super_users: vec!["root".into()], ..AuthSettings::default() };
    let sasl = Some(SaslMechanism::DigestMd5(SaslUsers::new([("bob", "secret"), ("root", "secret")])));
    let mut authentication = Authentication { providers, sasl, ..Authentication::default() };
    change(&mut authentication);
    Driver::opened(Driver::with(Limits { authentication: Arc::new(authentication), ..Limits::default() }))
}

fn requiring(schemes: &[&str]) -> impl FnOnce(&mut Authentication) {
    let schemes: Vec<String> = schemes.iter().map(|&scheme| scheme.into()).collect();
    |authentication| authentication.required_schemes = schemes
}

fn sasl(xid: i32, token: &[u8]) -> Bytes {
    request(xid, OpCode::Sasl, &SaslRequest { token: Some(Bytes::copy_from_slice(token)) })
}

impl Driver {
    /// Sends a token. Returns the code and the token of the reply.
    fn sasl(&mut self, token: &[u8]) -> (ErrorCode, Option<Bytes>) {
        self.send(&sasl(1, token));
        let mut reader = Reader::new(self.frames().remove(0));
        let header = ReplyHeader::read(&mut reader).expect("a header");
        assert_eq!((header.xid, header.zxid), (1, 0));
        (header.err, SaslResponse::read(&mut reader).expect("a token").token)
    }

    /// Both steps of a client, with its own computation of the proof.
    fn log_in(&mut self, user: &str, password: &str) -> (ErrorCode, Option<Bytes>) {
        let (code, challenge) = self.sasl(b"");
        let challenge = String::from_utf8(challenge.expect("a challenge").to_vec()).expect("text");
        assert_eq!(code, ErrorCode::Ok);
        let nonce = challenge.split("nonce=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a nonce");
        let answer = answer_to(nonce, user, password, None);
        self.sasl(answer.as_bytes())
    }

    fn identities(&self) -> Vec<String> {
        self.machine.caller().ids.iter().map(|id| format!("{}:{}", id.scheme, id.id)).collect()
    }
}

#[test]
fn a_user_gets_an_identity_and_the_servers_proof() {
    let mut driver = open(|_| {});
    let (code, reply) = driver.log_in("bob", "secret");
    assert_eq!(code, ErrorCode::Ok);
    assert!(reply.expect("a proof").starts_with(b"rspauth="));
    assert_eq!((driver.identities(), driver.reason()), (vec!["sasl:bob".into()], None));
    let mut driver = open(|_| {});
    driver.log_in("root", "secret");
    assert_eq!(driver.identities(), ["sasl:root", "super:"]);
}

#[test]
fn a_wrong_password_closes_the_connection() {
    let mut driver = open(|_| {});
    assert_eq!(driver.log_in("bob", "guess"), (ErrorCode::AuthFailed, None));
    assert_eq!(driver.reason(), Some(CloseReason::SaslFailed(SaslError::Credentials)));
    assert_eq!(driver.identities(), Vec::<String>::new());
    let mut driver = open(requiring(&["digest", "sasl"]));
    assert_eq!(driver.log_in("bob", "guess").0, ErrorCode::SessionClosedRequireSaslAuth);
    assert!(driver.reason().is_some());
}

#[test]
fn a_client_that_failed_may_stay_where_the_operator_allows_it() {
    let mut driver = open(|authentication| authentication.allow_sasl_failed = true);
    assert_eq!(driver.log_in("bob", "guess"), (ErrorCode::Ok, None));
    assert_eq!((driver.identities(), driver.reason()), (Vec::new(), None));
    assert_eq!(driver.sasl(b""), (ErrorCode::Ok, None), "there is no second attempt");
    driver.send(&get(2, "/none"));
    assert_eq!(driver.replies(), [(2, ErrorCode::NoNode)]);
    let mut driver = open(|authentication| {
        authentication.allow_sasl_failed = true;
        requiring(&["sasl"])(authentication);
    });
    driver.log_in("bob", "guess");
    assert!(driver.reason().is_some(), "not where SASL is required");
}

#[test]
fn without_users_a_token_is_answered_with_nothing() {
    let mut driver = open(|authentication| authentication.sasl = None);
    assert_eq!(driver.sasl(b""), (ErrorCode::Ok, None));
    assert_eq!((driver.identities(), driver.reason()), (Vec::new(), None));
}

/// A connection to a server of the realm `A`.
fn open_kerberos(change: impl FnOnce(&mut Authentication)) -> Driver {
    open(|authentication| {
        let names = KerberosNames { realm: "A".into(), remove_host: true, remove_realm: true };
        authentication.sasl = Some(SaslMechanism::Gssapi(names));
        change(authentication);
    })
}

impl Driver {
    /// Sends a token that leads to a call, and performs it.
    fn call(&mut self, token: &'static [u8], result: GssapiResult) -> (ErrorCode, Option<Bytes>) {
        self.send(&sasl(1, token));
        assert!(self.machine.gssapi_call().is_some());
        assert_eq!(self.frames(), Vec::<Bytes>::new(), "no answer before the result");
        self.called(result)
    }

    fn called(&mut self, result: GssapiResult) -> (ErrorCode, Option<Bytes>) {
        self.machine.gssapi_called(result, &self.server);
        let mut reader = Reader::new(self.frames().remove(0));
        let header = ReplyHeader::read(&mut reader).expect("a header");
        (header.err, SaslResponse::read(&mut reader).expect("a token").token)
    }

    /// A client with this principal, to its last token.
    fn log_in_as(&mut self, principal: &str) -> (ErrorCode, Option<Bytes>) {
        let layers = Bytes::from_static(b"layers");
        let established = GssapiResult::Established { token: Bytes::new(), principal: principal.into(), layers };
        assert_eq!(self.call(b"ticket", established), (ErrorCode::Ok, Some(Bytes::from_static(b"layers"))));
        self.call(b"choice", GssapiResult::Unwrapped(Bytes::from_static(&SECURITY_LAYERS)))
    }
}

#[test]
fn a_principal_gets_an_identity_and_a_reply_without_a_token() {
    let mut driver = open_kerberos(|_| {});
    assert_eq!(driver.log_in_as("bob/host@A"), (ErrorCode::Ok, None));
    assert_eq!((driver.identities(), driver.reason()), (vec!["sasl:bob".into()], None));
    let mut driver = open_kerberos(|_| {});
    driver.log_in_as("root@A");
    assert_eq!(driver.identities(), ["sasl:root", "super:"]);
    let mut driver = open_kerberos(|_| {});
    driver.log_in_as("root@B");
    assert_eq!(driver.identities(), ["sasl:root@B"], "another realm has other people");
}

#[test]
fn requests_wait_until_the_library_has_answered() {
    let mut driver = open_kerberos(requiring(&["sasl"]));
    driver.send(&[sasl(1, b"ticket"), get(2, "/none")].concat());
    assert_eq!(driver.machine.gssapi_call(), Some(&GssapiCall::Accept(Bytes::from_static(b"ticket"))));
    driver.serve();
    assert_eq!((driver.replies(), driver.reason()), (Vec::new(), None));
    driver.called(GssapiResult::Continued(Bytes::from_static(b"more")));
    driver.serve();
    assert_eq!(driver.replies(), [(2, ErrorCode::SessionClosedRequireSaslAuth)]);
}

#[test]
fn a_ticket_that_kerberos_refuses_closes_the_connection() {
    let mut driver = open_kerberos(|_| {});
    assert_eq!(driver.call(b"forged", GssapiResult::Failed), (ErrorCode::AuthFailed, None));
    assert_eq!(driver.reason(), Some(CloseReason::SaslFailed(SaslError::Kerberos)));
    let mut driver = open_kerberos(|_| {});
    assert_eq!(driver.log_in_as("a/b/c@A"), (ErrorCode::AuthFailed, None));
    assert_eq!(driver.reason(), Some(CloseReason::SaslFailed(SaslError::Principal)));
    let mut driver = open_kerberos(|authentication| authentication.allow_sasl_failed = true);
    assert_eq!(driver.call(b"forged", GssapiResult::Failed), (ErrorCode::Ok, None));
    assert_eq!((driver.identities(), driver.reason()), (Vec::new(), None));
    assert_eq!(driver.sasl(b"ticket"), (ErrorCode::Ok, None), "there is no second attempt");
}

#[test]
fn a_result_after_the_end_changes_nothing() {
    let mut driver = open_kerberos(|_| {});
    driver.send(&sasl(1, b"ticket"));
    driver.machine.close(CloseReason::SessionExpired);
    driver.machine.gssapi_called(GssapiResult::Failed, &driver.server);
    assert_eq!(driver.reason(), Some(CloseReason::SessionExpired));
    driver.machine.gssapi_called(GssapiResult::Failed, &driver.server);
}

#[test]
fn only_authentication_is_answered_before_a_required_identity() {
    for first in [get(2, "/none"), write(2), ping(), request(2, OpCode::Sync, &SyncRequest { path: "/".into() })] {
        let mut driver = open(requiring(&["sasl"]));
        driver.send(&[first, get(3, "/none")].concat());
        let replies = driver.replies();
        assert_eq!(replies.len(), 1, "{replies:?}");
        assert_eq!(replies[0].1, ErrorCode::SessionClosedRequireSaslAuth);
        assert_eq!(driver.reason(), Some(CloseReason::AuthenticationRequired));
        assert!(driver.events.is_empty(), "nothing reaches the node");
    }
    let mut driver = open(requiring(&["sasl"]));
    driver.log_in("bob", "secret");
    driver.send(&[get(2, "/none"), ping()].concat());
    assert_eq!(driver.replies(), [(2, ErrorCode::NoNode), (Xid::PING, ErrorCode::Ok)]);
}

#[test]
fn one_of_the_required_schemes_is_enough() {
    let mut driver = open(requiring(&["sasl", "digest"]));
    let packet = AuthPacket { kind: 0, scheme: "digest".into(), auth: Some(Bytes::from_static(b"u:p")) };
    driver.send(&[request(Xid::AUTH, OpCode::Auth, &packet), get(2, "/none")].concat());
    assert_eq!(driver.replies(), [(Xid::AUTH, ErrorCode::Ok), (2, ErrorCode::NoNode)]);
}

#[test]
fn the_server_itself_needs_no_identity() {
    let authentication = Authentication { required_schemes: vec!["sasl".into()], ..Authentication::default() };
    let limits = Limits { authentication: Arc::new(authentication), ..Limits::default() };
    let mut driver = Driver::with(limits.clone());
    driver.machine = Connection::new(ClientId(1), limits, Caller::admin(), driver.context.now);
    let mut driver = Driver::opened(driver);
    driver.send(&get(2, "/none"));
    assert_eq!(driver.replies(), [(2, ErrorCode::NoNode)]);
}
