//! What is fed with any bytes: each target is a function that must not panic, whatever they are.
//!
//! In: bytes. Out: nothing; a panic is a finding. Beside "no panic", each target checks a law of what it feeds.
//! Why functions and not programs: the same run guided by coverage, and over the committed corpus in CI.
//! Not here: mutation and coverage (libFuzzer, see `bin/guided.rs`), how long and which (`cargo xtask fuzz`).

mod connections;
mod files;
mod links;
mod machine;
mod memory;
mod nodes;
mod peers;
mod records;
mod texts;

/// Something to feed.
#[derive(Clone, Copy)]
pub struct Target {
    /// As its folder in the corpus.
    pub name: &'static str,
    run: fn(&[u8]),
}

impl Target {
    /// Feeds it. Panics on a finding.
    pub fn run(&self, input: &[u8]) {
        (self.run)(input);
    }
}

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|target| target.name == name).copied()
}

/// All of them.
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
    Target { name: "zoo-cfg", run: texts::zoo_cfg },
    Target { name: "pole-toml", run: texts::pole_toml },
    Target { name: "topology", run: texts::topology },
];
