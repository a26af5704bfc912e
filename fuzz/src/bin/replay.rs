//! Replays inputs without coverage: all of the corpus, or the files named as arguments.
//!
//! The folder of a file must have the name of its target. Prints a line per target; a panic names the file. The
//! argument `list` prints the names of the targets, for `cargo xtask fuzz`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

use pole_fuzz::{TARGETS, Target};

fn main() -> ExitCode {
    let args: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    if args == [Path::new("list")] {
        TARGETS.iter().for_each(|target| println!("{}", target.name));
        return ExitCode::SUCCESS;
    }
    let done = if args.is_empty() { replay_corpus() } else { args.iter().try_for_each(|file| replay_file(file)) };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("replay: {why}");
            ExitCode::from(2)
        }
    }
}

/// Replays the whole corpus. A folder without a target, or a target without inputs, is an error, because it would be
/// ignored.
fn replay_corpus() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for folder in sorted(&corpus)? {
        target_of(&folder)?;
    }
    for target in TARGETS {
        let files = sorted(&corpus.join(target.name))?;
        if files.is_empty() {
            return Err(io::Error::other(format!("no inputs for `{}`", target.name)));
        }
        files.iter().try_for_each(|file| run(*target, file))?;
        println!("{:<14} {:>4} inputs", target.name, files.len());
    }
    Ok(())
}

fn replay_file(file: &Path) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new(""));
    run(target_of(folder)?, file)?;
    println!("{}: no finding", file.display());
    Ok(())
}

/// The target that a folder is named after.
fn target_of(folder: &Path) -> io::Result<Target> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let none = || io::Error::other(format!("{}: its folder must have the name of a target", folder.display()));
    pole_fuzz::target(&name).ok_or_else(none)
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
