//! A history whose beginning is missing must be refused, because its contents cannot be reconstructed.

use std::fs;
use std::path::Path;

use super::disk::{DAMAGED, KEYS, ServerWithHistory, StartResult, files, zxid_of};
use super::{Attack, Findings};
use crate::Failure;
use crate::ensemble::Launcher;

pub(super) const ATTACK: Attack = Attack::self_contained(
    "missing-snapshots",
    "a start with the snapshots gone and logs that begin late, and with a blank dataDir beside old logs",
    run,
);

fn run(launcher: &Launcher) -> Result<Findings, Failure> {
    let mut found = Findings::default();
    let mut notes = Vec::new();
    let mut together = ServerWithHistory::make(launcher, "missing-snapshots", &[])?;
    let late = together.start_after(|folder| remove(folder, &["snapshot.", FIRST_LOG]))?;
    found = check_refused(found, &mut notes, "snapshots and first log gone", &late);
    let mut apart = ServerWithHistory::make(launcher, "missing-snapshots-apart", &["dataLogDir={folder}/logs"])?;
    let blank = apart.start_after(|folder| {
        remove(&folder.join("data"), &["snapshot."]).and_then(|()| remove(folder, &[FIRST_LOG]))
    })?;
    found = check_refused(found, &mut notes, "blank dataDir beside old logs", &blank);
    // Nothing in such a log shows that something came before it.
    let epoch = together.start_after(|folder| remove(folder, &["snapshot."]).and_then(|()| keep_last_epoch(folder)))?;
    found = check_refused(found, &mut notes, "snapshots gone, logs begin with an epoch", &epoch);

    // With `snapshot.trust.empty` the operator accepts an incomplete history.
    together.ensemble.configure(|_, text| text + "snapshot.trust.empty=true\n")?;
    match together.start_after(|folder| remove(folder, &["snapshot.", FIRST_LOG]))? {
        StartResult::Serves(missing) => notes.push(format!("trusted: serves without {missing} of {KEYS} keys")),
        StartResult::Refused(code, message) => {
            found.problems.push(format!("with snapshot.trust.empty=true it is refused with {code:?}: {message}"));
        }
    }
    if found.problems.is_empty() {
        together.ensemble.done()?;
        apart.ensemble.done()?;
    }
    Ok(Findings { note: notes.join("; "), ..found })
}

fn check_refused(found: Findings, notes: &mut Vec<String>, case: &str, start: &StartResult) -> Findings {
    match start {
        StartResult::Refused(Some(DAMAGED), message) => {
            notes.push(format!("{case}: refused"));
            found.require(message.to_lowercase().contains("snapshot"), || {
                format!("{case}: the message names no snapshot: {message}")
            })
        }
        StartResult::Refused(code, message) => {
            found.require(false, || format!("{case}: ended with {code:?}, expected {DAMAGED}: {message}"))
        }
        StartResult::Serves(missing) => {
            found.require(false, || format!("{case}: serves without a word, and lacks {missing} of {KEYS} keys"))
        }
    }
}

/// Removes the files with these prefixes, but only the first log. The copies in `original` are kept.
fn remove(folder: &Path, prefixes: &[&str]) -> Result<(), Failure> {
    for prefix in prefixes {
        let all = files(folder, prefix)?;
        let count = if *prefix == FIRST_LOG { 1 } else { all.len() };
        for path in all.iter().filter(|path| !path.components().any(|part| part.as_os_str() == "original")).take(count)
        {
            fs::remove_file(path).map_err(|why| Failure::io("remove", path, &why))?;
        }
    }
    Ok(())
}

/// Removes the logs of all epochs before the last one.
fn keep_last_epoch(folder: &Path) -> Result<(), Failure> {
    let logs = files(&folder.join("data"), "log.")?;
    let last = logs.iter().map(|path| zxid_of(path) >> 32).max().unwrap_or(0);
    for path in logs.iter().filter(|path| zxid_of(path) >> 32 < last) {
        fs::remove_file(path).map_err(|why| Failure::io("remove", path, &why))?;
    }
    Ok(())
}

const FIRST_LOG: &str = "log.";
