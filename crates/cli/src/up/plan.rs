//! The servers, ports and files of an ensemble on this machine.
//!
//! On disk there is a configuration for each server:
//!
//! ```text
//! DIR/topology.toml
//! DIR/server-1/pole.cfg   log.jsonl   data/myid
//! ```

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use pole_oracle::Spec;
use pole_topology::{PRESETS, Topology};

use crate::args::UpArgs;
use crate::failure::{Failure, Kind};

use super::work_dir::WorkDir;

pub(crate) struct Plan {
    topology: Topology,
    /// The content of the topology file.
    topology_text: String,
    oracle: String,
    base_port: u16,
    work_dir: WorkDir,
    /// Additional lines for the configuration of every server.
    extra_config: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ports {
    pub(crate) client: u16,
    pub(crate) quorum: u16,
    pub(crate) election: u16,
    pub(crate) admin: u16,
}

impl Plan {
    pub(crate) fn new(args: &UpArgs) -> Result<Self, Failure> {
        let (topology, topology_text) = topology(&args.topology)?;
        Self::with_topology(topology, topology_text, args)
    }

    /// Like [`Self::new`], with the given topology instead of the one in `args`.
    pub(crate) fn with_topology(topology: Topology, topology_text: String, args: &UpArgs) -> Result<Self, Failure> {
        Spec::parse(&args.oracle).map_err(|error| Failure::bad_input(format!("--oracle {}: {error}", args.oracle)))?;
        let invalid = topology.servers().map(|server| server.id).find(|id| !(1..=ID_MAX).contains(id));
        if let Some(id) = invalid {
            let text =
                format!("server {id} of the topology: ids here go from 1 to {ID_MAX}, ports are counted by them");
            return Err(Failure::bad_input(text));
        }
        if args.base_port > u16::MAX - PORTS {
            let text =
                format!("--base-port {}: at most {}, ports are counted from it", args.base_port, u16::MAX - PORTS);
            return Err(Failure::bad_input(text));
        }
        let work_dir = match &args.dir {
            Some(dir) => WorkDir::named(dir).map_err(|error| (dir.clone(), error)),
            None => WorkDir::temporary().map_err(|error| (std::env::temp_dir(), error)),
        };
        let work_dir = work_dir.map_err(|(dir, error)| {
            Failure::bad_input(format!(
                "{}: {error}; name a directory to write to with --dir, or a temporary one by TMPDIR",
                dir.display()
            ))
        })?;
        let (oracle, base_port, extra_config) = (args.oracle.clone(), args.base_port, String::new());
        Ok(Self { topology, topology_text, oracle, base_port, work_dir, extra_config })
    }

    /// Adds lines to every configuration.
    pub(crate) fn with_extra_config(self, extra_config: &str) -> Self {
        Self { extra_config: extra_config.to_owned(), ..self }
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.topology.servers().map(|server| server.id)
    }

    pub(crate) fn site(&self, id: u64) -> &str {
        self.topology.site(id).unwrap_or("?")
    }

    /// The name of a server in messages.
    pub(crate) fn name(&self, id: u64) -> String {
        format!("server {id} ({})", self.site(id))
    }

    pub(crate) fn oracle(&self) -> &str {
        &self.oracle
    }

    pub(crate) fn dir(&self) -> &Path {
        self.work_dir.path()
    }

    pub(crate) fn is_temporary(&self) -> bool {
        self.work_dir.is_temporary()
    }

    pub(crate) fn config(&self, id: u64) -> PathBuf {
        self.server_dir(id).join("pole.cfg")
    }

    pub(crate) fn log(&self, id: u64) -> PathBuf {
        self.server_dir(id).join("log.jsonl")
    }

    fn server_dir(&self, id: u64) -> PathBuf {
        self.dir().join(format!("server-{id}"))
    }

    pub(crate) fn ports(&self, id: u64) -> Ports {
        let client = self.base_port + u16::try_from(id).expect("ids were checked");
        Ports { client, quorum: client + 100, election: client + 200, admin: client + 300 }
    }

    /// The port of the dashboard: no server has the id 0.
    pub(crate) fn dashboard_port(&self) -> u16 {
        self.base_port
    }

    /// Checks that all ports are free. Each server checks too, but then several would report it at once, and only
    /// after others had started.
    pub(crate) fn check_ports(&self) -> Result<(), Failure> {
        for id in self.ids() {
            let Ports { client, quorum, election, admin } = self.ports(id);
            for (port, purpose) in [(client, "clients"), (quorum, "quorum"), (election, "elections"), (admin, "admin")]
            {
                TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
                    let kind = match error.kind() == io::ErrorKind::AddrInUse {
                        true => Kind::InUse,
                        false => Kind::BadInput,
                    };
                    let advice = "stop what listens there, or choose other ports with --base-port";
                    Failure::new(kind, format!("port {port} ({purpose} of server {id}): {error}; {advice}"))
                })?;
            }
        }
        Ok(())
    }

    /// Writes the topology and the configurations.
    pub(crate) fn write_files(&self) -> Result<(), Failure> {
        self.write_topology(&self.topology_text)?;
        for id in self.ids() {
            let data = self.server_dir(id).join("data");
            fs::create_dir_all(&data).map_err(|error| Failure::failed(format!("{}: {error}", data.display())))?;
            write(&data.join("myid"), &format!("{id}\n"))?;
            write(&self.config(id), &self.config_text(id))?;
        }
        Ok(())
    }

    /// Replaces the topology file, from which running servers read the links again.
    pub(crate) fn write_topology(&self, text: &str) -> Result<(), Failure> {
        // Renamed, so that no server reads half of it.
        let draft = self.dir().join("topology.toml.new");
        write(&draft, text)?;
        let file = self.topology_file();
        fs::rename(&draft, &file).map_err(|error| Failure::failed(format!("{}: {error}", file.display())))
    }

    pub(crate) fn topology_file(&self) -> PathBuf {
        self.dir().join("topology.toml")
    }

    fn config_text(&self, id: u64) -> String {
        let Ports { client, admin, .. } = self.ports(id);
        // In this syntax a backslash is an escape character.
        let path = |path: PathBuf| path.display().to_string().replace('\\', "\\\\");
        let servers = self.ids().map(|id| {
            let Ports { quorum, election, .. } = self.ports(id);
            format!("server.{id}=127.0.0.1:{quorum}:{election}\n")
        });
        let place = match cfg!(feature = "emulation") {
            true => format!("pole.topology={}", path(self.topology_file())),
            false => format!("pole.site={}", self.site(id)),
        };
        format!(
            "# Written by `pole up`, anew at each start.\n\
             tickTime=2000\ninitLimit=10\nsyncLimit=5\n\
             dataDir={data}\npreAllocSize={PREALLOCATE_KB}\n\
             clientPort={client}\nclientPortAddress=127.0.0.1\n4lw.commands.whitelist=*\n\
             admin.serverAddress=127.0.0.1\nadmin.serverPort={admin}\n\
             pole.oracle={oracle}\n{place}\npole.log=json\n{extra_config}{servers}",
            data = path(self.server_dir(id).join("data")),
            oracle = self.oracle,
            place = place,
            extra_config = self.extra_config,
            servers = servers.collect::<String>(),
        )
    }
}

/// Loads a preset by its name, or a file by its path.
fn topology(name: &str) -> Result<(Topology, String), Failure> {
    let preset = PRESETS.iter().find(|(preset, _)| *preset == name).map(|(_, text)| (*text).to_owned());
    let text = match preset {
        Some(text) => text,
        None => fs::read_to_string(name).map_err(|error| {
            let presets = PRESETS.map(|(preset, _)| preset).join(", ");
            Failure::bad_input(format!("--topology {name}: {error}; name a TOML file, or one of {presets}"))
        })?,
    };
    let topology = Topology::parse(&text).map_err(|error| Failure::bad_input(error.in_file(name).to_string()))?;
    Ok((topology, text))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| Failure::failed(format!("{}: {error}; is there room?", path.display())))
}

/// Ids are added to base ports that are a hundred apart.
const ID_MAX: u64 = 99;
/// The distance from the base port to the last port in use.
const PORTS: u16 = 399;
/// Logs stay small here, and the temporary directory may be in memory.
const PREALLOCATE_KB: u32 = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(args: UpArgs) -> Result<Plan, Failure> {
        Plan::new(&args)
    }

    #[test]
    fn ports_are_counted_from_the_base() {
        let plan = plan(UpArgs { base_port: 30_000, ..UpArgs::default() }).unwrap();
        let expected = Ports { client: 30_003, quorum: 30_103, election: 30_203, admin: 30_303 };
        assert_eq!(plan.ports(3), expected);
    }

    #[test]
    fn a_server_can_read_what_is_written() {
        let plan = plan(UpArgs::default()).unwrap();
        plan.write_files().unwrap();
        let (config, _) = pole_server::config::Config::load(&plan.config(2)).unwrap();
        assert_eq!(config.me().0, 2);
        assert_eq!(config.voters().len(), 5);
        assert_eq!(config.pole.site.as_deref(), Some("D2"));
        assert!(config.pole.log_json);
    }

    #[test]
    fn a_temporary_directory_is_removed_with_the_plan() {
        let plan = plan(UpArgs::default()).unwrap();
        let dir = plan.dir().to_owned();
        assert!(dir.is_dir());
        drop(plan);
        assert!(!dir.exists());
    }

    #[test]
    fn invalid_arguments_are_rejected_before_anything_starts() {
        let default = UpArgs::default;
        for wrong in [
            UpArgs { topology: "nowhere.toml".into(), ..default() },
            UpArgs { oracle: "delphi".into(), ..default() },
            UpArgs { base_port: 65_200, ..default() },
        ] {
            assert!(plan(wrong).is_err());
        }
    }
}
