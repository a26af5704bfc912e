//! What the development tools share: arguments, failures, and other programs that they run.
//!
//! ```
//! use pole_command::{output_of, program};
//!
//! assert_eq!(output_of(program("echo").arg("hello"))?, "hello");
//! # Ok::<(), pole_command::Failure>(())
//! ```
//!
//! The output of a program goes to a file, standard output and standard error together ([`logged`]). This keeps their
//! order and needs no reader thread.
//!
//! The crate has few dependencies on purpose: `cargo xtask` builds it before anything else, with features of its own.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

mod failure;

pub use failure::{Failure, arguments};

/// The root directory of the workspace.
///
/// Taken from the environment that cargo sets at run time. The value from compile time may name another worktree that
/// shares the build directory: cargo does not rebuild for that, and we would check the wrong files.
pub fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let manifest_dir =
            env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        let is_root = |folder: &&Path| folder.join("Cargo.lock").is_file();
        manifest_dir.ancestors().find(is_root).expect("this crate lies in the workspace").to_owned()
    })
}

/// The build directory of cargo. The xtask commands write their files there too.
pub fn target_dir() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A command that runs in the root of the workspace, without the environment variables that describe this process.
///
/// Cargo sets variables that describe *this* package. Passed on, they would make build scripts of dependencies detect
/// a change and rebuild. Git, when it runs us from a hook, sets variables that name its repository: git commands in
/// another worktree would then change the wrong one.
pub fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root());
    for (key, _) in env::vars_os() {
        let text = key.to_string_lossy();
        let of_cargo = text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_");
        if of_cargo || ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"].contains(&&*text) {
            command.env_remove(&key);
        }
    }
    command
}

/// A program that the kernel kills when our thread ends, however it ends, where `setpriv` is installed. It then has
/// the process id of the program.
pub fn killed_with_parent(name: &str) -> Command {
    if !is_installed("setpriv") {
        return program(name);
    }
    let mut command = program("setpriv");
    command.args(["--pdeathsig", "KILL", "--", name]);
    command
}

/// Builds a binary of the workspace in release mode and returns its path.
///
/// Cargo unifies the features of dependencies over the packages that are built together. A package built alone would
/// get other features than `pole-cli`, and their shared dependencies would be built twice, so `pole-cli` is always
/// built too. A check of `cargo xtask test tidy` makes sure that no package adds a feature to what `pole-cli` uses.
pub fn built_in_release(package: &str, binary: &str) -> Result<PathBuf, Failure> {
    let mut cargo = program("cargo");
    cargo.args(["build", "--quiet", "--release", "--package", "pole-cli", "--package", package, "--bin", binary]);
    match cargo.status() {
        Ok(status) if status.success() => Ok(target_dir().join("release").join(binary)),
        Ok(status) => Err(Failure::Check(format!("cannot build {binary} of {package}: {status}"))),
        Err(why) => Err(Failure::Check(format!("cannot run cargo: {why}"))),
    }
}

/// The same with a feature that is off by default, in another target folder, so that the usual binary stays as it is.
pub fn built_with_feature(package: &str, binary: &str, feature: &str, folder: &Path) -> Result<PathBuf, Failure> {
    let mut cargo = program("cargo");
    cargo.args(["build", "--quiet", "--release", "--package", package, "--bin", binary, "--features", feature]);
    output_of(cargo.arg("--target-dir").arg(folder)).map(|_| folder.join("release").join(binary))
}

/// Runs a program that must succeed and returns its standard output without trailing whitespace.
pub fn output_of(command: &mut Command) -> Result<String, Failure> {
    let line = command_line(command);
    let output = command.output().map_err(|why| Failure::Check(format!("cannot run `{line}`: {why}")))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    } else {
        let stderr = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        Err(Failure::Check(format!("`{line}` failed: {stderr}")))
    }
}

/// The result of a program that ran to its end or to its time limit.
pub struct Finished {
    /// `None` if the program was killed at the time limit.
    pub status: Option<ExitStatus>,
    /// Standard output and standard error, in the order written.
    pub output: String,
    /// Wall-clock time from start to end.
    pub took: Duration,
}

impl Finished {
    /// Whether the program ended by itself, with success.
    pub fn passed(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

/// Runs a program to its end, or to the time limit, with its output in the file `log`.
///
/// At the limit, the program is killed together with all its descendants, so that `cargo` leaves no test running. The
/// program stays in our process group, because `^C` must reach it.
pub fn logged(command: &mut Command, log: &Path, limit: Option<Duration>) -> Result<Finished, Failure> {
    let folder = log.parent().expect("a log lies in a folder");
    fs::create_dir_all(folder).map_err(|why| Failure::io("create", folder, &why))?;
    let file = File::create(log).map_err(|why| Failure::io("create", log, &why))?;
    let second = file.try_clone().map_err(|why| Failure::io("open again", log, &why))?;
    let start = Instant::now();
    let mut child = command
        .stdin(std::process::Stdio::null())
        .stdout(file)
        .stderr(second)
        .spawn()
        .map_err(|why| Failure::Check(format!("cannot run `{}`: {why}", command_line(command))))?;
    let status = match limit {
        None => child.wait().map(Some),
        Some(limit) => wait_until(&mut child, start + limit),
    }
    .map_err(|why| Failure::Check(format!("cannot wait for `{}`: {why}", command_line(command))))?;
    let bytes = fs::read(log).map_err(|why| Failure::io("read", log, &why))?;
    Ok(Finished { status, output: String::from_utf8_lossy(&bytes).into_owned(), took: start.elapsed() })
}

fn wait_until(child: &mut std::process::Child, deadline: Instant) -> std::io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            let descendants = descendants(child.id());
            child.kill()?;
            child.wait()?;
            for pid in descendants {
                // The process may have ended by itself in the meantime.
                let _ = kill_process(pid, Signal::KILL);
            }
            return Ok(None);
        }
        std::thread::sleep(POLL);
    }
}

/// All descendants of a process. Empty on systems without `/proc`.
fn descendants(ancestor: u32) -> Vec<Pid> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let parents: Vec<(u32, u32)> = processes
        .filter_map(|entry| {
            let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The name may itself contain spaces and brackets. After it come the fields state, parent, …
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect();
    let mut found = vec![ancestor];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.drain(..1);
    found.into_iter().filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?)).collect()
}

/// Whether a directory in `PATH` contains a program of this name.
pub fn is_installed(name: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// Installs Debian packages. Without the permission to do so, fails with the names of the packages.
pub fn install(packages: &[&str]) -> Result<(), Failure> {
    let names = packages.join(" ");
    if !may_install()? {
        return Err(Failure::Check(format!("something is missing: install Debian's {names}")));
    }
    println!("installing Debian's {names}");
    let arguments = ["install", "--yes", "--quiet", "--no-install-recommends"];
    let mut apt = program("apt-get");
    output_of(apt.args(arguments).args(packages).env("DEBIAN_FRONTEND", "noninteractive")).map(drop)
}

/// Whether this process can install Debian packages: it runs as root, and `apt-get` exists.
pub fn may_install() -> Result<bool, Failure> {
    Ok(is_installed("apt-get") && output_of(program("id").arg("-u"))? == "0")
}

/// The command line, for messages.
fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Poll interval for a program with a time limit. Short enough not to show in the printed times.
const POLL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    fn log(name: &str) -> PathBuf {
        env::temp_dir().join(format!("pole-xtask-{}-{name}", std::process::id()))
    }

    #[test]
    fn output_keeps_both_streams() {
        let log = log("streams");
        let done = logged(program("sh").args(["-c", "echo one; echo two >&2; exit 3"]), &log, None).unwrap();
        assert_eq!(done.output, "one\ntwo\n");
        assert_eq!(done.status.unwrap().code(), Some(3));
        assert!(!done.passed());
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_program_past_its_limit_is_ended() {
        let log = log("limit");
        let done = logged(program("sleep").arg("60"), &log, Some(Duration::from_millis(30))).unwrap();
        assert!(done.status.is_none());
        assert!(!done.passed());
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn descendants_are_killed_with_the_program() {
        let log = log("descendants");
        let script = "sleep 61 & echo $!; wait";
        let done = logged(program("sh").args(["-c", script]), &log, Some(Duration::from_millis(300))).unwrap();
        assert!(done.status.is_none());
        let pid: i32 = done.output.trim().parse().unwrap();
        let runs = || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        while runs() {
            assert!(Instant::now() < deadline, "process {pid} still runs");
            std::thread::sleep(POLL);
        }
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_missing_program_is_an_error_that_names_it() {
        let Err(Failure::Check(what)) = output_of(&mut program("no-such-program")) else { panic!("it ran") };
        assert!(what.contains("no-such-program"), "{what}");
        assert!(!is_installed("no-such-program"));
        assert!(is_installed("sh"));
    }
}
