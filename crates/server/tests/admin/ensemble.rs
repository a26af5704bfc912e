//! Three servers: what each says of the others, another leader, and the loss of the quorum.

use serde_json::{Value, json};

use crate::house::House;

/// The house of the leader, and its number from 0.
fn leader(houses: &[House]) -> usize {
    houses.iter().for_each(House::until_it_serves);
    let leader = houses[0].health().1["leader"].as_u64().expect("a leader");
    usize::try_from(leader - 1).expect("a small number")
}

/// Three servers that have measured each other.
fn three() -> (Vec<House>, usize) {
    let houses = House::three(
        "4lw.commands.whitelist=*,rqld,ydld\npole.oracle=latency\npole.heartbeatMs=100\npole.resign=off\n",
    );
    let leader = leader(&houses);
    for house in &houses {
        house.until("scores of all three", |house| {
            let scores = &house.get("/v1/scores")["oracles"]["latency"]["servers"];
            ["1", "2", "3"].iter().all(|id| scores[id]["known"] == json!(true))
        });
    }
    (houses, leader)
}

#[test]
fn each_server_tells_who_leads_and_who_is_there() {
    let (houses, leader) = three();
    for (place, house) in houses.iter().enumerate() {
        let mode = if place == leader { "leader" } else { "follower" };
        assert!(house.word("srvr").contains(&format!("\nMode: {mode}\n")));
        assert!(house.word("mntr").contains(&format!("zk_server_state\t{mode}\nzk_peer_state\t")));
        let ensemble = house.get("/v1/ensemble");
        assert_eq!(ensemble["leader"], leader as u64 + 1, "{ensemble}");
        let servers = ensemble["servers"].as_array().expect("a list");
        assert_eq!(servers.len(), 3);
        for (other, server) in servers.iter().enumerate() {
            assert_eq!(server["alive"], true, "{server}");
            assert_eq!(server["mode"], if other == leader { "leader" } else { "follower" }, "{server}");
            assert_eq!(server["rtt_ms"].as_object().map(serde_json::Map::len), Some(2), "{server}");
        }
        assert_eq!(house.get("/commands/leader")["leader_id"], leader as u64 + 1);
        assert_eq!(house.get("/commands/voting_view")["current_config"].as_object().map(serde_json::Map::len), Some(3));
    }
    let mntr = houses[leader].word("mntr");
    assert!(mntr.contains("zk_synced_followers\t2\n") && mntr.contains("zk_learners\t2\n"), "{mntr}");
    assert!(mntr.contains("zk_leader_uptime\t") && !mntr.contains("zk_leader_uptime\t0\n"), "{mntr}");
}

#[test]
fn scores_are_there_for_every_oracle_and_both_moments() {
    let (houses, leader) = three();
    for house in &houses {
        let scores = house.get("/v1/scores?kind=after-crash");
        assert_eq!((&scores["active"], &scores["kind"]), (&json!("latency"), &json!("after-crash")));
        let latency = &scores["oracles"]["latency"];
        assert_eq!((&latency["better"], &latency["unit"]), (&json!("lower"), &json!("ms")));
        assert!(latency["servers"].get((leader + 1).to_string()).is_none(), "the leader would be gone: {latency}");
        assert_ne!(latency["winner"], leader as u64 + 1, "{latency}");
        let scores = house.get("/v1/scores");
        for name in ["history", "request", "consensus", "latency", "worst-case", "rotating", "recovery", "custom"] {
            let servers = scores["oracles"][name]["servers"].as_object().unwrap_or_else(|| panic!("{name}: {scores}"));
            assert_eq!(servers.len(), 3, "{name}");
        }
        let inputs = &scores["oracles"]["latency"]["servers"]["1"]["inputs"];
        assert!(inputs["consensus_ms"].is_number() && inputs["hop_ms"].is_number(), "{scores}");
    }
}

#[test]
fn a_transfer_makes_another_leader_and_says_how_long_it_took() {
    let (houses, first) = three();
    let next = (first + 1) % 3;
    for house in [&houses[first], &houses[next]] {
        let same = house.change("POST", "/v1/transfer", &json!({"to": first + 1}).to_string());
        assert_eq!((same.0, &same.1["leader"]), (200, &json!(first + 1)));
    }

    let (status, answer) =
        houses[first].change("POST", "/v1/transfer", &json!({"to": next + 1, "timeout_ms": 30_000}).to_string());
    assert_eq!((status, &answer["leader"]), (200, &json!(next + 1)), "{answer}");
    assert!(answer["pause_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{answer}");
    assert_eq!(houses[first].health().1["leader"], json!(next + 1));
    let told = houses[first].get("/v1/election?last=1");
    assert_eq!((&told[0]["winner"], &told[0]["ended"]), (&json!(next + 1), &json!("established")), "{told}");
    assert_eq!(
        houses[first].http("GET", "/metrics", "", "").1.lines().find(|l| l.starts_with("pole_hand_overs_total")),
        Some("pole_hand_overs_total 1")
    );
    houses[next].until_it_serves();
    houses[next].until("the new leader", |house| house.health().1["mode"] == "leader");
    houses[next].until("scores of the others", |house| house.word("ydld").starts_with("Handing over"));
    houses[next].until("a third leader", |house| house.health().1["leader"] != json!(next + 1));
    houses[next].until("it serves again", |house| house.word("rqld").contains("was asked for less than 10 s ago"));
}

#[test]
fn a_follower_passes_on_who_is_to_lead() {
    let (houses, first) = three();
    let (next, last) = ((first + 1) % 3, (first + 2) % 3);
    let (status, answer) =
        houses[last].change("POST", "/v1/transfer", &json!({"to": next + 1, "timeout_ms": 30_000}).to_string());
    assert_eq!((status, &answer["leader"]), (200, &json!(next + 1)), "{answer}");
    houses[last].until("the leader that it asks next", |house| house.word("rqld").starts_with("Server"));
    houses[last].until("it leads", |house| house.health().1["mode"] == "leader");
    assert_eq!(houses[last].word("rqld"), format!("Server {} leads already.\n", last + 1));
}

#[test]
fn nothing_is_handed_over_to_a_server_that_does_not_follow() {
    let (mut houses, leader) = three();
    let gone = (leader + 1) % 3;
    houses[gone].stop();
    let leader = &houses[leader];
    leader.until("its absence", |house| house.get("/v1/ensemble")["servers"][gone]["alive"] == json!(false));
    let refused = |house: &House| house.change("POST", "/v1/transfer", &json!({"to": gone + 1}).to_string());
    leader.until("a refusal", |house| refused(house).0 == 409);
    let (_, answer) = refused(leader);
    assert_eq!(answer["code"], "conflict", "{answer}");
    assert_eq!(leader.health().1["mode"], "leader");
}

#[test]
fn an_oracle_chosen_on_any_server_is_chosen_on_all() {
    let (houses, leader) = three();
    let follower = &houses[(leader + 1) % 3];
    let (status, answer) = follower.change("PUT", "/v1/oracle", r#"{"name":"request","params":{}}"#);
    assert_eq!(status, 200, "{answer}");
    for house in &houses {
        house.until("the choice", |house| house.get("/v1/ensemble")["oracle"]["name"] == "request");
        assert_eq!(house.get("/v1/ensemble")["oracle"]["version"], answer["version"]);
    }
}

#[test]
fn without_a_quorum_a_server_says_so() {
    let (mut houses, _) = three();
    houses[1].stop();
    houses[2].stop();
    let house = &houses[0];
    house.until("the loss", |house| house.health().0 == 503);
    let (_, health) = house.health();
    assert_eq!(
        (&health["mode"], &health["leader"], &health["quorum"]),
        (&json!("looking"), &Value::Null, &json!(false)),
        "{health}"
    );
    for (method, path, body) in [("PUT", "/v1/oracle", r#"{"name":"latency"}"#), ("POST", "/v1/transfer", "{}")] {
        let (status, answer) = house.change(method, path, body);
        assert_eq!((status, &answer["code"]), (503, &json!("no-quorum")), "{path}: {answer}");
    }
    assert_eq!(house.word("srvr"), "This ZooKeeper instance is not currently serving requests\n");
    assert_eq!(house.word("isro"), "null");
    assert_eq!(house.word("ruok"), "imok");
    let error = house.get("/commands/monitor")["error"].clone();
    assert_eq!(error, "This ZooKeeper instance is not currently serving requests");
    let alive = house.get("/v1/ensemble");
    assert_eq!((&alive["servers"][1]["alive"], &alive["servers"][1]["mode"]), (&json!(false), &Value::Null), "{alive}");
}

#[test]
fn without_a_quorum_a_server_may_serve_readers_and_says_that() {
    let mut houses = House::three("4lw.commands.whitelist=*\nreadonlymode.enabled=true\n");
    leader(&houses);
    houses[1].stop();
    houses[2].stop();
    let house = &houses[0];
    house.until("read-only mode", |house| house.word("isro") == "ro");
    assert!(house.word("srvr").contains("\nMode: read-only\n"));
    let (status, health) = house.health();
    assert_eq!((status, &health["mode"], &health["quorum"]), (503, &json!("read-only"), &json!(false)), "{health}");
    assert_eq!(house.get("/commands/is_read_only")["read_only"], true);
}
