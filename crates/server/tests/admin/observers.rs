//! Three voters and an observer: what each reports, and what the observer's clients see when the leader is gone.

use pole_client::{create, get_data, set_data};
use pole_jute::{CreateMode, Reply};
use serde_json::json;

use crate::test_server::{TestServer, free_port};

/// Servers 1 to 3 vote, server 4 observes.
fn four() -> Vec<TestServer> {
    let role = |id| if id == 4 { "observer" } else { "participant" };
    let lines: String = (1..=4)
        .map(|id| {
            let ports = (free_port(), free_port(), free_port());
            format!("server.{id}=127.0.0.1:{}:{}:{};127.0.0.1:{}\n", ports.0, ports.1, role(id), ports.2)
        })
        .collect();
    let text = format!("{lines}admin.serverPort=0\n4lw.commands.whitelist=*\npole.heartbeatMs=100\npole.resign=off\n");
    let servers: Vec<_> = (1..=4).map(|id| TestServer::start(id, &text)).collect();
    servers.iter().for_each(TestServer::wait_until_serving);
    servers
}

fn leader(servers: &[TestServer]) -> usize {
    let leader = servers[3].health().1["leader"].as_u64().expect("a leader");
    usize::try_from(leader - 1).expect("a small number")
}

#[test]
fn an_observer_is_shown_as_one_and_counts_in_no_quorum() {
    let servers = four();
    let leader = leader(&servers);
    assert!(servers[3].word("srvr").contains("\nMode: observer\n"));
    let mntr = servers[leader].word("mntr");
    for line in ["zk_learners\t3\n", "zk_followers\t2\n", "zk_synced_observers\t1\n", "zk_quorum_size\t3\n"] {
        assert!(mntr.contains(line), "{line:?} in {mntr}");
    }
    let shown = servers[leader].get("/v1/ensemble")["servers"][3].clone();
    assert_eq!((&shown["mode"], &shown["alive"]), (&json!("observer"), &json!(true)), "{shown}");
    let observers = servers[leader].get("/commands/observers");
    assert_eq!((&observers["synced_observers"], &observers["observers"][0]["sid"]), (&json!(1), &json!(4)));
    let view = servers[0].get("/commands/voting_view")["current_config"].clone();
    assert_eq!(view.as_object().map(serde_json::Map::len), Some(3), "{view}");
    assert!(servers[3].word("conf").contains(":observer;"), "the list of servers names its role");
    let (status, refusal) = servers[0].change("POST", "/v1/transfer", r#"{"to":4,"timeout_ms":2000}"#);
    assert_eq!((status, refusal["code"].clone()), (409, json!("conflict")), "{refusal}");
}

#[test]
fn clients_of_an_observer_keep_their_session_when_the_leader_is_gone() {
    let mut servers = four();
    let leader = leader(&servers);
    let mut session = servers[3].session();
    session.ask(create("/a", b"1", CreateMode::Persistent)).expect("a write through the observer");
    servers[leader].stop();
    session.ask(set_data("/a", b"2")).expect("a write under the next leader, on the same connection");
    let Ok(Reply::GetData(read)) = session.ask(get_data("/a", false)) else { panic!("a read") };
    assert_eq!(read.data.as_deref(), Some(&b"2"[..]));
    servers[3].wait_until("another leader", |server| server.health().1["leader"] != json!(leader as u64 + 1));
    assert!(servers[3].word("srvr").contains("\nMode: observer\n"));
}
