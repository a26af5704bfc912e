//! What the start of a server would find, without starting it: in its data directory, in a backup, and on its machine.
//!
//! Nothing is changed, except that [`install_backup`] does what it says.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use bytes::Bytes;
use pole_storage::{Inspection, InstallError, Installed, OpenError, SnapshotImport, inspect};
use pole_tree::{Restorer, Rules, Tree};
use pole_types::Zxid;

use crate::clock::{Clock, wall_ms};
use crate::config::{Address, Config};
use crate::kerberos::{Acceptor, KerberosError};
use crate::peer::PeerSecret;
use crate::server::{Rebuild, resolve, storage};
use crate::shared::Shared;
use crate::{Settings, tls};

/// The state that a start would restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The number of znodes.
    pub nodes: usize,
    /// The number of ephemeral ones among them.
    pub ephemerals: usize,
    /// The number of sessions.
    pub sessions: usize,
    /// The size of paths and data.
    pub bytes: u64,
    /// The digest that the four-letter word `hash` shows.
    pub digest: u64,
    /// The number of znodes by the schemes in their ACLs.
    pub schemes: BTreeMap<String, usize>,
}

/// Reads the directories of a configuration, and restores the state from them.
///
/// # Errors
/// If the directories cannot be read, or a server uses them. Damage is part of the result.
pub fn inspect_data(config: &Config) -> Result<(Inspection, Content), OpenError> {
    let shared = Shared::new(Settings::new(config), Clock::start(), wall_ms());
    // Transactions that are not known to be committed are applied too, because all of them are to be checked.
    let storage = pole_storage::Config { alone: true, ..storage(config, &shared) };
    let mut rebuild = Rebuild::new(config, &shared);
    let inspection = inspect(&storage, &mut rebuild)?;
    // It holds the lock of the tree.
    drop(rebuild);
    let content = Content::of(&shared.tree.read());
    Ok((inspection, content))
}

impl Content {
    fn of(tree: &Tree) -> Self {
        Self {
            nodes: tree.node_count(),
            ephemerals: tree.ephemerals_count(),
            sessions: tree.sessions().count(),
            bytes: tree.approximate_data_bytes(),
            digest: tree.digest(),
            schemes: tree.acl_schemes(),
        }
    }
}

/// Reads a backup: its content, and its last transaction if it names it.
///
/// # Errors
/// Why it cannot be restored.
pub fn inspect_backup(path: &Path) -> Result<(Content, Option<Zxid>), String> {
    let mut file = File::open(path).map_err(|error| error.to_string())?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let (tree, zxid) = read_backup(Rules::default(), || {
        let count = file.read(&mut buffer).map_err(|error| error.to_string())?;
        Ok((count > 0).then(|| Bytes::copy_from_slice(&buffer[..count])))
    })?;
    Ok((Content::of(&tree), zxid))
}

/// Restores the state of a backup that arrives in pieces.
pub(crate) fn read_backup(
    rules: Rules,
    mut next: impl FnMut() -> Result<Option<Bytes>, String>,
) -> Result<(Tree, Option<Zxid>), String> {
    let (mut import, mut restorer) = (SnapshotImport::new(), Restorer::new(rules));
    while let Some(piece) = next()? {
        let state = import.feed(&piece).map_err(|error| error.to_string())?;
        restorer.feed(state).map_err(|error| error.to_string())?;
    }
    let (rest, zxid) = import.finish().map_err(|error| error.to_string())?;
    restorer.feed(rest).map_err(|error| error.to_string())?;
    Ok((restorer.finish().map_err(|error| error.to_string())?, zxid))
}

const BUFFER_BYTES: usize = 256 << 10;

/// Puts a backup into the directories of a configuration, for a server that does not run.
///
/// # Errors
/// If a server uses them, they have a history that is not to be replaced, or the file system fails.
pub fn install_backup(config: &Config, backup: &Path, zxid: Zxid, replace: bool) -> Result<Installed, InstallError> {
    let shared = Shared::new(Settings::new(config), Clock::start(), wall_ms());
    pole_storage::install_backup(&storage(config, &shared), backup, zxid, replace)
}

/// Checks what a configuration names on this machine: keys, secrets and the addresses to listen on. Returns the key and
/// what is wrong, for everything that would keep the server from starting. Ports are not opened.
#[must_use]
pub fn check_environment(config: &Config) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let mut note = |key, result: Result<(), String>| found.extend(result.err().map(|why| (key, why)));
    for (key, address) in [("clientPort", &config.clients.plain), ("secureClientPort", &config.clients.secure)] {
        if let Some(address) = address {
            note(key, resolve(key, address).map(drop).map_err(|error| error.to_string()));
        }
    }
    if config.clients.secure.is_some() {
        let opened = tls::acceptor(&config.tls.clients).map(drop);
        note("ssl.keyStore.location", opened.map_err(|error| error.to_string()));
    }
    if let Some(ensemble) = &config.ensemble {
        let own = &ensemble.members.servers[&ensemble.me];
        let host = if ensemble.listen_on_all { "0.0.0.0" } else { &own.host };
        let address = Address::new(host, own.quorum_port);
        note("server.N", resolve("server.N", &address).map(drop).map_err(|error| error.to_string()));
        if config.tls.between_servers {
            let opened = tls::PeerTls::open(&config.tls.peers).map(drop);
            note("ssl.quorum.keyStore.location", opened.map_err(|error| error.to_string()));
        }
    }
    if let Some(kerberos) = &config.service.kerberos {
        let opened = match Acceptor::open(kerberos) {
            // A server sets the variable for itself; here, the file is all that can be checked.
            Err(KerberosError::OtherKeytab { keytab, .. }) => {
                File::open(&keytab).map(drop).map_err(|error| format!("{}: {error}", keytab.display()))
            }
            opened => opened.map(drop).map_err(|error| error.to_string()),
        };
        note("pole.sasl.jaasFile", opened);
    }
    if let Some(file) = &config.pole.peer_secret {
        note("pole.peer.secret", PeerSecret::read(file).map(drop).map_err(|error| error.to_string()));
    }
    found
}
