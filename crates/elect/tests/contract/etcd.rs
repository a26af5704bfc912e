//! Every etcd that is found keeps the contract.

use std::path::{Path, PathBuf};
use std::time::Duration;

use libtest_mimic::Trial;

use crate::on_server;
use crate::servers::{OnServer, Server, check, programs, skip, text, version};

/// One for each etcd that was found.
pub(crate) fn trials() -> Vec<Trial> {
    let found = match programs("POLE_ELECT_ETCD", "etcd") {
        Ok(found) => found,
        Err(why) => return vec![on_server("etcd", async move || skip("etcd", &why))],
    };
    let trial = |(index, program): (usize, PathBuf)| {
        let name = if index == 0 { "etcd".to_owned() } else { format!("etcd-{}", index + 1) };
        on_server(&name, async move || keeps_the_contract(&program).await)
    };
    found.into_iter().enumerate().map(trial).collect()
}

async fn keeps_the_contract(program: &Path) {
    let server = start("etcd", program);
    let url = format!("etcd://127.0.0.1:{}/ELECTION", server.port());
    check(&OnServer::new(version(program, "--version"), url, Duration::from_secs(2), server)).await;
}

/// Starts an etcd alone.
pub(crate) fn start(name: &str, program: &Path) -> Server {
    Server::launch(name, 2, |folder, ports| {
        let [client, peer] = ports else { panic!("two ports") };
        command(program, folder, &format!("http://127.0.0.1:{client}"), &format!("http://127.0.0.1:{peer}"))
    })
}

/// The command line of an etcd with these addresses. Its leases can be shorter than the default grants, so that the
/// tests are quick.
pub(crate) fn command(program: &Path, folder: &Path, clients: &str, peer: &str) -> Vec<String> {
    let options = [
        ("data-dir", text(&folder.join("data"))),
        ("listen-client-urls", clients.to_owned()),
        ("advertise-client-urls", clients.to_owned()),
        ("listen-peer-urls", peer.to_owned()),
        ("initial-advertise-peer-urls", peer.to_owned()),
        ("initial-cluster", format!("default={peer}")),
        ("heartbeat-interval", "50".into()),
        ("election-timeout", "500".into()),
    ];
    let options = options.into_iter().map(|(name, value)| format!("--{name}={value}"));
    [text(program)].into_iter().chain(options).collect()
}
