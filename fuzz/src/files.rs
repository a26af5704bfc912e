//! The files of a data directory, as a server finds them when it starts.
//!
//! Law: opening mends or refuses, and what was mended opens again the same.
//! How: checksums are put right first, unless the first byte is odd: else no mutation would get past them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pole_jute::{FileHeader, LOG_MAGIC, Record, SNAPSHOT_MAGIC, VERSION};
use pole_storage::{Config, Recovered, open};

use crate::machine::pieces;

/// One log file: as it is, or made of records.
pub(crate) fn log(input: &[u8]) {
    let Some((&how, rest)) = input.split_first() else { return };
    if how & 1 == 1 {
        return start("log.1", rest);
    }
    let mut file = FileHeader { magic: LOG_MAGIC, version: VERSION, dbid: 0 }.encode().to_vec();
    for (damage, body) in pieces(rest) {
        let length = i32::try_from(body.len()).expect("two bytes say the length");
        file.extend(i64::from(simd_adler32::adler32(&&body[..])).to_be_bytes());
        file.extend(length.to_be_bytes());
        file.extend(&body);
        // The mark, mostly.
        file.push(b'B' ^ (damage & 1));
    }
    file.extend(vec![0; usize::from(how)]);
    start("log.1", &file);
}

/// One snapshot: as it is, or sealed.
pub(crate) fn snapshot(input: &[u8]) {
    let Some((&how, rest)) = input.split_first() else { return };
    if how & 1 == 1 {
        return start("snapshot.1", rest);
    }
    let mut file = FileHeader { magic: SNAPSHOT_MAGIC, version: VERSION, dbid: -1 }.encode().to_vec();
    file.extend(rest);
    file.extend(i64::from(simd_adler32::adler32(&&file[..])).to_be_bytes());
    file.extend(b"\0\0\0\x01/");
    start("snapshot.1", &file);
}

/// Opens a directory with this file alone, twice.
fn start(name: &str, content: &[u8]) {
    let dir = directory();
    let files = dir.join("version-2");
    let _ = fs::remove_dir_all(&files);
    fs::create_dir_all(&files).expect("a directory for the file");
    fs::write(files.join(name), content).expect("the file is written");
    let Some(first) = opened(dir) else { return };
    let second = opened(dir).expect("what was mended opens");
    assert_eq!(first, second, "mending changes what is found");
}

fn opened(dir: &Path) -> Option<Recovered> {
    match open(Config::in_dir(dir)) {
        Ok((_, recovered, repairs)) => {
            repairs.iter().for_each(|repair| drop(repair.to_string()));
            Some(recovered)
        }
        Err(refused) => {
            drop(refused.to_string());
            None
        }
    }
}

/// One for each process, in memory where the system has such a place: thousands of files a second come and go.
fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        place.join(format!("pole-fuzz-{}", std::process::id()))
    })
}
