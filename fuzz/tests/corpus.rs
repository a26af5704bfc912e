//! Runs every committed input once, with a test for each target.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use pole_fuzz::TARGETS;
use pole_fuzz::corpus::{check_folders, replay};

fn main() -> ExitCode {
    let folders = Trial::test("folders", || check_folders().map_err(Failed::from));
    let targets =
        TARGETS.iter().map(|target| Trial::test(target.name, || replay(*target).map(drop).map_err(Failed::from)));
    libtest_mimic::run(&Arguments::from_args(), std::iter::once(folders).chain(targets).collect()).exit_code()
}
