//! Integration tests of the election through its public interface.
//!
//! - `claims`: one test per claim of the paper and per correction to it.
//! - `network`: whole ensembles on a network that loses, duplicates, delays and reorders messages.
//! - `every_order`: all interleavings of small ensembles.
//! - `observers`: servers that do not vote, and votes without weight.
//! - `order`: laws of the order on proposals.
//! - `records`: contents of election records.
//! - `random_events`: random messages and events in any order.

mod claims;
mod every_order;
mod net;
mod network;
mod observers;
mod order;
mod random_events;
mod records;
mod test_server;

use proptest::test_runner::{Config, RngSeed};

/// The proptest configuration: the same values on every machine. A failing case becomes a named test, not a seed file.
fn generated(cases: u32) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Config::default() }
}
