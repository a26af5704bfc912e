//! Lease objects of Kubernetes keep the contract.
//!
//! Against a real `kube-apiserver` beside an etcd, if there is one, and always against a small server of ours that
//! follows the documented behaviour of Lease objects.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use crate::lease_api;
use crate::servers::{OnServer, Server, check, program, skip, text, version};
use pole_elect::contract::Factory;
use pole_elect::store::{BoxFuture, Error, Store};

pub(crate) async fn model_keeps_the_contract() {
    let port = lease_api::start().await;
    check(&Model { port }).await;
}

struct Model {
    port: u16,
}

impl Factory for Model {
    fn name(&self) -> String {
        "a model of Kubernetes' Lease objects".to_owned()
    }

    fn connect<'a>(&'a self, election: &'a str) -> BoxFuture<'a, Result<Arc<dyn Store>, Error>> {
        Box::pin(async move {
            let url = format!("k8s://default/{election}?server=http://127.0.0.1:{}", self.port);
            let url = url.parse().expect("the URL of a test");
            pole_elect::stores::open(&url).await.map_err(|error| Error::Refused(error.to_string()))
        })
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(2)
    }
}

pub(crate) async fn keeps_the_contract() {
    let found = program("POLE_ELECT_KUBE_APISERVER", "kube-apiserver")
        .and_then(|apiserver| Ok((apiserver, program("POLE_ELECT_ETCD", "etcd")?)));
    let (apiserver, etcd) = match found {
        Ok(found) => found,
        Err(why) => return skip("kube-apiserver", &why),
    };
    let etcd = Server::launch("kubernetes-etcd", 2, |folder, ports| {
        let client = format!("http://127.0.0.1:{}", ports[0]);
        let peer = format!("http://127.0.0.1:{}", ports[1]);
        let options = [
            ("data-dir", text(&folder.join("data"))),
            ("listen-client-urls", client.clone()),
            ("advertise-client-urls", client),
            ("listen-peer-urls", peer.clone()),
            ("initial-advertise-peer-urls", peer.clone()),
            ("initial-cluster", format!("default={peer}")),
        ];
        let options = options.into_iter().map(|(name, value)| format!("--{name}={value}"));
        [text(&etcd)].into_iter().chain(options).collect()
    });
    let etcd_port = etcd.port();
    let certified = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    let mut server = Server::launch("kube-apiserver", 1, |folder, ports| {
        let file = |name: &str, content: String| {
            let file = folder.join(name);
            fs::write(&file, content).expect("a file for the API server");
            text(&file)
        };
        let cert = file("cert.pem", certified.cert.pem());
        let key = file("key.pem", certified.signing_key.serialize_pem());
        let options = [
            ("etcd-servers", format!("http://127.0.0.1:{etcd_port}")),
            ("bind-address", "127.0.0.1".into()),
            ("advertise-address", "127.0.0.1".into()),
            ("secure-port", ports[0].to_string()),
            ("tls-cert-file", cert),
            ("tls-private-key-file", key.clone()),
            ("service-account-issuer", "https://127.0.0.1".into()),
            ("service-account-key-file", key.clone()),
            ("service-account-signing-key-file", key),
            ("service-cluster-ip-range", "10.0.0.0/24".into()),
            ("endpoint-reconciler-type", "none".into()),
            ("authorization-mode", "AlwaysAllow".into()),
            ("anonymous-auth", "true".into()),
        ];
        let options = options.into_iter().map(|(name, value)| format!("--{name}={value}"));
        [text(&apiserver)].into_iter().chain(options).collect()
    });
    let cacert = text(&server.folder().join("cert.pem"));
    let url = format!("k8s://default/ELECTION?server=https://127.0.0.1:{}&cacert={cacert}", server.port());
    server.beside = Some(Box::new(etcd));
    let name = format!("kube-apiserver, {}", version(&apiserver, "--version"));
    check(&OnServer::new(name, url, Duration::from_secs(2), server)).await;
}
