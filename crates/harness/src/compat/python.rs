//! Python with kazoo, its source and the modules that its tests import, under `target/compat`.
//!
//! Created once, and again when `compat/kazoo/requirements.txt` changes.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::work_dir;
use crate::Failure;
use crate::command::{killed_with_parent, output_of, program, root};

/// A Python environment in which kazoo's tests run.
pub(super) struct Python {
    folder: PathBuf,
    /// The unpacked source package.
    source: PathBuf,
}

impl Python {
    /// Finds the environment, or creates it.
    pub(super) fn prepare() -> Result<Self, Failure> {
        let requirements = root().join("compat/kazoo/requirements.txt");
        let wanted = fs::read_to_string(&requirements).map_err(|why| Failure::io("read", &requirements, &why))?;
        let folder = work_dir().join("python");
        let made_from = folder.join("made-from");
        if fs::read_to_string(&made_from).ok().as_ref() != Some(&wanted) {
            make(&folder, &requirements, &wanted)?;
            // Written last, so that an incomplete environment is created again.
            fs::write(&made_from, &wanted).map_err(|why| Failure::io("write", &made_from, &why))?;
        }
        let source = folder.join(kazoo_of(&wanted)?.replace("==", "-"));
        Ok(Self { folder, source })
    }

    /// Installs what this file lists besides, once.
    pub(super) fn add(&self, requirements: &Path) -> Result<(), Failure> {
        let wanted = fs::read_to_string(requirements).map_err(|why| Failure::io("read", requirements, &why))?;
        let name = requirements.file_stem().unwrap_or_default();
        let added = self.folder.join(format!("added-{}", name.to_string_lossy()));
        if fs::read_to_string(&added).ok().as_ref() == Some(&wanted) {
            return Ok(());
        }
        let install = ["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--requirement"];
        output_of(python(&self.folder).args(install).arg(requirements))?;
        fs::write(&added, &wanted).map_err(|why| Failure::io("write", &added, &why))
    }

    pub(super) fn command(&self) -> Command {
        python(&self.folder)
    }

    /// pytest, in the folder of kazoo's source.
    pub(super) fn pytest(&self) -> Command {
        let mut command = python(&self.folder);
        command.current_dir(&self.source).args(["-m", "pytest"]);
        command
    }

    /// The names of kazoo's test files, long ones first, so that none of them runs alone at the end.
    pub(super) fn test_files(&self) -> Result<Vec<String>, Failure> {
        let folder = self.source.join("kazoo/tests");
        let entries = fs::read_dir(&folder).map_err(|why| Failure::io("read", &folder, &why))?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let is_test =
            |name: &String| name.starts_with("test_") && Path::new(name).extension() == Some(OsStr::new("py"));
        let mut names: Vec<String> = names.filter(is_test).collect();
        names.sort_by_key(|name| (!LONG.contains(&name.as_str()), name.clone()));
        Ok(names)
    }
}

fn make(folder: &Path, requirements: &Path, wanted: &str) -> Result<(), Failure> {
    println!("making a Python with kazoo in {}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|why| Failure::io("remove", folder, &why))?;
    }
    fs::create_dir_all(folder).map_err(|why| Failure::io("create", folder, &why))?;
    output_of(program("python3").args(["-m", "venv"]).arg(folder.join("venv")))?;
    let pip = ["-m", "pip", "--disable-pip-version-check"];
    output_of(python(folder).args(pip).args(["install", "--quiet", "--requirement"]).arg(requirements))?;
    // The tests are in the source package only.
    let kazoo = kazoo_of(wanted)?;
    let download = ["download", "--quiet", "--no-deps", "--no-binary", "kazoo", "--dest"];
    output_of(python(folder).args(pip).args(download).arg(folder).arg(kazoo))?;
    let package = folder.join(format!("{}.tar.gz", kazoo.replace("==", "-")));
    output_of(program("tar").arg("-xf").arg(package).arg("-C").arg(folder)).map(drop)
}

fn python(folder: &Path) -> Command {
    killed_with_parent(&folder.join("venv/bin/python").to_string_lossy())
}

/// The line `kazoo==VERSION`.
fn kazoo_of(requirements: &str) -> Result<&str, Failure> {
    let line = requirements.lines().find(|line| line.starts_with("kazoo=="));
    line.ok_or_else(|| Failure::Check("compat/kazoo/requirements.txt has no line `kazoo==VERSION`".to_owned()))
}

/// Files that take more than half a minute.
const LONG: &[&str] = &["test_client.py", "test_connection.py", "test_lock.py", "test_watchers.py"];
