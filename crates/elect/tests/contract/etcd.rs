//! Every etcd that is found keeps the contract.

use std::time::Duration;

use crate::servers::{OnServer, Server, check, programs, skip, text, version};

pub(crate) async fn keeps_the_contract() {
    let found = match programs("POLE_ELECT_ETCD", "etcd") {
        Ok(found) => found,
        Err(why) => return skip("etcd", &why),
    };
    for program in found {
        let server = Server::launch("etcd", 2, |folder, ports| {
            let client = format!("http://127.0.0.1:{}", ports[0]);
            let peer = format!("http://127.0.0.1:{}", ports[1]);
            let options = [
                ("data-dir", text(&folder.join("data"))),
                ("name", "test".into()),
                ("listen-client-urls", client.clone()),
                ("advertise-client-urls", client),
                ("listen-peer-urls", peer.clone()),
                ("initial-advertise-peer-urls", peer.clone()),
                ("initial-cluster", format!("test={peer}")),
                ("logger", "zap".into()),
                // Shorter leases than the default grants, so that the test is quick.
                ("heartbeat-interval", "50".into()),
                ("election-timeout", "500".into()),
            ];
            let options = options.into_iter().map(|(name, value)| format!("--{name}={value}"));
            [text(&program)].into_iter().chain(options).collect()
        });
        let url = format!("etcd://127.0.0.1:{}/ELECTION", server.port());
        let name = version(&program, "--version");
        check(&OnServer::new(name, url, Duration::from_secs(2), server)).await;
    }
}
