//! The development tasks of the repository: `cargo xtask CHORE`.
//!
//! The exit code is 0 on success, 1 if a check failed, and 2 for bad arguments. It is a program and not a set of
//! shell scripts, so it runs wherever the workspace builds, and its parts have tests.
//!
//! The simulator, the model checker and the benchmarks of leader changes are in `lab` and `model`; this program only
//! starts them.

mod bench;
mod compat;
mod fuzz;
mod lab;
mod mutants;
mod release;
mod scenarios;
mod test;
#[cfg(test)]
mod tidy;

use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

use pole_harness::{Failure, arguments, attack, client, command, ensemble, soak};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match chore(&args) {
        Ok(code) => code,
        Err(Failure::Usage(what)) => {
            eprintln!("xtask: {what}\n\n{USAGE}");
            ExitCode::from(2)
        }
        Err(Failure::Check(what)) => {
            eprintln!("xtask: {what}");
            ExitCode::from(1)
        }
    }
}

fn chore(args: &[String]) -> Result<ExitCode, Failure> {
    let Some((name, rest)) = args.split_first() else {
        println!("{USAGE}");
        return Ok(ExitCode::SUCCESS);
    };
    match name.as_str() {
        "test" => test::run(rest),
        "sim" => lab::run("pole-lab", "sim", rest),
        "model" => lab::run("pole-model", "model", rest),
        "failover" => lab::run("pole-lab", "failover", rest),
        "bench" => in_release(args, bench::run),
        "soak" => in_release(args, soak::run),
        "attack" => in_release(args, attack::run),
        "ensemble" => ensemble::run(rest),
        "compat" => compat::run(rest),
        "mutants" => mutants::run(rest),
        "fuzz" => fuzz::run(rest),
        "scenarios" => scenarios::run(rest),
        "release" => release::run(rest),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        other => Err(Failure::Usage(format!("there is no chore called `{other}`"))),
    }
}

/// Runs a chore that generates load, in release: an unoptimised build would take CPU time from the servers.
///
/// The release binary replaces this process (`exec`), so that a signal to this process reaches it.
fn in_release(args: &[String], chore: fn(&[String]) -> Result<ExitCode, Failure>) -> Result<ExitCode, Failure> {
    if !cfg!(debug_assertions) {
        return chore(&args[1..]);
    }
    let path = command::built_in_release("xtask", "xtask")?;
    // The value that cargo would set.
    let folder = command::root().join("xtask");
    let why = command::program(&path.to_string_lossy()).env("CARGO_MANIFEST_DIR", folder).args(args).exec();
    Err(Failure::io("run", &path, &why))
}

const USAGE: &str = "\
usage: cargo xtask CHORE [ARGUMENTS]

  test [STEP...]          everything that CI checks, or only the steps named
  sim --seeds N           many seeds through the simulator
      [--first S] [--servers N] [--virtual-s 60] [--stop-at-first-failure]
  sim --seed S --trace    one seed, event by event
  model [--minutes M]     the model checker on election and agreement
  failover                how long a leader change takes, in the simulator
  bench [--rounds 5]      Apache ZooKeeper and Pole side by side, and who reached what
      [--only writes,reads,latency,kill,freeze,memory,start,sessions,scaling]
      [--product apache|pole|both] [--quick]
  soak [--seconds 600]    real servers killed and stopped under load, and all that clients saw checked
      [--product pole|apache] [--servers 5] [--sessions 30] [--rate 1000] [--majority N] [--seed S]
  soak --network          the same with partitions, delay, loss, flapping, full and wiped disks, transfers, other oracles
      [--pause-ms 1000] [--leader-pause-ms 100]
  attack [NAME...]        real servers under attack, and how the other clients fare
      [--list] [--quick]
  ensemble [--product apache|pole] [--servers 3] [--config LINE]
                          real servers on loopback, until the input ends
  compat [--part kazoo|cli|curator|failover|storage|ci] [--on apache|pole|both]
         [--servers 1|3] [--jobs 2] [--record]
                          clients of others, on Apache ZooKeeper and on Pole
  mutants [--only NN,NN]  take each protection away and see who notices
      [--seeds 500] [--both] [--quick] [--dirty]
  fuzz [--seconds 300]    mutated bytes for every parser, guided by coverage
      [--only NAME,NAME] [--merge] | --replay [FILE...]
  scenarios               write docs/scenarios.md: each known trap and its scripts
  release [--out DIR]     build the archive of a release, with its checksum and its notes
      [--dirty]
  help                    this text";
