//! Tests of links with mutual TLS, with certificates generated for the test.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::*;
use crate::tls::{Live, PeerTls};

#[test]
fn messages_travel_over_mutual_tls() {
    run(async {
        let tls = certified(&authority());
        let mut configs = ensemble(2);
        configs.iter_mut().for_each(|config| config.tls = Some(Live::new(tls.clone())));
        let (mut one, mut two) = pair(configs).await;
        let batch = proposals(500, 1024);
        one.send(2, &batch);
        one.send(2, &ping(1));
        one.peers.flush();
        two.send(1, &ping(2));
        two.peers.flush();
        while two.next().await != received(1, batch.clone()) {}
        assert_eq!(two.next().await, received(1, ping(1)));
        while one.next().await != received(2, ping(2)) {}
        one.peers.reset(ServerId(2), Channel::Quorum);
        assert_eq!(two.next().await, down(1));
        assert_eq!((one.next().await, two.next().await), (up(2), up(1)));
    });
}

#[test]
fn a_peer_with_a_certificate_of_another_authority_is_refused() {
    run(async {
        let mut configs = ensemble(2);
        configs[0].tls = Some(Live::new(certified(&authority())));
        configs[1].tls = Some(Live::new(certified(&authority())));
        let (one, two) = (Server::open(configs.remove(0)).await, Server::open(configs.remove(0)).await);
        assert!(two.note().await.starts_with("cannot link with server 1"));
        assert!(one.note().await.starts_with("refused a connection"));
    });
}

#[test]
fn a_peer_with_the_certificate_of_another_host_is_refused_unless_that_is_allowed() {
    run(async {
        let authority = authority();
        let mut configs = ensemble(2);
        configs[0].tls = Some(Live::new(certified(&authority)));
        configs[1].tls = Some(Live::new(certified_for("elsewhere.test", &authority)));
        let lax = PeerTls { verify_client_host: false, ..certified(&authority) };
        let strict = Server::open(configs.remove(0)).await;
        let _dials = Server::open(configs.remove(0)).await;
        let note = strict.note().await;
        assert!(note.contains("is not who it says") && note.contains("subjectAltName"), "{note}");
        let mut configs = ensemble(2);
        configs[0].tls = Some(Live::new(lax));
        configs[1].tls = Some(Live::new(certified_for("elsewhere.test", &authority)));
        pair(configs).await;
    });
}

#[test]
fn a_plain_peer_does_not_pass_where_tls_is_asked() {
    run(async {
        let mut configs = ensemble(2);
        configs[0].tls = Some(Live::new(certified(&authority())));
        let (one, two) = (Server::open(configs.remove(0)).await, Server::open(configs.remove(0)).await);
        assert!(one.note().await.starts_with("refused a connection"));
        assert!(two.note().await.starts_with("cannot link with server 1"));
    });
}

fn authority() -> (CertificateDer<'static>, Issuer<'static, KeyPair>) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("signed").der().clone();
    (certificate, Issuer::new(params, key))
}

fn certified(authority: &(CertificateDer<'static>, Issuer<'static, KeyPair>)) -> PeerTls {
    certified_for("localhost", authority)
}

fn certified_for(host: &str, (root, issuer): &(CertificateDer<'static>, Issuer<'static, KeyPair>)) -> PeerTls {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec![host.to_owned()]).expect("a name");
    let chain = vec![params.signed_by(&key, issuer).expect("signed").der().clone()];
    let private = || PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).expect("a root");
    let roots = Arc::new(roots);
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&ring));
    let server = ServerConfig::builder_with_provider(Arc::clone(&ring))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(verifier.build().expect("a verifier"))
        .with_single_cert(chain.clone(), private())
        .expect("a certificate");
    let client = ClientConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, private())
        .expect("a certificate");
    PeerTls { acceptor: Arc::new(server), connector: Arc::new(client), verify_client_host: true }
}
