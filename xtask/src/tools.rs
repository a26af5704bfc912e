//! `cargo xtask tools`: installs programs that some checks need and that Rust and git do not bring.
//!
//! They go to `tools` in the build directory, in versions that the checks are known to pass with, and nothing else on the
//! machine changes. `cargo xtask test` and the tests of `pole-cli` look there after the PATH; without a tool its checks
//! are skipped by name.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::Failure;
use crate::command::{output_of, program, target_dir};

/// Installs all tools, or the named ones.
pub(crate) fn run(names: &[String]) -> Result<ExitCode, Failure> {
    if let Some(unknown) = names.iter().find(|name| TOOLS.iter().all(|tool| tool.name != **name)) {
        let known: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
        return Err(Failure::Usage(format!("there is no tool called `{unknown}`; there are: {}", known.join(", "))));
    }
    let mut failures = 0;
    for tool in TOOLS.iter().filter(|tool| names.is_empty() || names.iter().any(|name| name == tool.name)) {
        let outcome = match find(tool.name) {
            Some(path) => Ok(format!("is there: {}", path.display())),
            None => tool.install().map(|()| "installed".to_owned()),
        };
        match outcome {
            Ok(what) => println!("{:<20} {what}", tool.name),
            Err(Failure::Usage(what) | Failure::Check(what)) => {
                failures += 1;
                println!("{:<20} FAILED: {what}", tool.name);
            }
        }
    }
    Ok(ExitCode::from(u8::from(failures > 0)))
}

/// A program in the PATH or among the tools.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = search_path();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The PATH, then the folder of the tools.
pub(crate) fn search_path() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([folder().join("bin")]);
    std::env::join_paths(folders).unwrap_or(path)
}

fn folder() -> PathBuf {
    let target = target_dir();
    std::path::absolute(&target).unwrap_or(target).join("tools")
}

struct Tool {
    name: &'static str,
    source: Source,
}

/// Where a tool comes from.
enum Source {
    /// A package of crates.io.
    Crate(&'static str),
    /// A Go module.
    Go(&'static str),
    /// A package of PyPI, in an environment of its own.
    Python(&'static str),
    /// A program in a package of Debian, which is unpacked and not installed.
    Debian { package: &'static str, path: &'static str },
}

impl Tool {
    fn install(&self) -> Result<(), Failure> {
        let (folder, bin) = (folder(), folder().join("bin"));
        fs::create_dir_all(&bin).map_err(|why| Failure::io("create", &bin, &why))?;
        match self.source {
            Source::Crate(spec) => {
                let mut cargo = program("cargo");
                cargo.args(["install", "--locked", spec, "--root"]).arg(&folder).arg("--target-dir");
                loudly(cargo.arg(folder.join("build")))?;
                // What it was built from is large, and is not needed again.
                let _ = fs::remove_dir_all(folder.join("build"));
                Ok(())
            }
            Source::Go(module) => loudly(program("go").args(["install", module]).env("GOBIN", &bin)),
            Source::Python(spec) => {
                let environment = folder.join("python");
                loudly(program("python3").args(["-m", "venv"]).arg(&environment))?;
                let python = environment.join("bin").join("python");
                loudly(program(&python.to_string_lossy()).args(["-m", "pip", "install", "--quiet", spec]))?;
                let (from, to) = (environment.join("bin").join(self.name), bin.join(self.name));
                let _ = fs::remove_file(&to);
                symlink(from, &to).map_err(|why| Failure::io("link", &to, &why))
            }
            Source::Debian { package, path } => {
                let unpacked = folder.join(package);
                fs::create_dir_all(&unpacked).map_err(|why| Failure::io("create", &unpacked, &why))?;
                loudly(program("apt-get").current_dir(&unpacked).args(["download", package]))?;
                let script = "exec dpkg-deb --extract ./*.deb .";
                loudly(program("sh").current_dir(&unpacked).args(["-c", script]))?;
                let to = bin.join(self.name);
                fs::copy(unpacked.join(path), &to).map(drop).map_err(|why| Failure::io("write", &to, &why))?;
                fs::remove_dir_all(&unpacked).map_err(|why| Failure::io("remove", &unpacked, &why))
            }
        }
    }
}

/// Runs a program that must succeed.
fn loudly(command: &mut Command) -> Result<(), Failure> {
    output_of(command).map(drop)
}

const TOOLS: &[Tool] = &[
    Tool { name: "mdbook", source: Source::Crate("mdbook@0.5.4") },
    Tool { name: "cargo-deb", source: Source::Crate("cargo-deb@3.8.0") },
    Tool { name: "helm", source: Source::Go("helm.sh/helm/v3/cmd/helm@v3.22.0") },
    Tool { name: "kubernetes-validate", source: Source::Python("kubernetes-validate==1.37.0") },
    Tool { name: "promtool", source: Source::Debian { package: "prometheus", path: "usr/bin/promtool" } },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_tool_is_answered_with_a_list() {
        let Err(Failure::Usage(what)) = run(&["hammer".to_owned()]) else { panic!("there is no hammer") };
        assert!(what.contains("`hammer`") && what.contains("mdbook, cargo-deb"), "{what}");
    }

    #[test]
    fn tools_are_looked_for_after_the_path() {
        let folders: Vec<PathBuf> = std::env::split_paths(&search_path()).collect();
        assert!(folders.last().is_some_and(|last| last.ends_with("tools/bin") && last.is_absolute()), "{folders:?}");
        assert!(find("sh").is_some());
        assert_eq!(find("no-such-tool"), None);
    }
}
