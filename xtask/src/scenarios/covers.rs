//! The head of a script: a description, and the scenarios that it covers.
//!
//! ```text
//! # A follower acknowledges the new leader only when the history is durable.
//! # covers: 1 ZK-3911 ZK-4646
//! ```
//!
//! A script may cover several scenarios, on one line or several. A ticket belongs to one of the scenarios of its
//! line.

use std::fs;
use std::path::Path;

use super::list::{SCENARIOS, Scenario};
use crate::Failure;

/// The head of a script.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Script {
    /// The file name: `01-early-ack`.
    pub(crate) name: String,
    pub(crate) scenarios: Vec<u32>,
    pub(crate) tickets: Vec<String>,
}

impl Script {
    /// All scripts of a folder, sorted by name; none if the folder does not exist.
    pub(crate) fn all(folder: &Path) -> Result<Vec<Self>, Failure> {
        if !folder.is_dir() {
            return Ok(Vec::new());
        }
        let mut scripts = Vec::new();
        for entry in fs::read_dir(folder).map_err(|why| Failure::io("read", folder, &why))? {
            let path = entry.map_err(|why| Failure::io("read", folder, &why))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_file() && !name.starts_with('.') {
                let text = fs::read_to_string(&path).map_err(|why| Failure::io("read", &path, &why))?;
                scripts.push(Self::parse(&name, &text).map_err(Failure::Check)?);
            }
        }
        scripts.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(scripts)
    }

    /// Parses the head of a script: the comment lines at its beginning.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self, String> {
        let head: Vec<&str> = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim).collect();
        let mut script = Self { name: name.to_owned(), scenarios: Vec::new(), tickets: Vec::new() };
        let mut sentences = 0;
        for line in head {
            match line.strip_prefix("covers:") {
                Some(list) => script.add(list).map_err(|why| format!("script {name}: `#{line}`: {why}"))?,
                None => sentences += usize::from(!line.is_empty()),
            }
        }
        if sentences == 0 {
            return Err(format!("script {name} has no head: begin it with a comment that says what it is about"));
        }
        Ok(script)
    }

    /// The script as a link from a page in `docs`.
    pub(super) fn link(&self) -> String {
        format!("[{0}](../crates/sim/scripts/{0})", self.name)
    }

    fn add(&mut self, list: &str) -> Result<(), String> {
        let mut named: Vec<&Scenario> = Vec::new();
        for word in list.split([' ', ',']).filter(|word| !word.is_empty()) {
            match word.parse::<u32>() {
                Ok(number) => named.push(scenario(number)?),
                Err(_) if named.iter().any(|scenario| scenario.tickets.contains(&word)) => {
                    self.tickets.push(word.to_owned());
                }
                Err(_) => return Err(format!("{word} is no ticket of the scenarios named before it")),
            }
        }
        if named.is_empty() {
            return Err("names no scenario".to_owned());
        }
        self.scenarios.extend(named.iter().map(|scenario| scenario.number));
        Ok(())
    }
}

fn scenario(number: u32) -> Result<&'static Scenario, String> {
    SCENARIOS.iter().find(|scenario| scenario.number == number).ok_or(format!("there is no scenario {number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_may_cover_several() {
        let script = Script::parse("a", "# What.\n# covers: 1 ZK-3911 2 ZK-4643\n# covers: 33\n\nelect\n").unwrap();
        assert_eq!(script.scenarios, [1, 2, 33]);
        assert_eq!(script.tickets, ["ZK-3911", "ZK-4643"]);
    }

    #[test]
    fn a_script_need_not_cover_a_known_trap() {
        assert!(Script::parse("a", "# What.\nelect\n# covers: 99\n").unwrap().scenarios.is_empty());
    }

    #[test]
    fn an_invalid_head_is_rejected() {
        for (text, part) in [
            ("# What.\n# covers: 99\n", "no scenario 99"),
            ("# What.\n# covers: 1 ZK-1\n", "ZK-1 is no ticket"),
            ("# What.\n# covers: ZK-3911\n", "ZK-3911 is no ticket"),
            ("# What.\n# covers:\n", "names no scenario"),
            ("# covers: 1\n", "has no head"),
            ("elect\n", "has no head"),
        ] {
            let why = Script::parse("a", text).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }
}
