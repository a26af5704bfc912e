//! Starts with one bit of a log or a snapshot flipped.
//!
//! A server may refuse to start, with the exit code for damaged files and the name of the file. It may also start, if
//! it finds everything that was written in other files. It must not start with less.

use std::fs;
use std::path::Path;

use super::disk::{DAMAGED, KEYS, ServerWithHistory, StartResult, files};
use super::{Attack, Findings};
use crate::Failure;
use crate::ensemble::Launcher;
use crate::rng::Rng;

pub(super) const ATTACK: Attack =
    Attack::self_contained("flipped-bits", "starts with one bit of a log or a snapshot flipped", run);

fn run(launcher: &Launcher) -> Result<Findings, Failure> {
    let mut server = ServerWithHistory::make(launcher, "flipped-bits", &[])?;
    let mut rng = Rng::new(SEED);
    let mut found = Findings::default();
    let (mut refused, mut served) = (0, 0);
    for round in 0..ROUNDS {
        let mut what = String::new();
        let start = server.start_after(|folder| {
            what = flip(&folder.join("data"), ["log.", "snapshot."][round % 2], &mut rng)?;
            Ok(())
        })?;
        match start {
            StartResult::Refused(Some(DAMAGED), message) => {
                refused += 1;
                let file = what.split(' ').next().unwrap_or_default();
                found = found.require(message.contains(file), || {
                    format!("{what}: the message does not name the file: {message}")
                });
            }
            StartResult::Serves(0) => served += 1,
            StartResult::Serves(missing) => {
                found.problems.push(format!("{what}: serves and lacks {missing} of {KEYS} keys"));
            }
            StartResult::Refused(code, message) => {
                found.problems.push(format!("{what}: ended with {code:?}, expected {DAMAGED}: {message}"));
            }
        }
    }
    if found.problems.is_empty() {
        server.ensemble.done()?;
    }
    Ok(Findings { note: format!("{ROUNDS} bits: {refused} starts refused, {served} served all keys"), ..found })
}

/// Flips a bit in the first nine tenths of the used part of a file. Damage at the end would look like a torn write,
/// which is legal. Returns a description that begins with the file name.
fn flip(data: &Path, prefix: &str, rng: &mut Rng) -> Result<String, Failure> {
    let all = files(data, prefix)?;
    // Every start reads the last file, so it is chosen more often.
    let path = &all[if rng.one_in(2) { all.len() - 1 } else { rng.below(all.len()) }];
    let mut bytes = fs::read(path).map_err(|why| Failure::io("read", path, &why))?;
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let place = rng.below((used * 9 / 10).max(1));
    bytes[place] ^= 1 << rng.below(8);
    fs::write(path, bytes).map_err(|why| Failure::io("write", path, &why))?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(format!("{name} byte {place} of {used}"))
}

const ROUNDS: usize = 16;

/// Flips the same bits in every run, as far as the files are the same.
const SEED: u64 = 13;
