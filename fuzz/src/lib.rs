//! The fuzz targets: functions that must not panic on any input.
//!
//! A panic is a finding. Each target also asserts properties of the code under test, which its module lists.
//!
//! Targets are functions and not programs, so that the same code runs guided by coverage and over the committed
//! corpus in CI. Mutation and coverage are libFuzzer's (see `bin/guided.rs`). `cargo xtask fuzz` decides which
//! targets run, and for how long.

mod connections;
pub mod corpus;
mod files;
mod learners;
mod links;
mod machine;
mod memory;
mod nodes;
mod peers;
mod records;
mod texts;

/// A fuzz target.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name of the target and of its folder in the corpus.
    pub name: &'static str,
    run: fn(&[u8]),
}

impl Target {
    /// Runs the target on one input. Panics on a finding.
    pub fn run(&self, input: &[u8]) {
        (self.run)(input);
    }
}

/// Finds a target by name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|target| target.name == name).copied()
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "frames", run: records::frames },
    Target { name: "requests", run: records::requests },
    Target { name: "replies", run: records::replies },
    Target { name: "txns", run: machine::txns },
    Target { name: "machine", run: machine::machine },
    Target { name: "connection", run: connections::connections },
    Target { name: "snapshots", run: machine::snapshots },
    Target { name: "log-file", run: files::log },
    Target { name: "snapshot-file", run: files::snapshot },
    Target { name: "peer", run: peers::messages },
    Target { name: "peer-link", run: links::links },
    Target { name: "peer-node", run: nodes::nodes },
    Target { name: "learner", run: learners::learners },
    Target { name: "zoo-cfg", run: texts::zoo_cfg },
    Target { name: "pole-toml", run: texts::pole_toml },
    Target { name: "topology", run: texts::topology },
];
