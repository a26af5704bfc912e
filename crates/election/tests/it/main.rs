//! Tests of the election as a stranger sees it: through its public door only.
//!
//! `claims`: one test per claim of the paper and per correction of it. `network`: whole ensembles on a network that
//! loses, doubles, delays and reorders. `every_order`: all interleavings of small ensembles. `order`: the laws of the
//! order. `records`: what a record says.
//! `storm`: any message and any event in any order.

mod claims;
mod desk;
mod every_order;
mod net;
mod network;
mod order;
mod records;
mod storm;

use proptest::test_runner::{Config, RngSeed};

/// Generated values, the same on every machine. A case that fails becomes a test with a name, not a file of seeds.
fn generated(cases: u32) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Config::default() }
}
