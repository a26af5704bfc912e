//! One bit of a log or a snapshot is another than was written.
//!
//! A server may refuse to start, with the code for damaged files and the name of the file; or it may start if what it reads
//! elsewhere has all that was written. It may not start with less.

use std::fs;
use std::path::Path;

use super::disk::{DAMAGED, KEYS, Start, Written, files};
use super::{Attack, Found};
use crate::Failure;
use crate::dice::Dice;
use crate::ensemble::Launcher;

pub(super) const ATTACK: Attack =
    Attack::alone("flipped-bits", "starts with one bit of a log or a snapshot flipped", run);

fn run(launcher: &Launcher) -> Result<Found, Failure> {
    let mut written = Written::make(launcher, "flipped-bits", &[])?;
    let mut dice = Dice::new(SEED);
    let mut found = Found::default();
    let (mut refused, mut served) = (0, 0);
    for round in 0..ROUNDS {
        let mut what = String::new();
        let start = written.start_after(|folder| {
            what = flip(&folder.join("data"), ["log.", "snapshot."][round % 2], &mut dice)?;
            Ok(())
        })?;
        match start {
            Start::Refused(Some(DAMAGED), said) => {
                refused += 1;
                let file = what.split(' ').next().unwrap_or_default();
                found =
                    found.unless(said.contains(file), || format!("{what}: the message does not name the file: {said}"));
            }
            Start::Serves(0) => served += 1,
            Start::Serves(missing) => {
                found.complaints.push(format!("{what}: serves and lacks {missing} of {KEYS} keys"));
            }
            Start::Refused(code, said) => {
                found.complaints.push(format!("{what}: ended with {code:?}, expected {DAMAGED}: {said}"));
            }
        }
    }
    if found.complaints.is_empty() {
        written.ensemble.done()?;
    }
    Ok(Found { note: format!("{ROUNDS} bits: {refused} starts refused, {served} served all keys"), ..found })
}

/// Flips a bit in the part of a file that is in use, but for its end: what was written last may be a torn write.
fn flip(data: &Path, prefix: &str, dice: &mut Dice) -> Result<String, Failure> {
    let all = files(data, prefix)?;
    // The last file is the one that every start reads.
    let path = &all[if dice.one_in(2) { all.len() - 1 } else { dice.below(all.len()) }];
    let mut bytes = fs::read(path).map_err(|why| Failure::io("read", path, &why))?;
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let place = dice.below((used * 9 / 10).max(1));
    bytes[place] ^= 1 << dice.below(8);
    fs::write(path, bytes).map_err(|why| Failure::io("write", path, &why))?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(format!("{name} byte {place} of {used}"))
}

const ROUNDS: usize = 16;

/// The same bits in every run, as far as the files are the same.
const SEED: u64 = 13;
