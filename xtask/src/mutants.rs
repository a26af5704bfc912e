//! `cargo xtask mutants`: takes each protection away, one at a time, and asks who notices.
//!
//! In: `mutants/NN-name.patch`. Out: a table with the script or the seed that found each mutant; exit code 1 if one was
//! found by nothing or its patch no longer applies.
//! Why: a test that has never failed proves little. A protection whose loss nobody notices is not tested.
//! How: one worktree and one build folder for all mutants, so that each builds only what its patch touches. First the
//! unchanged code must pass, or every mutant would seem found.
//! Not here: switches in production code; a mutant is a patch and nothing else.

mod options;
mod patch;
mod verdict;
mod worktree;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::command::root;
use options::Options;
pub(crate) use patch::Mutant;
use verdict::Verdict;
use worktree::{Built, Worktree};

/// Runs the mutants that the arguments choose.
pub(crate) fn run(args: &[String]) -> Result<ExitCode, Failure> {
    let options = Options::parse(args)?;
    let mutants: Vec<Mutant> =
        Mutant::all(&root().join("mutants"))?.into_iter().filter(|mutant| options.chooses(mutant)).collect();
    if mutants.is_empty() {
        return Err(Failure::Check("no patch in mutants/ was chosen".to_owned()));
    }
    let mut tree = Worktree::prepare(options.dirty)?;
    unchanged_code_passes(&mut tree, &options)?;
    let mut rows = Vec::new();
    for mutant in &mutants {
        let start = Instant::now();
        let verdict = judge(&mut tree, mutant, &options)?;
        let row = Row { mutant, verdict, took: start.elapsed() };
        println!("{}", row.line());
        rows.push(row);
    }
    tree.reset()?;
    let found = rows.iter().filter(|row| row.verdict.is_found()).count();
    let lost = rows.len() - found;
    println!("\n{found} found, {lost} not found");
    Ok(ExitCode::from(u8::from(lost > 0)))
}

/// The test of the test: without any patch there must be nothing to find.
fn unchanged_code_passes(tree: &mut Worktree, options: &Options) -> Result<(), Failure> {
    println!("first the unchanged code: it has to pass");
    let start = Instant::now();
    tree.reset()?;
    let verdict = match tree.build()? {
        Err(tail) => return Err(Failure::Check(format!("the unchanged code does not build:\n{tail}"))),
        Ok(built) => hunt(tree, &built, options)?,
    };
    if verdict != Verdict::NotFound {
        return Err(Failure::Check(format!("the unchanged code fails by itself: {verdict}")));
    }
    println!("it passes, in {:.0} s\n\n{:<34} {:<40} {:>7}", start.elapsed().as_secs_f64(), "mutant", "found by", "s");
    Ok(())
}

fn judge(tree: &mut Worktree, mutant: &Mutant, options: &Options) -> Result<Verdict, Failure> {
    tree.reset()?;
    if let Err(why) = tree.apply(&mutant.path) {
        return Ok(Verdict::DoesNotApply(why));
    }
    match tree.build()? {
        Err(tail) => Ok(Verdict::DoesNotCompile(tail)),
        Ok(built) => hunt(tree, &built, options),
    }
}

/// The scripts, which take seconds; the seeds if the scripts noticed nothing, or if both were asked for.
fn hunt(tree: &Worktree, built: &Built, options: &Options) -> Result<Verdict, Failure> {
    let by_scripts = verdict::of_scripts(&tree.run_scripts(built, SCRIPTS_LIMIT)?);
    if by_scripts.is_found() && !options.both {
        return Ok(by_scripts);
    }
    let by_seeds = verdict::of_seeds(&tree.run_seeds(options.seeds, false, SEEDS_LIMIT)?)?;
    if by_seeds.is_found() {
        return Ok(by_scripts.and(by_seeds));
    }
    Ok(by_scripts.and(verdict::of_seeds(&tree.run_seeds(options.seeds, true, SEEDS_LIMIT)?)?))
}

/// One line of the table.
struct Row<'a> {
    mutant: &'a Mutant,
    verdict: Verdict,
    took: Duration,
}

impl Row<'_> {
    fn line(&self) -> String {
        let Self { mutant, verdict, took } = self;
        let head = format!(
            "{:<34} {:<40} {:>7.1}\n    {}",
            mutant.name,
            verdict.to_string(),
            took.as_secs_f64(),
            mutant.takes
        );
        match verdict.details() {
            "" => head,
            details => details.lines().fold(head, |text, line| format!("{text}\n    | {line}")),
        }
    }
}

/// All scripts take seconds; a mutant that makes one run for ever is noticed after this.
const SCRIPTS_LIMIT: Duration = Duration::from_secs(180);
/// 500 seeds take a minute or two on two cores; the rest is for slower machines.
const SEEDS_LIMIT: Duration = Duration::from_secs(1200);
