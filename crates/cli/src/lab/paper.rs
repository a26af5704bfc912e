//! `pole lab paper`: repeats the paper's evaluation in virtual time; with `--real` on real servers as well.

use std::fmt::Write as _;

use pole_lab::paper::{Options, RealPlan, RealSummary, Scale, Summary};
use pole_progress::Bar;

use super::args::PaperArgs;
use super::real;
use crate::failure::Failure;

/// Runs the evaluation and prints a short summary.
pub(crate) fn run(args: &PaperArgs) -> Result<(), Failure> {
    let mut options = Options {
        scale: if args.full { Scale::full(args.seed) } else { Scale::quick(args.seed) },
        only: args.only.clone(),
        out: args.out.clone(),
        resume: args.full,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        repeated_by: format!("{} --seed {}", if args.full { " --full" } else { "" }, args.seed),
        case: None,
        real: None,
    };
    if args.real {
        on_real_servers(args, &mut options)?;
    }
    let bar = Bar::new("runs");
    let summary =
        pole_lab::paper::run(&options, &mut |sentence| bar.suspend(|| eprintln!("{sentence}")), &mut |progress| {
            bar.update(progress.done, progress.total, progress.what);
        });
    let summary = summary.map_err(|error| Failure::bad_input(error.to_string()))?;
    crate::print(&summary_text(&summary))?;
    if summary.holds() && summary.real.as_ref().is_none_or(RealSummary::holds) {
        Ok(())
    } else {
        Err(Failure::failed("the evaluation does not agree: see above and the report"))
    }
}

/// Runs the experiments on real servers, and limits the simulation to the same figures.
fn on_real_servers(args: &PaperArgs, options: &mut Options) -> Result<(), Failure> {
    // Created before the work, so that an unusable directory is reported at once.
    std::fs::create_dir_all(&args.out).map_err(|error| {
        Failure::bad_input(format!("{}: {error}; give another folder by --out", args.out.display()))
    })?;
    let scale = Scale::real(args.seed);
    let plan = match &args.case {
        Some(name) => RealPlan::one(name, scale),
        None => RealPlan::new(&args.only, scale),
    };
    let plan = plan.map_err(Failure::bad_input)?.direct(args.direct);
    (options.only, options.case) = (plan.figures(), plan.single());
    options.real = Some(real::run(plan)?);
    Ok(())
}

fn summary_text(summary: &Summary) -> String {
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
    if summary.direct.0 > 0 {
        let (all, agree) = summary.direct;
        let _ = writeln!(text, "With direct acknowledgements: winners agree in {agree} of {all} cells.");
    }
    if let Some((percent, place)) = &summary.from_direct {
        let _ = writeln!(text, "  Largest deviation from the formulas: {percent:+.1} % ({place}).");
    }
    let _ = writeln!(text, "One constant for disk and processing in all runs: {:.2} ms (an fsync).", summary.disk_ms);
    if summary.recoveries.0 > 0 {
        let (all, near) = summary.recoveries;
        let _ = writeln!(text, "Leaders by `recovery` within 5 % or 2 ms of the fastest to recover: {near} of {all}.");
    }
    if let Some(answered) = summary.answered {
        let share = |(within, of): (usize, usize)| 100.0 * within as f64 / of.max(1) as f64;
        let _ = writeln!(
            text,
            "The open question: `recovery` is within 5 % of the fastest in {:.1} % of {} cases, in {:.1} % of the {} not decided by less.",
            share(answered.all),
            answered.all.1,
            share(answered.decided),
            answered.decided.1
        );
    }
    for (key, why) in &summary.failed {
        let _ = writeln!(text, "The run \"{key}\" failed: {why}");
    }
    if let Some(real) = &summary.real {
        text += &summary_of_real(real);
    }
    let _ = writeln!(text, "The report: {}", summary.report.display());
    text
}

/// The part of the summary about real servers.
fn summary_of_real(real: &RealSummary) -> String {
    let ties = match real.ties {
        0 => String::new(),
        ties => format!(" ({ties} of them ties that fluctuation decided)"),
    };
    let mut text = format!("On real servers: winners agree in {} of {} runs{ties}.\n", real.agree, real.cells);
    for other in &real.others {
        let _ = writeln!(text, "  {other}");
    }
    let worst = [("the formulas", &real.from_formula), ("the paper's figures", &real.from_paper)];
    for (what, worst) in worst {
        if let Some((percent, place)) = worst {
            let _ = writeln!(text, "  Largest deviation from {what}: {percent:+.1} % ({place}).");
        }
    }
    if let Some((first, place)) = &real.first_write {
        let _ = writeln!(
            text,
            "  First write after a crash: at most {:.1} round trips of the quorum, {:.0} ms ({place}); longest write there {:.0} ms, {:.1} \
             round trips of its client.",
            first.round_trips, first.ms, first.longest_ms, first.longest_round_trips
        );
    }
    let _ = writeln!(
        text,
        "  One constant for disk and processing of this machine: {:.2} ms, of which an fsync, as servers measure it, is {:.2}.",
        real.constant_ms, real.disk_ms
    );
    for (name, why) in &real.failed {
        let _ = writeln!(text, "  The run \"{name}\" failed: {why}");
    }
    text
}
