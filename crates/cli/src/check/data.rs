//! `pole check DIR`: the files of a data directory, and what a start would make of them.

use std::path::Path;

use pole_api::commands::{ContentChecked, DataChecked, HistoryChecked, LogChecked, SnapshotChecked};
use pole_server::config::Config;
use pole_server::{Content, inspect_data};
use pole_storage::{Inspection, LogFile, OpenError, SnapshotFile, Standing};
use pole_types::Zxid;

use super::{counted, print_as};
use crate::args::CheckArgs;
use crate::failure::{Failure, Kind};
use crate::paint::{Paint, Table};
use crate::server::kind_of_disk;

pub(super) fn run(args: &CheckArgs, json: bool, paint: Paint) -> Result<(), Failure> {
    // The files are in `version-2` of the directory that the configuration names.
    let parent = |path: &Path| match path.file_name() {
        Some(name) if name == "version-2" => path.parent().unwrap_or(path).to_owned(),
        Some(_) | None => path.to_owned(),
    };
    let dir = parent(&args.path);
    let log_dir = args.log_dir.as_deref().map_or_else(|| dir.clone(), parent);
    let config = configuration(&dir, &log_dir)?;
    let refused = |error: OpenError| Failure::new(kind_of_disk(&error), error.to_string());
    let (inspection, content) = inspect_data(&config).map_err(refused)?;
    let failure = inspection.startup.as_ref().err().map(|error| (kind_of_disk(error), error.to_string()));
    let checked = report(&dir, &log_dir, inspection, content);
    print_as(&checked, json, |checked| text(checked, paint))?;
    match failure {
        None => Ok(()),
        Some((kind, error)) => Err(Failure::new(kind, format!("a server would not start: {error}"))),
    }
}

/// The configuration of a server that has these directories, and defaults otherwise.
fn configuration(dir: &Path, log_dir: &Path) -> Result<Config, Failure> {
    let line = |key: &str, path: &Path| match path.to_str() {
        Some(path) => Ok(format!("{key} = {}\n", serde_json::Value::from(path))),
        None => Err(Failure::new(Kind::BadInput, format!("{}: the path is not UTF-8", path.display()))),
    };
    let text = line("dataDir", dir)? + &line("dataLogDir", log_dir)?;
    let none = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    let parsed = Config::parse_toml("pole check", &text, &none);
    parsed.map(|(config, _)| config).map_err(|error| Failure::bad_input(error.to_string()))
}

pub(crate) fn report(dir: &Path, log_dir: &Path, inspection: Inspection, content: Content) -> DataChecked {
    let Inspection { snapshots, logs, startup } = inspection;
    let (error, planned, history) = match startup {
        Ok(startup) => (None, startup.planned, startup.history),
        Err(error) => (Some(error.to_string()), Vec::new(), None),
    };
    DataChecked {
        directory: dir.display().to_string(),
        log_directory: log_dir.display().to_string(),
        error,
        snapshots: snapshots.into_iter().map(snapshot).collect(),
        logs: logs.into_iter().map(log).collect(),
        planned: planned.iter().map(ToString::to_string).collect(),
        content: history.map(|_| content_checked(content)),
        history: history.map(history_checked),
    }
}

fn snapshot(file: SnapshotFile) -> SnapshotChecked {
    SnapshotChecked { file: name(&file.path), zxid: hex(file.zxid), bytes: file.bytes, damage: file.damage }
}

fn log(file: LogFile) -> LogChecked {
    LogChecked {
        file: name(&file.path),
        first: hex(file.first),
        last: file.last.map(hex),
        transactions: file.transactions,
        bytes: file.bytes,
        damage: file.damage,
    }
}

fn history_checked(standing: Standing) -> HistoryChecked {
    HistoryChecked {
        accepted_epoch: standing.accepted_epoch.0,
        current_epoch: standing.current_epoch.0,
        last_zxid: hex(standing.last_zxid),
        snapshot: standing.snapshot.map(hex),
        replayed: standing.replayed,
        committed: standing.committed.map(hex),
    }
}

pub(super) fn content_checked(content: Content) -> ContentChecked {
    let Content { nodes, ephemerals, sessions, bytes, digest, schemes } = content;
    ContentChecked { nodes, ephemerals, sessions, bytes, digest: digest.to_string(), schemes }
}

fn name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

fn hex(zxid: Zxid) -> String {
    format!("{:#x}", zxid.0)
}

pub(crate) fn text(checked: &DataChecked, paint: Paint) -> String {
    let mut text = files(checked, paint);
    if !checked.planned.is_empty() {
        text += "At the next start:\n";
        checked.planned.iter().for_each(|what| text += &format!("  {what}\n"));
        text.push('\n');
    }
    match (&checked.error, &checked.history, &checked.content) {
        (Some(error), _, _) => text += &format!("{} {error}\n", paint.red("A server would not start:")),
        (None, Some(history), Some(content)) => text += &summary(history, content, paint),
        (None, _, _) => text += "What the history is depends on the interrupted operation.\n",
    }
    text
}

fn files(checked: &DataChecked, paint: Paint) -> String {
    if checked.snapshots.is_empty() && checked.logs.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["file", "first zxid", "last zxid", ">transactions", ">bytes", ""], paint);
    let state = |damage: &Option<String>| damage.clone().unwrap_or_else(|| "ok".to_owned());
    let painted = |damaged: bool| move |text: &str| if damaged { paint.red(text) } else { text.to_owned() };
    for file in &checked.snapshots {
        let cells = [&file.file, "", &file.zxid, "", &file.bytes.to_string(), &state(&file.damage)];
        table.row(cells.map(str::to_owned), painted(file.damage.is_some()));
    }
    for file in &checked.logs {
        let last = file.last.as_deref().unwrap_or("none");
        let (transactions, bytes) = (file.transactions.to_string(), file.bytes.to_string());
        let cells = [&file.file, &file.first, last, &transactions, &bytes, &state(&file.damage)];
        table.row(cells.map(str::to_owned), painted(file.damage.is_some()));
    }
    table.text() + "\n"
}

fn summary(history: &HistoryChecked, content: &ContentChecked, paint: Paint) -> String {
    let from = match &history.snapshot {
        Some(zxid) => format!("the snapshot at {zxid} and {}", counted(history.replayed as usize, "transaction")),
        None => counted(history.replayed as usize, "transaction"),
    };
    let headline = format!("A server would start at {}", history.last_zxid);
    let committed = match &history.committed {
        Some(zxid) if *zxid != history.last_zxid => {
            format!(
                "It knew that everything up to {zxid} is committed; in an ensemble the leader decides about the rest.\n"
            )
        }
        Some(_) | None => String::new(),
    };
    format!(
        "{}, from {from}.\nCurrent epoch {}, accepted epoch {}.\n{committed}{}",
        paint.green(&headline),
        history.current_epoch,
        history.accepted_epoch,
        described(content),
    )
}

pub(crate) fn described(content: &ContentChecked) -> String {
    format!(
        "{} ({} ephemeral), {}, {} bytes of paths and data, digest {}.\n",
        counted(content.nodes, "node"),
        content.ephemerals,
        counted(content.sessions, "session"),
        content.bytes,
        content.digest,
    )
}
