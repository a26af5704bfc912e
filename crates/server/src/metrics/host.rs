//! What the system says of this process, and what the process says of itself.

use std::fs;
use std::path::Path;

/// The version, as tools of ZooKeeper read it: a release of Apache whose clients are served, then our own.
pub(crate) fn version() -> String {
    format!("3.8.0-pole-{}, built on {RELEASED}", env!("CARGO_PKG_VERSION"))
}

/// Files and sockets that are open, and how many may be. None where the system does not say.
pub(crate) fn descriptors() -> (Option<i64>, Option<i64>) {
    // The directory that is read is one of them.
    let open = fs::read_dir("/proc/self/fd").ok().and_then(|entries| i64::try_from(entries.count()).ok());
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next()).and_then(|word| word.parse().ok());
    (open.map(|count| count - 1), soft)
}

/// The memory that the process occupies, in bytes.
pub(crate) fn resident_bytes() -> Option<i64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<i64>().ok().map(|kb| kb << 10)
}

/// The size of the files that a data directory holds, in bytes.
pub(crate) async fn directory_bytes(dir: &Path) -> u64 {
    let dir = dir.join("version-2");
    let sum = move || {
        let files = fs::read_dir(dir).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).filter(fs::Metadata::is_file).map(|file| file.len()).sum()
    };
    tokio::task::spawn_blocking(sum).await.unwrap_or(0)
}

/// What `envi` tells: of Java's properties those that make sense without Java.
pub(crate) fn environment() -> Vec<(&'static str, String)> {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let kernel = |name: &str| {
        let text = fs::read_to_string(Path::new("/proc/sys/kernel").join(name)).unwrap_or_default();
        text.trim().to_owned()
    };
    let os = kernel("ostype");
    vec![
        ("zookeeper.version", version()),
        ("host.name", kernel("hostname")),
        ("os.name", if os.is_empty() { std::env::consts::OS.to_owned() } else { os }),
        ("os.arch", std::env::consts::ARCH.to_owned()),
        ("os.version", kernel("osrelease")),
        ("user.name", variable("USER")),
        ("user.home", variable("HOME")),
        ("user.dir", std::env::current_dir().map(|dir| dir.display().to_string()).unwrap_or_default()),
    ]
}

/// The day of this version. Not that of the build, so that the same source gives the same bytes.
const RELEASED: &str = "2026-11-15 00:00 UTC";
