//! `pole server`: one server in the foreground, until a signal stops it.

use std::path::Path;
use std::process::ExitCode;

use pole_server::config::Config;
use pole_server::{Exit, Server, StartError, log};
use tokio::signal::unix::{SignalKind, signal};

/// Runs the server of a configuration file.
pub(crate) fn run(file: &Path) -> ExitCode {
    let (config, warnings) = match Config::load(file) {
        Ok(loaded) => loaded,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    log::set_json(config.pole.log_json);
    for warning in warnings {
        log::warn("configuration", &[("what", &warning.to_string())]);
    }
    match serve(&config) {
        Ok(Exit::Stopped) => ExitCode::SUCCESS,
        Ok(Exit::Halted(reason)) => {
            log::error("disk_failed", &[("reason", &reason)]);
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("pole server: {error}");
            ExitCode::from(2)
        }
    }
}

fn serve(config: &Config) -> Result<Exit, StartError> {
    let server = Server::start(config)?;
    let stopper = server.stopper();
    std::thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
                return;
            };
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            stopper.stop();
        });
    });
    Ok(server.wait())
}
