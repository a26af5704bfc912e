//! Facts about the process and its host.

use std::fs;
use std::path::Path;

/// The version in the form that ZooKeeper tools parse: an Apache release with which we are compatible, then our own.
pub(crate) fn version() -> String {
    format!("3.8.0-pole-{}, built on {RELEASED}", env!("CARGO_PKG_VERSION"))
}

/// Open file descriptors and their limit; `None` where the system does not report them.
pub(crate) fn descriptors() -> (Option<i64>, Option<i64>) {
    // Reading the directory itself takes one of them.
    let open = fs::read_dir("/proc/self/fd").ok().and_then(|entries| i64::try_from(entries.count()).ok());
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next()).and_then(|word| word.parse().ok());
    (open.map(|count| count - 1), soft)
}

/// Resident memory of the process.
pub(crate) fn resident_bytes() -> Option<i64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<i64>().ok().map(|kb| kb << 10)
}

/// The total size of the files in a data directory.
pub(crate) async fn directory_bytes(dir: &Path) -> u64 {
    let dir = dir.join("version-2");
    let sum = move || {
        let files = fs::read_dir(dir).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).filter(fs::Metadata::is_file).map(|file| file.len()).sum()
    };
    tokio::task::spawn_blocking(sum).await.unwrap_or(0)
}

/// The properties that `envi` prints: those of Java that make sense without a JVM.
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
        ("user.name", process_user()),
        ("user.home", variable("HOME")),
        ("user.dir", std::env::current_dir().map(|dir| dir.display().to_string()).unwrap_or_default()),
    ]
}

/// The user by the environment, or the id of the process.
pub(crate) fn process_user() -> String {
    let named = ["USER", "LOGNAME"].into_iter().filter_map(|name| std::env::var(name).ok());
    let id = || rustix::process::getuid().as_raw().to_string();
    named.into_iter().find(|name| !name.is_empty()).unwrap_or_else(id)
}

/// The release date of this version. It is not the build date, to keep builds reproducible.
const RELEASED: &str = "2026-11-15 00:00 UTC";
