//! `pole server`: one server in the foreground, until a signal stops it.
//!
//! The log goes to standard error, and the exit code gives the reason why the server ended. A signal that arrives
//! while the server still opens its files stops it right afterwards.

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::{env, io};

use pole_server::config::Config;
use pole_server::log::target::{DISK, SERVER};
use pole_server::{Exit, KEYTAB_VARIABLE, Server, StartError, log};
use pole_storage::OpenError;
use tracing::{error, info, warn};

use crate::args::ServerArgs;
use crate::failure::{Failure, Kind};
use crate::signals::Signals;

/// Runs the server of a configuration file.
pub(crate) fn run(args: &ServerArgs) -> Result<(), Failure> {
    let result = serve(args);
    log::flush();
    result
}

fn serve(args: &ServerArgs) -> Result<(), Failure> {
    let (config, warnings) = Config::load(&args.config).map_err(|error| Failure::bad_input(error.to_string()))?;
    set_keytab(&config)?;
    log::init(&config);
    for warning in warnings {
        warn!(target: SERVER, what = %warning, "configuration");
    }
    info!(target: SERVER, id = config.me().0, version = env!("CARGO_PKG_VERSION"), "starting");
    let signals = Signals::catch().map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))?;
    let server = Server::start(&config).map_err(|error| Failure::new(kind(&error), with_advice(&error)))?;
    let stopper = server.stopper();
    if args.until_stdin_ends {
        let stopper = stopper.clone();
        std::thread::spawn(move || {
            // No input is expected; an error is an end as well.
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            stopper.stop();
        });
    }
    signals.on_each(move || {
        stopper.stop();
        false
    });
    match server.wait() {
        Exit::Stopped => Ok(()),
        Exit::Halted(reason) => {
            error!(target: DISK, reason, "disk_failed");
            Err(Failure::failed(format!("the server stopped itself: {reason}")))
        }
    }
}

/// Starts this program again with the keytab of the configuration in its environment, where a GSSAPI library looks for it. A
/// process with threads cannot change its environment safely. Returns if the variable is set, or there is no keytab.
fn set_keytab(config: &Config) -> Result<(), Failure> {
    let kerberos = config.service.kerberos.as_ref().filter(|_| cfg!(feature = "kerberos"));
    let Some(keytab) = kerberos.and_then(|kerberos| kerberos.keytab.as_ref()) else { return Ok(()) };
    if env::var_os(KEYTAB_VARIABLE).is_some_and(|set| set == *keytab) {
        return Ok(());
    }
    let failed = |error| Failure::failed(format!("cannot start again with {KEYTAB_VARIABLE} set: {error}"));
    let program = env::current_exe().map_err(failed)?;
    let mut arguments = env::args_os();
    let mut again = Command::new(program);
    again.arg0(arguments.next().unwrap_or_default()).args(arguments).env(KEYTAB_VARIABLE, keytab);
    Err(failed(again.exec()))
}

fn kind(error: &StartError) -> Kind {
    let kind_of_port = |error: &io::Error| match error.kind() == io::ErrorKind::AddrInUse {
        true => Kind::InUse,
        false => Kind::BadInput,
    };
    match error {
        StartError::Disk(error) => kind_of_disk(error),
        StartError::Tls(_)
        | StartError::Kerberos(_)
        | StartError::Secret(_)
        | StartError::Host { .. }
        | StartError::Audit { .. } => Kind::BadInput,
        StartError::System(_) => Kind::Failed,
        StartError::Port { error, .. } => kind_of_port(error),
        StartError::Peers(error) => {
            if error.is_in_use() {
                Kind::InUse
            } else {
                Kind::BadInput
            }
        }
    }
}

pub(crate) fn kind_of_disk(error: &OpenError) -> Kind {
    match error {
        OpenError::InUse { .. } => Kind::InUse,
        OpenError::Damaged(_)
        | OpenError::NoSnapshot { .. }
        | OpenError::Version { .. }
        | OpenError::Compressed { .. } => Kind::BadData,
        OpenError::Misplaced { .. } | OpenError::Following { .. } => Kind::BadInput,
        OpenError::File(_) => Kind::Failed,
    }
}

/// The error with advice for the operator, where the error itself has none.
fn with_advice(error: &StartError) -> String {
    match error {
        StartError::Port { port, error: cause, .. } if cause.kind() == io::ErrorKind::AddrInUse => {
            format!("{error}; stop what listens there, or change {port}")
        }
        StartError::Port { port, .. } => format!("{error}; check {port} and its address"),
        StartError::Disk(_)
        | StartError::Peers(_)
        | StartError::Secret(_)
        | StartError::Tls(_)
        | StartError::Host { .. }
        | StartError::Audit { .. }
        | StartError::Kerberos(_)
        | StartError::System(_) => error.to_string(),
    }
}
