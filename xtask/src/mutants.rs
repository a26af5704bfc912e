//! `cargo xtask mutants`: removes each protection, one at a time, and checks that a test fails.
//!
//! A mutant is a patch `mutants/NN-name.patch` and nothing else; there are no switches in production code. The output
//! is a table with the script, the test of the patched crate, or the seed that found each mutant. The exit code is 1
//! if a mutant was not found or its patch no longer applies. A protection whose loss is not noticed is not tested.
//!
//! All mutants share one worktree and one build folder, so that each builds only what its patch touches. The
//! unchanged code must pass whatever a mutant is judged by ([`Baseline`]); otherwise every mutant would seem to be
//! found.

mod options;
mod patch;
mod verdict;
mod worktree;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::command::root;
use options::Options;
pub(crate) use patch::Mutant;
use verdict::Verdict;
use worktree::Worktree;

/// Runs the mutants that the arguments select.
pub(crate) fn run(args: &[String]) -> Result<ExitCode, Failure> {
    let options = Options::parse(args)?;
    let mutants: Vec<Mutant> =
        Mutant::all(&root().join("mutants"))?.into_iter().filter(|mutant| options.selects(mutant)).collect();
    if mutants.is_empty() {
        return Err(Failure::Check("no patch in mutants/ was chosen".to_owned()));
    }
    let mut tree = Worktree::prepare(options.dirty)?;
    println!("first the unchanged code: it has to pass");
    let start = Instant::now();
    let mut baseline = Baseline::default();
    let crates: BTreeSet<String> = mutants.iter().flat_map(|mutant| mutant.crates.iter().cloned()).collect();
    if any_simulated(&tree, &crates)? {
        baseline.require(&mut tree, &Check::Scripts, &options)?;
    } else if let Some(name) = crates.first() {
        baseline.require(&mut tree, &Check::Tests(name.clone()), &options)?;
    }
    println!("it passes, in {:.0} s\n\n{:<34} {:<40} {:>7}", start.elapsed().as_secs_f64(), "mutant", "found by", "s");
    let mut rows = Vec::new();
    for mutant in &mutants {
        let start = Instant::now();
        let verdict = evaluate(&mut tree, mutant, &mut baseline, &options)?;
        let row = Row { mutant, verdict, took: start.elapsed() };
        println!("{}", row.line());
        rows.push(row);
    }
    tree.reset()?;
    let found = rows.iter().filter(|row| row.verdict.is_found()).count();
    let not_found = rows.len() - found;
    println!("\n{found} found, {not_found} not found");
    Ok(ExitCode::from(u8::from(not_found > 0)))
}

/// What a mutant can be found by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Check {
    /// The scripts of the simulator.
    Scripts,
    /// The tests of a crate.
    Tests(String),
    /// Seeds of the simulator.
    Seeds,
}

impl Check {
    /// Builds what is needed and runs it on the code in the worktree.
    fn run(&self, tree: &mut Worktree, options: &Options) -> Result<Verdict, Failure> {
        match self {
            Self::Scripts => by_scripts(tree),
            Self::Tests(name) => by_tests(tree, name),
            Self::Seeds => by_seeds(tree, options),
        }
    }
}

/// The checks that the unchanged code has passed. Each is run when it is first needed: most mutants are found by scripts.
#[derive(Default)]
struct Baseline {
    passed: BTreeSet<Check>,
}

impl Baseline {
    /// Makes sure that the unchanged code passes. May leave it in the worktree; returns whether it did.
    fn require(&mut self, tree: &mut Worktree, check: &Check, options: &Options) -> Result<bool, Failure> {
        if self.passed.contains(check) {
            return Ok(false);
        }
        tree.reset()?;
        let verdict = check.run(tree, options)?;
        if verdict != Verdict::NotFound {
            let why = format!("the unchanged code fails by itself: {verdict}\n{}", verdict.details());
            return Err(Failure::Check(why));
        }
        Ok(self.passed.insert(check.clone()))
    }
}

/// Runs the checks that can find a mutant, cheap ones first. Stops at the first that finds it, unless all were
/// requested. Scripts and seeds cannot find a change of a crate that the simulator does not use.
fn evaluate(
    tree: &mut Worktree,
    mutant: &Mutant,
    baseline: &mut Baseline,
    options: &Options,
) -> Result<Verdict, Failure> {
    let is_simulated = any_simulated(tree, &mutant.crates)?;
    let tests = mutant.crates.iter().map(|name| Check::Tests(name.clone()));
    let checks = [Check::Scripts].into_iter().chain(tests).chain([Check::Seeds]);
    let mut verdict = Verdict::NotFound;
    let mut is_applied = false;
    for check in checks.filter(|check| is_simulated || matches!(check, Check::Tests(_))) {
        let goes_on = verdict == Verdict::NotFound || (options.both && verdict.is_found());
        if !goes_on {
            break;
        }
        is_applied &= !baseline.require(tree, &check, options)?;
        if !is_applied {
            tree.reset()?;
            if let Err(why) = tree.apply(&mutant.path) {
                return Ok(Verdict::DoesNotApply(why));
            }
            is_applied = true;
        }
        verdict = verdict.and(check.run(tree, options)?);
    }
    Ok(verdict)
}

/// Whether the simulator uses one of these crates.
fn any_simulated<'a>(tree: &Worktree, crates: impl IntoIterator<Item = &'a String>) -> Result<bool, Failure> {
    for name in crates {
        if tree.is_simulated(name)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn by_scripts(tree: &Worktree) -> Result<Verdict, Failure> {
    match tree.build_scripts()? {
        Err(tail) => Ok(Verdict::DoesNotCompile(tail)),
        Ok(program) => Ok(verdict::of_scripts(&tree.run_scripts(&program, SCRIPTS_LIMIT)?)),
    }
}

/// Runs all test programs of a crate. One that does not build is not a find: the patch must be updated.
fn by_tests(tree: &Worktree, name: &str) -> Result<Verdict, Failure> {
    let programs = match tree.build_tests(name)? {
        Ok(programs) => programs,
        Err(tail) => return Ok(Verdict::DoesNotCompile(tail)),
    };
    programs.iter().try_fold(Verdict::NotFound, |verdict, program| {
        Ok(verdict.and(verdict::of_crate(&tree.run_tests(name, program, TESTS_LIMIT)?, name)))
    })
}

/// Runs the seeds with the small state machine, then with the tree.
fn by_seeds(tree: &Worktree, options: &Options) -> Result<Verdict, Failure> {
    if let Err(tail) = tree.build_simulator()? {
        return Ok(Verdict::DoesNotCompile(tail));
    }
    let small = verdict::of_seeds(&tree.run_seeds(options.seeds, false, SEEDS_LIMIT)?)?;
    if small.is_found() {
        return Ok(small);
    }
    verdict::of_seeds(&tree.run_seeds(options.seeds, true, SEEDS_LIMIT)?)
}

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
            mutant.description
        );
        match verdict.details() {
            "" => head,
            details => details.lines().fold(head, |text, line| format!("{text}\n    | {line}")),
        }
    }
}

/// All scripts take seconds. A mutant that makes one run for ever is found after this.
const SCRIPTS_LIMIT: Duration = Duration::from_secs(180);
/// One test program takes seconds to a minute.
const TESTS_LIMIT: Duration = Duration::from_secs(300);
/// 500 seeds take a minute or two on two cores; the rest is for slower machines.
const SEEDS_LIMIT: Duration = Duration::from_secs(1200);
