//! The configuration of a server: `zoo.cfg` or `pole.toml` in, one typed value out.
//!
//! In: a file, the `myid` beside the data, a file of `server.N` lines and a topology if the first names them. Out: a
//! [`Config`] and warnings, or everything that is wrong with it at once.
//! Why: Apache's server reads its settings in fifty places when they are first needed, and a slip passes in silence.
//! Here they are read once, at the door; behind it nobody parses, and nobody asks whether a value makes sense.
//! Holds: the same text gives the same configuration; what [`Config::to_cfg`] writes reads back equal; no text panics.
//! Not here: opening key stores (`tls`), resolving names, binding ports, creating directories.
//!
//! ```text
//! properties, toml   text                      -> entries with lines
//! values             entries + keys            -> checked values, defaults
//! build              values + files beside     -> Config (rules between keys)
//! write              Config                    -> zoo.cfg, conf, /zookeeper/config
//! ```

mod build;
pub mod keys;
mod properties;
mod report;
mod servers;
mod settings;
mod ssl;
mod toml;
mod values;
mod write;

use std::io::{self, Read};
use std::path::Path;

use pole_election::{ServerId, Span, Voters};
use pole_oracle::{ResignConfig, Spec, SpecError};

pub use report::{ConfigError, Problem, Warning};
pub use servers::{Address, Server};
pub use settings::{
    Admin, ClientAuth, Clients, Emulation, Ensemble, Password, Pole, Secret, Service, Storage, Store, StoreFormat,
    Timing, Tls, TlsSettings, Words,
};

use report::Report;
use values::Values;

/// The settings of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The ensemble; `None` for a server on its own.
    pub ensemble: Option<Ensemble>,
    /// Ports and limits for clients.
    pub clients: Clients,
    /// Ticks and timeouts.
    pub timing: Timing,
    /// Directories and disk.
    pub storage: Storage,
    /// Znodes and permissions.
    pub service: Service,
    /// Admin server and metrics.
    pub admin: Admin,
    /// TLS.
    pub tls: Tls,
    /// Pole's own keys.
    pub pole: Pole,
}

/// Reads a file that the configuration names. The one way from the parser to the disk, so that without it the parser is
/// a function of the text.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

impl Config {
    /// Reads a configuration file: TOML if its name ends in `.toml`, else the syntax of `zoo.cfg`.
    ///
    /// # Errors
    /// All that is wrong with it, each with file, line, key, value and what is allowed.
    pub fn load(path: &Path) -> Result<(Self, Vec<Warning>), ConfigError> {
        let file = path.display().to_string();
        let text = match read_bounded(path) {
            Ok(text) => text,
            Err(error) => {
                let mut report = Report::new(&file);
                report.problem(0, "", "", format!("cannot be read: {error}; name a readable file with --config"));
                return Err(report.finish(()).expect_err("a problem was reported"));
            }
        };
        if path.extension().is_some_and(|ending| ending == "toml") {
            Self::parse_toml(&file, &text, &read_bounded)
        } else {
            Self::parse_cfg(&file, &text, &read_bounded)
        }
    }

    /// Reads the syntax of `zoo.cfg`. The name of the file is for messages.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse_cfg(file: &str, text: &str, read: ReadFile<'_>) -> Result<(Self, Vec<Warning>), ConfigError> {
        let mut report = Report::new(file);
        let entries = properties::parse(text, &mut report);
        Self::from_entries(entries, read, report)
    }

    /// Reads the syntax of `pole.toml`: the same keys, dots are tables.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse_toml(file: &str, text: &str, read: ReadFile<'_>) -> Result<(Self, Vec<Warning>), ConfigError> {
        let mut report = Report::new(file);
        let entries = toml::parse(text, &mut report);
        Self::from_entries(entries, read, report)
    }

    fn from_entries(
        entries: Vec<properties::Entry>,
        read: ReadFile<'_>,
        mut report: Report,
    ) -> Result<(Self, Vec<Warning>), ConfigError> {
        let values = Values::check(entries, &mut report);
        let config = build::config(&values, read, &mut report);
        report.finish(config)
    }

    /// This server. On its own it is 1, as in the session ids of Apache's standalone server.
    #[must_use]
    pub fn me(&self) -> ServerId {
        self.ensemble.as_ref().map_or(ServerId(1), |ensemble| ensemble.me)
    }

    /// All servers that vote; on its own, this one.
    #[must_use]
    pub fn voters(&self) -> Voters {
        match &self.ensemble {
            Some(ensemble) => Voters::new(ensemble.servers.keys().copied()),
            None => Voters::new([self.me()]),
        }
    }

    /// The settings of the pure machine. The driver adds the incarnation.
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
            liveness: Span::from_ms(liveness_ms),
            liveness_timeout: Span::from_ms(liveness_timeout_ms),
            sync_limit: tick.saturating_mul(self.timing.sync_limit),
            init_limit: tick.saturating_mul(self.timing.init_limit),
            patience: Span::from_ms(self.pole.patience_ms),
            // A server on its own has nobody to bring level.
            retain_bytes: match self.voters().len() {
                1 => 0,
                _ => usize::try_from(self.pole.diff_retain_mb << 20).unwrap_or(usize::MAX),
            },
            snapshot_every: self.storage.snap_count,
            snapshot_bytes: self.storage.snap_size_limit_bytes,
            outstanding_max: usize::try_from(self.clients.outstanding_max).unwrap_or(usize::MAX),
            resign: self.resign(),
            ..pole_node::Config::new(self.me(), self.voters())
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

    /// The oracle to start with. It was built once when the file was read, so it can be built.
    ///
    /// # Panics
    /// If the fields of [`Pole`] were changed by hand to something that is no oracle.
    #[must_use]
    pub fn oracle(&self) -> Spec {
        self.pole.spec().expect("the oracle was built when the configuration was read")
    }
}

impl Pole {
    /// `pole.oracle` with those of the parameters that it takes.
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

/// A whole file, if it is one that a human could have written.
fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "longer than a megabyte"));
    }
    Ok(text)
}

/// A configuration is some hundred lines; a megabyte is a wrong file.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests;
