//! NATS JetStream keeps the contract.

use std::time::Duration;

use crate::servers::{OnServer, Server, check, program, skip, text, version};

pub(crate) async fn keeps_the_contract() {
    let nats = match program("POLE_ELECT_NATS", "nats-server") {
        Ok(found) => found,
        Err(why) => return skip("nats", &why),
    };
    let server = Server::launch("nats", 1, |folder, ports| {
        let port = ports[0].to_string();
        let data = text(&folder.join("data"));
        let options = ["-a", "127.0.0.1", "-p", &port, "-js", "-sd", &data];
        [text(&nats)].into_iter().chain(options.iter().map(ToString::to_string)).collect()
    });
    let url = format!("nats://127.0.0.1:{}/test/ELECTION", server.port());
    check(&OnServer::new(version(&nats, "--version"), url, Duration::from_secs(2), server)).await;
}
