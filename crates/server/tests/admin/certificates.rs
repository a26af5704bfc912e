//! Certificates that are replaced while a server runs.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::test_server::{TestServer, free_port};

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

/// A connection after its handshake; none if the server shows another certificate.
fn connect(port: u16, trusted: &CertificateDer<'static>) -> Option<StreamOwned<ClientConnection, TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = builder.expect("versions").with_root_certificates(roots).with_no_client_auth();
    let client = ClientConnection::new(Arc::new(config), "localhost".try_into().expect("a name")).expect("a client");
    let mut stream = StreamOwned::new(client, TcpStream::connect(("127.0.0.1", port)).expect("the port is open"));
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).ok()?;
    }
    Some(stream)
}
