//! Embeds all files of `scripts/` into the program as one list.

use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=scripts");
    let place = |name: &str| env::var_os(name).map(PathBuf::from).ok_or(io::ErrorKind::NotFound);
    let folder = place("CARGO_MANIFEST_DIR")?.join("scripts");
    let entries = fs::read_dir(&folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    paths.sort();
    let line = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        format!("    ({name:?}, include_str!({path:?})),\n")
    };
    let lines: String = paths.iter().map(line).collect();
    fs::write(place("OUT_DIR")?.join("scripts.rs"), format!("&[\n{lines}]\n"))
}
