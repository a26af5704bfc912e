//! The committed inputs, and how to run them without coverage.
//!
//! The folder of an input has the name of its target.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::{TARGETS, Target};

/// Finds the folders of the corpus that no target is named after. Their inputs would be ignored.
pub fn check_folders() -> io::Result<()> {
    sorted(&folder())?.iter().try_for_each(|folder| target_of(folder).map(drop))
}

/// Runs a target on all its inputs and returns how many there are. Panics on a finding. A target without inputs is an
/// error.
pub fn replay(target: Target) -> io::Result<usize> {
    let files = sorted(&folder().join(target.name))?;
    if files.is_empty() {
        return Err(io::Error::other(format!("no inputs for `{}`", target.name)));
    }
    files.iter().try_for_each(|file| run(target, file))?;
    Ok(files.len())
}

/// Runs one input. Panics on a finding.
pub fn replay_file(file: &Path) -> io::Result<()> {
    run(target_of(file.parent().unwrap_or(Path::new("")))?, file)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The target that a folder is named after.
fn target_of(folder: &Path) -> io::Result<Target> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let none = || io::Error::other(format!("{}: its folder must have the name of a target", folder.display()));
    TARGETS.iter().find(|target| target.name == name).copied().ok_or_else(none)
}

fn run(target: Target, file: &Path) -> io::Result<()> {
    let input = fs::read(file)?;
    // Dropped, and so printed, only if the target panics.
    let finding = Finding(file);
    target.run(&input);
    std::mem::forget(finding);
    Ok(())
}

struct Finding<'a>(&'a Path);

impl Drop for Finding<'_> {
    fn drop(&mut self) {
        eprintln!("finding: {}", self.0.display());
    }
}

fn sorted(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}
