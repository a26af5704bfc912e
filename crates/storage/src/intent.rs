//! Atomic multi-step operations: an intent file records what was started, and start-up completes it.
//!
//! This is used to install a leader's snapshot, and to accept and adopt an epoch at once. Neither is a single operation
//! of the file system. Until the intent is durable, the old state is complete. From then on a restart finds the new
//! one, whichever of the following steps were done; each of them can be repeated.
//!
//! For snapshots this follows phase 2 of Zab. Pole uses it for the hand-over as well, so that both epochs change
//! together and the files never show a current epoch above the accepted one without an intent.

use pole_types::{Epoch, Zxid};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::error::Fault;
use crate::volume::Volume;
use crate::{Damage, FileError, Repair, epochs, log, names, snapshot};

/// The operation that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Intent {
    /// The snapshot at this position replaces the history.
    Install(Zxid),
    /// Both epochs become this one.
    TakeOver(Epoch),
}

/// Replaces the history by a leader's snapshot that was received.
pub(crate) fn install(
    volume: &Volume,
    dir: &Path,
    log_dir: &Path,
    zxid: Zxid,
    received: snapshot::Receiving,
) -> Result<(), Fault> {
    received.finish()?;
    // The intent refers to the file, so the file's name must be durable first.
    volume.sync_dir(dir)?;
    Intent::Install(zxid).declare(volume, dir)?;
    finish_install(volume, dir, log_dir, zxid)?;
    volume.remove(&dir.join(NAME))?;
    // An intent that reappears after a crash would remove what is appended from now on.
    Ok(volume.sync_dir(dir)?)
}

/// Accepts and adopts an epoch.
pub(crate) fn take_over(volume: &Volume, dir: &Path, epoch: Epoch) -> Result<(), Fault> {
    Intent::TakeOver(epoch).declare(volume, dir)?;
    epochs::raise_both(volume, dir, epoch)?;
    // It is harmless if a crash makes it reappear: epochs are only raised.
    Ok(volume.remove(&dir.join(NAME))?)
}

/// Completes an operation that a crash interrupted.
pub(crate) fn roll_forward(
    volume: &Volume,
    dir: &Path,
    log_dir: &Path,
    repairs: &mut Vec<Repair>,
) -> Result<(), Fault> {
    let Some(intent) = Intent::read(dir)? else { return Ok(()) };
    match intent {
        Intent::Install(zxid) => finish_install(volume, dir, log_dir, zxid)?,
        Intent::TakeOver(epoch) => epochs::raise_both(volume, dir, epoch)?,
    }
    let path = dir.join(NAME);
    volume.remove(&path)?;
    volume.sync_dir(dir)?;
    repairs.push(Repair::new(&path, format!("a crash interrupted \"{}\"; it is done now", intent.text().trim())));
    Ok(())
}

/// An operation that a crash interrupted, which start-up completes.
pub(crate) fn pending(dir: &Path) -> Result<Option<Repair>, Fault> {
    let repair = |intent: Intent| {
        let what = format!("a crash interrupted \"{}\"; start-up completes it", intent.text().trim());
        Repair::new(&dir.join(NAME), what)
    };
    Ok(Intent::read(dir)?.map(repair))
}

impl Intent {
    fn read(dir: &Path) -> Result<Option<Self>, Fault> {
        let path = dir.join(NAME);
        let text = match fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(FileError::during("read", &path)(error).into()),
        };
        let expected = "install snapshot.<zxid>, or takeover <epoch>";
        let got = || format!("{:?}", text.get(..64).unwrap_or(&text));
        let damage = || Damage { path: path.clone(), offset: 0, expected: expected.to_owned(), got: got() };
        Ok(Some(Self::parse(&text).ok_or_else(damage)?))
    }

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

/// All steps after the intent except its removal.
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

/// Truncates the log to the snapshot. A log that ends exactly there agrees with it and is kept. Any other log may hold
/// entries that were never committed, and later entries would seem to continue it, so it is removed.
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

const NAME: &str = "intent";
