//! A disk that can be full: a file system in memory whose size can be changed while it is in use.
//!
//! It needs the right to mount. Everything happens in a mount namespace of our own, which ends with this program, so that
//! nothing of it is left behind.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use crate::Failure;
use crate::command::{is_installed, output_of, program};

/// Starts this program again in a mount namespace of its own, if that is possible and has not been done. Returns otherwise.
pub(super) fn enter_namespace() {
    let is_root = || output_of(program("id").arg("-u")).is_ok_and(|id| id == "0");
    if env::var_os(INSIDE).is_some() || !is_installed("unshare") || !is_installed("mount") || !is_root() {
        return;
    }
    let allowed = Command::new("unshare").args(["--mount", "true"]).output().is_ok_and(|ended| ended.status.success());
    if let Ok(us) = env::current_exe()
        && allowed
    {
        // Comes back only if it fails.
        let _ = Command::new("unshare")
            .args(["--mount", "--"])
            .arg(us)
            .args(env::args_os().skip(1))
            .env(INSIDE, "1")
            .exec();
    }
}

/// Whether a disk can be filled here.
pub(super) fn is_possible() -> bool {
    env::var_os(INSIDE).is_some()
}

/// Puts a file system of its own at this folder, which must be empty.
pub(super) fn mount(folder: &Path) -> Result<(), Failure> {
    let options = format!("size={ROOM}");
    output_of(program("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder)).map(drop)
}

/// Takes all the room that is left.
pub(super) fn fill(folder: &Path) -> Result<(), Failure> {
    let used = output_of(program("df").args(["--output=used", "--block-size=1K"]).arg(folder))?;
    let used = used.lines().last().unwrap_or_default().trim().to_owned();
    resize(folder, &format!("{used}k"))
}

/// Gives it room again.
pub(super) fn empty(folder: &Path) -> Result<(), Failure> {
    resize(folder, ROOM)
}

/// Takes the file system away, with what is on it.
pub(super) fn unmount(folder: &Path) -> Result<(), Failure> {
    // Lazily: a server may still have files open there.
    output_of(program("umount").arg("--lazy").arg(folder)).map(drop)
}

fn resize(folder: &Path, size: &str) -> Result<(), Failure> {
    output_of(program("mount").args(["-o", &format!("remount,size={size}")]).arg(folder)).map(drop)
}

/// Tells the program started again what it is.
const INSIDE: &str = "POLE_SOAK_NAMESPACE";

/// More than a soak writes; memory is taken only for what is written.
const ROOM: &str = "4g";
