//! Changes of the members of a running ensemble.

use pole_client::Error;
use pole_client::blocking::Session;
use pole_client::{create, get_data, set_data};
use pole_jute::{CreateMode, ErrorCode, GetDataResponse, ReconfigRequest, Reply, Request};
use serde_json::json;

use crate::test_server::{TestServer, free_port};

/// Servers that can be members, with a line for each.
struct Candidates {
    lines: Vec<String>,
}

impl Candidates {
    fn new(count: usize) -> Self {
        let line = |id| {
            let ports = (free_port(), free_port(), free_port());
            format!("server.{id}=127.0.0.1:{}:{}:participant;127.0.0.1:{}", ports.0, ports.1, ports.2)
        };
        Self { lines: (1..=count).map(line).collect() }
    }

    /// The configuration of a server that knows these servers.
    fn text(&self, known: &[usize]) -> String {
        let lines: String = known.iter().map(|id| format!("{}\n", self.lines[id - 1])).collect();
        format!(
            "{lines}admin.serverPort=0\n4lw.commands.whitelist=*\npole.heartbeatMs=100\npole.resign=off\n\
             reconfigEnabled=true\nskipACL=yes\n"
        )
    }

    fn start(&self, id: usize, known: &[usize]) -> TestServer {
        TestServer::start(id as u64, &self.text(known))
    }

    fn as_observer(&self, id: usize) -> String {
        self.lines[id - 1].replace("participant", "observer")
    }
}

fn change(joining: &str, leaving: &str) -> Request {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Request::Reconfig(ReconfigRequest {
        joining_servers: given(joining),
        leaving_servers: given(leaving),
        new_members: None,
        cur_config_id: -1,
    })
}

/// The lines of the members after a change.
fn changed(session: &mut Session, joining: &str, leaving: &str) -> Vec<String> {
    match session.ask(change(joining, leaving)) {
        Ok(Reply::Reconfig(GetDataResponse { data: Some(data), .. })) => {
            String::from_utf8(data.to_vec()).expect("text").lines().map(str::to_owned).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn has_mode(server: &TestServer, mode: &str) {
    let line = format!("\nMode: {mode}\n");
    server.wait_until(mode, |server| server.word("srvr").contains(&line));
}

fn leader_of(server: &TestServer) -> u64 {
    server.health().1["leader"].as_u64().expect("a leader")
}

/// Whether the server has applied what the other one has.
fn is_level(server: &TestServer, with: &TestServer) -> bool {
    let zxid = |server: &TestServer| {
        let srvr = server.word("srvr");
        srvr.lines().find_map(|line| line.strip_prefix("Zxid: ").map(str::to_owned))
    };
    zxid(server).is_some() && zxid(server) == zxid(with)
}

#[test]
fn a_server_joins_counts_and_the_leader_leaves() {
    let candidates = Candidates::new(4);
    // The id of the server that joins is lower than those of the others, which cannot dial it before they know it.
    let mut servers: Vec<_> = [2, 3, 4].map(|id| candidates.start(id, &[2, 3, 4])).into();
    servers.iter().for_each(TestServer::wait_until_serving);
    let leader = leader_of(&servers[0]);
    let away = if leader == 2 { 1 } else { 0 };
    let mut session = servers[away].session();
    session.ask(create("/a", b"0", CreateMode::Persistent)).expect("a write");

    let joining = candidates.start(1, &[1, 2, 3, 4]);
    joining.wait_until_serving();
    has_mode(&joining, "follower");
    let lines = changed(&mut session, &candidates.as_observer(1), "");
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert_eq!(lines[0], candidates.as_observer(1));
    has_mode(&joining, "observer");
    joining.wait_until("level", |server| is_level(server, &servers[away]));
    changed(&mut session, &candidates.lines[0], "");
    has_mode(&joining, "follower");
    assert!(servers[away].word("mntr").contains("zk_quorum_size\t4\n"));

    // The leader removes itself. Its clients and others go on.
    let mut at_leader = servers[leader as usize - 2].session();
    let lines = changed(&mut at_leader, "", &leader.to_string());
    assert!(!lines.iter().any(|line| line.starts_with(&format!("server.{leader}="))), "{lines:?}");
    session.ask(set_data("/a", b"1")).expect("a write after it");
    at_leader.ask(set_data("/a", b"2")).expect("a write through the removed server, which follows");
    servers[away].wait_until("another leader", |server| server.health().1["leader"] != json!(leader));
    has_mode(&servers[leader as usize - 2], "observer");
    servers[leader as usize - 2].stop();
    session.ask(set_data("/a", b"3")).expect("a write without it");
    let Ok(Reply::GetData(read)) = session.ask(get_data("/zookeeper/config", false)) else { panic!("a read") };
    assert!(String::from_utf8_lossy(read.data.as_deref().unwrap()).contains("server.1="));
}

#[test]
fn members_survive_restarts_and_a_server_that_was_away_learns_of_them() {
    let candidates = Candidates::new(4);
    let mut servers: Vec<_> = [1, 2, 3].map(|id| candidates.start(id, &[1, 2, 3])).into();
    servers.iter().for_each(TestServer::wait_until_serving);
    let mut session = servers[0].session();
    session.ask(create("/a", b"0", CreateMode::Persistent)).expect("a write");
    // Server 3 sleeps while 4 takes its place.
    servers[2].stop();
    servers.push(candidates.start(4, &[1, 2, 4]));
    servers[3].wait_until_serving();
    let lines = changed(&mut session, &candidates.lines[3], "3");
    assert_eq!(lines.len(), 4, "{lines:?}");
    servers[3].wait_until("level", |server| is_level(server, &servers[0]));
    session.ask(set_data("/a", b"1")).expect("a write");
    drop(session);

    servers[2].start_again(&candidates.text(&[1, 2, 3]));
    servers[2].wait_until("it learns that it was removed", |server| server.word("srvr").contains("Mode: observer"));
    servers[2].stop();

    // All restart with the files that they had at first.
    [0, 1, 3].into_iter().for_each(|server| servers[server].stop());
    for (server, known) in [(0, [1, 2, 3]), (1, [1, 2, 3]), (3, [1, 2, 4])] {
        servers[server].start_again(&candidates.text(&known));
    }
    [0, 1, 3].into_iter().for_each(|server| servers[server].wait_until_serving());
    let mut session = servers[3].session();
    let Ok(Reply::GetData(read)) = session.ask(get_data("/a", false)) else { panic!("a read") };
    assert_eq!(read.data.as_deref(), Some(&b"1"[..]));
    assert!(servers[1].word("mntr").contains("zk_quorum_size\t3\n"));
    // Without server 3 in the list, two of 1, 2 and 4 suffice.
    servers[0].stop();
    session.ask(set_data("/a", b"2")).expect("a write by servers 2 and 4");
}

#[test]
fn a_change_without_a_quorum_of_the_new_voters_is_refused() {
    let candidates = Candidates::new(5);
    let servers = [1, 2, 3].map(|id| candidates.start(id, &[1, 2, 3]));
    servers.iter().for_each(TestServer::wait_until_serving);
    let mut session = servers[0].session();
    // Of 1, 4 and 5 only one is there.
    let joining = format!("{},{}", candidates.lines[3], candidates.lines[4]);
    let refused = session.ask(change(&joining, "2,3"));
    assert!(matches!(refused, Err(Error::Refused(ErrorCode::NewConfigNoQuorum))), "{refused:?}");
    session.ask(create("/a", b"0", CreateMode::Persistent)).expect("the ensemble goes on");
}
