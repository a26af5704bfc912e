//! DIGEST-MD5 with the answers that real clients gave, and with hostile ones.

use alloc::format;

use super::*;

fn users() -> SaslUsers {
    SaslUsers::new([("bob", "secret"), ("jürgen", "geheim€"), ("quote\"d", "x")])
}

const NONCE: Nonce = [0xa5; 20];

/// An exchange after the challenge.
fn challenged() -> SaslExchange {
    let mut exchange = SaslExchange::default();
    exchange.step(b"", &users(), || Some(NONCE)).expect("a challenge");
    exchange
}

fn answer(user: &str, password: &str, authzid: Option<&str>) -> String {
    answer_to(&text(&hex(&NONCE)), user, password, authzid)
}

/// What an honest client answers to a challenge with this nonce, with a password that may be wrong.
pub(crate) fn answer_to(nonce: &str, user: &str, password: &str, authzid: Option<&str>) -> String {
    let proof = proof(
        &key(user, password),
        nonce.as_bytes(),
        b"client",
        authzid.map(str::as_bytes),
        &[b"AUTHENTICATE:", b"zookeeper/zk-sasl-md5"],
    );
    let quoted = user.replace('\\', "\\\\").replace('"', "\\\"");
    let authzid = authzid.map(|authzid| format!(",authzid=\"{authzid}\"")).unwrap_or_default();
    format!(
        "charset=utf-8,username=\"{quoted}\",realm=\"zk-sasl-md5\",nonce=\"{nonce}\",nc=00000001,cnonce=\"client\",\
         digest-uri=\"zookeeper/zk-sasl-md5\",response={},maxbuf=65536,qop=auth{authzid}",
        text(&proof)
    )
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn check_token(token: &[u8]) -> Result<SaslStep, SaslError> {
    challenged().step(token, &users(), || panic!("the challenge was sent"))
}

#[test]
fn the_hashes_are_those_of_the_rfc() {
    // RFC 2831, 4: user `chris` of elwood.innosoft.com with the password `secret`.
    let key = md5(&[b"chris:elwood.innosoft.com:secret"]);
    let proof = |a2: &[u8]| proof(&key, b"OA6MG9tEQGm2hh", b"OA6MHXh6VqTrRk", None, &[a2]);
    assert_eq!(text(&proof(b"AUTHENTICATE:imap/elwood.innosoft.com")), "d388dad90d4bbd760a152321f2143af7");
    assert_eq!(text(&proof(b":imap/elwood.innosoft.com")), "ea40f60335c427b5527b84dbabcdfffd");
}

#[test]
fn the_challenge_has_realm_nonce_and_algorithm() {
    let mut exchange = SaslExchange::default();
    let step = exchange.step(b"", &users(), || Some([0x0f; 20]));
    let nonce = "0f".repeat(20);
    let expected = format!("realm=\"zk-sasl-md5\",nonce=\"{nonce}\",charset=utf-8,algorithm=md5-sess");
    assert_eq!(step, Ok(SaslStep::Challenge(expected.into())));
}

#[test]
fn a_user_with_the_right_password_is_proved_and_gets_a_proof() {
    for (user, password) in [("bob", "secret"), ("jürgen", "geheim€"), ("quote\"d", "x")] {
        for authzid in [None, Some("bob")] {
            let step = check_token(answer(user, password, authzid).as_bytes());
            let Ok(SaslStep::Proved { user: proved, reply: Some(reply) }) = step else { panic!("{user}: {step:?}") };
            assert_eq!(proved, user);
            let a2 = [&b":zookeeper/zk-sasl-md5"[..]];
            let expected = proof(&key(user, password), &hex(&NONCE), b"client", authzid.map(str::as_bytes), &a2);
            assert_eq!(text(&reply), format!("rspauth={}", text(&expected)));
        }
    }
}

#[test]
fn a_wrong_password_and_an_unknown_user_fail_alike() {
    for (user, password) in [("bob", "Secret"), ("bob", ""), ("bobby", "secret"), ("", "")] {
        assert_eq!(check_token(answer(user, password, None).as_bytes()), Err(SaslError::Credentials), "{user}");
    }
    // A user that does not exist is compared with a key of zeros, which must not count.
    let right = answer("eve", "secret", None);
    let a2 = [&b"AUTHENTICATE:zookeeper/zk-sasl-md5"[..]];
    let of_password = text(&proof(&key("eve", "secret"), &hex(&NONCE), b"client", None, &a2));
    let of_zeros = text(&proof(&Key::default(), &hex(&NONCE), b"client", None, &a2));
    assert!(right.contains(&of_password));
    let forged = right.replace(&of_password, &of_zeros);
    assert_eq!(check_token(forged.as_bytes()), Err(SaslError::Credentials));
}

#[test]
fn an_answer_to_another_challenge_fails() {
    let mut exchange = SaslExchange::default();
    exchange.step(b"", &users(), || Some([1; 20])).expect("a challenge");
    let step = exchange.step(answer("bob", "secret", None).as_bytes(), &users(), || None);
    assert_eq!(step, Err(SaslError::Wrong("nonce")));
}

#[test]
fn there_is_one_attempt() {
    let mut exchange = challenged();
    let right = answer("bob", "secret", None);
    assert!(exchange.step(right.as_bytes(), &users(), || None).is_ok());
    assert_eq!(exchange.step(right.as_bytes(), &users(), || None), Err(SaslError::Over));
    let mut exchange = challenged();
    assert!(exchange.step(b"x", &users(), || None).is_err());
    assert_eq!(exchange.step(right.as_bytes(), &users(), || None), Err(SaslError::Over));
    let mut exchange = SaslExchange::default();
    assert_eq!(exchange.step(b"", &users(), || None), Err(SaslError::NoRandomNumbers));
}

#[test]
fn every_directive_is_checked() {
    let right = answer("bob", "secret", None);
    for (from, to, name) in [
        ("username=\"bob\",", "", "username"),
        ("realm=\"zk-sasl-md5\",", "", "realm"),
        ("realm=\"zk-sasl-md5\"", "realm=\"other\"", "realm"),
        ("nonce=\"a5", "nonce=\"b5", "nonce"),
        ("cnonce=\"client\",", "", "cnonce"),
        ("nc=00000001", "nc=00000002", "nc"),
        ("qop=auth", "qop=auth-conf", "qop"),
        ("charset=utf-8", "charset=latin1", "charset"),
        ("digest-uri=\"zookeeper/zk-sasl-md5\",", "", "digest-uri"),
        ("digest-uri=\"zookeeper/", "digest-uri=\"kafka/", "digest-uri"),
        ("response=", "reply=", "response"),
    ] {
        let changed = right.replacen(from, to, 1);
        assert_ne!(changed, right, "{from}");
        assert_eq!(check_token(changed.as_bytes()), Err(SaslError::Wrong(name)), "{changed}");
    }
    let upper = right.replace("zookeeper/zk-sasl-md5", "ZooKeeper/zk-sasl-md5");
    assert_eq!(check_token(upper.as_bytes()), Err(SaslError::Credentials), "another spelling is hashed as it is");
}

#[test]
fn a_changed_answer_proves_no_other_user() {
    let right = answer("bob", "secret", None);
    let end = right.find(",maxbuf").expect("a directive that is not used");
    for index in 0..right.len() {
        let cut = &right.as_bytes()[..index];
        assert!(index >= end || check_token(cut).is_err(), "cut off at {index}");
        for byte in [0, b'"', b'\\', b',', b'=', b'x', 0xff] {
            let mut changed = right.clone().into_bytes();
            changed[index] = byte;
            // The names of directives that need not be given may change: then they are not given.
            if let Ok(step) = check_token(&changed) {
                assert!(matches!(step, SaslStep::Proved { ref user, .. } if user == "bob"), "{step:?}");
                assert!(text_lossy(&changed).contains("username=\"bob\""));
            }
        }
    }
}

#[test]
fn huge_and_broken_values_fail() {
    let right = answer("bob", "secret", None);
    let long = format!("{right},x=\"{}\"", "y".repeat(TOKEN_BYTES_MAX));
    assert_eq!(check_token(long.as_bytes()), Err(SaslError::TooLong));
    let without_user = right.replacen("username=\"bob\",", "", 1);
    let huge = format!("username=\"{}\",{without_user}", "\u{10ffff}".repeat(900));
    assert_eq!(check_token(huge.as_bytes()), Err(SaslError::Credentials));
    let twice = format!("username=\"eve\",{right}");
    assert_eq!(check_token(twice.as_bytes()), Err(SaslError::Repeated("username")));
    let not_utf8 = [b"username=\"\xff\",", without_user.as_bytes()].concat();
    assert_eq!(check_token(&not_utf8), Err(SaslError::Wrong("username")));
    let open = right.replace("realm=\"zk-sasl-md5\"", "realm=\"zk-sasl-md5");
    assert!(matches!(check_token(open.as_bytes()), Err(SaslError::Malformed(_))));
}

fn text_lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_hash_of_a_password_is_not_printed() {
    let shown = format!("{:?}", SaslUsers::new([("bob", "secret")]));
    assert_eq!(shown, "{\"bob\"}");
}
