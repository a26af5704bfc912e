//! A disk that can be filled: a file system in memory whose size can be changed while it is in use.
//!
//! It needs the permission to mount. Everything happens in a private mount namespace, which ends with this program,
//! so that no mount is left behind.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use crate::Failure;
use crate::command::{is_installed, output_of, program};

/// Executes this program again in its own mount namespace, if that is possible and has not been done. Returns
/// otherwise.
pub(super) fn enter_namespace() {
    let is_root = || output_of(program("id").arg("-u")).is_ok_and(|id| id == "0");
    if env::var_os(INSIDE).is_some() || !is_installed("unshare") || !is_installed("mount") || !is_root() {
        return;
    }
    let allowed = Command::new("unshare").args(["--mount", "true"]).output().is_ok_and(|ended| ended.status.success());
    if let Ok(us) = env::current_exe()
        && allowed
    {
        // Returns only on failure.
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

/// Mounts a file system in memory at this folder, which must be empty.
pub(super) fn mount(folder: &Path) -> Result<(), Failure> {
    let options = format!("size={SIZE}");
    output_of(program("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder)).map(drop)
}

/// Shrinks the file system to the space in use, so that it is full.
pub(super) fn fill(folder: &Path) -> Result<(), Failure> {
    let used = output_of(program("df").args(["--output=used", "--block-size=1K"]).arg(folder))?;
    let used = used.lines().last().unwrap_or_default().trim().to_owned();
    resize(folder, &format!("{used}k"))
}

/// Restores the original size.
pub(super) fn restore_size(folder: &Path) -> Result<(), Failure> {
    resize(folder, SIZE)
}

/// Unmounts the file system, whose contents are lost.
pub(super) fn unmount(folder: &Path) -> Result<(), Failure> {
    // Lazily: a server may still have files open there.
    output_of(program("umount").arg("--lazy").arg(folder)).map(drop)
}

fn resize(folder: &Path, size: &str) -> Result<(), Failure> {
    output_of(program("mount").args(["-o", &format!("remount,size={size}")]).arg(folder)).map(drop)
}

/// The environment variable that marks a process inside the namespace.
const INSIDE: &str = "POLE_SOAK_NAMESPACE";

/// More than a soak writes. Memory is used only for the data that is written.
const SIZE: &str = "4g";
