//! Finished runs on disk, so that an interrupted study can be resumed.
//!
//! The file has a head line that identifies version and scale, then one line per finished run. Runs of another
//! version or another scale are never mixed in, and a line that was cut off by an interruption is ignored.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Error;
use super::job::JobResult;

/// The finished runs.
pub(super) struct Ledger {
    done: BTreeMap<String, JobResult>,
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
    done: JobResult,
}

impl Ledger {
    /// An empty ledger without a file.
    pub(super) fn in_memory() -> Self {
        Self { done: BTreeMap::new(), file: None }
    }

    /// Loads the finished runs of a folder. Also returns whether runs of another version or scale were discarded.
    pub(super) fn open(folder: &Path, runs_of: &str) -> Result<(Self, bool), Error> {
        let path = folder.join("cases.jsonl");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let mut lines = text.lines();
        let head = lines.next().map(serde_json::from_str::<Head>);
        let fits = matches!(&head, Some(Ok(head)) if head.runs_of == runs_of);
        let done: BTreeMap<String, JobResult> = match fits {
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

    pub(super) fn get(&self, key: &str) -> Option<&JobResult> {
        self.done.get(key)
    }

    /// Stores a finished run.
    pub(super) fn add(&mut self, key: String, done: JobResult) -> Result<(), Error> {
        if let Some((path, file)) = &mut self.file {
            file.write_all(line(&key, &done).as_bytes()).map_err(Error::at(path))?;
        }
        self.done.insert(key, done);
        Ok(())
    }
}

fn line(key: &str, done: &JobResult) -> String {
    // Integers and strings always serialize.
    serde_json::to_string(&Line { key: key.to_owned(), done: done.clone() }).unwrap_or_default() + "\n"
}
