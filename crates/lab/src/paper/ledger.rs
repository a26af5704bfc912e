//! Finished runs on disk, so that a long study that was interrupted goes on where it stopped.
//!
//! In: a folder, and a line that says what the runs are runs of. Out: what is done already; then one line for each that is.
//! Holds: runs of another version or another scale are never mixed in; a line that an interruption cut is as if never
//! written.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Error;
use super::job::Done;

/// The runs that are done.
pub(super) struct Ledger {
    done: BTreeMap<String, Done>,
    file: Option<(PathBuf, File)>,
}

#[derive(Serialize, Deserialize)]
struct Head {
    /// Version and scale.
    runs_of: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    done: Done,
}

impl Ledger {
    /// Nothing is done, and nothing is kept.
    pub(super) fn in_memory() -> Self {
        Self { done: BTreeMap::new(), file: None }
    }

    /// What is done already in this folder, and whether something that was not of these runs had to go.
    pub(super) fn open(folder: &Path, runs_of: &str) -> Result<(Self, bool), Error> {
        let path = folder.join("cases.jsonl");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let mut lines = text.lines();
        let head = lines.next().map(serde_json::from_str::<Head>);
        let fits = matches!(&head, Some(Ok(head)) if head.runs_of == runs_of);
        let done: BTreeMap<String, Done> = match fits {
            true => lines.filter_map(|line| serde_json::from_str::<Line>(line).ok()).map(|l| (l.key, l.done)).collect(),
            false => BTreeMap::new(),
        };
        let head = serde_json::to_string(&Head { runs_of: runs_of.to_owned() }).unwrap_or_default();
        let kept = done.iter().map(|(key, done)| line(key, done));
        let kept: String = std::iter::once(head + "\n").chain(kept).collect();
        fs::write(&path, kept).map_err(Error::at(&path))?;
        let file = OpenOptions::new().append(true).open(&path).map_err(Error::at(&path))?;
        Ok((Self { done, file: Some((path, file)) }, !fits && !text.is_empty()))
    }

    /// What is kept of a run.
    pub(super) fn get(&self, key: &str) -> Option<&Done> {
        self.done.get(key)
    }

    /// A run is done.
    pub(super) fn add(&mut self, key: String, done: Done) -> Result<(), Error> {
        if let Some((path, file)) = &mut self.file {
            file.write_all(line(&key, &done).as_bytes()).map_err(Error::at(path))?;
        }
        self.done.insert(key, done);
        Ok(())
    }
}

fn line(key: &str, done: &Done) -> String {
    // Whole numbers and names always become JSON.
    serde_json::to_string(&Line { key: key.to_owned(), done: done.clone() }).unwrap_or_default() + "\n"
}
