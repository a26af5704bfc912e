//! Four-letter words, compared with the answers of Apache 3.8.

use pole_client::blocking::Session;
use pole_client::{create, get_data};
use pole_jute::CreateMode;

use crate::test_server::TestServer;

/// A server with a client that has an ephemeral node and a watch.
fn with_client() -> (TestServer, Session) {
    let server = TestServer::standalone("4lw.commands.whitelist=*,rqld,ydld\n");
    server.wait_until_serving();
    let mut client = server.session();
    client.ask(create("/e", b"x", CreateMode::Ephemeral)).expect("it is created");
    client.ask(get_data("/e", true)).expect("it is read");
    (server, client)
}

#[test]
fn a_word_outside_the_whitelist_is_refused_and_what_is_no_word_gets_nothing() {
    let server = TestServer::standalone("");
    server.wait_until_serving();
    assert!(server.word("srvr").starts_with("Zookeeper version: 3.8.0-pole-"));
    assert_eq!(server.word("ruok"), "ruok is not executed because it is not in the whitelist.\n");
    assert_eq!(server.word("xxxx"), "");
}

#[test]
fn srvr_and_stat_have_the_lines_of_apache() {
    let (server, client) = with_client();
    let srvr = server.word("srvr");
    let names: Vec<&str> = srvr.lines().map(|line| line.split(": ").next().unwrap_or_default()).collect();
    let expected = [
        "Zookeeper version",
        "Latency min/avg/max",
        "Received",
        "Sent",
        "Connections",
        "Outstanding",
        "Zxid",
        "Mode",
        "Node count",
    ];
    assert_eq!(names, expected, "{srvr}");
    assert!(srvr.contains("\nReceived: 2\nSent: 2\n") && srvr.contains("\nMode: standalone\n"), "{srvr}");
    let stat = server.word("stat");
    assert!(stat.contains("Clients:\n /127.0.0.1:") && stat.contains("](queued=0,recved=2,sent=2)\n"), "{stat}");
    assert!(server.word("cons").contains(&format!(",sid={:#x},lop=GETD,est=", client.id())));
}

#[test]
fn mntr_counts_what_there_is() {
    let (server, _client) = with_client();
    let mntr = server.word("mntr");
    for line in [
        "zk_server_state\tstandalone",
        "zk_ephemerals_count\t1",
        "zk_watch_count\t1",
        "zk_znode_count\t5",
        "zk_packets_received\t2",
        "zk_global_sessions\t1",
        "zk_outstanding_requests\t0",
        "zk_num_alive_connections\t2",
    ] {
        assert!(mntr.lines().any(|found| found == line), "{line}: {mntr}");
    }
    for name in ["zk_avg_latency", "zk_uptime", "zk_open_file_descriptor_count", "zk_approximate_data_size"] {
        assert!(mntr.contains(&format!("{name}\t")), "{name}: {mntr}");
    }
}

#[test]
fn sessions_and_watches_are_listed_as_apache_lists_them() {
    let (server, client) = with_client();
    let session = client.id();
    assert_eq!(server.word("wchs"), "1 connections watching 1 paths\nTotal watches:1\n");
    assert_eq!(server.word("wchc"), format!("{session:#x}\n\t/e\n\n"));
    assert_eq!(server.word("wchp"), format!("/e\n\t{session:#x}\n\n"));
    let dump = server.word("dump");
    assert!(dump.starts_with("SessionTracker dump:\nSession Sets (1)/(1):\n1 expire at "), "{dump}");
    assert!(dump.contains(&format!(":\n\t{session:#x}\nephemeral nodes dump:\n")), "{dump}");
    assert!(dump.contains(&format!("Sessions with Ephemerals (1):\n{session:#x}:\n\t/e\n")), "{dump}");
}

#[test]
fn the_short_words_answer_what_apache_answers() {
    let (server, _client) = with_client();
    assert_eq!(server.word("ruok"), "imok");
    assert_eq!(server.word("isro"), "rw");
    assert_eq!(server.word("gtmk"), "306");
    assert_eq!(server.word("stmk\0\0\0\0\0\0\0\u{7}"), "7");
    assert_eq!(server.word("stmk"), "", "without a mask");
    assert!(server.word("conf").starts_with("clientPort="));
    assert!(server.word("envi").starts_with("Environment:\nzookeeper.version=3.8.0-pole-"));
    assert!(server.word("dirs").starts_with("datadir_size: "));
    assert_eq!(server.word("hash").lines().count(), 1);
    assert_eq!(server.word("crst"), "Connection stats reset.\n");
    assert!(server.word("stat").contains("(queued=0,recved=0,sent=0)\n"));
    assert_eq!(server.word("srst"), "Server stats reset.\n");
    assert!(server.word("srvr").contains("\nReceived: 0\nSent: 0\n"));
    assert_eq!(server.word("rqld"), "Server 1 leads already.\n");
    assert_eq!(server.word("ydld"), "There is no other server to hand over to.\n");
}
