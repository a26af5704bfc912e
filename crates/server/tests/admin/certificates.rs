//! Certificates that are replaced while a server runs.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pole_client::blocking::Session;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams, IsCa, Issuer, KeyIdMethod,
    KeyPair, RevokedCertParams, SerialNumber,
};
use rustls::client::WantsClientCert;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, ConfigBuilder, RootCertStore, StreamOwned};

use crate::connections::send_too_much;
use crate::test_server::{TEST_TIMEOUT, TestServer, free_port};

#[test]
fn a_new_certificate_is_shown_to_new_connections_and_old_ones_go_on() {
    let dir = std::env::temp_dir().join(format!("pole-certificates-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory for the test");
    let file = dir.join("server.pem");
    let (first, port) = (write_certificate(&file), free_port());
    let server = TestServer::standalone(&format!(
        "secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\nssl.clientAuth=none\nclient.certReload=true\n\
         ssl.keyStore.location={}\n",
        file.display()
    ));
    let mut old = connect(port, &first).expect("a connection");
    let second = write_certificate(&file);
    server.wait_until("the new certificate is shown", |_| connect(port, &second).is_some());
    assert!(connect(port, &first).is_none(), "not the old one any more");
    old.write_all(b"srvr").expect("the old connection is open");
    let mut answer = String::new();
    // The server ends the connection without a notice of TLS, which the client reports after the answer.
    let _ = old.read_to_string(&mut answer);
    assert!(answer.contains("Mode: standalone"), "{answer}");
    drop(server);
    fs::remove_dir_all(dir).expect("the directory of the test");
}

#[test]
fn a_client_with_tls_that_sends_more_than_may_be_outstanding_gets_all_replies() {
    let dir = std::env::temp_dir().join(format!("pole-much-over-tls-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory for the test");
    let file = dir.join("server.pem");
    let (certificate, port) = (write_certificate(&file), free_port());
    let server = TestServer::standalone(&format!(
        "secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\nssl.clientAuth=none\nssl.keyStore.location={}\n",
        file.display()
    ));
    server.wait_until_serving();
    let stream = connect(port, &certificate).expect("a connection");
    stream.sock.set_read_timeout(Some(TEST_TIMEOUT)).expect("a time limit");
    stream.sock.set_write_timeout(Some(TEST_TIMEOUT)).expect("a time limit");
    send_too_much(&mut Session::over(stream, TEST_TIMEOUT).expect("a session"));
    drop(server);
    fs::remove_dir_all(dir).expect("the directory of the test");
}

#[test]
fn a_new_certificate_is_shown_to_other_servers() {
    let dir = std::env::temp_dir().join(format!("pole-certificates-of-servers-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory for the test");
    let file = dir.join("server.pem");
    let (first, port) = (write_certificate(&file), free_port());
    // The other server is down. Nobody needs a quorum here.
    let servers = format!(
        "server.1=127.0.0.1:{port}:{};127.0.0.1:{}\nserver.2=127.0.0.1:{}:{}\n",
        free_port(),
        free_port(),
        free_port(),
        free_port()
    );
    let stores = format!("ssl.quorum.keyStore.location={0}\nssl.quorum.trustStore.location={0}\n", file.display());
    let lines = "sslQuorum=true\nsslQuorumReloadCertFiles=true\nadmin.serverPort=0\n";
    let server = TestServer::start(1, &format!("{servers}{stores}{lines}"));
    assert!(connect(port, &first).is_some());
    let second = write_certificate(&file);
    server.wait_until("the new certificate is shown", |_| connect(port, &second).is_some());
    assert!(connect(port, &first).is_none(), "not the old one any more");
    drop(server);
    fs::remove_dir_all(dir).expect("the directory of the test");
}

#[test]
fn a_new_certificate_is_shown_on_the_admin_port() {
    let dir = std::env::temp_dir().join(format!("pole-certificates-of-admin-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory for the test");
    let file = dir.join("server.pem");
    let first = write_certificate(&file);
    let server = TestServer::standalone(&format!(
        "admin.portUnification=true\nclient.certReload=true\nssl.keyStore.location={}\n",
        file.display()
    ));
    let port = server.admin.expect("an admin server").port();
    assert!(connect(port, &first).is_some());
    let second = write_certificate(&file);
    server.wait_until("the new certificate is shown", |_| connect(port, &second).is_some());
    assert!(connect(port, &first).is_none(), "not the old one any more");
    drop(server);
    fs::remove_dir_all(dir).expect("the directory of the test");
}

#[test]
fn a_client_is_refused_once_its_certificate_is_in_the_list() {
    let authority = Authority::new("revoked");
    let server = authority.server("ssl.crl=true\n");
    let [bob, eve] = [1, 2].map(|serial| authority.client(serial));
    let enters = |client| authority.enters(server.client.port(), client);
    assert!(enters(&bob) && enters(&eve));
    authority.revoke(&[2]);
    server.server.wait_until("the list is read again", |_| !enters(&eve));
    assert!(enters(&bob), "others are not concerned");
    authority.revoke(&[]);
    server.server.wait_until("and once more", |_| enters(&eve));
}

#[test]
fn a_client_whose_certificate_names_another_address_is_refused_where_that_is_checked() {
    let authority = Authority::new("addresses");
    let server = authority.server("ssl.crl=true\nssl.clientHostnameVerification=true\n");
    let (named, other) = (authority.client_at(1, "127.0.0.1"), authority.client_at(2, "10.0.0.1"));
    let enters = |client| authority.enters(server.client.port(), client);
    assert!(enters(&named));
    assert!(!enters(&other));
}

/// Replaces the key store by a new one, and returns its certificate.
fn write_certificate(file: &Path) -> CertificateDer<'static> {
    let key = KeyPair::generate().expect("a key");
    let certificate =
        CertificateParams::new(["localhost".to_owned()]).expect("names").self_signed(&key).expect("a certificate");
    let new = file.with_extension("new");
    fs::write(&new, key.serialize_pem() + &certificate.pem()).expect("a file for the test");
    fs::rename(new, file).expect("a rename");
    certificate.der().clone()
}

/// An authority with its certificate, its list of revoked ones and the key store of a server in a folder, which is removed
/// at the end.
struct Authority {
    dir: PathBuf,
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

/// A server on a folder that outlives it, and its port for clients with TLS.
struct SecureServer {
    server: TestServer,
    client: std::net::SocketAddr,
}

type ClientCertificate = (CertificateDer<'static>, PrivateKeyDer<'static>);

impl Authority {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("pole-authority-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory for the test");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let root = params.self_signed(&key).expect("a certificate");
        fs::write(dir.join("authority.pem"), root.pem()).expect("a file for the test");
        let authority = Self { dir, certificate: root.der().clone(), issuer: Issuer::new(params, key) };
        let (server, key) = authority.sign(100, "localhost");
        fs::write(authority.dir.join("server.pem"), key.serialize_pem() + &server.pem()).expect("a file for the test");
        authority.revoke(&[]);
        authority
    }

    fn server(&self, lines: &str) -> SecureServer {
        let port = free_port();
        let file = |name| self.dir.join(name).display().to_string();
        let (key, trust, list) = (file("server.pem"), file("authority.pem"), file("revoked.pem"));
        let server = TestServer::standalone(&format!(
            "secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\nssl.keyStore.location={key}\n\
             ssl.trustStore.location={trust}\npole.ssl.crlFile={list}\n{lines}"
        ));
        SecureServer { server, client: ([127, 0, 0, 1], port).into() }
    }

    fn client(&self, serial: u64) -> ClientCertificate {
        self.client_at(serial, "localhost")
    }

    fn client_at(&self, serial: u64, name: &str) -> ClientCertificate {
        let (certificate, key) = self.sign(serial, name);
        (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).expect("a key"))
    }

    fn sign(&self, serial: u64, name: &str) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([name.to_owned()]).expect("names");
        params.serial_number = Some(SerialNumber::from(serial));
        (params.signed_by(&key, &self.issuer).expect("a certificate"), key)
    }

    /// Replaces the list of revoked certificates.
    fn revoke(&self, serials: &[u64]) {
        let now = SystemTime::now();
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: now.into(),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: now.into(),
            next_update: (now + Duration::from_secs(3600)).into(),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).expect("a list").pem().expect("text");
        fs::write(self.dir.join("new"), list).expect("a file for the test");
        fs::rename(self.dir.join("new"), self.dir.join("revoked.pem")).expect("a rename");
    }

    /// Whether the server answers a client with this certificate.
    fn enters(&self, port: u16, (certificate, key): &ClientCertificate) -> bool {
        let config = builder(&self.certificate).with_client_auth_cert(vec![certificate.clone()], key.clone_key());
        let Some(mut stream) = connect_with(port, config.expect("a certificate")) else { return false };
        let mut answer = String::new();
        // A client learns only after its own handshake that it was refused.
        let _ = stream.write_all(b"srvr");
        let _ = stream.read_to_string(&mut answer);
        !answer.is_empty()
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A connection after its handshake; none if the server shows another certificate.
fn connect(port: u16, trusted: &CertificateDer<'static>) -> Option<StreamOwned<ClientConnection, TcpStream>> {
    connect_with(port, builder(trusted).with_no_client_auth())
}

fn builder(trusted: &CertificateDer<'static>) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    builder.expect("versions").with_root_certificates(roots)
}

fn connect_with(port: u16, config: ClientConfig) -> Option<StreamOwned<ClientConnection, TcpStream>> {
    let client = ClientConnection::new(Arc::new(config), "localhost".try_into().expect("a name")).expect("a client");
    let mut stream = StreamOwned::new(client, TcpStream::connect(("127.0.0.1", port)).expect("the port is open"));
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).ok()?;
    }
    Some(stream)
}
