//! Packages of applications: Python environments, jars, unpacked Debian packages, all under `target/compat/apps`.
//!
//! What is there is used again, unless the file that lists the packages has changed.

use std::fs;
use std::path::{Path, PathBuf};

use super::ours;
use crate::Failure;
use crate::command::{install, is_installed, output_of, program};
use crate::compat::work_dir;

/// The folder of an application for packages and logs.
pub(super) fn folder(name: &str) -> PathBuf {
    work_dir().join("apps").join(name)
}

/// The Python of an application.
pub(super) fn python(name: &str) -> PathBuf {
    folder(name).join("python/bin/python")
}

/// Creates the Python environment of an application with the packages of its `requirements.txt`.
pub(super) fn environment(name: &str) -> Result<(), Failure> {
    made_from(name, "python", "requirements.txt", |folder, list| {
        // That of the system first: PostgreSQL refuses root, and another user cannot run a Python in the home of root.
        let interpreter = if Path::new(SYSTEM_PYTHON).is_file() { SYSTEM_PYTHON } else { "python3" };
        output_of(program(interpreter).args(["-m", "venv"]).arg(folder))?;
        let mut pip = program(&python(name).to_string_lossy());
        pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--requirement"]);
        output_of(pip.arg(list)).map(drop)
    })
}

/// Makes sure that there is a Java.
pub(super) fn java() -> Result<(), Failure> {
    if is_installed("java") { Ok(()) } else { install(&["default-jre-headless"]) }
}

/// The jars that the `pom.xml` of an application lists, with what they depend on.
pub(super) fn jars(name: &str) -> Result<(), Failure> {
    if !is_installed("mvn") {
        install(&["maven"])?;
    }
    made_from(name, "jars", "pom.xml", |folder, list| {
        let mut maven = program("mvn");
        maven.args(["-B", "-q", "dependency:copy-dependencies", "-DincludeScope=runtime", "-f"]).arg(list);
        output_of(maven.arg(format!("-DoutputDirectory={}", folder.display()))).map(drop)
    })
}

/// The source package, from the Python package index, that an application's `source.txt` names. It has the tests.
pub(super) fn source(name: &str) -> Result<(), Failure> {
    made_from(name, "source", "source.txt", |folder, list| {
        let package = fs::read_to_string(list).map_err(|why| Failure::io("read", list, &why))?;
        let package = package.trim();
        // What is needed to unpack it may be binary.
        let only = package.split("==").next().unwrap_or(package);
        let mut pip = program(&python(name).to_string_lossy());
        pip.args(["-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps", "--no-binary", only]);
        output_of(pip.arg("--dest").arg(folder).arg(package))?;
        // The only file.
        let mut entries = fs::read_dir(folder).map_err(|why| Failure::io("read", folder, &why))?.flatten();
        let archive = entries.next().ok_or_else(|| Failure::Check(format!("{package} has no source package")))?.path();
        output_of(program("tar").args(["--strip-components=1", "-xf"]).arg(&archive).arg("-C").arg(folder))?;
        fs::remove_file(&archive).map_err(|why| Failure::io("remove", &archive, &why))
    })
}

/// The Debian packages that an application's `debian.txt` lists, unpacked and not installed, so that no service starts.
pub(super) fn debian(name: &str) -> Result<(), Failure> {
    if !is_installed("apt-get") {
        return Err(Failure::Check("there is no apt-get".to_owned()));
    }
    made_from(name, "debian", "debian.txt", |folder, list| {
        let packages = fs::read_to_string(list).map_err(|why| Failure::io("read", list, &why))?;
        output_of(program("apt-get").current_dir(folder).arg("download").args(packages.split_whitespace()))?;
        for entry in fs::read_dir(folder).map_err(|why| Failure::io("read", folder, &why))?.flatten() {
            output_of(program("dpkg").arg("-x").arg(entry.path()).arg(folder.join("root")))?;
        }
        Ok(())
    })
}

/// Empties a folder, or creates it.
pub(super) fn empty(folder: &Path) -> Result<(), Failure> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|why| Failure::io("remove", folder, &why))?;
    }
    fs::create_dir_all(folder).map_err(|why| Failure::io("create", folder, &why))
}

/// Makes a folder of an application from a file that lists packages, unless it was made from the same list.
fn made_from(
    name: &str,
    what: &str,
    list: &str,
    make: impl Fn(&Path, &Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let list = ours(name).join(list);
    let wanted = fs::read_to_string(&list).map_err(|why| Failure::io("read", &list, &why))?;
    let made = folder(name).join(what);
    let record = folder(name).join(format!("{what}-made-from"));
    if fs::read_to_string(&record).ok().as_ref() == Some(&wanted) {
        return Ok(());
    }
    println!("downloading the packages of {name} to {}", made.display());
    empty(&made)?;
    make(&made, &list)?;
    // Written last, so that an incomplete folder is made again.
    fs::write(&record, &wanted).map_err(|why| Failure::io("write", &record, &why))
}

const SYSTEM_PYTHON: &str = "/usr/bin/python3";
