//! `pole lab paper`: the paper's evaluation, repeated in virtual time.

use std::fmt::Write as _;

use pole_lab::paper::{Options, Scale, Summary};

use super::progress::Bar;
use crate::args::PaperArgs;
use crate::failure::Failure;

/// Runs it, and says in a few lines what came of it.
pub(crate) fn run(args: &PaperArgs) -> Result<(), Failure> {
    let options = Options {
        scale: if args.full { Scale::full(args.seed) } else { Scale::quick(args.seed) },
        only: args.only.clone(),
        out: args.out.clone(),
        resume: args.full,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        repeated_by: format!("{} --seed {}", if args.full { " --full" } else { "" }, args.seed),
    };
    let mut bar = Bar::new();
    let summary = pole_lab::paper::run(&options, &mut |sentence| eprintln!("{sentence}"), &mut |progress| {
        bar.shows(progress.done, progress.total, progress.what);
    });
    let summary = summary.map_err(|error| Failure::bad_input(error.to_string()))?;
    crate::print(&told(&summary))?;
    if summary.holds() {
        Ok(())
    } else {
        Err(Failure::failed("the evaluation does not agree: see above and the report"))
    }
}

/// The summary in words.
fn told(summary: &Summary) -> String {
    let mut text = String::new();
    if summary.cells > 0 {
        let ties = match summary.ties {
            0 => String::new(),
            ties => format!(" ({ties} of them ties that fluctuation decided)"),
        };
        let _ = writeln!(text, "Winners agree in {} of {} cells{ties}.", summary.agree, summary.cells);
    }
    for other in &summary.others {
        let _ = writeln!(text, "  {other}");
    }
    let worst = [("the formulas", &summary.from_formula), ("the paper's figures", &summary.from_paper)];
    for (what, worst) in worst {
        if let Some((percent, place)) = worst {
            let _ = writeln!(text, "Largest deviation from {what}: {percent:+.1} % ({place}).");
        }
    }
    let _ = writeln!(text, "One constant for disk and processing in all runs: {:.2} ms (an fsync).", summary.disk_ms);
    if summary.recoveries.0 > 0 {
        let (all, near) = summary.recoveries;
        let _ = writeln!(text, "Leaders by `recovery` within 5 % or 2 ms of the fastest to recover: {near} of {all}.");
    }
    for (key, why) in &summary.failed {
        let _ = writeln!(text, "The run \"{key}\" failed: {why}");
    }
    let _ = writeln!(text, "The report: {}", summary.report.display());
    text
}
