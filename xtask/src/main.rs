//! The development tasks of the repository: `cargo xtask CHORE`.
//!
//! The exit code is 0 on success, 1 if a check failed, and 2 for bad arguments. It is a program and not a set of
//! shell scripts, so it runs wherever the workspace builds, and its parts have tests.
//!
//! The simulator (`sim`), the model checker (`model`) and everything that starts real servers (`harness`) are programs of
//! their own; this one only builds and starts them.

mod book;
mod fuzz;
mod mutants;
mod programs;
mod release;
mod scenarios;
mod test;
#[cfg(test)]
mod tidy;
mod tools;

use std::process::ExitCode;

use pole_command::{self as command, Failure, arguments};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match chore(&args) {
        Ok(code) => code,
        Err(Failure::Usage(what)) => Failure::Usage(format!("{what}\n\n{USAGE}")).exit(),
        Err(failure @ Failure::Check(_)) => failure.exit(),
    }
}

fn chore(args: &[String]) -> Result<ExitCode, Failure> {
    let Some((name, rest)) = args.split_first() else {
        println!("{USAGE}");
        return Ok(ExitCode::SUCCESS);
    };
    match name.as_str() {
        "test" => test::run(rest),
        "sim" => programs::run("pole-sim", "sim", rest),
        "model" => programs::run("pole-model", "model", rest),
        "failover" => programs::run("pole-sim", "failover", rest),
        "attack" | "bench" | "compat" | "ensemble" | "replace" | "soak" | "timeline" => {
            programs::run("pole-harness", "harness", args)
        }
        "mutants" => mutants::run(rest),
        "fuzz" => fuzz::run(rest),
        "book" => book::run(rest),
        "tools" => tools::run(rest),
        "scenarios" => scenarios::run(rest),
        "release" => release::run(rest),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        other => Err(Failure::Usage(format!("there is no chore called `{other}`"))),
    }
}

const USAGE: &str = "\
usage: cargo xtask CHORE [ARGUMENTS]

  test [STEP...]          everything that CI checks, or only the steps named
  sim --seeds N           many seeds through the simulator
      [--first S] [--servers N] [--virtual-s 60] [--stop-at-first-failure]
  sim --seed S --trace    one seed, event by event
  model [--minutes M]     the model checker on election and agreement
  failover                how long a leader change takes, in the simulator
  bench [--rounds 5]      Apache ZooKeeper and Pole side by side, and which goals are reached
      [--only writes,reads,latency,curve,arrivals,observers,kill,freeze,memory,start,sessions,scaling,elect]
      [--product apache|pole|both] [--quick]
  bench --only growth     the same for growing numbers of znodes, sessions, watches, children and servers
      [--curves znodes,sessions,watches,children,servers] [--sizes N,N] [--product apache|pole|both] [--quick]
  replace [--servers 5]   all servers of an ensemble replaced under load by `pole members`, one by one
  soak [--seconds 600]    real servers killed and stopped under load, and all that clients saw checked
      [--product pole|apache] [--servers 5] [--sessions 30] [--rate 1000] [--majority N] [--seed S]
  soak --network          the same with partitions, delay, loss, flapping, full and wiped disks, transfers, other oracles
      [--pause-ms 1000] [--leader-pause-ms 100]
  attack [NAME...]        real servers under attack, and how the other clients fare
      [--list] [--quick]
  timeline [--via leader|follower] [--writes 500]
                          where a write waits: each step of three servers at its median time
  ensemble [--product apache|pole] [--servers 3] [--config LINE]
                          real servers on loopback, until the input ends
  compat [--part kazoo|tls|cli|curator|failover|c|sasl|kerberos|rust|storage|elect|move|apps|ci]
         [--on apache|pole|both] [--servers 1|3] [--jobs 2] [--record] [--nodes 2000] [--sessions 10]
         [--app NAME]
                          third-party clients on Apache ZooKeeper and on Pole
  mutants [--only NN,NN]  remove each protection, and report which test fails
      [--seeds 500] [--both] [--quick] [--dirty]
  fuzz [--seconds 300]    mutated bytes for every parser, guided by coverage
      [--only NAME,NAME] [--merge] | --replay [FILE...]
  scenarios               write docs/scenarios.md: each known failure and its scripts
  book [--out DIR]        the documents as one book, by mdbook, and all its links checked
  tools [NAME...]         install what some checks need into the build directory:
                          mdbook, cargo-deb, helm, kubernetes-validate, promtool
  release [--out DIR]     build the archive of a release, with its checksum and its notes
      [--dirty]
  help                    this text";
