//! Lease objects of Kubernetes keep the contract.
//!
//! Against a real `kube-apiserver` beside an etcd, if there is one, and always against a small server of ours that
//! follows the documented behaviour of Lease objects.

use std::sync::Arc;
use std::time::Duration;

use crate::credentials::{self, Keys};
use crate::etcd;
use crate::lease_api::LeaseApi;
use crate::proxy::Proxy;
use crate::servers::{OnServer, Server, check, open, program, skip, text, version, wait_until_ready};
use pole_elect::contract::{Factory, Proxied};
use pole_elect::store::{BoxFuture, Error, Store};

pub(crate) async fn model_keeps_the_contract() {
    check(&Model { api: LeaseApi::start() }).await;
}

struct Model {
    api: LeaseApi,
}

impl Factory for Model {
    fn name(&self) -> String {
        "a model of Kubernetes' Lease objects".to_owned()
    }

    fn connect<'a>(&'a self, election: &'a str) -> BoxFuture<'a, Result<Arc<dyn Store>, Error>> {
        Box::pin(async move { open(&model_url(self.api.port), election).await })
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(2)
    }

    fn connect_through_proxy<'a>(&'a self, election: &'a str) -> Option<BoxFuture<'a, Result<Proxied, Error>>> {
        Some(Box::pin(async move {
            let proxy = Proxy::start(self.api.port).await;
            let store = open(&model_url(proxy.port()), election).await?;
            Ok(Proxied { store, link: Box::new(proxy) })
        }))
    }
}

fn model_url(port: u16) -> String {
    format!("k8s://default/ELECTION?server=http://127.0.0.1:{port}")
}

pub(crate) async fn keeps_the_contract() {
    let found = program("POLE_ELECT_KUBE_APISERVER", "kube-apiserver")
        .and_then(|apiserver| Ok((apiserver, program("POLE_ELECT_ETCD", "etcd")?)));
    let (apiserver, etcd) = match found {
        Ok(found) => found,
        Err(why) => return skip("kube-apiserver", &why),
    };
    let etcd = etcd::start("kubernetes-etcd", &etcd);
    let etcd_port = etcd.port();
    let keys = Keys::new("kubernetes");
    let token = keys.write("token", TOKEN);
    // The group of administrators, which every cluster has.
    let users = keys.write("users.csv", &format!("{TOKEN},test,test,\"system:masters\"\n"));
    let mut server = Server::launch("kube-apiserver", 1, |_, ports| {
        let options = [
            ("etcd-servers", format!("http://127.0.0.1:{etcd_port}")),
            ("bind-address", "127.0.0.1".into()),
            ("advertise-address", "127.0.0.1".into()),
            ("secure-port", ports[0].to_string()),
            ("tls-cert-file", keys.file("server.pem")),
            ("tls-private-key-file", keys.file("server.key")),
            ("service-account-issuer", "https://127.0.0.1".into()),
            // The public key, from the certificate: it reads no private key of this kind.
            ("service-account-key-file", keys.file("server.pem")),
            ("service-account-signing-key-file", keys.file("server.key")),
            ("service-cluster-ip-range", "10.0.0.0/24".into()),
            ("endpoint-reconciler-type", "none".into()),
            ("authorization-mode", "RBAC".into()),
            ("anonymous-auth", "false".into()),
            ("token-auth-file", users.clone()),
        ];
        let options = options.into_iter().map(|(name, value)| format!("--{name}={value}"));
        [text(&apiserver)].into_iter().chain(options).collect()
    });
    let host = format!("127.0.0.1:{}", server.port());
    let url = format!("k8s://default/ELECTION?server=https://{host}&cacert={}", keys.file("ca.pem"));
    let url_with_token = format!("{url}&token_file={token}");
    server.beside = Some(Box::new(etcd));
    let name = format!("kube-apiserver, {}", version(&apiserver, "--version"));
    let factory = OnServer::new(name, url_with_token, Duration::from_secs(2), server);
    wait_until_ready(&factory).await;
    // The API server makes the namespace only after it has begun to serve.
    credentials::succeeds(&factory.url.replace("ELECTION", "ready"), &[]);
    credentials::fails(&url.replace("ELECTION", "refused"), &[]);
    check(&factory).await;
}

const TOKEN: &str = "d1c1f5a0-3f6e-4a52-9a0e-0d7f4c1f1f7b";
