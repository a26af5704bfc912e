//! Four-letter words, compared with what Apache 3.8 answers.

use pole_jute::{Acl, CreateRequest, GetDataRequest, Id, OpCode, Perms};

use crate::house::{Client, House};

fn anyone() -> Vec<Acl> {
    vec![Acl { perms: Perms::ALL, id: Id { scheme: "world".into(), id: "anyone".into() } }]
}

/// With a client that has an ephemeral node and a watch.
fn with_client() -> (House, Client) {
    let house = House::alone("4lw.commands.whitelist=*,rqld,ydld\n");
    house.until_it_serves();
    let mut client = Client::connect(house.client);
    let create = CreateRequest { path: "/e".into(), data: Some("x".into()), acl: anyone(), flags: 1 };
    client.ask(OpCode::Create, &create);
    client.ask(OpCode::GetData, &GetDataRequest { path: "/e".into(), watch: true });
    (house, client)
}

#[test]
fn a_word_outside_the_whitelist_is_refused_and_what_is_no_word_gets_nothing() {
    let house = House::alone("");
    house.until_it_serves();
    assert!(house.word("srvr").starts_with("Zookeeper version: 3.8.0-pole-"));
    assert_eq!(house.word("ruok"), "ruok is not executed because it is not in the whitelist.\n");
    assert_eq!(house.word("xxxx"), "");
}

#[test]
fn srvr_and_stat_have_the_lines_of_apache() {
    let (house, client) = with_client();
    let srvr = house.word("srvr");
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
    let stat = house.word("stat");
    assert!(stat.contains("Clients:\n /127.0.0.1:") && stat.contains("](queued=0,recved=2,sent=2)\n"), "{stat}");
    assert!(house.word("cons").contains(&format!(",sid={:#x},lop=GETD,est=", client.session)));
}

#[test]
fn mntr_counts_what_there_is() {
    let (house, _client) = with_client();
    let mntr = house.word("mntr");
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
    let (house, client) = with_client();
    let session = client.session;
    assert_eq!(house.word("wchs"), "1 connections watching 1 paths\nTotal watches:1\n");
    assert_eq!(house.word("wchc"), format!("{session:#x}\n\t/e\n\n"));
    assert_eq!(house.word("wchp"), format!("/e\n\t{session:#x}\n\n"));
    let dump = house.word("dump");
    assert!(dump.starts_with(&format!("SessionTracker dump:\nGlobal Sessions(1):\n{session:#x}\t")), "{dump}");
    assert!(dump.contains(&format!("Sessions with Ephemerals (1):\n{session:#x}:\n\t/e\n")), "{dump}");
}

#[test]
fn the_short_words_answer_what_apache_answers() {
    let (house, _client) = with_client();
    assert_eq!(house.word("ruok"), "imok");
    assert_eq!(house.word("isro"), "rw");
    assert_eq!(house.word("gtmk"), "306");
    assert_eq!(house.word("stmk\0\0\0\0\0\0\0\u{7}"), "7");
    assert_eq!(house.word("stmk"), "", "without a mask");
    assert!(house.word("conf").starts_with("clientPort="));
    assert!(house.word("envi").starts_with("Environment:\nzookeeper.version=3.8.0-pole-"));
    assert!(house.word("dirs").starts_with("datadir_size: "));
    assert_eq!(house.word("hash").lines().count(), 1);
    assert_eq!(house.word("crst"), "Connection stats reset.\n");
    assert!(house.word("stat").contains("(queued=0,recved=0,sent=0)\n"));
    assert_eq!(house.word("srst"), "Server stats reset.\n");
    assert!(house.word("srvr").contains("\nReceived: 0\nSent: 0\n"));
    assert_eq!(house.word("rqld"), "Server 1 leads already.\n");
    assert_eq!(house.word("ydld"), "There is no other server to hand over to.\n");
}
