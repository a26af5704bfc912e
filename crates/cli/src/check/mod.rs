//! `pole check`: reads a configuration, a data directory or a backup as a server would, and says what its start would make of it.
//!
//! Nothing is changed. What is found goes to standard output; the exit code says whether a server would start.

mod backup;
pub(crate) mod configuration;
pub(crate) mod data;

use serde::Serialize;

use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::paint::Paint;
use crate::print;

pub(crate) fn run(args: &CheckArgs, json: bool, paint: Paint) -> Result<(), Failure> {
    if args.path.is_dir() {
        if args.against.is_some() || args.id.is_some() {
            return Err(Failure::bad_input(format!(
                "{} is a directory: --against and --id are for a configuration",
                args.path.display()
            )));
        }
        data::run(args, json, paint)
    } else if backup::is_snapshot(&args.path) {
        backup::run(&args.path, json, paint)
    } else {
        configuration::run(args, json, paint)
    }
}

/// Prints the result of a check for programs, or for people.
pub(crate) fn print_as<T: Serialize>(value: &T, json: bool, text: impl FnOnce(&T) -> String) -> Result<(), Failure> {
    let text = match json {
        true => serde_json::to_string(value).map(|text| text + "\n").map_err(|e| Failure::failed(e.to_string()))?,
        false => text(value),
    };
    print(&text)
}

/// `1 setting`, `2 settings`.
pub(crate) fn counted(count: usize, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}
