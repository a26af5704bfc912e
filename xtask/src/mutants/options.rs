//! The arguments of `cargo xtask mutants`.

use super::patch::Mutant;
use crate::Failure;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// Numbers (`07`) or full names; empty means all.
    only: Vec<String>,
    /// Seeds to run if no script and no test found the mutant.
    pub(super) seeds: u64,
    /// Run scripts, tests and seeds even after one of them found the mutant.
    pub(super) both: bool,
    /// Only the mutants that are selected for CI.
    quick: bool,
    /// Start from the working files, committed or not.
    pub(super) dirty: bool,
}

impl Options {
    /// Parses the arguments after `mutants`.
    pub(super) fn parse(args: &[String]) -> Result<Self, Failure> {
        let mut options = Self { only: Vec::new(), seeds: SEEDS, both: false, quick: false, dirty: false };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| Failure::Usage(format!("{arg} needs a value")));
            match arg.as_str() {
                "--only" => options.only.extend(value()?.split(',').map(str::to_owned)),
                "--seeds" => options.seeds = number(value()?)?,
                "--both" => options.both = true,
                "--quick" => options.quick = true,
                "--dirty" => options.dirty = true,
                other => return Err(Failure::Usage(format!("mutants does not know `{other}`"))),
            }
        }
        Ok(options)
    }

    pub(super) fn selects(&self, mutant: &Mutant) -> bool {
        let named = |only: &String| *only == mutant.name || mutant.name.split('-').next() == Some(only);
        (self.only.is_empty() || self.only.iter().any(named)) && (!self.quick || mutant.quick)
    }
}

fn number(text: &str) -> Result<u64, Failure> {
    text.parse().map_err(|_| Failure::Usage(format!("--seeds needs a number, not `{text}`")))
}

/// Every mutant has to be found within this many seeds.
const SEEDS: u64 = 500;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, Failure> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn mutant(name: &str, quick: bool) -> Mutant {
        Mutant { name: name.to_owned(), path: name.into(), description: String::new(), quick, crates: Vec::new() }
    }

    #[test]
    fn all_mutants_unless_chosen() {
        let all = parse("").unwrap();
        assert_eq!(all.seeds, 500);
        assert!(all.selects(&mutant("07-early-ack", false)));
        let some = parse("--only 07,12 --seeds 20 --both").unwrap();
        assert!(some.both);
        assert_eq!(some.seeds, 20);
        assert!(some.selects(&mutant("07-early-ack", false)));
        assert!(!some.selects(&mutant("08-late-ack", true)));
        assert!(parse("--only 08-late-ack").unwrap().selects(&mutant("08-late-ack", false)));
        assert!(!parse("--quick").unwrap().selects(&mutant("08-late-ack", false)));
        assert!(parse("--quick").unwrap().selects(&mutant("08-late-ack", true)));
    }

    #[test]
    fn bad_arguments_are_rejected() {
        for line in ["--only", "--seeds", "--seeds many", "--sneaky"] {
            assert!(matches!(parse(line), Err(Failure::Usage(_))), "{line}");
        }
    }
}
