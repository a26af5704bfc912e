//! Steps that belong together: a file says what was begun, and start-up ends it.
//!
//! In: a leader's snapshot, or an epoch promised and taken over at once. Out: all of it, or nothing.
//! Why: neither is one operation of a file system. Until the intent is durable the old state is whole; from then on
//! the new one is what a restart finds, whichever of the steps after it were done. Each of them can be done twice.
//! Source: ZAB.md, phase 2, for snapshots. Ours: the same for the hand-over, so that both epochs change together and
//! the files never show a current epoch above the accepted one without an intent beside them.

use pole_zab::{Epoch, Zxid};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::error::Fault;
use crate::volume::Volume;
use crate::{Damage, FileError, Repair, epochs, log, names, snapshot};

/// What was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Intent {
    /// The snapshot at this position replaces the history.
    Install(Zxid),
    /// Both epochs become this one.
    TakeOver(Epoch),
}

/// Replaces the history by a leader's snapshot, which was received.
pub(crate) fn install(
    volume: &Volume,
    dir: &Path,
    log_dir: &Path,
    zxid: Zxid,
    received: snapshot::Receiving,
) -> Result<(), Fault> {
    received.finish()?;
    // The intent names the file, so the file's own name is durable first.
    volume.sync_dir(dir)?;
    Intent::Install(zxid).declare(volume, dir)?;
    finish_install(volume, dir, log_dir, zxid)?;
    volume.remove(&dir.join(NAME))?;
    // An intent that comes back after a crash would take away what is appended from here on.
    Ok(volume.sync_dir(dir)?)
}

/// Promises an epoch and takes it over.
pub(crate) fn take_over(volume: &Volume, dir: &Path, epoch: Epoch) -> Result<(), Fault> {
    Intent::TakeOver(epoch).declare(volume, dir)?;
    epochs::raise_both(volume, dir, epoch)?;
    // If a crash brings it back it does no harm: epochs are only raised.
    Ok(volume.remove(&dir.join(NAME))?)
}

/// Ends what a crash interrupted.
pub(crate) fn roll_forward(
    volume: &Volume,
    dir: &Path,
    log_dir: &Path,
    repairs: &mut Vec<Repair>,
) -> Result<(), Fault> {
    let path = dir.join(NAME);
    let text = match fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(FileError::during("read", &path)(error).into()),
    };
    let Some(intent) = Intent::parse(&text) else {
        let expected = "install snapshot.<zxid>, or takeover <epoch>".to_owned();
        return Err(Damage { path, offset: 0, expected, got: format!("{:?}", text.get(..64).unwrap_or(&text)) }.into());
    };
    match intent {
        Intent::Install(zxid) => finish_install(volume, dir, log_dir, zxid)?,
        Intent::TakeOver(epoch) => epochs::raise_both(volume, dir, epoch)?,
    }
    volume.remove(&path)?;
    volume.sync_dir(dir)?;
    repairs.push(Repair::new(&path, format!("a crash interrupted \"{}\"; it is done now", text.trim())));
    Ok(())
}

impl Intent {
    fn declare(self, volume: &Volume, dir: &Path) -> Result<(), FileError> {
        let temporary = dir.join(names::temporary(NAME));
        volume.prepare(&temporary, self.text().as_bytes())?;
        volume.rename(&temporary, &dir.join(NAME))?;
        volume.sync_dir(dir)
    }

    fn text(self) -> String {
        match self {
            Self::Install(zxid) => format!("install {}\n", names::snapshot(zxid)),
            Self::TakeOver(epoch) => format!("takeover {epoch}\n"),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (verb, object) = text.strip_suffix('\n')?.split_once(' ')?;
        match (verb, names::Name::parse(object), object.parse()) {
            ("install", names::Name::Snapshot(zxid), _) => Some(Self::Install(zxid)),
            ("takeover", _, Ok(epoch)) => Some(Self::TakeOver(Epoch(epoch))),
            _ => None,
        }
    }
}

/// Everything after the intent but its removal.
fn finish_install(volume: &Volume, dir: &Path, log_dir: &Path, zxid: Zxid) -> Result<(), Fault> {
    let name = names::snapshot(zxid);
    if fs::exists(dir.join(names::temporary(&name))).map_err(FileError::during("look for", dir))? {
        snapshot::publish(volume, dir, zxid)?;
    }
    if !fs::exists(dir.join(&name)).map_err(FileError::during("look for", dir))? {
        let (expected, got) = ("the snapshot that intent names".to_owned(), "no such file".to_owned());
        return Err(Damage { path: dir.join(name), offset: 0, expected, got }.into());
    }
    cut_log(volume, log_dir, zxid)?;
    for (_, path) in names::snapshots(dir)?.into_iter().filter(|(newer, _)| *newer > zxid) {
        volume.remove(&path)?;
    }
    Ok(volume.sync_dir(dir)?)
}

/// A log that leads up to the snapshot agrees with it and stays. Any other may hold what never was, and would look
/// as if what comes next continued it.
fn cut_log(volume: &Volume, log_dir: &Path, zxid: Zxid) -> Result<(), Fault> {
    log::truncate(volume, log_dir, zxid)?;
    if log::last(log_dir)? != Some(zxid) {
        for (_, path) in names::logs(log_dir)?.into_iter().rev() {
            volume.remove(&path)?;
        }
        volume.sync_dir(log_dir)?;
    }
    Ok(())
}

/// The file that says what was begun.
const NAME: &str = "intent";
