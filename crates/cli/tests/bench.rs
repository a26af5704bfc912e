//! `pole bench` on a real server: it measures what it was asked for, and leaves nothing behind.

mod common;

use common::{Running, Scratch, free_port, run};
use serde_json::Value;

struct TestServer {
    address: String,
    _running: Running,
}

fn serving(scratch: &Scratch) -> TestServer {
    let port = free_port();
    let text = format!(
        "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\npreAllocSize=64\n",
        scratch.0.join("data").display()
    );
    let running = Running::reading_stderr(&["server", "--config", &scratch.file("zoo.cfg", &text)]);
    running.until(" serving ");
    TestServer { address: format!("127.0.0.1:{port}"), _running: running }
}

#[test]
fn a_mix_is_measured_by_kind_and_leaves_nothing_behind() {
    let scratch = Scratch::new("bench-mix");
    let server = serving(&scratch);
    let mix = "read=5,write=3,create=2";
    let (code, said, progress) =
        run(&["bench", "--server", &server.address, "--clients", "4", "--seconds", "1", "--mix", mix, "--size", "10"]);
    assert_eq!(code, 0, "{progress}");
    for part in ["kind", "p99.9 ms", "read", "write", "create", "4 clients, nodes of 10 bytes, 1 s: "] {
        assert!(said.contains(part), "{part} is not in:\n{said}");
    }
    assert!(progress.contains("   1 s  ") && progress.contains("/s, p50 "), "{progress}");
    let (_, nodes, _) = run(&["shell", "--server", &server.address, "ls", "/"]);
    assert_eq!(nodes.trim(), "[zookeeper]");
}

#[test]
fn a_rate_is_kept_and_the_result_is_json() {
    let scratch = Scratch::new("bench-rate");
    let server = serving(&scratch);
    let rate = ["--rate", "200", "--clients", "5", "--seconds", "2", "--mix", "write=1"];
    let (code, said, complaint) = run(&[&["bench", "--json", "--server", &server.address], &rate[..]].concat());
    assert_eq!(code, 0, "{complaint}");
    let result: Value = serde_json::from_str(&said).unwrap();
    let requests = result["requests"].as_u64().unwrap();
    assert!((300..=420).contains(&requests), "200 a second for 2 s, and {requests} were answered");
    assert_eq!((&result["errors"], &result["rate"], &result["outstanding"]), (&0.into(), &200.into(), &100.into()));
    let write = &result["kinds"][0];
    assert_eq!(write["kind"], "write");
    let times = ["p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms"].map(|name| write[name].as_f64().unwrap());
    assert!(times[0] > 0.0 && times.is_sorted(), "{times:?}");
    assert_eq!(complaint, "", "no progress with JSON");
}

#[test]
fn without_a_server_it_says_which_were_tried() {
    let address = format!("127.0.0.1:{}", free_port());
    let (code, _, complaint) = run(&["bench", "--server", &address, "--seconds", "1"]);
    assert_eq!(code, 3, "{complaint}");
    assert!(complaint.contains(&address) && complaint.contains("refused"), "{complaint}");
}

#[test]
fn arguments_out_of_range_are_2() {
    for wrong in
        [["--mix", "delete=1"], ["--clients", "0"], ["--rate", "0"], ["--seconds", "0"], ["--server", "nowhere"]]
    {
        let (code, _, complaint) = run(&["bench", wrong[0], wrong[1]]);
        assert_eq!(code, 2, "{wrong:?}: {complaint}");
    }
}
