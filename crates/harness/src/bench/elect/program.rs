//! The programs that are compared: how they are built, and the command of one candidate.
//!
//! The programs of others are in `compat/elect`. All print `leading` when they lead, and resign at SIGTERM.

use std::env;
use std::fmt;
use std::path::PathBuf;
use std::process::Command;

use super::LEASE;
use super::store::Running;
use crate::Failure;
use crate::command::{is_installed, killed_with_parent, output_of, program, root, target_dir};

/// A library, or the program that uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Program {
    PoleElect,
    /// `go.etcd.io/etcd/client/v3/concurrency`.
    Concurrency,
    /// `org.apache.curator.framework.recipes.leader.LeaderLatch`.
    LeaderLatch,
    /// `k8s.io/client-go/tools/leaderelection`.
    ClientGo,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::PoleElect => "pole-elect",
            Self::Concurrency => "concurrency",
            Self::LeaderLatch => "LeaderLatch",
            Self::ClientGo => "client-go",
        })
    }
}

impl Program {
    /// Builds the program.
    pub(super) fn prepare(self) -> Result<(), Failure> {
        match self {
            Self::PoleElect => pole_elect(),
            Self::Concurrency => go("etcd"),
            Self::ClientGo => go("client-go"),
            Self::LeaderLatch => maven(),
        }
    }

    /// A candidate with this id.
    pub(super) fn command(self, store: &Running, id: &str) -> Command {
        let lease_s = LEASE.as_secs().to_string();
        let lease_ms = LEASE.as_millis().to_string();
        match self {
            Self::PoleElect => {
                let mut command = killed_with_parent(&pole_elect_path().to_string_lossy());
                command.arg(store.url()).args(["--id", id, "--score", "1", "--ttl", &format!("{lease_s}s"), "--"]);
                // The command that runs while leading.
                command.args(["sh", "-c", "echo leading; exec sleep 3600"]);
                command
            }
            Self::Concurrency => {
                let mut command = killed_with_parent(&built("etcd").to_string_lossy());
                command.args([store.address(), ELECTION, &lease_s, id]);
                command
            }
            Self::ClientGo => {
                let mut command = killed_with_parent(&built("client-go").to_string_lossy());
                command
                    .arg(store.address())
                    .arg(store.authority())
                    .arg(store.token_file())
                    .args([ELECTION, &lease_s, id]);
                command
            }
            Self::LeaderLatch => {
                let mut command = killed_with_parent("java");
                command.args(["-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
                let output = built("curator");
                let path = format!("{}:{}/*", output.join("classes").display(), output.join("jars").display());
                command.args(["-cp", &path, "pole.elect.Latch", store.address(), &format!("/{ELECTION}")]);
                command.args([lease_ms.as_str(), id]);
                command
            }
        }
    }
}

/// The binary that `POLE_ELECT_BIN` names, or ours in release mode.
fn pole_elect_path() -> PathBuf {
    match env::var_os("POLE_ELECT_BIN") {
        Some(named) => root().join(named),
        None => target_dir().join("release/pole-elect"),
    }
}

fn pole_elect() -> Result<(), Failure> {
    if env::var_os("POLE_ELECT_BIN").is_none() {
        let mut cargo = program("cargo");
        cargo.args(["build", "--quiet", "--release", "--package", "pole-elect", "--features", "full"]);
        output_of(cargo.args(["--bin", "pole-elect"]))?;
    }
    let path = pole_elect_path();
    if path.is_file() { Ok(()) } else { Err(Failure::Check(format!("no program {}", path.display()))) }
}

fn go(name: &str) -> Result<(), Failure> {
    if !is_installed("go") {
        return Err(Failure::Check("there is no `go`".to_owned()));
    }
    let mut go = program("go");
    go.current_dir(root().join("compat/elect").join(name)).args(["build", "-buildvcs=false", "-o"]).arg(built(name));
    output_of(go.arg(".")).map(drop)
}

fn maven() -> Result<(), Failure> {
    if !is_installed("mvn") || !is_installed("java") {
        return Err(Failure::Check("there is no `mvn` or no `java`".to_owned()));
    }
    let mut mvn = program("mvn");
    mvn.args(["--quiet", "--batch-mode", "--file", "compat/elect/curator/pom.xml"]);
    output_of(mvn.arg(format!("-Doutput={}", built("curator").display())).arg("compile")).map(drop)
}

/// The program, or for Java the folder of classes and jars.
fn built(name: &str) -> PathBuf {
    target_dir().join("bench/elect").join(name)
}

/// The name of the election in every store.
pub(super) const ELECTION: &str = "bench";
