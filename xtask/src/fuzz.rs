//! `cargo xtask fuzz`: fuzzing of all parsers, guided by coverage.
//!
//! Prints a line for each target when it ends, findings with the command that repeats them, and as last line
//! `targets=N runs=M findings=K`. The exit code is 1 on a finding.
//!
//! There are two modes: fuzzing guided by coverage, which builds everything again with libFuzzer; and a replay of the
//! committed corpus, which needs only the compiler and is a test of the workspace.
//!
//! The targets are in `fuzz/src`. libFuzzer does mutation and coverage.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;

use crate::command::{Finished, logged, output_of, program, root, target_dir};
use crate::{Failure, arguments};

/// Runs parsers, files and the state machine on mutated bytes.
#[derive(Debug, Parser)]
struct Options {
    /// The duration in seconds, shared evenly among the targets. Building comes on top.
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Only these targets, separated by commas.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Run every committed input once, or only these files, without coverage.
    #[arg(long, num_args = 0.., conflicts_with_all = ["only", "merge"])]
    replay: Option<Vec<PathBuf>>,
    /// Add the smallest inputs found that reach new code to the corpus after the run.
    #[arg(long)]
    merge: bool,
}

pub(crate) fn run(args: &[String]) -> Result<ExitCode, Failure> {
    let options: Options = arguments("fuzz", args)?;
    match &options.replay {
        Some(files) => replay(files),
        None => fuzz_guided(&options),
    }
}

fn replay(files: &[PathBuf]) -> Result<ExitCode, Failure> {
    let here = |file: &PathBuf| std::path::absolute(file).map_err(|why| Failure::io("find", file, &why));
    let files = files.iter().map(here).collect::<Result<Vec<_>, _>>()?;
    let mut cargo = if files.is_empty() { program("cargo") } else { replayer() };
    if files.is_empty() {
        cargo.args(["test", "--quiet", "--package", "pole-fuzz", "--test", "corpus"]);
    }
    let status = cargo.args(files).status();
    let status = status.map_err(|why| Failure::Check(format!("cannot run cargo: {why}")))?;
    Ok(ExitCode::from(u8::from(!status.success())))
}

fn replayer() -> Command {
    let mut cargo = program("cargo");
    cargo.args(["run", "--quiet", "--package", "pole-fuzz", "--bin", "replay", "--"]);
    cargo
}

fn fuzz_guided(options: &Options) -> Result<ExitCode, Failure> {
    let targets = selected(&output_of(replayer().arg("list"))?, &options.only)?;
    let fuzzer = build()?;
    let seconds = (options.seconds / targets.len() as u64).max(1);
    let (mut runs, mut findings) = (0, 0);
    for target in &targets {
        let files = TargetFiles::new(target)?;
        let finished = files.fuzz(&fuzzer, seconds)?;
        let inputs = executed(&finished.output);
        runs += inputs;
        let took = finished.took.as_secs_f64();
        if finished.passed() {
            println!("{target:<14} ok      {took:>6.1} s {inputs:>9} runs   {}", coverage(&finished.output));
        } else {
            findings += 1;
            println!("{target:<14} FINDING {took:>6.1} s {inputs:>9} runs\n{}", finding(&finished.output, &files.log));
        }
        if options.merge {
            files.merge(&fuzzer)?;
        }
    }
    println!("targets={} runs={runs} findings={findings}", targets.len());
    Ok(ExitCode::from(u8::from(findings > 0)))
}

/// All targets, or the named ones.
fn selected(listed: &str, only: &[String]) -> Result<Vec<String>, Failure> {
    let all: Vec<String> = listed.lines().map(str::to_owned).collect();
    match only.iter().find(|name| !all.contains(name)) {
        Some(name) => Err(Failure::Usage(format!("there is no target called `{name}`; there are: {}", all.join(", ")))),
        None if only.is_empty() => Ok(all),
        None => Ok(only.to_vec()),
    }
}

/// Builds the fuzzer and returns its path.
///
/// The target is named although it is the host: only then are build scripts and macros built without coverage.
fn build() -> Result<PathBuf, Failure> {
    let machine = output_of(program("rustc").args(["--print", "host-tuple"]))?;
    let folder = target_dir().join("fuzz");
    let status = program("cargo")
        .args(["build", "--quiet", "--locked", "--release", "--package", "pole-fuzz", "--bin", "guided"])
        .args(["--features", "guided", "--target", &machine, "--target-dir"])
        .arg(&folder)
        .env("RUSTFLAGS", COVERAGE.join(" "))
        .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true")
        .status()
        .map_err(|why| Failure::Check(format!("cannot run cargo: {why}")))?;
    if !status.success() {
        return Err(Failure::Check("the fuzzer does not build; it needs a C++ compiler (`c++`)".into()));
    }
    Ok(folder.join(machine).join("release").join("guided"))
}

/// The files of one target.
struct TargetFiles {
    target: String,
    /// In the repository.
    corpus: PathBuf,
    /// Inputs that earlier runs on this machine found.
    found: PathBuf,
    findings: PathBuf,
    log: PathBuf,
}

impl TargetFiles {
    fn new(target: &str) -> Result<Self, Failure> {
        let folder = target_dir().join("xtask").join("fuzz");
        let files = Self {
            target: target.to_owned(),
            corpus: root().join("fuzz/corpus").join(target),
            found: folder.join("found").join(target),
            findings: folder.join("findings").join(target),
            log: folder.join(format!("{target}.log")),
        };
        for folder in [&files.corpus, &files.found, &files.findings] {
            fs::create_dir_all(folder).map_err(|why| Failure::io("create", folder, &why))?;
        }
        Ok(files)
    }

    fn fuzz(&self, fuzzer: &Path, seconds: u64) -> Result<Finished, Failure> {
        let mut command = self.command(fuzzer);
        command.arg(format!("-max_total_time={seconds}")).args([&self.found, &self.corpus]);
        logged(&mut command, &self.log, None)
    }

    fn merge(&self, fuzzer: &Path) -> Result<(), Failure> {
        let mut command = self.command(fuzzer);
        // Without counters: how often code is reached does not matter, or thousands of files would be kept.
        command.args(["-merge=1", "-use_counters=0", MERGED_BYTES_MAX]).args([&self.corpus, &self.found]);
        let merged = logged(&mut command, &self.log.with_extension("merge.log"), None)?;
        if merged.passed() { Ok(()) } else { Err(Failure::Check(format!("{}: the merge failed", self.target))) }
    }

    fn command(&self, fuzzer: &Path) -> Command {
        let mut command = program(fuzzer.to_str().expect("a path that cargo printed"));
        command.env("POLE_FUZZ_TARGET", &self.target).args(LIMITS);
        command.arg(format!("-artifact_prefix={}/", self.findings.display()));
        command
    }
}

/// The number of inputs that were run, from libFuzzer's final statistics or, after a finding, from its last progress
/// line.
fn executed(output: &str) -> u64 {
    let stat = |line: &str| line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok();
    let progress = |line: &str| line.strip_prefix('#')?.split_whitespace().next()?.parse().ok();
    let last = |read: &dyn Fn(&str) -> Option<u64>| output.lines().rev().find_map(read);
    last(&stat).or_else(|| last(&progress)).unwrap_or(0)
}

/// How much code the inputs reach, in libFuzzer's units.
fn coverage(output: &str) -> String {
    let progress = output.lines().rev().find(|line| line.starts_with('#') && line.contains(" cov: "));
    let words: Vec<&str> = progress.unwrap_or_default().split_whitespace().collect();
    let after = |name| words.iter().skip_while(move |word| **word != name).nth(1).copied().unwrap_or("?");
    format!("coverage {}, corpus {}", after("cov:"), after("corp:"))
}

/// The panic message, and the command that repeats it.
fn finding(output: &str, log: &Path) -> String {
    let written = output.lines().find_map(|line| line.split_once("Test unit written to ").map(|(_, file)| file));
    let message = output.lines().skip_while(|line| !line.contains("panicked at")).take(2);
    let message: String = message.map(|line| format!("  | {line}\n")).collect();
    let repeat = written.map_or_else(String::new, |file| format!("  to repeat:   cargo xtask fuzz --replay {file}\n"));
    format!("{message}{repeat}  full output: {}", log.display())
}

/// The flags that `cargo fuzz` passes, without the address sanitizer: it needs an unstable compiler, and we have no
/// unsafe code.
const COVERAGE: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// An input that takes ten seconds or half a gigabyte is a finding too.
const LIMITS: &[&str] = &["-timeout=10", "-rss_limit_mb=1024", "-malloc_limit_mb=512", "-print_final_stats=1"];

/// Larger inputs are not kept, so that the corpus stays small.
const MERGED_BYTES_MAX: &str = "-max_len=2048";

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "#2\tINITED cov: 10 ft: 11 corp: 1/1b exec/s: 0 rss: 30Mb\n\
        #4096\tpulse  cov: 20 ft: 30 corp: 7/90b lim: 4 exec/s: 2048 rss: 31Mb\n";

    #[test]
    fn runs_are_counted_from_the_statistics_or_else_the_progress() {
        assert_eq!(executed(&format!("{RUN}stat::number_of_executed_units: 5000\n")), 5000);
        assert_eq!(executed(RUN), 4096);
        assert_eq!(executed(""), 0);
    }

    #[test]
    fn coverage_is_that_of_the_last_progress() {
        assert_eq!(coverage(RUN), "coverage 20, corpus 7/90b");
    }

    #[test]
    fn a_finding_shows_how_to_repeat_it() {
        let output = "thread '<unnamed>' panicked at a.rs:1:2:\nwhy\nmore\nartifact_prefix='f/'; Test unit written to f/crash-1\n";
        let text = finding(output, Path::new("f.log"));
        assert!(text.contains("| why\n") && text.contains("cargo xtask fuzz --replay f/crash-1\n"), "{text}");
        assert!(!text.contains("more"), "{text}");
    }

    #[test]
    fn unknown_targets_are_rejected() {
        assert_eq!(selected("a\nb", &[]), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert!(matches!(selected("a\nb", &["c".to_owned()]), Err(Failure::Usage(_))));
    }
}
