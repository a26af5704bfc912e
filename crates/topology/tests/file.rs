//! Valid topology files, and the line and reason reported for invalid ones.

use pole_topology::{Link, PRESETS, Topology, favoured};

const GOOD: &str = r#"name = "small"
jitter_percent = 2
window_kb = 64
[[server]]
id = 1
site = "A"
[[server]]
id = 2
site = "B"
[[server]]
id = 3
site = "B"
[[link]]
a = "B"
b = "A"
rtt_ms = 9.88
bandwidth_mbit = 100
[[load]]
site = "B"
rate = 333.3
"#;

#[test]
fn a_valid_file_defines_sites_links_and_loads() {
    let topology = Topology::parse(GOOD).unwrap();
    assert_eq!(topology.name(), "small");
    assert_eq!(topology.servers().map(|server| server.id).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(topology.site(3), Some("B"));
    assert_eq!(topology.site(4), None);
    assert_eq!(topology.rtt(1, 3), Some(9_880_000));
    assert_eq!(topology.rtt(3, 1), Some(9_880_000));
    assert_eq!(topology.rtt(2, 3), Some(100_000), "inside a site 0.1 ms unless said");
    assert_eq!(topology.rtt(2, 2), Some(0));
    assert_eq!(topology.link(2, 2), Some(Link::LOOPBACK));
    assert_eq!(topology.rate_milli(2), 166_650, "the servers of a site share its load");
    assert_eq!(topology.rate_milli(1), 0);
}

#[test]
fn a_link_from_a_site_to_itself_says_how_far_its_servers_are_apart() {
    let text = GOOD.to_owned() + "[[link]]\na = \"B\"\nb = \"B\"\nrtt_ms = 0.5\n";
    assert_eq!(Topology::parse(&text).unwrap().rtt(2, 3), Some(500_000));
}

#[test]
fn throughput_is_the_line_or_the_window_a_round_trip() {
    let topology = Topology::parse(GOOD).unwrap();
    let far = 65_536_u64 * 8 * 1_000_000_000 / 9_880_000;
    assert_eq!(topology.bandwidth(1, 2), Some(far), "64 kB a round trip of 9.88 ms");
    assert_eq!(topology.with_rtt("A", "B", 0).bandwidth(1, 2), Some(100_000_000), "the line");
    let link = topology.link(1, 2).unwrap();
    assert_eq!(link.transfer(0), 9_880_000);
    assert!(link.transfer(65_536).abs_diff(2 * 9_880_000) < 10, "one window takes one round trip more");
}

/// The error for the valid file with one part replaced.
fn refused(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    Topology::parse(&GOOD.replacen(from, to, 1)).unwrap_err().to_string()
}

#[test]
fn a_negative_round_trip_is_refused() {
    assert_eq!(refused("rtt_ms = 9.88", "rtt_ms = -1"), "line 16: rtt_ms = -1: must be between 0 and 600000");
}

#[test]
fn a_round_trip_that_is_no_number_is_refused() {
    assert_eq!(refused("rtt_ms = 9.88", "rtt_ms = nan"), "line 16: rtt_ms = NaN: must be between 0 and 600000");
    assert_eq!(refused("rtt_ms = 9.88", "rtt_ms = inf"), "line 16: rtt_ms = inf: must be between 0 and 600000");
}

#[test]
fn a_line_that_carries_nothing_is_refused() {
    let error = refused("bandwidth_mbit = 100", "bandwidth_mbit = 0");
    assert_eq!(error, "line 17: bandwidth_mbit = 0: must be between 0.001 and 10000000");
}

#[test]
fn impossible_jitter_loss_window_and_rate_are_refused() {
    assert!(refused("jitter_percent = 2", "jitter_percent = 101").starts_with("line 2: jitter_percent"));
    assert!(refused("jitter_percent = 2", "loss_percent = -0.1").starts_with("line 2: loss_percent"));
    assert!(refused("window_kb = 64", "window_kb = 0").starts_with("line 3: window_kb"));
    assert!(refused("rate = 333.3", "rate = -5").starts_with("line 20: rate"));
}

#[test]
fn an_unknown_site_is_refused_in_links_and_in_loads() {
    assert_eq!(refused("a = \"B\"", "a = \"C\""), "line 14: unknown site \"C\": no [[server]] is there");
    assert_eq!(
        refused("site = \"B\"\nrate", "site = \"C\"\nrate"),
        "line 19: unknown site \"C\": no [[server]] is there"
    );
}

#[test]
fn a_missing_link_is_blamed_on_the_server_that_needs_it() {
    let error = refused("id = 3\nsite = \"B\"", "id = 3\nsite = \"C\"");
    assert_eq!(error, "line 11: no link A - C: every pair of sites needs a [[link]]");
}

#[test]
fn a_server_given_twice_is_refused() {
    assert_eq!(refused("id = 3", "id = 2"), "line 11: server 2 is already on line 8");
}

#[test]
fn a_link_given_twice_is_refused_in_either_direction() {
    let text = GOOD.to_owned() + "[[link]]\na = \"A\"\nb = \"B\"\nrtt_ms = 1\n";
    assert_eq!(Topology::parse(&text).unwrap_err().to_string(), "line 22: the link A - B is already on line 14");
}

#[test]
fn a_load_given_twice_is_refused() {
    let text = GOOD.to_owned() + "[[load]]\nsite = \"B\"\nrate = 1\n";
    assert_eq!(Topology::parse(&text).unwrap_err().to_string(), "line 22: the load of B is already on line 19");
}

#[test]
fn a_file_without_servers_is_refused() {
    let error = Topology::parse("name = \"empty\"\n").unwrap_err().in_file("empty.toml");
    assert_eq!(error.to_string(), "empty.toml:1: no servers, so no quorum: a topology needs at least one [[server]]");
}

#[test]
fn servers_that_never_receive_from_each_other_are_refused_as_no_quorum() {
    assert_eq!(
        refused("jitter_percent = 2", "loss_percent = 100"),
        "line 2: no quorum: with loss_percent = 100 no message arrives, and 3 servers never agree; give less, or one server"
    );
    let alone = "loss_percent = 100\n[[server]]\nid = 1\nsite = \"A\"\n";
    assert!(Topology::parse(alone).is_ok(), "one server is a quorum of itself");
}

#[test]
fn unknown_keys_missing_keys_and_wrong_types_are_refused_with_their_line() {
    assert!(refused("window_kb", "windows_kb").starts_with("line 3: unknown field `windows_kb`"));
    assert!(refused("rtt_ms = 9.88", "rtt = 9.88").starts_with("line 16: unknown field `rtt`"));
    assert!(refused("rtt_ms = 9.88", "").contains("missing field `rtt_ms`"));
    assert!(refused("id = 2", "id = \"two\"").starts_with("line 8: "));
    assert!(refused("id = 2", "id = -2").starts_with("line 8: "));
    assert!(refused("name = ", "name ").starts_with("line 1: "));
}

#[test]
fn every_preset_has_five_servers_and_a_total_load_of_1000_a_second() {
    for (name, _) in PRESETS {
        let topology = Topology::preset(name).unwrap();
        assert_eq!(topology.name(), name);
        assert_eq!(topology.servers().count(), 5, "{name}");
        let total: u64 = topology.loads().map(|load| load.rate_milli).sum();
        assert!((999_000..=1_000_000).contains(&total), "{name}: {total}");
    }
    assert_eq!(Topology::preset("d4"), None);
}

#[test]
fn the_round_trips_of_the_deployments_are_those_of_section_4() {
    let us = |name: &str, a, b| Topology::preset(name).unwrap().rtt(a, b).unwrap() / 1000;
    assert_eq!(us("two", 1, 3), 20_750);
    assert_eq!([us("d1", 4, 2), us("d1", 4, 1), us("d1", 2, 1)], [9_880, 77_060, 53_260]);
    assert_eq!([us("d2", 4, 2), us("d2", 4, 1), us("d2", 2, 1)], [9_880, 53_260, 77_060]);
    assert_eq!([us("d3", 4, 2), us("d3", 4, 1), us("d3", 2, 1)], [53_260, 9_880, 77_060]);
    assert_eq!([us("recovery-8b", 4, 2), us("recovery-8b", 4, 1), us("recovery-8b", 2, 1)], [77_060, 9_880, 20_750]);
}

#[test]
fn an_uneven_load_gives_the_share_p_to_the_favoured_site_and_the_rest_to_the_others() {
    let loads = |name: &str, permille| {
        let uneven = Topology::preset(name).unwrap().weighted(favoured(name).unwrap(), permille);
        uneven.loads().map(|load| load.rate_milli.div_ceil(1000)).collect::<Vec<_>>()
    };
    assert_eq!(loads("two", 0), [1000, 0]);
    assert_eq!(loads("two", 750), [250, 750]);
    assert_eq!(loads("d1", 1000), [0, 0, 1000]);
    assert_eq!(loads("d2", 200), [400, 400, 200]);
    assert_eq!(loads("d3", 750), [125, 750, 125]);
}
