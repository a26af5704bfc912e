//! `pole entrypoint`: what a container runs, with the conventions of the official ZooKeeper image.
//!
//! Variables such as `ZOO_MY_ID` and `ZOO_SERVERS` become a `zoo.cfg` and a `myid`, if those do not exist, and the server
//! runs in the foreground. The image has no shell, so the names of ZooKeeper's scripts are understood here: `zkServer.sh
//! start-foreground` is the server, `zkCli.sh` the shell. Anything else is a command of `pole`, or a program.

mod cli_script;
mod variables;

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

use clap::{CommandFactory as _, Parser as _};

use crate::args::{Cli, ServerArgs};
use crate::failure::Failure;
use crate::{print, print_error, server, shell};

use variables::Variables;

pub(crate) fn run(args: &[OsString], json: bool) -> Result<(), Failure> {
    let words: Vec<&str> = args.iter().filter_map(|word| word.to_str()).collect();
    let variables = Variables::of_process();
    match &words[..] {
        [] | ["zkServer.sh"] | ["zkServer.sh", "start-foreground" | "start"] => serve(&variables),
        ["--help" | "-h", ..] => help(),
        ["zkServer.sh", ..] => Err(Failure::bad_input(
            "in a container, zkServer.sh knows start-foreground only; `pole status` shows the ensemble",
        )),
        ["zkCli.sh", rest @ ..] => shell::run(&cli_script::parse(rest)?, json),
        [first, ..] => match Cli::command().find_subcommand(first) {
            Some(_) => crate::run(Cli::parse_from([OsString::from("pole")].into_iter().chain(args.to_vec()))),
            None => Err(replace(&mut std::process::Command::new(&args[0]), &args[1..])),
        },
    }
}

/// The command has no options of its own, because everything after it belongs to a server, a script or a program.
fn help() -> Result<(), Failure> {
    let mut all = Cli::command();
    all.build();
    match all.find_subcommand_mut("entrypoint") {
        Some(own) => print(&own.render_long_help().to_string()),
        None => Ok(()),
    }
}

fn serve(variables: &Variables) -> Result<(), Failure> {
    if let Some(user) = variables.get("POLE_RUN_AS") {
        drop_privileges(variables, user)?;
    }
    variables.without_effect().for_each(|what| print_error(&format!("pole: {what}\n")));
    let config = prepare(variables)?;
    server::run(&ServerArgs { config, until_stdin_ends: false })
}

/// Writes the configuration and `myid`, unless they exist. Returns the path of the configuration.
fn prepare(variables: &Variables) -> Result<PathBuf, Failure> {
    let folder = variables.folder("ZOO_CONF_DIR");
    let toml = folder.join("pole.toml");
    let config = if toml.exists() { toml } else { folder.join("zoo.cfg") };
    let id = variables.id().map_err(Failure::bad_input)?;
    if !config.exists() {
        let text = variables.configuration(id).map_err(Failure::bad_input)?;
        write(&config, &text)?;
    }
    let data = variables.folder("ZOO_DATA_DIR");
    let myid = data.join("myid");
    if !myid.exists() {
        write(&myid, &format!("{id}\n"))?;
    }
    Ok(config)
}

/// Writes a file that is whole or not there: a container may be killed at any time.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        let hint = match error.kind() == ErrorKind::PermissionDenied || error.kind() == ErrorKind::ReadOnlyFilesystem {
            true => "; give the user of the container the right to write there, or mount the file",
            false => "",
        };
        Failure::bad_input(format!("cannot write {}: {error}{hint}", path.display()))
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let part = path.with_extension("part");
    fs::write(&part, text).and_then(|()| fs::rename(&part, path)).map_err(failed)
}

/// Gives the folders to another user, and runs this program again as that one. Returns if it is that user already, or
/// another one that is not root.
fn drop_privileges(variables: &Variables, user: &str) -> Result<(), Failure> {
    let ids = user.split_once(':').and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
    let Some((uid, gid)) = ids else {
        return Err(Failure::bad_input(format!("POLE_RUN_AS={user}: expected UID:GID, such as 1000:1000")));
    };
    if !rustix::process::geteuid().is_root() || uid == 0 {
        return Ok(());
    }
    for name in ["ZOO_CONF_DIR", "ZOO_DATA_DIR", "ZOO_DATA_LOG_DIR"] {
        let folder = variables.folder(name);
        let given = fs::create_dir_all(&folder).and_then(|()| give(&folder, uid, gid));
        // A folder that is mounted read-only may be readable all the same.
        if let Err(error) = given {
            print_error(&format!("pole: cannot give {} to user {uid}: {error}\n", folder.display()));
        }
    }
    // An empty root may have no /proc, where the path of a program is found; then it is the one that it was started by.
    let own = std::env::current_exe().ok().or_else(|| std::env::args_os().next().map(PathBuf::from));
    let own = own.ok_or_else(|| Failure::failed("cannot find this program"))?;
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    Err(replace(std::process::Command::new(own).uid(uid).gid(gid), &args))
}

fn give(path: &Path, uid: u32, gid: u32) -> io::Result<()> {
    chown(path, Some(uid), Some(gid))?;
    // Links are not followed: they may lead out of the folder.
    if path.symlink_metadata()?.is_dir() {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if !entry.file_type()?.is_symlink() {
                give(&entry.path(), uid, gid)?;
            }
        }
    }
    Ok(())
}

/// Replaces this process. Returns only if that fails.
fn replace(command: &mut std::process::Command, args: &[OsString]) -> Failure {
    let error = command.args(args).exec();
    Failure::bad_input(format!("cannot run {}: {error}", command.get_program().to_string_lossy()))
}
