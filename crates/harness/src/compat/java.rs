//! Java: the jars of Debian's packages, and our own programs compiled against them.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::work_dir;
use crate::Failure;
use crate::command::{install, is_installed, killed_with_parent, output_of, program, root, target_dir};

/// The jars of a server with the Netty connections and the TLS that kazoo's harness uses.
pub(super) const SERVER: &[&str] = &[
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "slf4j-log4j12",
    "log4j-1.2",
    "commons-cli",
    "commons-io",
    "jackson-annotations",
    "jackson-core",
    "jackson-databind",
    "jetty9-http",
    "jetty9-io",
    "jetty9-security",
    "jetty9-server",
    "jetty9-servlet",
    "jetty9-util",
    "jetty9-util-ajax",
    "servlet-api",
    "metrics-core",
    "netty-buffer",
    "netty-codec",
    "netty-common",
    "netty-handler",
    "netty-resolver",
    "netty-transport",
    "netty-transport-native-epoll",
    "netty-transport-native-unix-common",
    "snappy-java",
];

/// The jars of the command line and of our own programs. Logging is off: only what they print themselves is compared.
pub(super) const CLIENT: &[&str] = &[
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "slf4j-nop",
    "commons-cli",
    "netty-buffer",
    "netty-codec",
    "netty-common",
    "netty-handler",
    "netty-resolver",
    "netty-transport",
    "netty-transport-native-epoll",
    "netty-transport-native-unix-common",
    "curator-client",
    "curator-framework",
    "curator-recipes",
    "guava",
    "failureaccess",
    "jackson-annotations",
    "jackson-core",
    "jackson-databind",
    "metrics-core",
    "snappy-java",
];

/// The class path of those jars that exist. Debian's releases package some of them differently.
pub(super) fn class_path(names: &[&str]) -> Result<OsString, Failure> {
    let folders = folders();
    let jar = |name: &&str| folders.iter().map(|folder| folder.join(format!("{name}.jar"))).find(|jar| jar.is_file());
    let jars: Vec<PathBuf> = names.iter().filter_map(jar).collect();
    if !jars.iter().any(|jar| jar.ends_with("zookeeper.jar")) {
        return Err(Failure::Check("there is no zookeeper.jar: install Debian's libzookeeper-java".to_owned()));
    }
    env::join_paths(jars).map_err(|why| Failure::Check(format!("a folder of jars with a colon in its name: {why}")))
}

/// Folders of jars: installed, or unpacked by `ensemble` where it may not install.
fn folders() -> [PathBuf; 2] {
    ["/usr/share/java".into(), target_dir().join("apache/root/usr/share/java")]
}

/// One of our programs on these servers.
pub(super) fn command(name: &str, servers: &str) -> Result<Command, Failure> {
    let mut command = client()?;
    command.args(["pole.compat.Main", name, servers]);
    Ok(command)
}

/// A JVM for a client: small, and quick to start.
pub(super) fn client() -> Result<Command, Failure> {
    client_with(&[])
}

/// The same with these options of Java.
pub(super) fn client_with(options: &[&str]) -> Result<Command, Failure> {
    let mut command = killed_with_parent("java");
    command
        .args(options)
        .args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
        .arg("-cp")
        .arg(client_path()?);
    Ok(command)
}

/// Our programs first, then the jars.
fn client_path() -> Result<OsString, Failure> {
    let mut path = classes().into_os_string();
    path.push(":");
    path.push(class_path(CLIENT)?);
    Ok(path)
}

/// Installs what is missing, if permitted.
pub(super) fn prepare() -> Result<(), Failure> {
    let has = |jar: &str| folders().iter().any(|folder| folder.join(jar).is_file());
    if has("zookeeper.jar") && has("curator-recipes.jar") && is_installed("javac") {
        return Ok(());
    }
    install(&["libzookeeper-java", "libcurator-recipes-java", "default-jdk-headless"])
}

pub(super) fn compile() -> Result<(), Failure> {
    let folder = root().join("compat/java");
    let entries = fs::read_dir(&folder).map_err(|why| Failure::io("read", &folder, &why))?;
    let sources = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "java"));
    fs::create_dir_all(classes()).map_err(|why| Failure::io("create", &classes(), &why))?;
    let mut javac = program("javac");
    javac.args(["-proc:none", "-Xlint:all,-classfile,-path,-processing,-try", "-Werror", "-d"]).arg(classes());
    output_of(javac.arg("-cp").arg(class_path(CLIENT)?).args(sources)).map(drop)
}

fn classes() -> PathBuf {
    work_dir().join("classes")
}
