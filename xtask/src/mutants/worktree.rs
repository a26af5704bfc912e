//! The git worktree in which all mutants are built, separate from the working files.
//!
//! It is in `target/mutants/tree`, with its programs in `target/mutants/build`. Both are kept between runs. What cargo
//! builds on the way is in the target folder of the workspace, where most dependencies are built already. Cargo does not
//! tell crates of the two apart if they have the same name and version, and would take a mutant for the real crate. So those
//! of the worktree have a version of their own.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::Failure;
use crate::command::{Finished, logged, output_of, program, target_dir};

pub(super) struct Worktree {
    /// `target/mutants`.
    dir: PathBuf,
    /// The git tree that each mutant starts from.
    base: String,
    /// Locked as long as this run lasts: two runs in one worktree would judge each other's mutants.
    _lock: File,
}

impl Worktree {
    /// Creates the worktree, or reuses the one of the last run, and determines what the mutants start from: the last
    /// commit, or with `dirty` the working files.
    pub(super) fn prepare(dirty: bool) -> Result<Self, Failure> {
        let dir = target_dir().join("mutants");
        std::fs::create_dir_all(&dir).map_err(|why| Failure::io("create", &dir, &why))?;
        let lock = lock(&dir.join("lock"))?;
        let base = if dirty { tree_of_files(&dir.join("index"))? } else { tree_of_head()? };
        let base = with_own_version(&base, &dir)?;
        let worktree = Self { dir, base, _lock: lock };
        if !worktree.exists()? {
            output_of(program("git").args(["worktree", "prune"]))?;
            let mut add = program("git");
            output_of(add.args(["worktree", "add", "--detach", "--force"]).arg(worktree.tree()).arg("HEAD"))?;
        }
        Ok(worktree)
    }

    /// Whether the worktree exists. A plain folder there must not be mistaken for one: git would search for a
    /// repository above it, find the real one, and reset *that*.
    fn exists(&self) -> Result<bool, Failure> {
        let tree = self.tree();
        if !tree.exists() {
            return Ok(false);
        }
        let top = output_of(program("git").arg("-C").arg(&tree).args(["rev-parse", "--show-toplevel"]))?;
        let here = tree.canonicalize().map_err(|why| Failure::io("find", &tree, &why))?;
        if Path::new(&top) == here {
            return Ok(true);
        }
        Err(Failure::Check(format!("{} is no git worktree; remove it and run again", tree.display())))
    }

    /// Resets the worktree to the base.
    pub(super) fn reset(&mut self) -> Result<(), Failure> {
        output_of(self.git().args(["read-tree", "--reset", "-u", &self.base]))?;
        output_of(self.git().args(["clean", "-fdq"]))?;
        Ok(())
    }

    /// Applies a patch, or returns why it does not apply.
    pub(super) fn apply(&mut self, patch: &Path) -> Result<(), String> {
        match output_of(self.git().args(["apply", "--whitespace=nowarn"]).arg(patch)) {
            Ok(_) => Ok(()),
            Err(Failure::Check(why) | Failure::Usage(why)) => Err(why),
        }
    }

    /// Builds the script tests, and returns their program. The inner error is the end of the compiler's output.
    ///
    /// In the workspace, so that dependencies have the features with which its tests are built; and with the profile of
    /// tests, because scripts run in less than a second and a build in release takes a minute.
    pub(super) fn build_scripts(&self) -> Result<Result<PathBuf, String>, Failure> {
        let mut tests = self.cargo();
        tests.args(["test", "--no-run", "--workspace", "--test", "scripts"]);
        let tests = logged(&mut tests, &self.dir.join("build.log"), None)?;
        if !tests.passed() {
            return Ok(Err(tail(&tests.output)));
        }
        let named = executables(&tests.output).next().ok_or_else(|| {
            Failure::Check(format!("cargo did not say where the script tests are:\n{}", tail(&tests.output)))
        })?;
        Ok(Ok(self.tree().join(named)))
    }

    /// Builds the simulator in release. The error is the end of the compiler's output.
    pub(super) fn build_simulator(&self) -> Result<Result<(), String>, Failure> {
        let mut build = self.cargo();
        // Together with `pole-cli`, so that dependencies have the features of `built_in_release`.
        build.args(["build", "--release", "--package", "pole-cli", "--package", "pole-sim", "--bin", "sim"]);
        let built = logged(&mut build, &self.dir.join("build.log"), None)?;
        Ok(if built.passed() { Ok(()) } else { Err(tail(&built.output)) })
    }

    /// Builds all test programs of a crate. Documentation tests are left out: they show how to call an API, and
    /// protect nothing.
    pub(super) fn build_tests(&self, name: &str) -> Result<Result<Vec<PathBuf>, String>, Failure> {
        let mut tests = self.cargo();
        tests.args(["test", "--no-run", "--lib", "--bins", "--tests", "--package", &package(name)]);
        let built = logged(&mut tests, &self.dir.join("build.log"), None)?;
        if !built.passed() {
            return Ok(Err(tail(&built.output)));
        }
        Ok(Ok(executables(&built.output).map(|named| self.tree().join(named)).collect()))
    }

    /// Runs one test program of a crate.
    pub(super) fn run_tests(&self, name: &str, program: &Path, limit: Duration) -> Result<Finished, Failure> {
        let folder = self.tree().join("crates").join(name);
        let mut tests = Command::new(program);
        tests.current_dir(&folder).env("CARGO_MANIFEST_DIR", &folder).env_remove("UPDATE_GOLDENFILES");
        logged(&mut tests, &self.dir.join("tests.log"), Some(limit))
    }

    /// Whether the simulator depends on this crate. If not, neither scripts nor seeds can find a change of it.
    pub(super) fn is_simulated(&self, name: &str) -> Result<bool, Failure> {
        let mut tree = self.cargo();
        let tree = tree.args(["tree", "--quiet", "--edges", "normal", "--prefix", "none", "--package", "pole-sim"]);
        let package = package(name);
        Ok(output_of(tree)?.lines().any(|line| line.split(' ').next() == Some(package.as_str())))
    }

    /// Runs the script tests. Not through cargo: a program that hangs must be our own child to be killed.
    pub(super) fn run_scripts(&self, program: &Path, limit: Duration) -> Result<Finished, Failure> {
        let sim = self.tree().join("crates").join("sim");
        let mut scripts = Command::new(program);
        // As cargo would; but never re-record, or every mutant would pass.
        scripts.current_dir(&sim).env("CARGO_MANIFEST_DIR", &sim).env_remove("UPDATE_GOLDENFILES");
        logged(&mut scripts, &self.dir.join("scripts.log"), Some(limit))
    }

    /// Runs the simulator on seeds 1 to `seeds`, with the small state machine or with the tree, up to the first
    /// failure.
    pub(super) fn run_seeds(&self, seeds: u64, tree: bool, limit: Duration) -> Result<Finished, Failure> {
        let mut simulator = Command::new(self.build_dir().join("release").join("sim"));
        simulator.current_dir(self.tree());
        simulator.args(["--first", "1", "--seeds", &seeds.to_string(), "--stop-at-first-failure"]);
        simulator.args(tree.then_some("--tree"));
        logged(&mut simulator, &self.dir.join("sim.log"), Some(limit))
    }

    fn tree(&self) -> PathBuf {
        self.dir.join("tree")
    }

    fn build_dir(&self) -> PathBuf {
        self.dir.join("build")
    }

    fn git(&self) -> Command {
        let mut git = program("git");
        git.current_dir(self.tree());
        git
    }

    fn cargo(&self) -> Command {
        let mut cargo = program("cargo");
        cargo.current_dir(self.tree()).env("CARGO_TARGET_DIR", self.build_dir());
        cargo.env("CARGO_BUILD_BUILD_DIR", target_dir());
        // There are dozens of builds that differ by a line each.
        cargo.env("CARGO_INCREMENTAL", "1");
        cargo
    }
}

fn lock(path: &Path) -> Result<File, Failure> {
    let file = File::create(path).map_err(|why| Failure::io("create", path, &why))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(Failure::Check("another run of the mutants uses target/mutants: wait for it, or end it".to_owned()))
        }
        Err(TryLockError::Error(why)) => Err(Failure::io("lock", path, &why)),
    }
}

/// The tree of the last commit, if no built file differs from it.
fn tree_of_head() -> Result<String, Failure> {
    let built = ["status", "--porcelain", "--", "crates", "Cargo.toml", "Cargo.lock"];
    let changed = output_of(program("git").args(built))?;
    if changed.is_empty() {
        return output_of(program("git").args(["rev-parse", "HEAD^{tree}"]));
    }
    let what = "mutants start from the last commit, and these files differ from it";
    Err(Failure::Check(format!("{what} (commit them, or say --dirty to start from the files):\n{changed}")))
}

/// A tree of the working files, untracked ones included, made in a separate index.
fn tree_of_files(index: &Path) -> Result<String, Failure> {
    let git = |args: &[&str]| output_of(program("git").env("GIT_INDEX_FILE", index).args(args));
    git(&["read-tree", "HEAD"])?;
    git(&["add", "--all"])?;
    git(&["write-tree"])
}

/// The tree with another version of all crates. `dir` is for the files needed on the way.
fn with_own_version(tree: &str, dir: &Path) -> Result<String, Failure> {
    let index = dir.join("index");
    let git = |args: &[&str]| output_of(program("git").env("GIT_INDEX_FILE", &index).args(args));
    let manifest = git(&["show", &format!("{tree}:Cargo.toml")])?;
    let (file, text) = (dir.join("Cargo.toml"), own_version(&manifest)?);
    std::fs::write(&file, text).map_err(|why| Failure::io("write", &file, &why))?;
    let blob = git(&["hash-object", "-w", &file.to_string_lossy()])?;
    git(&["read-tree", tree])?;
    git(&["update-index", "--cacheinfo", &format!("100644,{blob},Cargo.toml")])?;
    git(&["write-tree"])
}

/// The manifest of the workspace with another version of its crates.
fn own_version(manifest: &str) -> Result<String, Failure> {
    let package = manifest.find("[workspace.package]").unwrap_or_default();
    let version = manifest[package..].find("\nversion = \"").map(|at| package + at + "\nversion = \"".len());
    let end = version.and_then(|at| Some(at + manifest[at..].find('"')?));
    let end = end.ok_or_else(|| Failure::Check("Cargo.toml has no version in [workspace.package]".to_owned()))?;
    Ok(format!("{}+mutant{}\n", &manifest[..end], &manifest[end..]))
}

/// The package in a folder of `crates`.
fn package(name: &str) -> String {
    format!("pole-{name}")
}

/// The paths in lines such as `Executable tests/scripts.rs (target/release/deps/scripts-0123)`.
fn executables(output: &str) -> impl Iterator<Item = &str> {
    let lines = output.lines().filter(|line| line.trim_start().starts_with("Executable"));
    lines.filter_map(|line| line.rsplit_once('(')?.1.strip_suffix(')'))
}

fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

/// Lines of a failed build that are shown: usually the last error.
const TAIL_LINES: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_programs_are_found_in_what_cargo_says() {
        let output = "   Compiling x\n    Finished `release`\n  Executable tests/scripts.rs (t/release/deps/scripts-0f)\n  \
                      Executable unittests src/lib.rs (t/debug/deps/x-1)\n";
        assert_eq!(executables(output).collect::<Vec<_>>(), ["t/release/deps/scripts-0f", "t/debug/deps/x-1"]);
        assert_eq!(executables("    Finished").count(), 0);
    }

    #[test]
    fn a_second_run_is_refused_while_the_first_lasts() {
        let path = std::env::temp_dir().join(format!("pole-mutants-lock-{}", std::process::id()));
        let first = lock(&path).ok();
        assert!(first.is_some() && lock(&path).is_err());
        drop(first);
        assert!(lock(&path).is_ok());
        let _ = std::fs::remove_file(&path);
    }

    #[test]
    fn only_the_version_of_the_workspace_changes() {
        let manifest =
            "version = \"9\"\n[workspace.package]\nname = \"x\"\nversion = \"0.1.0\"\nx = { version = \"0.1.0\" }";
        let changed = own_version(manifest).ok();
        let expected = manifest.replacen("\"0.1.0\"", "\"0.1.0+mutant\"", 1) + "\n";
        assert_eq!(changed, Some(expected));
        assert!(own_version("[workspace]\n").is_err());
    }

    #[test]
    fn the_end_of_a_build_is_short() {
        let output: String = (0..50).map(|n| format!("{n}\n")).collect();
        assert_eq!(tail(&output).lines().count(), TAIL_LINES);
    }
}
