//! A mutant on disk: a patch with a head that describes the protection that it removes.
//!
//! ```text
//! # Acknowledges an entry before it is durable.
//! # Protection: ZAB, broadcast: "a server acknowledges what is durable".
//! # quick
//! diff --git a/crates/zab/src/…
//! ```
//!
//! Lines before the first `diff` are the head; git skips them. A line `# quick` selects the mutant for CI.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;

#[derive(Debug)]
pub(crate) struct Mutant {
    /// The file name without its extension: `07-early-ack`.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// The first line of the head, which describes the removed protection.
    pub(crate) description: String,
    /// Whether CI runs it too.
    pub(crate) quick: bool,
    /// The crates whose files it changes, by folder: `zab`. Their tests are run too.
    pub(crate) crates: Vec<String>,
}

impl Mutant {
    /// All mutants of a folder, sorted by name; none if the folder does not exist.
    pub(crate) fn all(folder: &Path) -> Result<Vec<Self>, Failure> {
        if !folder.is_dir() {
            return Ok(Vec::new());
        }
        let entries = fs::read_dir(folder).map_err(|why| Failure::io("read", folder, &why))?;
        let mut mutants = Vec::new();
        for entry in entries {
            let path = entry.map_err(|why| Failure::io("read", folder, &why))?.path();
            if path.extension().is_some_and(|ending| ending == "patch") {
                let text = fs::read_to_string(&path).map_err(|why| Failure::io("read", &path, &why))?;
                mutants.push(Self::new(path, &text)?);
            }
        }
        mutants.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(mutants)
    }

    fn new(path: PathBuf, text: &str) -> Result<Self, Failure> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let head: Vec<&str> = text
            .lines()
            .take_while(|line| !line.starts_with("diff "))
            .map(|line| line.trim_start_matches('#').trim())
            .filter(|line| !line.is_empty())
            .collect();
        let quick = head.contains(&"quick");
        match head.iter().find(|line| **line != "quick") {
            Some(first) => Ok(Self { name, path, description: (*first).to_owned(), quick, crates: crates(text) }),
            None => {
                let what = "has no head: say above the first `diff` which protection it takes away";
                Err(Failure::Check(format!("{} {what}", path.display())))
            }
        }
    }
}

/// The folders under `crates` that a patch changes.
fn crates(text: &str) -> Vec<String> {
    let changed = text.lines().filter_map(|line| line.strip_prefix("+++ b/crates/")?.split('/').next());
    let mut crates: Vec<String> = changed.map(str::to_owned).collect();
    crates.sort();
    crates.dedup();
    crates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_describes_the_removed_protection() {
        let text = "# Acknowledges too early.\n# More.\n# quick\n\ndiff --git a/x b/x\n# not head\n";
        let mutant = Mutant::new("mutants/07-early-ack.patch".into(), text).unwrap();
        assert_eq!((mutant.name.as_str(), mutant.description.as_str()), ("07-early-ack", "Acknowledges too early."));
        assert!(mutant.quick);
        assert!(!Mutant::new("a.patch".into(), "# Only this.\ndiff a b\n# quick\n").unwrap().quick);
    }

    #[test]
    fn the_crates_are_those_whose_files_change() {
        let text =
            "# Two.\n+++ b/crates/zab/src/a.rs\n+++ b/crates/node/src/b.rs\n+++ b/crates/zab/src/c.rs\n+++ b/docs/x\n";
        assert_eq!(Mutant::new("a.patch".into(), text).unwrap().crates, ["node", "zab"]);
    }

    #[test]
    fn a_patch_without_a_head_is_rejected() {
        for text in ["diff --git a/x b/x\n", "# quick\ndiff --git a/x b/x\n", ""] {
            assert!(Mutant::new("a.patch".into(), text).is_err(), "{text:?}");
        }
    }
}
