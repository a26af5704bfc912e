//! A history whose beginning is missing must be refused: what was there cannot be known.

use std::fs;
use std::path::Path;

use super::disk::{DAMAGED, KEYS, Start, Written, files, zxid_of};
use super::{Attack, Found};
use crate::Failure;
use crate::ensemble::Launcher;

pub(super) const ATTACK: Attack = Attack::alone(
    "missing-snapshots",
    "a start with the snapshots gone and logs that begin late, and with a blank dataDir beside old logs",
    run,
);

fn run(launcher: &Launcher) -> Result<Found, Failure> {
    let mut found = Found::default();
    let mut notes = Vec::new();
    let mut together = Written::make(launcher, "missing-snapshots", &[])?;
    let late = together.start_after(|folder| remove(folder, &["snapshot.", FIRST_LOG]))?;
    found = judged(found, &mut notes, "snapshots and first log gone", &late);
    let mut apart = Written::make(launcher, "missing-snapshots-apart", &["dataLogDir={folder}/logs"])?;
    let blank = apart.start_after(|folder| {
        remove(&folder.join("data"), &["snapshot."]).and_then(|()| remove(folder, &[FIRST_LOG]))
    })?;
    found = judged(found, &mut notes, "blank dataDir beside old logs", &blank);
    // Nothing in such a log says that there was something before it.
    let epoch = together.start_after(|folder| remove(folder, &["snapshot."]).and_then(|()| keep_last_epoch(folder)))?;
    found = judged(found, &mut notes, "snapshots gone, logs begin with an epoch", &epoch);

    // The operator accepts an incomplete history (`snapshot.trust.empty`).
    together.ensemble.configure(|_, text| text + "snapshot.trust.empty=true\n")?;
    match together.start_after(|folder| remove(folder, &["snapshot.", FIRST_LOG]))? {
        Start::Serves(missing) => notes.push(format!("trusted: serves without {missing} of {KEYS} keys")),
        Start::Refused(code, said) => {
            found.complaints.push(format!("with snapshot.trust.empty=true it is refused with {code:?}: {said}"));
        }
    }
    if found.complaints.is_empty() {
        together.ensemble.done()?;
        apart.ensemble.done()?;
    }
    Ok(Found { note: notes.join("; "), ..found })
}

fn judged(found: Found, notes: &mut Vec<String>, case: &str, start: &Start) -> Found {
    match start {
        Start::Refused(Some(DAMAGED), said) => {
            notes.push(format!("{case}: refused"));
            found.unless(said.to_lowercase().contains("snapshot"), || {
                format!("{case}: the message names no snapshot: {said}")
            })
        }
        Start::Refused(code, said) => {
            found.unless(false, || format!("{case}: ended with {code:?}, expected {DAMAGED}: {said}"))
        }
        Start::Serves(missing) => {
            found.unless(false, || format!("{case}: serves without a word, and lacks {missing} of {KEYS} keys"))
        }
    }
}

/// Removes files by the beginning of their names; of logs only the first.
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

/// Removes all logs of earlier epochs than the last one.
fn keep_last_epoch(folder: &Path) -> Result<(), Failure> {
    let logs = files(&folder.join("data"), "log.")?;
    let last = logs.iter().map(|path| zxid_of(path) >> 32).max().unwrap_or(0);
    for path in logs.iter().filter(|path| zxid_of(path) >> 32 < last) {
        fs::remove_file(path).map_err(|why| Failure::io("remove", path, &why))?;
    }
    Ok(())
}

const FIRST_LOG: &str = "log.";
