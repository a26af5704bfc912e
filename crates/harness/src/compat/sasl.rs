//! SASL DIGEST-MD5 with Apache's Java client and with kazoo, on Apache and on Pole.
//!
//! The programs check themselves: the right password, a wrong one, an unknown user and none at all, ACLs by user, the
//! superuser, and that a client authenticates again after its server was killed. They run on servers where
//! authentication is optional, and on servers that require it.
//!
//! Both products read their users from the same JAAS file; Pole finds it by a key of its configuration.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::options::Options;
use super::python::Python;
use super::{Tally, java, programs, work_dir};
use crate::Failure;
use crate::command::root;
use crate::ensemble::{Launcher, Product};

/// Makes sure that there are a Python with kazoo, and Java.
pub(super) fn prepare() -> Result<(), Failure> {
    Python::prepare()?;
    java::prepare()
}

pub(super) fn run(_options: &Options, size: usize, launchers: &[Launcher]) -> Result<Tally, Failure> {
    java::compile()?;
    let folder = work_dir().join("sasl");
    fs::create_dir_all(&folder).map_err(|why| Failure::io("create", &folder, &why))?;
    let users = folder.join("server.jaas");
    for (path, text) in [(&users, SERVER), (&client_sections(), CLIENT)] {
        fs::write(path, text).map_err(|why| Failure::io("write", path, &why))?;
    }
    let mut tally = Tally::default();
    for (programs, more) in [(OPTIONAL, &[][..]), (REQUIRED, REQUIRING)] {
        for launcher in launchers {
            let lines = lines(launcher.product, &users, more);
            let launcher = launcher.clone().with_property(JAAS, &users.to_string_lossy());
            tally.add(&programs::run_with(&lines, programs, command, size, &[launcher])?);
        }
    }
    Ok(tally)
}

/// The lines of `zoo.cfg`.
fn lines(product: Product, users: &Path, more: &[&str]) -> Vec<String> {
    let mut lines: Vec<String> = COMMON.iter().chain(more).map(|&line| line.to_owned()).collect();
    if product == Product::Pole {
        lines.push(format!("pole.sasl.jaasFile={}", users.display()));
    }
    lines
}

/// The program of this name: `NAME-kazoo` in Python, or `NAME-java`.
fn command(name: &str, servers: &str) -> Result<Command, Failure> {
    match name.split_once("-kazoo") {
        Some((name, _)) => {
            let mut command = Python::prepare()?.command();
            command.arg(root().join("compat/kazoo/sasl.py")).args([name, servers]);
            Ok(command)
        }
        None => {
            let mut command = java::client_with(&[&format!("-D{JAAS}={}", client_sections().display())])?;
            command.args(["pole.compat.Main", name.trim_end_matches("-java"), servers]);
            Ok(command)
        }
    }
}

/// The JAAS file of the Java client.
fn client_sections() -> PathBuf {
    work_dir().join("sasl/client.jaas")
}

const OPTIONAL: &[&str] = &["sasl-java", "sasl-kazoo"];
const REQUIRED: &[&str] = &["sasl-required-java", "sasl-required-kazoo"];

const COMMON: &[&str] =
    &["authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider", "superUser=root"];
const REQUIRING: &[&str] = &["enforce.auth.enabled=true", "enforce.auth.schemes=sasl"];

/// The Java property with the path of a JAAS file.
const JAAS: &str = "java.security.auth.login.config";

/// The users of the servers.
const SERVER: &str = r#"Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_bob="secret \"of\" bob"
    user_alice="other"
    user_root="super";
};
"#;

/// A section for each login that the Java program tries.
const CLIENT: &str = r#"Bob { org.apache.zookeeper.server.auth.DigestLoginModule required username="bob" password="secret \"of\" bob"; };
Alice { org.apache.zookeeper.server.auth.DigestLoginModule required username="alice" password="other"; };
Root { org.apache.zookeeper.server.auth.DigestLoginModule required username="root" password="super"; };
Wrong { org.apache.zookeeper.server.auth.DigestLoginModule required username="bob" password="guess"; };
Unknown { org.apache.zookeeper.server.auth.DigestLoginModule required username="eve" password="guess"; };
"#;
