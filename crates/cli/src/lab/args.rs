//! The commands and options of `pole lab`.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use pole_lab::paper::Figure;

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Repeat the evaluation of the paper that Pole is based on, and write a report
    ///
    /// Runs the experiments of figures 4b, 6, 7a, 7b, 7c, 8a and 8b under every oracle, and two of our own, on the
    /// production code. Writes report.html, its figures as SVG and its tables as CSV. The exit code is 1 if a winner
    /// is not the predicted one, or a latency deviates by more than a tenth.
    Paper(PaperArgs),
    /// Compare all election algorithms: messages, delays, time to a leader, failures, quality
    ///
    /// Prints a table and writes compare.csv, compare.html and its figures. The exit code is 1 if a count differs
    /// from its formula.
    Compare(CompareArgs),
    /// Watch an election step by step: which messages are sent, and what each server knows
    ///
    /// Step forwards and backwards with keys; the last line of the screen lists them. Without a terminal, or with
    /// --json, every step is printed with the servers whose state it changed.
    Watch(WatchArgs),
    /// An ensemble in the simulator elects, loses its leader, and explains why the next one won
    #[command(hide = true)]
    Story {
        /// The seed of all random choices: the same seed gives the same output
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
    },
}

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// A file with a script; or the name or the number of one that is built in, such as 04; or a classical algorithm after the
    /// crash of its leader, such as ring or bully
    #[arg(value_name = "SCRIPT")]
    pub(crate) script: String,
    /// Also show periodic messages: heartbeats, pings and their timers
    #[arg(long)]
    pub(crate) all: bool,
    /// Write the message diagram as a page into this folder instead
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// How many processes: from 3 to 64
    #[arg(long, value_name = "LOW..HIGH", default_value = "3..32", value_parser = processes)]
    pub(crate) n: RangeInclusive<usize>,
    /// The seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Where to write
    #[arg(long, value_name = "DIR", default_value = LAB_DIR_DEFAULT)]
    pub(crate) out: PathBuf,
}

/// The default output directory of the lab.
const LAB_DIR_DEFAULT: &str = "pole-lab";

/// Parses `3..32`, with both ends included, or a single number.
fn processes(text: &str) -> Result<RangeInclusive<usize>, String> {
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    let parsed = low.parse().ok().zip(high.trim_start_matches('=').parse().ok());
    match parsed {
        Some((low, high)) if (3..=high).contains(&low) && high <= 64 => Ok(low..=high),
        Some(_) | None => Err("expected LOW..HIGH with 3 <= LOW <= HIGH <= 64, as in 3..32".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct PaperArgs {
    /// The paper's scale: 1000 requests a second, a minute before and after the crash, five seeds. Takes an hour on
    /// two cores; after an interruption, the next call continues
    #[arg(long)]
    pub(crate) full: bool,
    /// Some figures only: 4b, 6, 7a, 7b, 7c, 8a, 8b, open, regret, wander
    #[arg(long, value_name = "FIGURE[,FIGURE]", value_delimiter = ',', value_parser = figure)]
    pub(crate) only: Vec<Figure>,
    /// Also on real servers: processes on this machine with emulated links between them, whose leader is killed
    ///
    /// Without --only, deployments 1 and 3 with the loads of the paper's table, which takes about four minutes; with
    /// it, some of 4b, 6, 7a, 7b. Servers keep their data in the temporary directory (TMPDIR), whose disk is the one
    /// that is measured. The exit code is 1 also if a latency on real servers deviates by more than 15 %.
    #[arg(long, conflicts_with = "full")]
    pub(crate) real: bool,
    /// With --real, one run only, by deployment, load and oracle: "d1 p=even latency"
    #[arg(long, value_name = "NAME", requires = "real", conflicts_with = "only")]
    pub(crate) case: Option<String>,
    /// With --real: followers count acknowledgements themselves where that pays (pole.directAcks=auto)
    #[arg(long, requires = "real")]
    pub(crate) direct: bool,
    /// The seed of all random choices in the simulator: the same seed gives the same files
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Where to put the report
    #[arg(long, value_name = "DIR", default_value = LAB_DIR_DEFAULT)]
    pub(crate) out: PathBuf,
}

fn figure(name: &str) -> Result<Figure, String> {
    let known = || Figure::ALL.map(Figure::name).join(", ");
    Figure::parse(name).ok_or_else(|| format!("expected one of {}", known()))
}

#[cfg(test)]
mod tests {
    use super::processes;

    #[test]
    fn a_range_of_processes_has_two_ends_within_bounds() {
        assert_eq!(processes("3..32"), Ok(3..=32));
        assert_eq!(processes("5"), Ok(5..=5));
        for wrong in ["", "2..5", "9..4", "3..65", "a..b", "3-5"] {
            assert!(processes(wrong).is_err(), "{wrong}");
        }
    }
}
