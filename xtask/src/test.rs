//! `cargo xtask test`: everything that CI checks.
//!
//! Prints a line for each step when it ends, the last output of a failed step with the command that repeats it, the
//! longest steps, and as last line `N passed, M failed`. Every step runs even after a failure, so that one run of CI
//! reports everything.
//!
//! There are two lanes, which run side by side: what builds without optimisation, and what builds in release mode. A build
//! ends with one large crate and a test often waits, so one lane alone leaves a processor idle; and two builds of the
//! same profile would wait for each other's lock. The steps of a lane run one after another.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Failure;
use crate::command::{Finished, logged, program, root, target_dir};
use crate::tools;

/// The steps of CI, in each lane cheap ones first. A new step is one line here.
///
/// `{fresh}` in a command is replaced by a seed that no earlier run used (see [`fresh_seed`]). The seed is part of
/// the printed command, so a failure can be repeated.
///
/// Most of the time is spent on building. Steps that build the same packages with the same features share the result:
/// a package that is tested alone gets other features of its dependencies than in the workspace.
const STEPS: &[Step] = &[
    Step::new("format", "cargo fmt --all --check"),
    Step::new("tidy", "cargo test --quiet --workspace --bin xtask").with_note(Note::Tests),
    Step::new("spelling", "typos").if_installed("typos"),
    Step::new("unused-dependencies", "cargo machete").if_installed("cargo-machete"),
    Step::new("licences", "cargo deny check bans licenses sources")
        .if_installed("cargo-deny")
        .with_note(Note::LastLine),
    Step::new("book", "cargo xtask book").if_installed("mdbook").with_note(Note::LastLine),
    Step::new("lints", "cargo clippy --workspace --all-targets -- -D warnings"),
    Step::new("tests", "cargo test --workspace --exclude xtask --no-fail-fast").with_note(Note::Tests),
    Step::new("docs", "cargo doc --workspace --no-deps --document-private-items").env("RUSTDOCFLAGS", "-D warnings"),
    Step::new("embedding", "cargo run --package pole-election --example embed"),
    Step::new("own-oracle", "cargo run --package pole-oracle --example own_oracle"),
    Step::new("mutants", "cargo xtask mutants --quick --seeds 50").with_note(Note::LastLine),
    Step::new("first-command", "cargo run --release -- up --until-ready").release(),
    Step::new("third-party-clients", "cargo xtask compat --part ci").release().with_note(Note::LastLine),
    Step::new("attacks", "cargo xtask attack --quick").release().with_note(Note::LastLine),
    Step::new("soak", "cargo xtask soak --seconds 60").release().with_note(Note::LastLine),
    Step::new("seeds-fixed", "cargo xtask sim --first 1 --seeds 100").release().with_note(Note::LastLine),
    Step::new("seeds-tree", "cargo xtask sim --tree --first 1 --seeds 60").release().with_note(Note::LastLine),
    Step::new("seeds-fresh", "cargo xtask sim --tree --first {fresh} --seeds 120").release().with_note(Note::LastLine),
    Step::new("failover", "cargo xtask failover").release(),
    Step::new("model", "cargo xtask model --minutes 1").release().with_note(Note::LastLine),
];

/// Runs all steps, or the named ones.
pub(crate) fn run(names: &[String]) -> Result<ExitCode, Failure> {
    let steps = selected(names)?;
    let fresh = fresh_seed();
    let (release, debug): (Vec<&Step>, Vec<&Step>) = steps.into_iter().partition(|step| step.release);
    let began = Instant::now();
    let reports = std::thread::scope(|scope| {
        let beside = scope.spawn(|| run_lane(&release, fresh));
        let mut reports = run_lane(&debug, fresh)?;
        let others = beside.join().map_err(|_| Failure::Check("the thread of a lane panicked".into()))?;
        reports.extend(others?);
        Ok::<_, Failure>(reports)
    })?;
    print!("{}", summary(&reports, began.elapsed()));
    let failed = reports.iter().any(|report| matches!(report.outcome, Outcome::Failed { .. }));
    Ok(ExitCode::from(u8::from(failed)))
}

/// Runs steps one after another, and prints each when it ends.
fn run_lane(steps: &[&Step], fresh: u64) -> Result<Vec<Report>, Failure> {
    let run = |step: &&Step| {
        let report = step.run(fresh)?;
        println!("{:<20} {}", report.name, report.text());
        Ok(report)
    };
    steps.iter().map(run).collect()
}

fn selected(names: &[String]) -> Result<Vec<&'static Step>, Failure> {
    if names.is_empty() {
        return Ok(STEPS.iter().collect());
    }
    let find = |name: &String| {
        STEPS.iter().find(|step| step.name == name).ok_or_else(|| {
            let known: Vec<_> = STEPS.iter().map(|step| step.name).collect();
            Failure::Usage(format!("there is no step called `{name}`; there are: {}", known.join(", ")))
        })
    };
    names.iter().map(find).collect()
}

#[derive(Clone, Copy)]
struct Step {
    name: &'static str,
    /// Words separated by spaces, to be run in the repository root.
    command: &'static str,
    env: Option<(&'static str, &'static str)>,
    /// A program without which the step is skipped and reported as such.
    tool: Option<&'static str>,
    note: Note,
    /// Whether it runs in the lane of release builds.
    release: bool,
}

/// The information that a passed step prints besides its time.
#[derive(Clone, Copy)]
enum Note {
    Nothing,
    /// The number of tests.
    Tests,
    /// The last line of the output, where `cargo deny` and the programs of the lab print a summary.
    LastLine,
}

impl Step {
    const fn new(name: &'static str, command: &'static str) -> Self {
        Self { name, command, env: None, tool: None, note: Note::Nothing, release: false }
    }

    const fn release(mut self) -> Self {
        self.release = true;
        self
    }

    const fn env(mut self, key: &'static str, value: &'static str) -> Self {
        self.env = Some((key, value));
        self
    }

    const fn if_installed(mut self, tool: &'static str) -> Self {
        self.tool = Some(tool);
        self
    }

    const fn with_note(mut self, note: Note) -> Self {
        self.note = note;
        self
    }

    fn run(&self, fresh: u64) -> Result<Report, Failure> {
        let command_line = self.command.replace("{fresh}", &fresh.to_string());
        let log = target_dir().join("xtask").join(format!("{}.log", self.name));
        let shown = match self.env {
            Some((key, value)) => format!("{key}='{value}' {command_line}"),
            None => command_line.clone(),
        };
        let (outcome, took) = match self.tool {
            Some(tool) if tools::find(tool).is_none() => (Outcome::Skipped { tool }, Duration::ZERO),
            _ => {
                let mut command = match command_line.strip_prefix("cargo xtask ") {
                    Some(rest) => this_program(rest),
                    None => words(&command_line),
                };
                command.envs(self.env).env("PATH", tools::search_path());
                let finished = logged(&mut command, &log, Some(STEP_MAX))?;
                (self.outcome(&finished), finished.took)
            }
        };
        let log = log.strip_prefix(root()).map_or_else(|_| log.clone(), PathBuf::from);
        Ok(Report { name: self.name, command: shown, log, outcome, took })
    }

    fn outcome(&self, finished: &Finished) -> Outcome {
        if !finished.passed() {
            let mut tail = excerpt(&finished.output);
            if finished.status.is_none() {
                tail += &format!("\n  ended after {} s, the longest that a step may take", STEP_MAX.as_secs());
            }
            return Outcome::Failed { tail };
        }
        let note = match self.note {
            Note::Nothing => String::new(),
            Note::Tests => format!("{} tests", tests_passed(&finished.output)),
            Note::LastLine => last_line(&finished.output).to_owned(),
        };
        Outcome::Passed { note }
    }
}

/// A command of words separated by spaces.
fn words(line: &str) -> Command {
    let mut words = line.split(' ');
    let mut command = program(words.next().expect("a command has a first word"));
    command.args(words);
    command
}

/// `cargo xtask` without cargo, which would wait for the lock of the lane that builds without optimisation.
fn this_program(args: &str) -> Command {
    let path = std::env::current_exe().expect("the path of a running program is known");
    let mut command = program(path.to_str().expect("the build directory has a path in UTF-8"));
    command.args(args.split(' ')).env("CARGO_MANIFEST_DIR", root().join("xtask"));
    command
}

/// The result of one step.
struct Report {
    name: &'static str,
    /// The full command line, with the fresh seed.
    command: String,
    log: PathBuf,
    outcome: Outcome,
    took: Duration,
}

enum Outcome {
    Passed { note: String },
    Failed { tail: String },
    Skipped { tool: &'static str },
}

impl Report {
    /// The line of the step, and after a failure its last output and how to repeat it.
    fn text(&self) -> String {
        match &self.outcome {
            Outcome::Failed { tail } => {
                let (line, command, log) = (self.line(), &self.command, self.log.display());
                format!("{line}\n{tail}\n  to repeat:   {command}\n  full output: {log}\n")
            }
            Outcome::Passed { .. } | Outcome::Skipped { .. } => self.line(),
        }
    }

    fn line(&self) -> String {
        let seconds = self.took.as_secs_f64();
        let line = match &self.outcome {
            Outcome::Passed { note } => format!("ok       {seconds:>7.1} s   {note}"),
            Outcome::Failed { .. } => format!("FAILED   {seconds:>7.1} s"),
            Outcome::Skipped { tool } => format!("skipped: {tool} is not installed"),
        };
        line.trim_end().to_owned()
    }
}

fn summary(reports: &[Report], took: Duration) -> String {
    let mut text = String::from("\nlongest steps:\n");
    let mut by_time: Vec<&Report> = reports.iter().filter(|report| report.took > Duration::ZERO).collect();
    by_time.sort_by_key(|report| std::cmp::Reverse(report.took));
    for report in by_time.iter().take(LONGEST) {
        text += &format!("  {:<20}{:>7.1} s\n", report.name, report.took.as_secs_f64());
    }
    text += &format!("  {:<20}{:>7.1} s\n", "all, in two lanes", took.as_secs_f64());
    let count = |test: fn(&Outcome) -> bool| reports.iter().filter(|report| test(&report.outcome)).count();
    let skipped = count(|outcome| matches!(outcome, Outcome::Skipped { .. }));
    if skipped > 0 {
        text += &format!("{skipped} skipped, because a tool is not installed\n");
    }
    for report in reports.iter().filter(|report| matches!(report.outcome, Outcome::Failed { .. })) {
        text += &format!("failed: {:<20} {}\n", report.name, report.command);
    }
    let passed = count(|outcome| matches!(outcome, Outcome::Passed { .. }));
    let failed = count(|outcome| matches!(outcome, Outcome::Failed { .. }));
    text + &format!("{passed} passed, {failed} failed\n")
}

/// What to show of an output, indented: what failed tests printed, wherever that stands, and the end.
fn excerpt(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    let mut is_of_failure = false;
    let failures = lines.iter().filter(|line| {
        // cargo prints `---- NAME stdout ----` before the output of each failed test, and `failures:` with their names behind it.
        is_of_failure = line.starts_with("---- ") || is_of_failure && **line != "failures:";
        is_of_failure
    });
    let mut kept: Vec<&str> = failures.take(FAILURE_LINES).copied().collect();
    let tail_lines = if kept.is_empty() { TAIL_LINES } else { TAIL_LINES / 4 };
    kept.extend(&lines[lines.len().saturating_sub(tail_lines)..]);
    let shown = kept.iter().map(|line| format!("  | {}", line.chars().take(LINE_CHARS).collect::<String>()));
    shown.collect::<Vec<_>>().join("\n")
}

/// The last line that is not blank.
fn last_line(output: &str) -> &str {
    output.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default()
}

/// The sum over all lines `test result: ok. N passed; …`: cargo prints one for each test program.
fn tests_passed(output: &str) -> usize {
    let results = output.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    results.filter_map(|rest| rest.split(' ').next()?.parse::<usize>().ok()).sum()
}

/// A first seed from the wall clock, in seconds: runs an hour apart share no seed if they take fewer than 3,600.
fn fresh_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs())
}

/// The time limit of a step: three times the longest one on a busy machine. A step that hangs must not keep the
/// others from reporting.
const STEP_MAX: Duration = Duration::from_secs(1500);
/// Lines of a failed step that are shown: enough for an assertion with its backtrace, but not for a whole build.
const TAIL_LINES: usize = 60;
/// Lines that failed tests printed.
const FAILURE_LINES: usize = 150;
/// A test may print a whole page in a line.
const LINE_CHARS: usize = 500;
/// Steps in the list of the longest.
const LONGEST: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn report(name: &'static str, outcome: Outcome, ms: u64) -> Report {
        let took = Duration::from_millis(ms);
        Report { name, command: format!("run {name}"), log: PathBuf::new(), outcome, took }
    }

    #[test]
    fn the_last_line_counts_steps() {
        let reports = [
            report("quick", Outcome::Passed { note: String::new() }, 100),
            report("slow", Outcome::Failed { tail: String::new() }, 2000),
            report("absent", Outcome::Skipped { tool: "typos" }, 0),
        ];
        let text = summary(&reports, Duration::from_millis(2100));
        assert_eq!(text.lines().last(), Some("1 passed, 1 failed"));
        assert!(text.contains("run slow"), "{text}");
        assert!(text.find("slow") < text.find("quick"), "{text}");
        assert!(!text.contains("absent"), "{text}");
    }

    #[test]
    fn tests_are_counted_over_all_programs() {
        let output = "test result: ok. 3 passed; 0 failed\n\ntest result: ok. 4 passed; 0 failed; 1 ignored\n";
        assert_eq!(tests_passed(output), 7);
    }

    #[test]
    fn only_the_end_of_a_long_output_is_shown() {
        let output: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let shown = excerpt(&output);
        assert_eq!(shown.lines().count(), TAIL_LINES);
        assert!(shown.ends_with("  | line 99"));
    }

    #[test]
    fn what_failed_tests_printed_is_shown_though_other_tests_follow() {
        let failed = "failures:\n\n---- it_works stdout ----\nit does not\n\nfailures:\n    it_works\n";
        let output = format!("line\n{failed}{}", "another test\n".repeat(1000));
        let shown = excerpt(&output);
        assert!(shown.starts_with("  | ---- it_works stdout ----\n  | it does not\n  | \n  | another test"), "{shown}");
        assert_eq!(shown.lines().count(), 3 + TAIL_LINES / 4);
    }

    #[test]
    fn a_fresh_seed_is_part_of_the_command_to_repeat() {
        let step = Step::new("fresh-seed-test", "echo --first {fresh}").with_note(Note::LastLine);
        let report = step.run(42).unwrap();
        assert_eq!(report.command, "echo --first 42");
        assert!(matches!(report.outcome, Outcome::Passed { note } if note == "--first 42"));
    }

    #[test]
    fn a_step_without_its_tool_is_skipped_and_says_so() {
        let report = Step::new("absent", "false").if_installed("no-such-program").run(1).unwrap();
        assert_eq!(report.line(), "skipped: no-such-program is not installed");
    }

    #[test]
    fn names_of_steps_are_unique_and_unknown_ones_are_rejected() {
        let mut names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STEPS.len());
        assert!(matches!(selected(&["nothing".to_owned()]), Err(Failure::Usage(_))));
    }
}
