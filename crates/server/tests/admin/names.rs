//! The names and values of Apache's metrics: against the table in `docs/admin.md`, and after a known load.

use std::collections::{BTreeMap, BTreeSet};

use pole_client::blocking::Session;
use pole_client::{create, get_data, set_data};
use pole_jute::CreateMode;

use crate::test_server::TestServer;

/// The rows of the table: name and kind.
pub(crate) fn documented() -> Vec<(String, String)> {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/admin.md")).expect("a page");
    let (_, after) = page.split_once("\n| name | kind |").expect("the table of Apache's metrics");
    let rows = after.lines().skip(2).take_while(|line| line.starts_with('|'));
    let of_row = |row: &str| {
        let cells: Vec<String> = row.split('|').map(|cell| cell.trim().to_owned()).collect();
        let names = cells[1].split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
        names.into_iter().map(move |name| (name, cells[2].clone())).collect::<Vec<_>>()
    };
    rows.flat_map(of_row).collect()
}

/// The names of the lines that `mntr` should have for a metric of this kind.
fn lines_of(name: &str, kind: &str, leads: bool) -> Vec<String> {
    let figures = |name: &str, list: &[&str]| list.iter().map(|figure| format!("{figure}_{name}")).collect::<Vec<_>>();
    let basic = ["avg", "min", "max", "cnt", "sum"];
    let detailed = ["avg", "min", "max", "cnt", "sum", "p50", "p95", "p99", "p999"];
    match kind {
        "text" | "gauge" | "counter" => vec![name.to_owned()],
        "gauge (leader)" if leads => vec![name.to_owned()],
        "summary by server" if leads => (1..=3).flat_map(|id| figures(&format!("{id}_{name}"), &detailed)).collect(),
        "gauge (leader)" | "summary by server" | "absent" => Vec::new(),
        "summary" => figures(name, &basic),
        "detailed summary" => figures(name, &detailed),
        other => panic!("{name}: the kind {other:?} is not known"),
    }
}

/// The lines of `mntr`.
fn mntr(server: &TestServer) -> BTreeMap<String, String> {
    let text = server.word("mntr");
    let line =
        |line: &str| line.strip_prefix("zk_").and_then(|line| line.split_once('\t')).map(|(a, b)| (a.into(), b.into()));
    text.lines().map(|found| line(found).unwrap_or_else(|| panic!("{found}"))).collect()
}

struct Ensemble {
    servers: Vec<TestServer>,
    leader: usize,
    clients: Vec<Session>,
}

impl Ensemble {
    /// Three servers with a client each.
    fn start() -> Self {
        // The leader must not change during the test, even if the machine is busy.
        let servers = TestServer::three("4lw.commands.whitelist=*\npole.resign=off\npole.livenessTimeoutMs=20000\n");
        servers.iter().for_each(TestServer::wait_until_serving);
        let leader = servers[0].health().1["leader"].as_u64().expect("a leader");
        let clients = servers.iter().map(TestServer::session).collect();
        Self { servers, leader: usize::try_from(leader - 1).expect("a small number"), clients }
    }

    fn leader(&self) -> &TestServer {
        &self.servers[self.leader]
    }

    /// Writes from every client: one create each, then `sets` times setData, in a pipeline.
    fn write(&mut self, sets: usize) {
        for (number, client) in self.clients.iter_mut().enumerate() {
            let path = format!("/n{number}");
            client.ask(create(&path, b"x", CreateMode::Persistent)).expect("it is created");
            client.ask_all(vec![set_data(&path, &[7; 100]); sets]).expect("it is set");
        }
    }

    /// Waits until all servers have applied everything.
    fn wait_until_level(&self) {
        let zxid = |server: &TestServer| server.health().1["zxid"].clone();
        for server in &self.servers {
            server.wait_until("the last transaction", |server| zxid(server) == zxid(self.leader()));
        }
    }
}

fn number(metrics: &BTreeMap<String, String>, name: &str) -> f64 {
    let text = metrics.get(name).unwrap_or_else(|| panic!("{name} is not in {metrics:?}"));
    text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}"))
}

#[test]
fn the_documented_names_are_exported_and_no_others() {
    let mut ensemble = Ensemble::start();
    ensemble.write(3);
    ensemble.wait_until_level();
    // All three servers acknowledge, but a commit needs only two of them.
    ensemble.leader().wait_until("acknowledgements of all", |server| {
        (1..=3).all(|id| mntr(server).contains_key(&format!("cnt_{id}_ack_latency")))
    });
    let rows = documented();
    let names: BTreeSet<&String> = rows.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), rows.len(), "a name is documented twice");
    assert!(rows.len() > 150, "Apache has more names than {}", rows.len());
    for (index, server) in ensemble.servers.iter().enumerate() {
        let leads = index == ensemble.leader;
        let expected: BTreeSet<String> = rows.iter().flat_map(|(name, kind)| lines_of(name, kind, leads)).collect();
        let found: BTreeSet<String> = mntr(server).into_keys().collect();
        assert_eq!(expected.difference(&found).collect::<Vec<_>>(), Vec::<&String>::new(), "documented, not exported");
        assert_eq!(found.difference(&expected).collect::<Vec<_>>(), Vec::<&String>::new(), "exported, not documented");
        let monitor = server.get("/commands/monitor");
        assert!(found.iter().all(|name| monitor.get(name).is_some()), "{monitor}");
        let page = server.http("GET", "/metrics", "", "").1;
        for (name, kind) in rows.iter().filter(|(_, kind)| kind.ends_with("summary")) {
            let quantiles: &[&str] = if kind == "summary" { &["0.5"] } else { &["0.5", "0.9", "0.99"] };
            let lines = quantiles.iter().map(|quantile| format!("\n{name}{{quantile=\"{quantile}\"}} "));
            let more = [format!("\n# TYPE {name} summary\n"), format!("\n{name}_count "), format!("\n{name}_sum ")];
            lines.chain(more).for_each(|line| assert!(page.contains(&line), "{line:?} is not in {page}"));
        }
        assert_eq!(page.contains("\nack_latency{key=\"1\",quantile=\"0.99\"} "), leads, "{page}");
        assert!(page.contains("\nzk_avg_fsynctime ") && !page.contains("\navg_fsynctime "), "{page}");
    }
}

#[test]
fn the_values_are_those_of_the_load() {
    const SETS: usize = 50;
    const READS: usize = 20;
    let mut ensemble = Ensemble::start();
    ensemble.write(SETS);
    for client in &mut ensemble.clients {
        client.ask_all(vec![get_data("/n0", false); READS]).expect("it is read");
    }
    ensemble.wait_until_level();
    // A session, a node and its changes, for each client.
    let transactions = (3 * (2 + SETS)) as f64;
    for (index, server) in ensemble.servers.iter().enumerate() {
        let metrics = mntr(server);
        let value = |name: &str| number(&metrics, name);
        let leads = index == ensemble.leader;
        let or_none = |is_expected: bool| if is_expected { transactions } else { 0.0 };
        for (name, expected) in [
            ("cnt_updatelatency", (1 + SETS) as f64),
            ("cnt_readlatency", READS as f64),
            ("connection_request_count", 1.0),
            ("connection_revalidate_count", 0.0),
            ("stale_sessions_expired", 0.0),
            ("unrecoverable_error_count", 0.0),
            ("proposal_count", or_none(leads)),
            ("commit_count", or_none(leads)),
            ("cnt_quorum_ack_latency", or_none(leads)),
            ("learner_commit_received_count", or_none(!leads)),
            ("learner_proposal_received_count", or_none(!leads)),
            ("cnt_dbinittime", 1.0),
            ("snap_count", 0.0),
        ] {
            assert_eq!(value(name), expected, "{name}: {metrics:?}");
        }
        // A follower whose clock is behind leaves out negative latencies; here all have one clock.
        assert_eq!(value("cnt_propagation_latency"), transactions, "{metrics:?}");
        assert_eq!(value("cnt_proposal_latency"), or_none(!leads), "{metrics:?}");
        assert_eq!(value("sum_sync_processor_batch_size"), value("sync_processor_request_queued"), "{metrics:?}");
        assert!(value("cnt_fsynctime") >= 1.0 && value("cnt_fsynctime") <= transactions, "{metrics:?}");
        // The first election may fail and be repeated.
        assert!(value("cnt_election_time") >= 1.0, "{metrics:?}");
        assert_eq!(value("cnt_unavailable_time"), 1.0, "{metrics:?}");
        assert_eq!(value("cnt_follower_sync_time"), f64::from(!leads), "{metrics:?}");
        assert_eq!(value("cnt_leader_unavailable_time"), f64::from(leads), "{metrics:?}");
        for name in ["updatelatency", "readlatency", "propagation_latency", "sync_processor_queue_and_flush_time_ms"] {
            let [min, p50, p99, p999, max] =
                ["min", "p50", "p99", "p999", "max"].map(|figure| value(&format!("{figure}_{name}")));
            assert!(min <= p50 && p50 <= p99 && p99 <= p999 && p999 <= max, "{name}: {metrics:?}");
            let (mean, sum) = (value(&format!("avg_{name}")), value(&format!("sum_{name}")));
            // The sum is rounded to a millisecond, the mean to a ten-thousandth.
            let count = value(&format!("cnt_{name}"));
            assert!((mean * count - sum).abs() <= 0.5 + count / 10_000.0, "{name}: {metrics:?}");
            assert!(max < 60_000.0, "{name}: {metrics:?}");
        }
        // The header of a reply and its length, at least, for each request.
        assert!(value("response_bytes") >= (20 * (1 + SETS + READS)) as f64, "{metrics:?}");
        assert!(value("bytes_received_count") >= (100 * SETS) as f64, "{metrics:?}");
    }
    let leader = mntr(ensemble.leader());
    // A follower is synchronised when it joins; one that joins before the leader is established may be asked twice.
    assert!(number(&leader, "diff_count") >= 2.0, "{leader:?}");
    assert!(number(&leader, "max_inflight_diff_count") <= 2.0, "{leader:?}");
    assert!(number(&leader, "max_proposal_size") > 100.0 && number(&leader, "min_proposal_size") < 100.0, "{leader:?}");
    let sizes = ["last", "min", "max"].map(|which| number(&leader, &format!("{which}_proposal_size")).to_string());
    let srvr = ensemble.leader().word("srvr");
    assert!(srvr.contains(&format!("\nProposal sizes last/min/max: {}\n", sizes.join("/"))), "{srvr}");
}

#[test]
fn watch_events_count_their_recipients_and_srst_begins_anew() {
    let mut ensemble = Ensemble::start();
    ensemble.write(1);
    let mut more: Vec<Session> = (0..3).map(|_| ensemble.leader().session()).collect();
    for client in &mut more {
        client.ask(get_data("/n0", true)).expect("it is read");
    }
    ensemble.clients[0].ask(set_data("/n0", b"")).expect("it is set");
    ensemble.wait_until_level();
    let metrics = mntr(ensemble.leader());
    let figures = ["cnt", "sum", "max"].map(|figure| number(&metrics, &format!("{figure}_node_changed_watch_count")));
    assert_eq!(figures, [1.0, 3.0, 3.0], "{metrics:?}");
    assert!(number(&metrics, "watch_bytes") > 0.0, "{metrics:?}");
    assert_eq!(ensemble.leader().word("srst"), "Server stats reset.\n");
    let metrics = mntr(ensemble.leader());
    for name in ["cnt_updatelatency", "cnt_quorum_ack_latency", "proposal_count", "cnt_node_changed_watch_count"] {
        assert_eq!(number(&metrics, name), 0.0, "{name}: {metrics:?}");
    }
}
