//! `pole lab compare`: compares all election algorithms.
//!
//! Prints a table, and writes `compare.csv`, `compare.html` and its figures. The exit code is 1 if a count differs
//! from its formula or a theoretical prediction does not hold.

use std::fs;
use std::io;
use std::path::Path;

use pole_lab::classical::Comparison;
use pole_progress::Bar;

use super::args::CompareArgs;
use crate::failure::{Failure, Kind};

pub(crate) fn run(args: &CompareArgs) -> Result<(), Failure> {
    // Created before the work, so that an unusable directory is reported at once.
    fs::create_dir_all(&args.out).map_err(|error| unwritable(&args.out, &error))?;
    let bar = Bar::new("steps");
    let comparison = Comparison::run(args.n.clone(), args.seed, &mut |what, done, all| {
        bar.update(done, all, what);
    });
    crate::print(&comparison.table())?;
    let figures = comparison.figures().into_iter().map(|(name, svg)| (name.to_owned(), svg));
    let pages = [("compare.csv".to_owned(), comparison.csv()), ("compare.html".to_owned(), comparison.page())];
    for (name, text) in pages.into_iter().chain(figures) {
        let path = args.out.join(name);
        fs::write(&path, text).map_err(|error| unwritable(&path, &error))?;
    }
    crate::print(&format!("\nWritten: {}\n", args.out.join("compare.html").display()))?;
    match comparison.mismatches().as_slice() {
        [] => Ok(()),
        complaints => Err(Failure::failed(format!("counts or predictions differ:\n  {}", complaints.join("\n  ")))),
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let path = path.display();
    Failure::new(Kind::BadInput, format!("cannot write {path}: {error}; name another folder with --out"))
}
