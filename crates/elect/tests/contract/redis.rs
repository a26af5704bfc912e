//! One node of Redis or Valkey keeps the contract.

use std::time::Duration;

use crate::servers::{OnServer, Server, check, program, skip, text, version};

pub(crate) async fn keeps_the_contract() {
    let redis = match program("POLE_ELECT_REDIS", "redis-server") {
        Ok(found) => found,
        Err(why) => return skip("redis", &why),
    };
    let server = Server::launch("redis", 1, |folder, ports| {
        let port = ports[0].to_string();
        let folder = text(folder);
        // Every change is on disk before it is acknowledged, so that a restart loses none.
        let options = ["--bind", "127.0.0.1", "--port", &port, "--dir", &folder, "--save", ""];
        let durable = ["--appendonly", "yes", "--appendfsync", "always"];
        let options = options.iter().chain(&durable).map(ToString::to_string);
        [text(&redis)].into_iter().chain(options).collect()
    });
    let url = format!("redis://127.0.0.1:{}/ELECTION", server.port());
    check(&OnServer::new(version(&redis, "--version"), url, Duration::from_secs(2), server)).await;
}
