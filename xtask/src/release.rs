//! `cargo xtask release`: builds the archive of a release.
//!
//! Writes `pole-VERSION-TARGET.tar.gz` with a static binary and the files for operators, its SHA-256 in the format of
//! `sha256sum`, and the release notes, which are the section of the version in CHANGELOG.md. The notes are printed too.
//!
//! The archive depends only on the binary, the documents and the time of the last commit: names are sorted, and owner
//! and permissions are fixed. The binary is built with `--locked`, and the Rust compiler writes no paths of this machine
//! into it. The C compiler still does, into the debug information of the few dependencies in C.
//!
//! Tags, uploads and `cargo publish` are manual steps; CONTRIBUTING.md lists them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};

use crate::command::{output_of, program, root, target_dir};
use crate::{Failure, arguments};

/// Builds the archive of a release, with its checksum and its notes.
#[derive(Debug, Parser)]
struct Options {
    /// The folder for the files [default: target/xtask/release].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Allow uncommitted changes, for a trial.
    #[arg(long)]
    dirty: bool,
}

pub(crate) fn run(args: &[String]) -> Result<ExitCode, Failure> {
    let options: Options = arguments("release", args)?;
    let notes = notes(&read_text("CHANGELOG.md")?, VERSION)?;
    if !options.dirty {
        check_committed()?;
    }
    let committed_s = output_of(program("git").args(["log", "-1", "--format=%ct"]))?;
    let committed_s = committed_s.parse().map_err(|_| Failure::Check(format!("`{committed_s}` is no time")))?;
    let target = output_of(program("rustc").args(["--print", "host-tuple"]))?;
    let name = format!("pole-{VERSION}-{target}");
    let archive = archive(&name, committed_s, contents(&build(&target)?)?)?;

    let out = match options.out {
        Some(folder) => std::path::absolute(&folder).map_err(|why| Failure::io("find", &folder, &why))?,
        None => target_dir().join("xtask").join("release"),
    };
    fs::create_dir_all(&out).map_err(|why| Failure::io("create", &out, &why))?;
    let file_name = format!("{name}.tar.gz");
    let written = [
        (format!("{file_name}.sha256"), checksum_line(&archive, &file_name).into_bytes()),
        (file_name, archive),
        (format!("pole-{VERSION}-notes.md"), notes.clone().into_bytes()),
    ];
    println!("{notes}");
    for (name, bytes) in written {
        let path = out.join(name);
        fs::write(&path, &bytes).map_err(|why| Failure::io("write", &path, &why))?;
        println!("{:>10} bytes  {}", bytes.len(), path.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// The section of a version in a changelog, without its heading.
fn notes(changelog: &str, version: &str) -> Result<String, Failure> {
    let heading = format!("## [{version}]");
    let after = changelog.lines().skip_while(|line| !line.starts_with(&heading)).skip(1);
    let section: Vec<&str> = after.take_while(|line| !line.starts_with("## ")).collect();
    let section = section.join("\n").trim().to_owned();
    if section.is_empty() {
        let what = format!("CHANGELOG.md has no section `{heading}`, or an empty one: say what has changed");
        return Err(Failure::Check(what));
    }
    Ok(section + "\n")
}

/// A release must be reproducible from a commit.
fn check_committed() -> Result<(), Failure> {
    let changed = output_of(program("git").args(["status", "--porcelain"]))?;
    if changed.is_empty() {
        return Ok(());
    }
    Err(Failure::Check(format!("commit these changes first, or use --dirty for a trial:\n{changed}")))
}

/// Builds `pole` as a static binary, checks that it is one and reports the version, and returns its path.
///
/// It has its own build folder: other flags than usual would make cargo rebuild everything in the usual one, twice. The
/// target is named, so that the flags are not used for build scripts and procedural macros, which cannot be static.
fn build(target: &str) -> Result<PathBuf, Failure> {
    let folder = target_dir().join("xtask").join("release-build");
    let status = program("cargo")
        .args(["build", "--quiet", "--locked", "--release", "--package", "pole-cli", "--bin", "pole"])
        .args(["--target", target, "--target-dir"])
        .arg(&folder)
        .env("CARGO_ENCODED_RUSTFLAGS", flags())
        .status()
        .map_err(|why| Failure::Check(format!("cannot run cargo: {why}")))?;
    if !status.success() {
        return Err(Failure::Check(format!("cannot build pole: {status}")));
    }
    let binary = folder.join(target).join("release").join("pole");
    let bytes = fs::read(&binary).map_err(|why| Failure::io("read", &binary, &why))?;
    if names_loader(&bytes) {
        return Err(Failure::Check("the binary is not static: it would not run without the system's libraries".into()));
    }
    let reported = output_of(program(&binary.to_string_lossy()).arg("--version"))?;
    if reported != format!("pole {VERSION}") {
        return Err(Failure::Check(format!("the binary reports `{reported}`, not version {VERSION}")));
    }
    Ok(binary)
}

/// Whether a program names the loader of dynamic libraries.
fn names_loader(program: &[u8]) -> bool {
    program.windows(LOADER.len()).any(|window| window == LOADER)
}

/// In the path of every loader of Linux, such as /lib64/ld-linux-x86-64.so.2. In two parts, because this program may be
/// checked by itself in a test.
const LOADER: &[u8] = concat!("/ld-", "linux").as_bytes();

/// Compiler flags for a static binary that keep the paths of this machine out of panic messages and line tables,
/// separated as cargo wants it: a path may contain spaces.
fn flags() -> String {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cargo_home = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    [remap(&cargo_home, "cargo"), remap(root(), "pole"), "-Ctarget-feature=+crt-static".to_owned()].join("\x1f")
}

/// A file of the archive.
struct Packed {
    name: &'static str,
    mode: u32,
    bytes: Vec<u8>,
}

/// The binary, and the documents that an operator needs beside it.
fn contents(binary: &Path) -> Result<Vec<Packed>, Failure> {
    let bytes = fs::read(binary).map_err(|why| Failure::io("read", binary, &why))?;
    let mut files = vec![Packed { name: "pole", mode: 0o755, bytes }];
    for name in DOCUMENTS {
        let mode = if name.ends_with(".sh") { 0o755 } else { 0o644 };
        files.push(Packed { name, mode, bytes: read_text(name)?.into_bytes() });
    }
    Ok(files)
}

/// A compressed archive with one folder, the same for the same files on every machine.
fn archive(folder: &str, modified_s: u64, mut files: Vec<Packed>) -> Result<Vec<u8>, Failure> {
    files.sort_by_key(|file| file.name);
    // The header of gzip has neither a time nor a file name by default.
    let mut archive = tar::Builder::new(GzBuilder::new().write(Vec::new(), Compression::best()));
    for file in &files {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(file.bytes.len() as u64);
        header.set_mode(file.mode);
        header.set_mtime(modified_s);
        header.set_uid(0);
        header.set_gid(0);
        let path = format!("{folder}/{}", file.name);
        archive.append_data(&mut header, path, &file.bytes[..]).map_err(|why| cannot_pack(&why))?;
    }
    let compressed = archive.into_inner().map_err(|why| cannot_pack(&why))?;
    compressed.finish().map_err(|why| cannot_pack(&why))
}

fn cannot_pack(why: &std::io::Error) -> Failure {
    Failure::Check(format!("cannot pack the archive: {why}"))
}

/// The line that `sha256sum --check` reads.
fn checksum_line(bytes: &[u8], name: &str) -> String {
    let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{digest}  {name}\n")
}

fn read_text(name: &str) -> Result<String, Failure> {
    let path = root().join(name);
    fs::read_to_string(&path).map_err(|why| Failure::io("read", &path, &why))
}

/// The version of the workspace, which this package shares.
const VERSION: &str = env!("CARGO_PKG_VERSION");

const DOCUMENTS: [&str; 12] = [
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "deploy/bin/zkCli.sh",
    "deploy/bin/zkServer.sh",
    "deploy/helm/pole/files/alerts.yaml",
    "deploy/helm/pole/files/dashboard.json",
    "deploy/systemd/pole.service",
    "deploy/zoo.cfg",
    "docs/configuration.md",
    "docs/deployment.md",
    "docs/operations.md",
];

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    const CHANGELOG: &str = "# Changelog\n\n## [Unreleased]\n\n- Later.\n\n## [0.2.0] - 2026-01-02\n\n### Added\n\n- New.\n\n\
        ## [0.1.0] - 2026-01-01\n\n- First.\n";

    fn files() -> Vec<Packed> {
        let document = |name| Packed { name, mode: 0o644, bytes: name.as_bytes().to_vec() };
        vec![
            Packed { name: "pole", mode: 0o755, bytes: vec![0; 100_000] },
            document("README.md"),
            document("CHANGELOG.md"),
        ]
    }

    #[test]
    fn every_document_is_there() {
        DOCUMENTS.iter().for_each(|name| drop(read_text(name).unwrap()));
    }

    #[test]
    fn a_dynamic_program_is_told_from_a_static_one() {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(names_loader(&own), "tests are linked dynamically");
        assert!(!names_loader(b"/lib/libc.a"));
    }

    #[test]
    fn notes_are_the_section_of_the_version() {
        assert_eq!(notes(CHANGELOG, "0.2.0"), Ok("### Added\n\n- New.\n".to_owned()));
        assert_eq!(notes(CHANGELOG, "0.1.0"), Ok("- First.\n".to_owned()));
    }

    #[test]
    fn a_version_without_notes_is_refused() {
        assert!(matches!(notes(CHANGELOG, "0.3.0"), Err(Failure::Check(what)) if what.contains("## [0.3.0]")));
        assert!(notes("## [0.3.0]\n\n## [0.2.0]\n\n- New.\n", "0.3.0").is_err());
    }

    #[test]
    fn an_archive_has_sorted_names_and_fixed_owners() {
        let bytes = archive("pole-1.0.0-somewhere", 1_700_000_000, files()).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&bytes[..]));
        let mut found = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let header = entry.header();
            assert_eq!((header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap()), (0, 0, 1_700_000_000));
            let mode = header.mode().unwrap();
            let path = entry.path().unwrap().to_string_lossy().into_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            found.push((path, mode, content.len()));
        }
        let expected = [("CHANGELOG.md", 0o644, 12), ("README.md", 0o644, 9), ("pole", 0o755, 100_000)];
        let expected = expected.map(|(name, mode, size)| (format!("pole-1.0.0-somewhere/{name}"), mode, size));
        assert_eq!(found, expected);
    }

    #[test]
    fn the_same_files_give_the_same_bytes_in_any_order() {
        let reversed = || files().into_iter().rev().collect();
        assert_eq!(archive("a", 1, files()).unwrap(), archive("a", 1, reversed()).unwrap());
        assert_ne!(archive("a", 1, files()).unwrap(), archive("a", 2, files()).unwrap());
    }

    #[test]
    fn the_checksum_has_the_format_of_sha256sum() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a.tar.gz\n";
        assert_eq!(checksum_line(b"abc", "a.tar.gz"), expected);
    }
}
