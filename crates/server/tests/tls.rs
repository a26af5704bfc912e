//! TLS handshakes with certificates made by OpenSSL and key stores made by keytool.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pole_server::config::{ClientAuth, Password, Secret, Store, StoreFormat, TlsSettings};
use pole_server::tls::{self, PeerTls};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConnection, ServerConnection, StreamOwned};

const SUBJECT: &str = "/C=DE/O=A\\, B = \"C\" <d>;#1/OU=x+UID=u1/CN=Jürgen \\\\ Back";
/// The output of Java 17 for that subject.
const PRINCIPAL: &str = "CN=Jürgen \\\\ Back,OU=x+UID=u1,O=A\\, B \\= \\\"C\\\" \\<d\\>\\;\\#1,C=DE";

#[test]
fn two_servers_with_valid_certificates_connect() {
    let certs = CertificateDir::open();
    let one = PeerTls::open(&certs.settings("ca", "one")).unwrap();
    let two = PeerTls::open(&certs.settings("ca", "two")).unwrap();
    let chain = handshake(&one, &two, "localhost").unwrap();
    assert_eq!(tls::principal(&chain[0]).unwrap(), "CN=two");
    one.check_host(Some(&chain), "127.0.0.1").unwrap();
    assert!(one.check_host(Some(&chain), "elsewhere").unwrap_err().to_string().contains("certificate of elsewhere"));
    assert!(one.check_host(None, "127.0.0.1").is_err());
}

#[test]
fn a_server_of_another_authority_is_turned_away() {
    let certs = CertificateDir::open();
    certs.authority("rogue");
    certs.certificate("three", "rogue", "/CN=three", 100);
    let one = PeerTls::open(&certs.settings("ca", "one")).unwrap();
    let rogue = PeerTls::open(&certs.settings("ca", "three")).unwrap();
    assert!(handshake(&one, &rogue, "localhost").is_err(), "as the one that connects");
    assert!(handshake(&rogue, &one, "localhost").is_err(), "as the one that is called");
}

#[test]
fn a_tool_connects_to_a_server_on_a_blocking_socket() {
    let certs = CertificateDir::open();
    let server = PeerTls::open(&certs.settings("ca", "one")).unwrap();
    let tool = PeerTls::open(&certs.settings("ca", "two")).unwrap();
    let (address, echo) = echo_once(&server);
    let socket = TcpStream::connect(address).unwrap();
    // Shorter than a handshake: the time limits of the socket do not end it.
    socket.set_read_timeout(Some(Duration::from_micros(1))).unwrap();
    let mut stream = tool.connect(socket, "localhost", LIMIT).unwrap();
    stream.write_all(b"hello").unwrap();
    let mut answer = [0; 5];
    let mut filled = 0;
    while filled < answer.len() {
        match stream.read(&mut answer[filled..]) {
            Ok(count) => filled += count,
            Err(error) => assert!(matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)),
        }
    }
    assert_eq!(&answer, b"hello");
    echo.join().unwrap().unwrap();
}

#[test]
fn a_tool_refuses_a_server_of_another_authority_and_one_that_is_silent() {
    let certs = CertificateDir::open();
    certs.authority("rogue");
    certs.certificate("three", "rogue", "/CN=three", 100);
    let tool = PeerTls::open(&certs.settings("ca", "two")).unwrap();
    let (address, echo) = echo_once(&PeerTls::open(&certs.settings("rogue", "three")).unwrap());
    let error = tool.connect(TcpStream::connect(address).unwrap(), "localhost", LIMIT).err().unwrap().to_string();
    assert!(error.contains("TLS handshake") && error.contains("UnknownIssuer"), "{error}");
    assert!(echo.join().unwrap().is_err());

    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(silent.local_addr().unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let error = tool.connect(socket, "localhost", Duration::from_millis(20)).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

/// A server that sends the first five bytes back.
fn echo_once(server: &PeerTls) -> (SocketAddr, JoinHandle<io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connection = ServerConnection::new(server.acceptor.clone()).unwrap();
    let echo = thread::spawn(move || {
        let mut stream = StreamOwned::new(connection, listener.accept()?.0);
        let mut bytes = [0; 5];
        stream.read_exact(&mut bytes)?;
        stream.write_all(&bytes)
    });
    (address, echo)
}

/// Longer than any handshake.
const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn an_expired_certificate_is_turned_away() {
    let certs = CertificateDir::open();
    certs.certificate("late", "ca", "/CN=late", -1);
    let one = PeerTls::open(&certs.settings("ca", "one")).unwrap();
    let late = PeerTls::open(&certs.settings("ca", "late")).unwrap();
    let error = handshake(&one, &late, "localhost").unwrap_err().to_string();
    assert!(error.contains("xpired"), "{error}");
}

#[test]
fn a_host_that_the_certificate_does_not_name_is_accepted_only_without_host_verification() {
    let certs = CertificateDir::open();
    let one = PeerTls::open(&certs.settings("ca", "one")).unwrap();
    let strict = PeerTls::open(&certs.settings("ca", "two")).unwrap();
    let lax =
        PeerTls::open(&TlsSettings { verify_host: false, verify_client_host: false, ..certs.settings("ca", "two") })
            .unwrap();
    assert!(handshake(&one, &strict, "elsewhere").is_err());
    let chain = handshake(&one, &lax, "elsewhere").unwrap();
    lax.check_host(Some(&chain), "anywhere").unwrap();
}

#[test]
fn without_host_verification_the_authority_is_still_verified() {
    let certs = CertificateDir::open();
    certs.authority("rogue");
    certs.certificate("three", "rogue", "/CN=three", 100);
    let rogue = PeerTls::open(&certs.settings("ca", "three")).unwrap();
    let lax =
        PeerTls::open(&TlsSettings { verify_host: false, verify_client_host: false, ..certs.settings("ca", "two") })
            .unwrap();
    assert!(handshake(&rogue, &lax, "localhost").is_err());
}

#[test]
fn a_client_without_a_certificate_gets_in_unless_one_is_needed() {
    let certs = CertificateDir::open();
    let enter = |client_auth| {
        let acceptor = tls::acceptor(&TlsSettings { client_auth, ..certs.settings("ca", "one") }).unwrap();
        let roots = certs.roots("ca");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        connect(acceptor, Arc::new(builder.with_root_certificates(roots).with_no_client_auth()), "localhost")
    };
    assert!(enter(ClientAuth::Need).is_err());
    assert_eq!(enter(ClientAuth::Want).unwrap(), []);
    assert_eq!(enter(ClientAuth::None).unwrap(), []);
}

#[test]
fn the_identity_of_a_client_is_written_as_java_writes_it() {
    let certs = CertificateDir::open();
    certs.certificate("client", "ca", SUBJECT, 100);
    let server = PeerTls::open(&certs.settings("ca", "one")).unwrap();
    let client = PeerTls::open(&certs.settings("ca", "client")).unwrap();
    let chain = handshake(&server, &client, "localhost").unwrap();
    assert_eq!(tls::principal(&chain[0]).unwrap(), PRINCIPAL);
}

#[test]
fn attributes_without_a_name_are_written_by_number() {
    let certs = CertificateDir::open();
    certs.certificate("odd", "ca", "/DC=org/CN= lead trail /emailAddress=a@b.c/serialNumber=42/title=Dr", 100);
    let certificate = CertificateDer::from_pem_file(certs.path("odd.crt")).unwrap();
    let expected =
        "2.5.4.12=#0c024472,2.5.4.5=#13023432,1.2.840.113549.1.9.1=#16056140622e63,CN=\\ lead trail\\ ,DC=org";
    assert_eq!(tls::principal(&certificate).unwrap(), expected);
}

#[test]
fn only_configured_protocols_and_suites_are_used() {
    let certs = CertificateDir::open();
    let one = PeerTls::open(&TlsSettings { tls13: false, ..certs.settings("ca", "one") }).unwrap();
    let two = PeerTls::open(&TlsSettings { tls12: false, ..certs.settings("ca", "two") }).unwrap();
    assert!(handshake(&one, &two, "localhost").is_err());
    let suites = vec!["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256".to_owned()];
    let three = PeerTls::open(&TlsSettings { cipher_suites: suites.clone(), ..certs.settings("ca", "two") }).unwrap();
    assert!(handshake(&one, &three, "localhost").is_ok());
    let none = TlsSettings { cipher_suites: suites, tls12: false, ..certs.settings("ca", "two") };
    assert!(PeerTls::open(&none).unwrap_err().to_string().starts_with("protocols and cipher suites"));
}

#[test]
fn an_encrypted_key_opens_with_its_password_only() {
    let certs = CertificateDir::open();
    certs.openssl(&["pkcs8", "-topk8", "-in", "one.key", "-out", "sealed.key", "-passout", "pass:secret"]);
    certs.join(&["one.crt", "sealed.key"], "sealed.pem");
    let encrypted = |password| certs.with_key_store("sealed.pem", StoreFormat::Pem, password);
    let two = PeerTls::open(&certs.settings("ca", "two")).unwrap();
    let one = PeerTls::open(&encrypted(given("secret"))).unwrap();
    assert!(handshake(&one, &two, "localhost").is_ok());
    assert!(PeerTls::open(&encrypted(given("wrong"))).unwrap_err().to_string().contains("is the password right?"));
}

#[test]
fn the_password_may_stand_in_a_file() {
    let certs = CertificateDir::open();
    certs.pkcs12("one", "secret");
    fs::write(certs.path("password"), "secret\n").unwrap();
    let settings = certs.with_key_store("one.p12", StoreFormat::Pkcs12, Password::InFile(certs.path("password")));
    assert!(tls::acceptor(&settings).is_ok());
    let gone = certs.with_key_store("one.p12", StoreFormat::Pkcs12, Password::InFile(certs.path("gone")));
    assert!(tls::acceptor(&gone).unwrap_err().to_string().contains("gone: cannot be read"));
}

#[test]
fn a_store_of_openssl_opens_with_its_password_only() {
    let certs = CertificateDir::open();
    certs.pkcs12("one", "secret");
    let two = PeerTls::open(&certs.settings("ca", "two")).unwrap();
    let one = PeerTls::open(&certs.with_key_store("one.p12", StoreFormat::Pkcs12, given("secret"))).unwrap();
    assert!(handshake(&one, &two, "localhost").is_ok());
    let wrong = tls::acceptor(&certs.with_key_store("one.p12", StoreFormat::Pkcs12, given("wrong")));
    assert!(wrong.unwrap_err().to_string().contains("is the password right?"));
}

#[test]
fn a_store_with_the_ciphers_of_java_8_opens() {
    let certs = CertificateDir::open();
    let old = ["-keypbe", "PBE-SHA1-3DES", "-certpbe", "PBE-SHA1-3DES", "-macalg", "sha1", "-passout", "pass:secret"];
    certs.openssl(&[&["pkcs12", "-export", "-in", "one.pem", "-out", "old.p12"], &old[..]].concat());
    assert!(tls::acceptor(&certs.with_key_store("old.p12", StoreFormat::Pkcs12, given("secret"))).is_ok());
}

#[test]
fn stores_of_keytool_open_in_its_old_format_too() {
    let certs = CertificateDir::open();
    if !certs.has_keytool() {
        eprintln!("skipped: keytool is not installed");
        return;
    }
    certs.pkcs12("two", "secret");
    let import = ["-importcert", "-noprompt", "-alias", "ca", "-file", "ca.crt", "-storepass", "secret", "-keystore"];
    certs.keytool(&[&import[..], &["trust.p12", "-storetype", "PKCS12"]].concat());
    certs.keytool(&[&import[..], &["old.jks", "-storetype", "JKS"]].concat());
    let copy = ["-importkeystore", "-srckeystore", "two.p12", "-srcstorepass", "secret", "-deststorepass", "secret"];
    certs.keytool(&[&copy[..], &["-destkeystore", "two.jks", "-deststoretype", "PKCS12"]].concat());
    // A PKCS12 file under the name of JKS, as every Java since 9 writes them.
    let mut settings = certs.with_key_store("two.jks", StoreFormat::Jks, given("secret"));
    settings.trust_store = Some(certs.store("trust.p12", StoreFormat::Pkcs12, given("secret")));
    let two = PeerTls::open(&settings).unwrap();
    let one = PeerTls::open(&certs.settings("ca", "one")).unwrap();
    assert!(handshake(&two, &one, "localhost").is_ok());
    certs.keytool(&[&copy[..], &["-destkeystore", "old-key.jks", "-deststoretype", "JKS"]].concat());
    let mut old = certs.with_key_store("old-key.jks", StoreFormat::Jks, given("secret"));
    old.trust_store = Some(certs.store("old.jks", StoreFormat::Jks, given("secret")));
    let old = PeerTls::open(&old).unwrap();
    assert!(handshake(&old, &one, "localhost").is_ok());
    settings.trust_store = Some(certs.store("old.jks", StoreFormat::Jks, given("wrong")));
    assert!(PeerTls::open(&settings).unwrap_err().to_string().contains("the password is wrong"));
}

#[test]
fn an_error_says_what_a_store_lacks() {
    let certs = CertificateDir::open();
    let no_key = tls::acceptor(&certs.with_key_store("one.crt", StoreFormat::Pem, Password::None));
    assert!(no_key.unwrap_err().to_string().contains("no private key"));
    let no_certificate = tls::acceptor(&certs.with_key_store("one.key", StoreFormat::Pem, Password::None));
    assert!(no_certificate.unwrap_err().to_string().contains("there is no certificate"));
    certs.join(&["one.crt", "two.key"], "mixed.pem");
    let mixed = tls::acceptor(&certs.with_key_store("mixed.pem", StoreFormat::Pem, Password::None));
    assert!(mixed.unwrap_err().to_string().contains("do not go together"));
    let gone = tls::acceptor(&certs.with_key_store("gone.pem", StoreFormat::Pem, Password::None));
    assert!(gone.unwrap_err().to_string().contains("gone.pem: cannot be read"));
}

#[test]
fn bytes_that_are_no_store_are_refused() {
    let certs = CertificateDir::open();
    for bytes in [&b""[..], b"\x30", b"\x30\x84\xff\xff\xff\xff", b"-----BEGIN CERTIFICATE-----\n!\n", &[0xff; 100]] {
        fs::write(certs.path("bad"), bytes).unwrap();
        for format in [StoreFormat::Pem, StoreFormat::Pkcs12, StoreFormat::Jks] {
            assert!(tls::acceptor(&certs.with_key_store("bad", format, given("x"))).is_err());
        }
    }
}

#[test]
fn a_revoked_certificate_is_refused_on_either_side() {
    let certs = CertificateDir::open();
    certs.revocation_list("ca", &[]);
    let strict = |name| PeerTls::open(&certs.with_revocation_list(name)).unwrap();
    assert!(handshake(&strict("one"), &strict("two"), "localhost").is_ok(), "nothing is revoked");
    certs.revocation_list("ca", &["two"]);
    let (one, two) = (strict("one"), PeerTls::open(&certs.settings("ca", "two")).unwrap());
    for refused in [handshake(&one, &two, "localhost"), handshake(&two, &one, "localhost")] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("evoked"), "{error}");
    }
    let lax = TlsSettings { verify_host: false, verify_client_host: false, ..certs.with_revocation_list("one") };
    assert!(handshake(&two, &PeerTls::open(&lax).unwrap(), "elsewhere").is_err(), "whatever the host is");
}

#[test]
fn a_certificate_whose_status_is_unknown_or_of_yesterday_is_refused() {
    let certs = CertificateDir::open();
    certs.authority("other");
    certs.revocation_list("other", &[]);
    let two = PeerTls::open(&certs.settings("ca", "two")).unwrap();
    let with = |file: &str| TlsSettings { revocation_lists: Some(certs.path(file)), ..certs.settings("ca", "one") };
    let one = PeerTls::open(&with("other.crl")).unwrap();
    assert!(handshake(&one, &two, "localhost").is_err(), "no list of its authority");
    certs.revocation_list("ca", &[]);
    certs.join(&["other.crl", "ca.crl"], "both.crl");
    assert!(handshake(&PeerTls::open(&with("both.crl")).unwrap(), &two, "localhost").is_ok(), "two lists in a file");
    certs.openssl(&["crl", "-in", "ca.crl", "-outform", "DER", "-out", "ca.der"]);
    assert!(handshake(&PeerTls::open(&with("ca.der")).unwrap(), &two, "localhost").is_ok(), "a list as DER");
    certs.old_revocation_list("ca");
    assert!(handshake(&PeerTls::open(&with("ca.crl")).unwrap(), &two, "localhost").is_err(), "an expired list");
}

#[test]
fn a_file_without_lists_of_revoked_certificates_is_an_error() {
    let certs = CertificateDir::open();
    let with = |file: &str| TlsSettings { revocation_lists: Some(certs.path(file)), ..certs.settings("ca", "one") };
    for (text, why) in [
        (&b""[..], "there is no list"),
        (b"-----BEGIN X509 CRL-----\n!\n", "cannot be read"),
        (b"\x30", "cannot be used"),
        (b"\x30\x84\xff\xff\xff\xff", "cannot be used"),
    ] {
        fs::write(certs.path("bad"), text).unwrap();
        for error in [tls::acceptor(&with("bad")).unwrap_err(), PeerTls::open(&with("bad")).unwrap_err()] {
            assert!(error.to_string().contains("bad: ") && error.to_string().contains(why), "{error}");
        }
    }
    assert!(tls::acceptor(&with("gone")).unwrap_err().to_string().contains("gone: cannot be read"));
}

#[test]
fn the_certificate_of_a_client_names_its_address_or_not() {
    let certs = CertificateDir::open();
    let certificate = CertificateDer::from_pem_file(certs.path("one.crt")).unwrap();
    let check = |address: &str| tls::check_address(&certificate, address.parse().unwrap());
    check("127.0.0.1").unwrap();
    check("::ffff:127.0.0.1").unwrap();
    let error = check("10.0.0.1").unwrap_err().to_string();
    assert!(error.contains("10.0.0.1") && error.contains("ssl.clientHostnameVerification"), "{error}");
}

/// Performs a handshake between two servers, and returns the certificates that the called one received.
fn handshake(called: &PeerTls, caller: &PeerTls, host: &str) -> io::Result<Vec<CertificateDer<'static>>> {
    connect(called.acceptor.clone(), caller.connector.clone(), host)
}

/// Both ends send and receive a byte, so that both notice a refusal by either side.
fn connect(
    acceptor: Arc<rustls::ServerConfig>,
    connector: Arc<rustls::ClientConfig>,
    host: &str,
) -> io::Result<Vec<CertificateDer<'static>>> {
    let (near, far) = UnixStream::pair()?;
    let name = tls::server_name(host).map_err(io::Error::other)?;
    let caller = thread::spawn(move || {
        let connection = ClientConnection::new(connector, name).map_err(io::Error::other)?;
        exchange(&mut StreamOwned::new(connection, far))
    });
    let mut stream = StreamOwned::new(ServerConnection::new(acceptor).map_err(io::Error::other)?, near);
    let here = exchange(&mut stream);
    let seen = stream.conn.peer_certificates().unwrap_or_default();
    let seen = seen.iter().map(|certificate| certificate.clone().into_owned()).collect();
    drop(stream);
    let there = caller.join().expect("the caller ends");
    here.and(there).map(|()| seen)
}

fn exchange(stream: &mut (impl Read + Write)) -> io::Result<()> {
    stream.write_all(b"!")?;
    stream.flush()?;
    stream.read_exact(&mut [0])
}

fn given(password: &str) -> Password {
    Password::Given(Secret(password.to_owned()))
}

/// A directory with an authority and the certificates of two servers, removed at the end of the test.
struct CertificateDir(PathBuf);

impl CertificateDir {
    fn open() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("pole-tls-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let certs = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(&certs.0).unwrap();
        certs.authority("ca");
        certs.certificate("one", "ca", "/CN=one", 100);
        certs.certificate("two", "ca", "/CN=two", 100);
        certs
    }

    fn authority(&self, name: &str) {
        let (key, certificate) = (format!("{name}.key"), format!("{name}.crt"));
        let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        let files = ["-keyout", &key, "-out", &certificate, "-subj", &format!("/CN={name}"), "-days", "100"];
        self.openssl(&[&["req", "-x509"], &curve[..], &files[..]].concat());
    }

    /// A certificate for `localhost` with its key, and both as `NAME.pem`.
    fn certificate(&self, name: &str, authority: &str, subject: &str, days: i32) {
        let file = |ending: &str| format!("{name}.{ending}");
        let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        let (key, request, certificate) = (file("key"), file("csr"), file("crt"));
        let request_of = ["-keyout", &key, "-out", &request, "-utf8", "-multivalue-rdn", "-subj", subject];
        self.openssl(&[&["req"], &curve[..], &request_of[..]].concat());
        fs::write(self.path("extensions"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").unwrap();
        let (ca, ca_key, days) = (format!("{authority}.crt"), format!("{authority}.key"), days.to_string());
        let signed =
            ["x509", "-req", "-in", &request, "-CA", &ca, "-CAkey", &ca_key, "-CAcreateserial", "-days", &days];
        self.openssl(&[&signed[..], &["-extfile", "extensions", "-out", &certificate]].concat());
        self.join(&[&certificate, &key], &file("pem"));
    }

    /// A list of the certificates of this authority that are revoked, as `AUTHORITY.crl`.
    fn revocation_list(&self, authority: &str, revoked: &[&str]) {
        self.revocation_list_of(authority, revoked, &["-crldays", "10"]);
    }

    /// A list that should have been replaced long ago.
    fn old_revocation_list(&self, authority: &str) {
        let dates = ["-crl_lastupdate", "20200101000000Z", "-crl_nextupdate", "20200201000000Z"];
        self.revocation_list_of(authority, &[], &dates);
    }

    fn revocation_list_of(&self, authority: &str, revoked: &[&str], dates: &[&str]) {
        let config = "[ca]\ndefault_ca=one\n[one]\ndatabase=index\ncrlnumber=number\ndefault_md=sha256\n\
                      crl_extensions=extensions\n[extensions]\nauthorityKeyIdentifier=keyid\n";
        for (file, text) in [("ca.cnf", config), ("index", ""), ("number", "01\n")] {
            fs::write(self.path(file), text).unwrap();
        }
        let (key, certificate, list) =
            (format!("{authority}.key"), format!("{authority}.crt"), format!("{authority}.crl"));
        let ca = ["ca", "-config", "ca.cnf", "-keyfile", &key, "-cert", &certificate];
        for name in revoked {
            self.openssl(&[&ca[..], &["-revoke", &format!("{name}.crt")]].concat());
        }
        self.openssl(&[&ca[..], &["-gencrl", "-out", &list], dates].concat());
    }

    fn pkcs12(&self, name: &str, password: &str) {
        let (input, output, password) = (format!("{name}.pem"), format!("{name}.p12"), format!("pass:{password}"));
        self.openssl(&["pkcs12", "-export", "-in", &input, "-out", &output, "-passout", &password, "-name", name]);
    }

    fn join(&self, parts: &[&str], whole: &str) {
        let text: String = parts.iter().map(|part| fs::read_to_string(self.path(part)).unwrap()).collect();
        fs::write(self.path(whole), text).unwrap();
    }

    fn settings(&self, authority: &str, name: &str) -> TlsSettings {
        TlsSettings {
            key_store: Some(self.store(&format!("{name}.pem"), StoreFormat::Pem, Password::None)),
            trust_store: Some(self.store(&format!("{authority}.crt"), StoreFormat::Pem, Password::None)),
            client_auth: ClientAuth::Need,
            revocation_lists: None,
            verify_host: true,
            verify_client_host: true,
            tls12: true,
            tls13: true,
            cipher_suites: Vec::new(),
        }
    }

    fn with_revocation_list(&self, name: &str) -> TlsSettings {
        TlsSettings { revocation_lists: Some(self.path("ca.crl")), ..self.settings("ca", name) }
    }

    fn with_key_store(&self, file: &str, format: StoreFormat, password: Password) -> TlsSettings {
        TlsSettings { key_store: Some(self.store(file, format, password)), ..self.settings("ca", "one") }
    }

    fn store(&self, file: &str, format: StoreFormat, password: Password) -> Store {
        Store { location: self.path(file), format, password }
    }

    fn roots(&self, authority: &str) -> rustls::RootCertStore {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path(&format!("{authority}.crt"))).unwrap()).unwrap();
        roots
    }

    fn openssl(&self, arguments: &[&str]) {
        self.run("openssl", arguments);
    }

    fn keytool(&self, arguments: &[&str]) {
        self.run("keytool", arguments);
    }

    fn has_keytool(&self) -> bool {
        Command::new("keytool").arg("-help").output().is_ok()
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let output = Command::new(program).args(arguments).current_dir(&self.0).output();
        let output = output.unwrap_or_else(|error| panic!("{program} is needed for this test: {error}"));
        assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn path(&self, file: &str) -> PathBuf {
        Path::new(&self.0).join(file)
    }
}

impl Drop for CertificateDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
