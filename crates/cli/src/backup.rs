//! `pole backup` and `pole restore`.
//!
//! A backup is checked while it is received, and has its name only when it is whole and durable. It is readable by its
//! owner only, because it contains everything whatever the ACLs say.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use pole_api::commands::{BackedUp, Installed, Restored};
use pole_server::config::Config;
use pole_server::{inspect_backup, install_backup};
use pole_storage::{InstallError, SnapshotImport};
use pole_types::Zxid;

use crate::admin::Admin;
use crate::args::{BackupArgs, RestoreArgs};
use crate::check::{counted, print_as};
use crate::failure::{Failure, Kind};
use crate::server::kind_of_disk;
use crate::{print, print_error};

pub(crate) fn save(args: &BackupArgs, json: bool) -> Result<(), Failure> {
    if args.file.as_os_str() == "-" {
        let saved = receive(args, &mut io::stdout().lock())?;
        print_error(&format!("pole: {}", text(&saved)));
        return Ok(());
    }
    if !args.force && args.file.exists() {
        return Err(Failure::bad_input(format!("{} exists already; replace it with --force", args.file.display())));
    }
    let failed = |error: io::Error| Failure::failed(format!("{} cannot be written: {error}", args.file.display()));
    // Nothing has been asked for yet: the argument is wrong.
    let part = Part::create(&args.file)
        .map_err(|error| Failure::bad_input(format!("{} cannot be written: {error}", args.file.display())))?;
    let saved = receive(args, &mut &part.file)?;
    part.publish(&args.file).map_err(failed)?;
    print_as(&saved, json, text)
}

fn text(saved: &BackedUp) -> String {
    format!("{} has everything up to {}, in {} bytes.\n", saved.file, saved.zxid, saved.bytes)
}

/// Receives a backup and checks that it is whole.
fn receive(args: &BackupArgs, out: &mut dyn Write) -> Result<BackedUp, Failure> {
    let (mut import, mut bytes) = (SnapshotImport::new(), 0_u64);
    let (url, headers) = Admin::new(&args.at).backup(&mut |piece| {
        import.feed(piece).map_err(io::Error::other)?;
        bytes += piece.len() as u64;
        out.write_all(piece)
    })?;
    out.flush().map_err(|error| Failure::failed(error.to_string()))?;
    let whole = import.finish().map_err(|error| Failure::failed(format!("{url}: the backup is {error}")));
    let header = headers.get("last_zxid").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let zxid = match (whole?.1, header) {
        (Some(zxid), Some(header)) if header != hex(zxid) => {
            let error = format!("{url}: the backup ends at {}, and the server announced {header}", hex(zxid));
            return Err(Failure::failed(error));
        }
        (Some(zxid), _) => hex(zxid),
        (None, header) => header.unwrap_or_default(),
    };
    Ok(BackedUp { file: args.file.display().to_string(), zxid, bytes })
}

/// A file that gets its name when it is whole, and is removed otherwise.
struct Part {
    path: PathBuf,
    file: File,
}

impl Part {
    fn create(target: &Path) -> io::Result<Self> {
        let mut path = target.as_os_str().to_owned();
        path.push(".part");
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        Ok(Self { path: path.into(), file })
    }

    fn publish(self, target: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, target)?;
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // After `publish` there is none.
        let _ = fs::remove_file(&self.path);
    }
}

pub(crate) fn restore(args: &RestoreArgs, json: bool) -> Result<(), Failure> {
    match &args.config {
        Some(config) => install(args, config, json),
        None => {
            File::open(&args.file).map_err(|error| unreadable(&args.file, &error.to_string()))?;
            let reply = Admin::new(&args.at).restore(&args.file)?;
            print(&reply.text(json, restored)?)
        }
    }
}

fn restored(restored: &Restored) -> String {
    let Restored { created, changed, deleted, ephemerals, .. } = restored;
    let nodes = |count: &u64| counted(usize::try_from(*count).unwrap_or(usize::MAX), "node");
    let kept = match ephemerals {
        0 => String::new(),
        count => format!(" Ephemeral nodes were left alone: {count}."),
    };
    format!(
        "The ensemble has the content of the backup: {} created, {changed} changed, {deleted} deleted; the last \
         transaction is {}.{kept}\n",
        nodes(created),
        restored.last_zxid
    )
}

fn install(args: &RestoreArgs, config: &Path, json: bool) -> Result<(), Failure> {
    let (config, _) = Config::load(config).map_err(|error| Failure::bad_input(error.to_string()))?;
    let (_, named) = inspect_backup(&args.file).map_err(|error| unreadable(&args.file, &error))?;
    let zxid = named.or_else(|| zxid_of_name(&args.file)).ok_or_else(|| {
        let error = "it does not name its last transaction: give it back its name, snapshot.ZXID";
        unreadable(&args.file, error)
    })?;
    let installed = install_backup(&config, &args.file, zxid, args.replace).map_err(|error| match &error {
        InstallError::Occupied { .. } => Failure::failed(format!("{error}. Move it aside with --replace")),
        InstallError::Open(open) => Failure::new(kind_of_disk(open), error.to_string()),
    })?;
    let result = Installed {
        snapshot: installed.snapshot.display().to_string(),
        zxid: hex(zxid),
        accepted_epoch: installed.accepted_epoch.0,
        moved_to: installed.moved_to.iter().map(|path| path.display().to_string()).collect(),
    };
    print_as(&result, json, |result| {
        let moved = match result.moved_to.is_empty() {
            true => String::new(),
            false => format!("What was there before is in {}.\n", result.moved_to.join(" and ")),
        };
        let servers = match config.voters().len() {
            1 => "Start the server.\n".to_owned(),
            count => format!("Restore the same backup for all {count} servers before you start the first one.\n"),
        };
        format!("{} is the history of this server, up to {}.\n{moved}{servers}", result.snapshot, result.zxid)
    })
}

fn unreadable(file: &Path, error: &str) -> Failure {
    Failure::new(Kind::BadInput, format!("{}: {error}", file.display()))
}

/// The last transaction by the name of a snapshot.
fn zxid_of_name(path: &Path) -> Option<Zxid> {
    let hex = path.file_name()?.to_str()?.strip_prefix("snapshot.")?;
    u64::from_str_radix(hex, 16).ok().map(Zxid)
}

fn hex(zxid: Zxid) -> String {
    format!("{:#x}", zxid.0)
}
