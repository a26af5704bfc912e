//! SASL GSSAPI with Apache's Java client and with kazoo, on Apache and on Pole, with a key distribution centre of MIT.
//!
//! The programs check themselves: two users and nobody, ACLs by user, the superuser, a ticket for another service, a user of
//! the same name in another realm, and that a client authenticates again after its server was killed. They run on servers where
//! authentication is optional and users have the names of their principals, and on servers that require it and remove hosts
//! and realms from the names.
//!
//! Both products read their principal from the same JAAS file. The centre listens on loopback and serves two realms, of
//! which the one of the servers trusts the other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::options::Options;
use super::python::Python;
use super::{Tally, java, programs, work_dir};
use crate::Failure;
use crate::command::{built_with_feature, root};
use crate::ensemble::{Launcher, Product};
use crate::kdc::Kdc;

/// Makes sure that there are a centre, Java, and a Python with kazoo and its Kerberos.
pub(super) fn prepare() -> Result<(), Failure> {
    Kdc::prepare()?;
    Python::prepare()?.add(&root().join("compat/kazoo/kerberos.txt"))?;
    java::prepare()
}

pub(super) fn run(_options: &Options, size: usize, launchers: &[Launcher]) -> Result<Tally, Failure> {
    java::compile()?;
    let folder = folder();
    let kdc = Kdc::start(&folder, &[(REALM, PRINCIPALS), (OTHER_REALM, STRANGERS)])?;
    let (server, client) = (folder.join("server.jaas"), client_sections());
    let section = jaas_section("Server", SERVICE, &kdc.keytab(SERVICE), "storeKey=true");
    let sections: String = USERS.iter().map(|(name, user)| jaas_section(name, user, &kdc.keytab(user), "")).collect();
    for (path, text) in [(&server, section), (&client, sections)] {
        fs::write(path, text).map_err(|why| Failure::io("write", path, &why))?;
    }
    let config = kdc.config().to_string_lossy().into_owned();
    let mut tally = Tally::default();
    for (programs, more) in [(OPTIONAL, &[][..]), (REQUIRED, REQUIRING)] {
        for launcher in launchers {
            let lines = lines(launcher.product, &server, more);
            let launcher = launcher
                .clone()
                .with_property(JAAS, &server.to_string_lossy())
                .with_property(KRB5_CONF, &config)
                .with_environment("KRB5_CONFIG", &config);
            let launcher = with_kerberos(launcher)?;
            tally.add(&programs::run_with(&lines, programs, command, size, &[launcher])?);
        }
    }
    Ok(tally)
}

/// Pole with the feature, in a folder of its own so that other parts keep their binary; or the binary that `POLE_BIN` names.
fn with_kerberos(launcher: Launcher) -> Result<Launcher, Failure> {
    if launcher.product == Product::Apache || std::env::var_os("POLE_BIN").is_some() {
        return Ok(launcher);
    }
    let binary = built_with_feature("pole-cli", "pole", "kerberos", &work_dir().join("kerberos-target"))?;
    Ok(launcher.with_program(binary))
}

/// The lines of `zoo.cfg`.
fn lines(product: Product, jaas: &Path, more: &[&str]) -> Vec<String> {
    let mut lines: Vec<String> = COMMON.iter().chain(more).map(|&line| line.to_owned()).collect();
    if product == Product::Pole {
        lines.push(format!("pole.sasl.jaasFile={}", jaas.display()));
    }
    lines
}

/// The program of this name: `NAME-kazoo` in Python, or `NAME-java`.
fn command(name: &str, servers: &str) -> Result<Command, Failure> {
    let config = Kdc::config_in(&folder());
    match name.split_once("-kazoo") {
        Some((name, _)) => {
            let mut command = Python::prepare()?.command();
            command.arg(root().join("compat/kazoo/kerberos_users.py")).args([name, servers]);
            // A folder of tickets has room for those of several users, which come from their keys.
            let tickets = folder().join("tickets");
            fs::create_dir_all(&tickets).map_err(|why| Failure::io("create", &tickets, &why))?;
            command.env("KRB5_CONFIG", config);
            command.env("KRB5CCNAME", format!("DIR:{}", tickets.display()));
            command.env("KRB5_CLIENT_KTNAME", Kdc::all_keys_in(&folder()));
            Ok(command)
        }
        None => {
            let jaas = format!("-D{JAAS}={}", client_sections().display());
            let mut command = java::client_with(&[&jaas, &format!("-D{KRB5_CONF}={}", config.display())])?;
            command.args(["pole.compat.Main", name.trim_end_matches("-java"), servers]);
            Ok(command)
        }
    }
}

fn jaas_section(name: &str, principal: &str, keytab: &Path, more: &str) -> String {
    format!(
        "{name} {{ com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true useTicketCache=false {more} \
         keyTab=\"{}\" principal=\"{principal}\"; }};\n",
        keytab.display()
    )
}

fn folder() -> PathBuf {
    work_dir().join("kerberos")
}

/// The JAAS file of the Java client.
fn client_sections() -> PathBuf {
    folder().join("client.jaas")
}

const OPTIONAL: &[&str] = &["kerberos-java", "kerberos-kazoo"];
const REQUIRED: &[&str] = &["kerberos-required-java", "kerberos-required-kazoo"];

const COMMON: &[&str] =
    &["authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider", "superUser=root@POLE.TEST"];
const REQUIRING: &[&str] = &[
    "enforce.auth.enabled=true",
    "enforce.auth.schemes=sasl",
    "kerberos.removeHostFromPrincipal=true",
    "kerberos.removeRealmFromPrincipal=true",
];

const REALM: &str = "POLE.TEST";
const OTHER_REALM: &str = "OTHER.TEST";
/// Both services are on the host that a client finds for the loopback address.
const SERVICE: &str = "zookeeper/localhost@POLE.TEST";
const PRINCIPALS: &[&str] =
    &[SERVICE, "other/localhost@POLE.TEST", "bob@POLE.TEST", "carol/desk.test@POLE.TEST", "root@POLE.TEST"];
const STRANGERS: &[&str] = &["bob@OTHER.TEST"];
/// The sections of the Java program.
const USERS: &[(&str, &str)] = &[
    ("Bob", "bob@POLE.TEST"),
    ("Carol", "carol/desk.test@POLE.TEST"),
    ("Root", "root@POLE.TEST"),
    ("Stranger", "bob@OTHER.TEST"),
];

/// The Java properties with the path of a JAAS file, and of the settings of Kerberos.
const JAAS: &str = "java.security.auth.login.config";
const KRB5_CONF: &str = "java.security.krb5.conf";
