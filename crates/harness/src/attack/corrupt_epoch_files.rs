//! Epoch files without a valid epoch. A server that guessed the epoch could vote twice, so it must refuse to start.

use std::fs;
use std::time::Duration;

use pole_client::blocking::Session;

use super::disk::DAMAGED;
use super::target::SESSION_TIMEOUT;
use super::{Attack, Findings};
use crate::Failure;
use crate::client;
use crate::ensemble::{Ensemble, Launcher, READY_LIMIT, Setup};

pub(super) const ATTACK: Attack = Attack::self_contained(
    "corrupt-epoch-files",
    "starts of one of three servers with acceptedEpoch and currentEpoch empty, garbage, negative and too large",
    run,
);

fn run(launcher: &Launcher) -> Result<Findings, Failure> {
    let mut ensemble = Ensemble::ready(launcher, &Setup::new("attack-corrupt-epoch-files", 3))?;
    let mut found = Findings::default();
    let mut refused = 0;
    let names = epoch_files(&ensemble)?;
    for name in &names {
        for content in CONTENTS {
            let server = ensemble.server(VICTIM);
            // The server still runs, or has exited by itself in the previous case.
            server.reap()?;
            let path = server.folder().join(name);
            let original = fs::read(&path).map_err(|why| Failure::io("read", &path, &why))?;
            fs::write(&path, content).map_err(|why| Failure::io("write", &path, &why))?;
            let before = fs::read(server.log_path()).map_or(0, |text| text.len());
            server.start()?;
            let ended = server.wait_end(END_LIMIT)?.map(|status| status.code());
            let log = fs::read(server.log_path()).unwrap_or_default();
            let message = String::from_utf8_lossy(&log[before.min(log.len())..]).trim_end().to_owned();
            let short = name.rsplit('/').next().unwrap_or(name);
            let case = format!("{short} with {:?}", String::from_utf8_lossy(content));
            match ended {
                Some(Some(DAMAGED)) => {
                    refused += 1;
                    found = found.require(message.contains(short), || {
                        format!("{case}: the message does not name the file: {message}")
                    });
                }
                Some(code) => {
                    found.problems.push(format!("{case}: ended with {code:?}, expected {DAMAGED}: {message}"))
                }
                None => found.problems.push(format!("{case}: runs on")),
            }
            found = found.require(others_serve(&ensemble), || format!("{case}: the other servers do not serve"));
            fs::write(&path, original).map_err(|why| Failure::io("write", &path, &why))?;
        }
    }
    // With its original files, the server joins again.
    ensemble.server(VICTIM).reap()?;
    ensemble.server(VICTIM).start()?;
    ensemble.wait_ready(READY_LIMIT)?;
    let cases = names.len() * CONTENTS.len();
    if found.problems.is_empty() {
        ensemble.done()?;
    }
    Ok(Findings { note: format!("{refused} of {cases} starts refused"), ..found })
}

/// The paths of both epoch files, relative to the folder of the server.
fn epoch_files(ensemble: &Ensemble) -> Result<Vec<String>, Failure> {
    let folder = ensemble.servers()[VICTIM].folder();
    let both = ["acceptedEpoch", "currentEpoch"].map(|name| super::disk::files(folder, name));
    let mut names = Vec::new();
    for path in both.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
        let inside = path.strip_prefix(folder).expect("it was found there");
        names.push(inside.to_string_lossy().into_owned());
    }
    if names.len() == 2 {
        Ok(names)
    } else {
        Err(Failure::Check(format!("expected two files of epochs, found {names:?}")))
    }
}

fn others_serve(ensemble: &Ensemble) -> bool {
    let serves = |index: usize| {
        let session = Session::connect(ensemble.servers()[index].address(), SESSION_TIMEOUT);
        session.and_then(|mut session| session.ask(client::set_data("/", b""))).is_ok()
    };
    (0..ensemble.servers().len()).filter(|index| *index != VICTIM).all(serves)
}

const VICTIM: usize = 2;

const CONTENTS: &[&[u8]] = &[b"", b"garbage", b"-5", b"99999999999999999999", b"1\n2\n", b"\xff\xfe"];

/// A server reads these files first, so it exits quickly.
const END_LIMIT: Duration = Duration::from_secs(3);
