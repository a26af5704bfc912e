//! `pole migrate check`: what a move in place would keep and change.
//!
//! The configuration and the directory are those of a server of Apache, which may run. Nothing is written.

use std::time::Duration;

use pole_api::commands::{ApacheRunning, DataChecked, Finding, MigrationChecked};
use pole_migrate::{Answer, ApacheServer, Mode, ask};
use pole_server::config::{Config, Identity};
use pole_server::inspect_data;
use pole_types::ServerId;

use super::args::MigrateCheckArgs;
use super::hex;
use crate::check::configuration::{self, ERROR};
use crate::check::data;
use crate::check::{counted, print_as};
use crate::failure::Failure;
use crate::paint::Paint;

pub(crate) fn run(args: &MigrateCheckArgs, json: bool, paint: Paint) -> Result<(), Failure> {
    let identity = args.id.map_or(Identity::FromFile, |id| Identity::Is(ServerId(id)));
    let (config, findings) = configuration::load(&args.config, identity);
    let mut checked = MigrationChecked {
        file: args.config.display().to_string(),
        server: config.as_ref().and_then(|config| config.ensemble.as_ref()).map(|ensemble| ensemble.me.0),
        ready: config.is_some(),
        findings,
        ..MigrationChecked::default()
    };
    if let Some(config) = &config {
        checked.running = running(config);
        let data = inspect(config, checked.running.is_some());
        match data {
            Ok(data) => {
                checked.ready = data.error.is_none();
                if data.snapshots.is_empty() && data.logs.is_empty() {
                    checked.ready = false;
                    let what = format!("no history in {}: nothing to move; check dataDir", data.directory);
                    checked.differences.push(what);
                }
                checked.data = Some(data);
            }
            Err(error) => {
                checked.ready = false;
                checked.differences.push(error);
            }
        }
    }
    checked.differences.extend(differences(&checked));
    print_as(&checked, json, |checked| text(checked, paint))?;
    match checked.ready {
        true => Ok(()),
        false => Err(Failure::failed("Pole cannot go on from here; nothing was changed")),
    }
}

/// What the server does now, if it runs.
fn running(config: &Config) -> Option<ApacheRunning> {
    let address = config.clients.plain.as_ref()?;
    let host = if address.is_wildcard() { "127.0.0.1".to_owned() } else { address.host.clone() };
    let ensemble = config.ensemble.as_ref();
    let server = ApacheServer {
        id: config.me(),
        client: (host.clone(), address.port),
        election_port: ensemble.map_or(address.port, |ensemble| ensemble.servers[&ensemble.me].election_port),
        quorum_port: 0,
        host,
        votes: true,
    };
    match ask(&server, ASK_LIMIT) {
        Answer::Serving { mode, zxid, version } => {
            let mode = match mode {
                Mode::Leader => "leader",
                Mode::Follower => "follower",
                Mode::Observer => "observer",
                Mode::Standalone => "standalone",
                Mode::ReadOnly => "read-only",
            };
            Some(ApacheRunning { version, mode: mode.to_owned(), zxid: hex(zxid) })
        }
        Answer::NotServing => Some(ApacheRunning { mode: "not serving".to_owned(), ..ApacheRunning::default() }),
        Answer::Down | Answer::Unknown(_) => None,
    }
}

/// Reads the directory. Under a running server the end of the log may be read while it is written, so damage is looked
/// at again.
fn inspect(config: &Config, runs: bool) -> Result<DataChecked, String> {
    let mut tries = if runs { TRIES_MAX } else { 1 };
    loop {
        let (inspection, content) = inspect_data(config).map_err(|error| error.to_string())?;
        tries -= 1;
        if inspection.startup.is_ok() || tries == 0 {
            return Ok(data::report(&config.storage.data_dir, &config.storage.log_dir, inspection, content));
        }
    }
}

fn differences(checked: &MigrationChecked) -> Vec<String> {
    let mut found = Vec::new();
    let count = |about: &str| checked.findings.iter().filter(|finding| finding.about == about).count();
    let errors = checked.findings.iter().filter(|finding| finding.level == ERROR).count();
    if errors > 0 {
        found.push(format!("{} that Pole refuses: see above", counted(errors, "key or value")));
    }
    let ignored = count("unknown-key") + count("no-effect");
    if ignored > 0 {
        found.push(format!("{} that Pole ignores: see above", counted(ignored, "key")));
    }
    let content = checked.data.as_ref().and_then(|data| data.content.as_ref());
    for (scheme, nodes) in content.iter().flat_map(|content| &content.schemes) {
        if !SCHEMES.contains(&scheme.as_str()) {
            found.push(format!(
                "{} with an ACL of the scheme {scheme}, under which Pole authenticates nobody: change these ACLs before, \
                 or only a superuser reaches what they protect",
                counted(*nodes, "znode")
            ));
        }
    }
    found
}

fn text(checked: &MigrationChecked, paint: Paint) -> String {
    let mut text = String::new();
    for finding in &checked.findings {
        text += &format!("{}: {}\n", level(finding, paint), configuration::place(finding));
    }
    match &checked.running {
        Some(running) if running.version.is_empty() => text += "A server runs here and serves nobody yet.\n\n",
        Some(ApacheRunning { version, mode, zxid }) => {
            text += &format!("ZooKeeper {version} runs here ({mode}, at {zxid}); what follows is of this moment.\n\n");
        }
        None => {}
    }
    if let Some(data) = &checked.data {
        text += &data::text(data, paint);
    }
    if !checked.differences.is_empty() {
        text += "\nWhat would be different:\n";
        checked.differences.iter().for_each(|difference| text += &format!("  {difference}\n"));
    }
    if checked.ready {
        let headline = paint.green("A Pole server would start here.");
        text += &format!("\n{headline} Znodes, ACLs, zxids, sessions and their ephemeral nodes are kept.\n");
    }
    text
}

fn level(finding: &Finding, paint: Paint) -> String {
    if finding.level == ERROR { paint.red(&finding.level) } else { paint.bold(&finding.level) }
}

/// The schemes under which clients can be somebody.
const SCHEMES: &[&str] = &["world", "auth", "digest", "ip", "x509", "super"];

/// A server that runs answers at once.
const ASK_LIMIT: Duration = Duration::from_secs(2);

/// Enough for a read that met a write.
const TRIES_MAX: u32 = 5;
