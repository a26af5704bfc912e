//! The `pole` command. It calls the other rooms and decides nothing itself.
//!
//! Until the service exists it has one thing to show: an ensemble in the simulator that elects, loses its leader, and
//! tells why the next one won.

mod server;

use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    if let [command, option, file] = &given[..]
        && (command.as_str(), option.as_str()) == ("server", "--config")
    {
        return server::run(file.as_ref());
    }
    let mut args = given.into_iter();
    let seed = match (args.next().as_deref(), args.next()) {
        (None, _) => 1,
        (Some("--seed"), Some(seed)) => match seed.parse() {
            Ok(seed) => seed,
            Err(_) => return usage(&format!("--seed {seed}: expected a whole number")),
        },
        (Some("--help" | "-h"), _) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        (Some(other), _) => return usage(&format!("{other}: no such command")),
    };
    let mut out = io::stdout().lock();
    match pole_lab::story::tell(seed, &mut out).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pole: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage(problem: &str) -> ExitCode {
    eprintln!("pole: {problem}\n\n{USAGE}");
    ExitCode::from(2)
}

const USAGE: &str = "usage: pole [--seed N]

Simulates five servers in three data centres: they elect a leader, lose it, and tell why the next one won.
The seed (1 unless given) decides everything; the same seed tells the same story.";
