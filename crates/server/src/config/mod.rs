//! The configuration of a server: parses `zoo.cfg` or `pole.toml` into one typed value.
//!
//! Besides the file itself, the parser reads `myid` in the data directory and, if the configuration names them, a file
//! of `server.N` lines, the users of SASL and a topology. The result is a [`Config`] with warnings, or an error that lists everything that
//! is wrong.
//!
//! Apache's server reads its settings in fifty places when they are first needed, and a typo goes unnoticed. Here they
//! are read and checked once, at the start; nothing else parses or validates settings.
//!
//! - The same text gives the same configuration.
//! - What [`Config::to_cfg`] writes reads back equal.
//! - No input makes the parser panic.
//!
//! Opening key stores (`tls`), resolving names, binding ports and creating directories happen elsewhere.
//!
//! ```text
//! properties, toml   text                      -> entries with lines
//! settings           the table of all settings, and the structs that hold them
//! values             entries + table           -> checked values, defaults
//! build              values + other files      -> Config (rules between keys)
//! write              Config                    -> zoo.cfg, pole.toml, conf, /zookeeper/config
//! change             two Configs               -> what differs, and what it takes
//! ```

mod authentication;
mod build;
mod change;
pub(crate) mod dynamic;
mod jaas;
pub mod keys;
mod properties;
mod report;
mod settings;
mod ssl;
mod toml;
mod types;
mod values;
mod write;

use std::io::{self, Read};
use std::path::Path;

use pole_oracle::{ResignConfig, Spec, SpecError};
use pole_types::{Membership, ServerId, Span, Voters};
use pole_zab::Limits;

pub use change::{Change, Effect};
pub use pole_tree::{Address, MemberRole, Members, Server};
pub use report::{About, ConfigError, Problem, Warning};
pub use settings::{Admin, Clients, Ensemble, Pole, Service, Storage, Timing, Tls};
pub use types::{
    ClientAuth, Emulation, FourLetterWords, Kerberos, Password, Secret, SourceFile, Store, StoreFormat, TlsSettings,
};

use report::Report;
use values::{Values, Written};

/// The settings of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The ensemble; `None` for a standalone server.
    pub ensemble: Option<Ensemble>,
    /// Ports and limits for clients.
    pub clients: Clients,
    /// The tick and the timeouts derived from it.
    pub timing: Timing,
    /// Data directories, snapshots and log.
    pub storage: Storage,
    /// Znodes and permissions.
    pub service: Service,
    /// Admin server and metrics.
    pub admin: Admin,
    /// TLS for clients and between servers.
    pub tls: Tls,
    /// Pole's own keys.
    pub pole: Pole,
    /// The settings of the file that are not the default, to write them again.
    written: Written,
}

/// Where the id of this server comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The file `myid` in `dataDir`, as for a server that starts.
    FromFile,
    /// Given, to check a file on another machine than the server's.
    Is(ServerId),
    /// Of no interest: the first server of the ensemble stands for all.
    Any,
}

/// Reads a file that the configuration names. The parser accesses the disk only through this, so that it is otherwise a
/// pure function of the text.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

impl Config {
    /// Reads a configuration file: TOML if its name ends in `.toml`, else the syntax of `zoo.cfg`.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with file, line, key, value and what is allowed.
    pub fn load(path: &Path) -> Result<(Self, Vec<Warning>), ConfigError> {
        Self::load_as(path, Identity::FromFile)
    }

    /// Like [`Config::load`], for a server whose id is known otherwise.
    ///
    /// # Errors
    /// See [`Config::load`].
    pub fn load_as(path: &Path, identity: Identity) -> Result<(Self, Vec<Warning>), ConfigError> {
        Self::load_entries(path, identity, |_| true)
    }

    /// Reads the configuration of an ensemble of Apache that is to be copied. What a Pole server does not support is no
    /// concern of a copy, except what the other servers ask of it.
    ///
    /// # Errors
    /// See [`Config::load`].
    pub fn load_source(path: &Path) -> Result<(Self, Vec<Warning>), ConfigError> {
        let concerns_copy = |entry: &properties::Entry| {
            entry.key.starts_with("quorum.auth.") || !values::is_unsupported(&entry.key, &entry.value)
        };
        Self::load_entries(path, Identity::Any, concerns_copy)
    }

    /// Reads the entries of a file that are wanted.
    fn load_entries(
        path: &Path,
        identity: Identity,
        is_wanted: impl Fn(&properties::Entry) -> bool,
    ) -> Result<(Self, Vec<Warning>), ConfigError> {
        let file = path.display().to_string();
        let text = match read_bounded(path) {
            Ok(text) => text,
            Err(error) => {
                let mut report = Report::new(&file);
                report.problem(0, "", "", format!("cannot be read: {error}; name a readable file"));
                return Err(report.finish(()).expect_err("a problem was reported"));
            }
        };
        let mut report = Report::new(&file);
        let mut entries = match path.extension().is_some_and(|ending| ending == "toml") {
            true => toml::parse(&text, &mut report),
            false => properties::parse(&text, &mut report),
        };
        entries.retain(is_wanted);
        let (mut config, warnings) = Self::from_entries(entries, &read_bounded, identity, report)?;
        if let Some(ensemble) = &mut config.ensemble {
            ensemble.file = SourceFile(Some(std::path::absolute(path).unwrap_or_else(|_| path.to_owned())));
        }
        Ok((config, warnings))
    }

    /// Reads the syntax of `zoo.cfg`. The name of the file is used in messages only.
    ///
    /// # Errors
    /// See [`Config::load`].
    pub fn parse_cfg(file: &str, text: &str, read: ReadFile<'_>) -> Result<(Self, Vec<Warning>), ConfigError> {
        let mut report = Report::new(file);
        let entries = properties::parse(text, &mut report);
        Self::from_entries(entries, read, Identity::FromFile, report)
    }

    /// Reads the syntax of `pole.toml`: the same keys, with tables for dots.
    ///
    /// # Errors
    /// See [`Config::load`].
    pub fn parse_toml(file: &str, text: &str, read: ReadFile<'_>) -> Result<(Self, Vec<Warning>), ConfigError> {
        let mut report = Report::new(file);
        let entries = toml::parse(text, &mut report);
        Self::from_entries(entries, read, Identity::FromFile, report)
    }

    fn from_entries(
        entries: Vec<properties::Entry>,
        read: ReadFile<'_>,
        identity: Identity,
        mut report: Report,
    ) -> Result<(Self, Vec<Warning>), ConfigError> {
        report.switch_to(About::Value);
        let values = Values::check(entries, &mut report);
        report.switch_to(About::Rule);
        let config = build::config(&values, read, identity, &mut report);
        report.finish(config)
    }

    /// The id of this server. A standalone server is 1, as in the session ids of Apache's standalone server.
    #[must_use]
    pub fn me(&self) -> ServerId {
        self.ensemble.as_ref().map_or(ServerId(1), |ensemble| ensemble.me)
    }

    /// All servers and their parts; on a standalone server, only itself.
    #[must_use]
    pub fn members(&self) -> Membership {
        let alone = || Voters::new([self.me()]).into();
        self.ensemble.as_ref().map_or_else(alone, |ensemble| ensemble.members.membership())
    }

    /// All voting servers; on a standalone server, only itself.
    #[must_use]
    pub fn voters(&self) -> Voters {
        self.members().voters().clone()
    }

    /// The configuration of the node. The driver adds the incarnation.
    #[must_use]
    pub fn node(&self) -> pole_node::Config {
        let Pole { heartbeat_ms, liveness_ms, liveness_timeout_ms, election_timeout_ms, .. } = self.pole;
        let tick = Span::from_ms(self.timing.tick_ms);
        pole_node::Config {
            election_timeout: Span::from_ms(election_timeout_ms),
            first_score_wait: Span::from_ms(self.pole.first_score_wait_ms),
            heartbeat: Span::from_ms(heartbeat_ms),
            rate_half_life: Span::from_ms(self.pole.rate_half_life_ms),
            tick,
            chores_every: Span::from_ms(self.service.container_check_ms),
            containers_per_minute: self.service.container_max_per_minute,
            slow_write: Span::from_ms(self.storage.fsync_warning_ms),
            liveness: Span::from_ms(liveness_ms),
            liveness_timeout: Span::from_ms(liveness_timeout_ms),
            sync_limit: tick.saturating_mul(self.timing.sync_limit),
            init_limit: tick.saturating_mul(self.timing.init_limit),
            patience: Span::from_ms(self.pole.patience_ms),
            // A standalone server has no followers to synchronise.
            retain_bytes: match self.members().iter().count() {
                1 => 0,
                _ => usize::try_from(self.pole.diff_retain_mb << 20).unwrap_or(usize::MAX),
            },
            snapshot_every: self.storage.snap_count,
            snapshot_bytes: self.storage.snap_size_limit_bytes,
            outstanding_max: usize::try_from(self.clients.outstanding_max).unwrap_or(usize::MAX),
            direct_acks: self.pole.direct_acks,
            resign: self.resign(),
            limits: Limits {
                trust_blank: self.pole.trust_blank,
                joiners: self.ensemble.as_ref().is_some_and(|ensemble| ensemble.reconfig),
                ..Limits::default()
            },
            ..pole_node::Config::new(self.me(), self.members())
        }
    }

    fn resign(&self) -> ResignConfig {
        ResignConfig {
            enabled: self.pole.resign,
            margin_percent: self.pole.resign_margin_percent,
            margin: Span::from_ms(self.pole.resign_margin_ms),
            hold: Span::from_ms(self.pole.resign_hold_ms),
            cooldown: Span::from_ms(self.pole.resign_cooldown_ms),
            max_per_hour: u32::try_from(self.pole.resign_max_per_hour).unwrap_or(u32::MAX),
            ..ResignConfig::default()
        }
    }

    /// The oracle to start with. Parsing has checked that it can be built.
    ///
    /// # Panics
    /// If the fields of [`Pole`] were changed after parsing to an invalid oracle.
    #[must_use]
    pub fn oracle(&self) -> Spec {
        self.pole.spec().expect("the oracle was built when the configuration was read")
    }
}

impl Pole {
    /// `pole.oracle` with the parameters that apply to it.
    pub(super) fn spec(&self) -> Result<Spec, SpecError> {
        if self.oracle.contains(['/', '=']) {
            return Spec::parse(&self.oracle);
        }
        let preference = self.preference.as_deref();
        let taken = match self.oracle.as_str() {
            "preference" => [("preference", preference), ("", None)],
            "combined" => [("combined", self.combined.as_deref()), ("preference", preference)],
            _ => [("", None), ("", None)],
        };
        let given = taken.into_iter().filter_map(|(param, value)| Some((param, value?)));
        let spec = given.fold(Spec::new(&self.oracle), |spec, (param, value)| spec.with(param, value));
        spec.build().map(|_| spec)
    }
}

/// Reads a file of limited size.
fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "longer than a megabyte"));
    }
    Ok(text)
}

/// A configuration has a few hundred lines, so a file of more than a megabyte is the wrong one.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests;
