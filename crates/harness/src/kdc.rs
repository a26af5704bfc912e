//! A key distribution centre of MIT Kerberos on a free port of loopback, with its own settings, realms and keys in a folder.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::command::{install, is_installed, killed_with_parent, output_of, program};
use crate::ensemble::free_ports;

/// A running centre, which ends with this value.
pub(crate) struct Kdc {
    process: Child,
    folder: PathBuf,
}

impl Kdc {
    /// Makes sure that the programs are installed.
    pub(crate) fn prepare() -> Result<(), Failure> {
        if PROGRAMS.iter().all(|name| is_installed(name) || Path::new("/usr/sbin").join(name).is_file()) {
            return Ok(());
        }
        install(&["krb5-kdc", "krb5-admin-server"])
    }

    /// Makes realms with these principals, each with a random key, and starts the centre. The first realm trusts the others. The
    /// folder is made anew.
    pub(crate) fn start(folder: &Path, realms: &[(&str, &[&str])]) -> Result<Self, Failure> {
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(|why| Failure::io("remove", folder, &why))?;
        }
        fs::create_dir_all(folder).map_err(|why| Failure::io("create", folder, &why))?;
        let ports = free_ports(1)?;
        let names: Vec<&str> = realms.iter().map(|(name, _)| *name).collect();
        for (file, text) in [
            (Self::config_in(folder), client_config(&names, ports[0])),
            (kdc_config_in(folder), kdc_config(folder, &names, ports[0])),
        ] {
            fs::write(&file, text).map_err(|why| Failure::io("write", &file, &why))?;
        }
        for (realm, principals) in realms {
            let ask =
                |query: String| output_of(tool("kadmin.local", folder).args(["-r", realm, "-q", &query])).map(drop);
            output_of(tool("kdb5_util", folder).args(["-r", realm, "create", "-s", "-P", PASSWORD]))?;
            for principal in *principals {
                ask(format!("addprinc -randkey {principal}"))?;
                // Taking a key makes a new one, unless that is forbidden.
                for keytab in [keytab_in(folder, principal), Self::all_keys_in(folder)] {
                    ask(format!("ktadd -norandkey -k {} {principal}", keytab.display()))?;
                }
            }
            // A principal with the same key in both realms is what makes one trust the other.
            for other in names.iter().skip(1).filter(|other| *realm == names[0] || realm == *other) {
                ask(format!("addprinc -pw {PASSWORD} krbtgt/{}@{other}", names[0]))?;
            }
        }
        let mut kdc = tool("krb5kdc", folder);
        kdc.args(names.iter().flat_map(|name| ["-r", name]));
        let process = kdc.arg("-n").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let process = process.map_err(|why| Failure::Check(format!("cannot start krb5kdc: {why}")))?;
        let mut kdc = Self { process, folder: folder.to_owned() };
        kdc.wait_ready(ports[0])?;
        Ok(kdc)
    }

    fn wait_ready(&mut self, port: u16) -> Result<(), Failure> {
        let deadline = Instant::now() + READY_LIMIT;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            let has_ended = self.process.try_wait().is_ok_and(|status| status.is_some());
            if has_ended || Instant::now() >= deadline {
                let log = self.folder.join("kdc.log");
                return Err(Failure::Check(format!("krb5kdc does not serve; see {}", log.display())));
            }
            // It reports nothing that could be waited for.
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// The settings of clients and servers: `KRB5_CONFIG`.
    pub(crate) fn config(&self) -> PathBuf {
        Self::config_in(&self.folder)
    }

    /// The same for a centre in this folder.
    pub(crate) fn config_in(folder: &Path) -> PathBuf {
        folder.join("krb5.conf")
    }

    /// The file with the key of a principal.
    pub(crate) fn keytab(&self, principal: &str) -> PathBuf {
        keytab_in(&self.folder, principal)
    }

    /// The file with the keys of all principals of a centre in this folder.
    pub(crate) fn all_keys_in(folder: &Path) -> PathBuf {
        folder.join("all.keytab")
    }
}

impl Drop for Kdc {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn keytab_in(folder: &Path, principal: &str) -> PathBuf {
    folder.join(principal.replace('/', "-") + ".keytab")
}

fn kdc_config_in(folder: &Path) -> PathBuf {
    folder.join("kdc.conf")
}

/// One of the programs, with the settings in this folder. Debian has some of them where only root looks.
fn tool(name: &str, folder: &Path) -> Command {
    let installed = Path::new("/usr/sbin").join(name);
    let name = if installed.is_file() { installed.to_string_lossy().into_owned() } else { name.to_owned() };
    let mut command = if name.ends_with("krb5kdc") { killed_with_parent(&name) } else { program(&name) };
    command.env("KRB5_CONFIG", Kdc::config_in(folder)).env("KRB5_KDC_PROFILE", kdc_config_in(folder));
    command
}

/// Everything goes over TCP, where a lost datagram cannot delay a test, and no name is asked for elsewhere.
fn client_config(realms: &[&str], port: u16) -> String {
    let listed: String = realms.iter().map(|realm| format!("{realm} = {{\nkdc = 127.0.0.1:{port}\n}}\n")).collect();
    let default = realms.first().copied().unwrap_or_default();
    let trusted: String = realms.iter().skip(1).map(|realm| format!("{realm} = {{\n{default} = .\n}}\n")).collect();
    format!(
        "[libdefaults]\ndefault_realm = {default}\ndns_lookup_realm = false\ndns_lookup_kdc = false\n\
         udp_preference_limit = 1\nforwardable = false\n[realms]\n{listed}\
         [capaths]\n{trusted}[domain_realm]\nlocalhost = {default}\n"
    )
}

fn kdc_config(folder: &Path, realms: &[&str], port: u16) -> String {
    let folder = folder.display();
    let listed: String = realms
        .iter()
        .map(|realm| {
            format!(
                "{realm} = {{\ndatabase_name = {folder}/{realm}.principals\nkey_stash_file = {folder}/{realm}.stash\n\
                 acl_file = {folder}/{realm}.acl\nmax_life = 1h\n}}\n"
            )
        })
        .collect();
    format!(
        "[kdcdefaults]\nkdc_listen = 127.0.0.1:{port}\nkdc_tcp_listen = 127.0.0.1:{port}\n[realms]\n{listed}\
         [logging]\nkdc = FILE:{folder}/kdc.log\n"
    )
}

const PROGRAMS: [&str; 3] = ["krb5kdc", "kdb5_util", "kadmin.local"];

/// Of the databases, and of the trust.
const PASSWORD: &str = "for-tests-only";

/// It takes a few milliseconds.
const READY_LIMIT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
