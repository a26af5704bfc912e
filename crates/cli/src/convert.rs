//! `pole convert`: writes a configuration in the other syntax.
//!
//! The new file means the same: before it is written, it is read again and compared. Comments are not kept, nor keys
//! that have no effect, nor values that are the default.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use pole_api::commands::Converted;
use pole_server::config::{Config, Identity};

use crate::args::ConvertArgs;
use crate::check::print_as;
use crate::failure::Failure;
use crate::{print, print_error};

pub(crate) fn run(args: &ConvertArgs, json: bool) -> Result<(), Failure> {
    let ConvertArgs { from, to, force } = args;
    let (config, warnings) = load(from)?;
    let text = if is_toml(to) { config.to_toml() } else { config.to_cfg() };
    if !json {
        warnings.iter().for_each(|warning| print_error(&format!("pole: {warning}\n")));
    }
    if to.as_os_str() == "-" {
        return print(&text);
    }
    write(from, to, &text, *force)?;
    if load(to)?.0 != config {
        // A bug of ours, which must not reach a server.
        let _ = std::fs::remove_file(to);
        return Err(Failure::failed(format!(
            "{} would not mean the same as {}: report it",
            to.display(),
            from.display()
        )));
    }
    let converted = Converted {
        from: from.display().to_string(),
        to: to.display().to_string(),
        warnings: warnings.iter().map(ToString::to_string).collect(),
    };
    print_as(&converted, json, |done| format!("{} means the same as {}.\n", done.to, done.from))
}

fn load(path: &Path) -> Result<(Config, Vec<pole_server::config::Warning>), Failure> {
    Config::load_as(path, Identity::Any).map_err(|error| Failure::bad_input(error.to_string()))
}

fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "toml")
}

/// Writes a new file with the permissions of the old one, because both may contain secrets.
fn write(from: &Path, to: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        let advice = match error.kind() == std::io::ErrorKind::AlreadyExists {
            true => "; replace it with --force",
            false => "",
        };
        Failure::bad_input(format!("{} cannot be written: {error}{advice}", to.display()))
    };
    let mode = std::fs::metadata(from).map_err(failed)?.mode() & 0o777;
    let mut options = OpenOptions::new();
    options.write(true).mode(mode).create_new(!force).create(true).truncate(force);
    let mut file = options.open(to).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
}
