//! Random deployments.
//!
//! The output is the text of a topology file without its load. The same seed gives the same deployment on every
//! machine.

use std::fmt::Write as _;

use pole_sim::Rng;

/// Three to seven servers at two to five sites, with round trips log-uniform from 0.2 to 300 ms over links of `mbit`
/// Mbit/s. Returns the text and the number of sites, which are named S1, S2 and so on.
pub(super) fn deployment(name: &str, rng: &mut Rng, mbit: impl Fn(&mut Rng) -> f64) -> (String, u64) {
    let servers = rng.between(3, 7);
    let sites = rng.between(2, servers.min(5));
    // Each site has at least one server; the sites of the rest, and the order of ids, are random.
    let mut places: Vec<u64> = (1..=servers).map(|n| if n <= sites { n } else { rng.between(1, sites) }).collect();
    rng.shuffle(&mut places);
    let mut text = format!("name = \"{name}\"\njitter_percent = 2\n");
    for (id, place) in (1..).zip(&places) {
        let _ = writeln!(text, "[[server]]\nid = {id}\nsite = \"S{place}\"");
    }
    for (a, b) in (1..=sites).flat_map(|a| (a + 1..=sites).map(move |b| (a, b))) {
        let (rtt, mbit) = (rng.log_uniform(0.2, 300.0), mbit(rng));
        let _ = writeln!(text, "[[link]]\na = \"S{a}\"\nb = \"S{b}\"\nrtt_ms = {rtt:.3}\nbandwidth_mbit = {mbit:.3}");
    }
    (text, sites)
}
