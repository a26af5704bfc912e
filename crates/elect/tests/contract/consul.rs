//! Consul keeps the contract.

use std::fs;
use std::time::Duration;

use crate::servers::{OnServer, Server, check, program, skip, text, version};

pub(crate) async fn keeps_the_contract() {
    let consul = match program("POLE_ELECT_CONSUL", "consul") {
        Ok(found) => found,
        Err(why) => return skip("consul", &why),
    };
    let server = Server::launch("consul", 5, |folder, ports| {
        let [http, server, serf_lan, serf_wan, grpc] = ports else { panic!("five ports") };
        // Sessions of 2 s, so that the suite takes minutes instead of hours. One client address has 200 candidates.
        let settings = format!(
            r#"{{"server": true, "bootstrap_expect": 1, "bind_addr": "127.0.0.1", "client_addr": "127.0.0.1",
                "session_ttl_min": "2s", "limits": {{"http_max_conns_per_client": 4000}},
                "performance": {{"raft_multiplier": 1}}, "disable_update_check": true, "data_dir": {:?},
                "ports": {{"http": {http}, "server": {server}, "serf_lan": {serf_lan}, "serf_wan": {serf_wan},
                "grpc": {grpc}, "dns": -1}}}}"#,
            text(&folder.join("data"))
        );
        let file = folder.join("settings.json");
        fs::write(&file, settings).expect("the settings");
        [text(&consul), "agent".into(), "-config-file".into(), text(&file)].into()
    });
    let url = format!("consul://127.0.0.1:{}/ELECTION?ttl_min=2", server.port());
    check(&OnServer::new(version(&consul, "version"), url, Duration::from_secs(2), server)).await;
}
