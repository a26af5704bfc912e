//! C: Debian's package of Apache's C client, and our own programs compiled against it.
//!
//! `compat/c` becomes one program, which runs `operations`, `failover`, `holder` or `reconfig`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::work_dir;
use crate::Failure;
use crate::command::{install, is_installed, killed_with_parent, output_of, program, root};

/// The names of the programs in logs.
pub(super) const OPERATIONS: &str = "c-operations";
pub(super) const FAILOVER: &str = "c-failover";
pub(super) const HOLDER: &str = "c-holder";
pub(super) const RECONFIG: &str = "c-reconfig";

/// Installs what is missing, if permitted.
pub(super) fn prepare() -> Result<(), Failure> {
    if Path::new("/usr/include/zookeeper/zookeeper.h").is_file() && is_installed("gcc") {
        return Ok(());
    }
    install(&["libzookeeper-mt-dev", "gcc", "libc6-dev"])
}

pub(super) fn compile() -> Result<(), Failure> {
    let folder = root().join("compat/c");
    let entries = fs::read_dir(&folder).map_err(|why| Failure::io("read", &folder, &why))?;
    let sources =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|name| name == "c"));
    fs::create_dir_all(work_dir()).map_err(|why| Failure::io("create", &work_dir(), &why))?;
    let mut gcc = program("gcc");
    // THREADED: the client has a thread of its own, and synchronous operations.
    gcc.args(["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-DTHREADED", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]);
    output_of(gcc.arg(binary()).args(sources).args(["-lzookeeper_mt", "-lpthread"])).map(drop)
}

/// One of our programs on these servers.
pub(super) fn command(name: &str, servers: &str) -> Result<Command, Failure> {
    let mut command = killed_with_parent(&binary().to_string_lossy());
    command.args([name.trim_start_matches("c-"), servers]);
    Ok(command)
}

fn binary() -> PathBuf {
    work_dir().join("c-client")
}
