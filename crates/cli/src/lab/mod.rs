//! The `pole lab` commands: experiments in the simulator, and their reports.
//!
//! A build without the feature `lab` contains neither these commands nor the crates behind them.

mod args;
mod compare;
mod paper;
mod real;
mod watch;

use std::io::{self, Write as _};

pub(crate) use args::LabCommand;

use crate::failure::Failure;
use crate::paint::Paint;

pub(crate) fn run(command: &LabCommand, json: bool, paint: Paint) -> Result<(), Failure> {
    match command {
        LabCommand::Paper(args) => paper::run(args),
        LabCommand::Compare(args) => compare::run(args),
        LabCommand::Watch(args) => watch::run(args, json, paint),
        LabCommand::Story { seed } => story(*seed),
    }
}

fn story(seed: u64) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    crate::ignore_broken_pipe(pole_lab::story::write(seed, &mut out).and_then(|()| out.flush()))
}
