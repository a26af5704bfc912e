//! Apache ZooKeeper 3.8 from Debian's packages: found, or installed, or unpacked under `target/apache`.
//!
//! Why not a download from Apache: Debian's archive is what a build machine can reach, and the version is the one that
//! our figures name.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::command::{install, is_installed, may_install, output_of, program, target_dir};

/// Program and arguments, up to the configuration file.
///
/// The JVM gets no options beyond where to log, as Debian's own start script gives none.
pub(super) fn command() -> Result<(PathBuf, Vec<OsString>), Failure> {
    let java = java()?;
    let class_path = class_path(&jars()?)?;
    let main = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
    Ok((java, vec!["-cp".into(), class_path, main.into()]))
}

fn java() -> Result<PathBuf, Failure> {
    let home = env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin/java")).filter(|java| java.is_file());
    match home {
        Some(java) => Ok(java),
        None if is_installed("java") => Ok("java".into()),
        None => Err(Failure::Check("there is no `java`: install Debian's default-jre-headless".into())),
    }
}

/// The folder with the jars of ZooKeeper and what it needs.
fn jars() -> Result<PathBuf, Failure> {
    let installed = PathBuf::from("/usr/share/java");
    let unpacked = target_dir().join("apache/root/usr/share/java");
    let found = |folder: &Path| folder.join(MAIN_JAR).is_file();
    if !found(&installed) && !found(&unpacked) {
        obtain()?;
    }
    [installed, unpacked].into_iter().find(|folder| found(folder)).ok_or_else(|| {
        let packages = PACKAGES.join(" ");
        Failure::Check(format!("Debian's packages came without {MAIN_JAR}: is this a Debian? Tried: {packages}"))
    })
}

/// Installs the packages where we may, else unpacks them under `target`.
fn obtain() -> Result<(), Failure> {
    if may_install()? {
        return install(&["zookeeper", "libzookeeper-java"]);
    }
    if !is_installed("apt-get") {
        return Err(Failure::Check(format!("no Apache ZooKeeper and no apt-get here: install {PACKAGES:?}")));
    }
    let folder = target_dir().join("apache");
    println!("unpacking Debian's zookeeper in {}", folder.display());
    let packages = folder.join("packages");
    fs::create_dir_all(&packages).map_err(|why| Failure::io("create", &packages, &why))?;
    output_of(program("apt-get").current_dir(&packages).arg("download").args(PACKAGES))?;
    for entry in fs::read_dir(&packages).map_err(|why| Failure::io("read", &packages, &why))?.flatten() {
        output_of(program("dpkg").arg("-x").arg(entry.path()).arg(folder.join("root")))?;
    }
    Ok(())
}

/// Every jar by name: those of the manifest are absolute paths, which lead nowhere when the packages are only unpacked.
/// A folder with our settings for the log stands first.
fn class_path(jars: &Path) -> Result<OsString, Failure> {
    let settings = target_dir().join("apache/log");
    fs::create_dir_all(&settings).map_err(|why| Failure::io("create", &settings, &why))?;
    let file = settings.join("log4j.properties");
    fs::write(&file, LOG_SETTINGS).map_err(|why| Failure::io("write", &file, &why))?;
    let listed = JARS.iter().map(|jar| jars.join(jar)).filter(|jar| jar.is_file());
    env::join_paths(std::iter::once(settings).chain(listed))
        .map_err(|why| Failure::Check(format!("a folder of jars with a colon in its name: {why}")))
}

const MAIN_JAR: &str = "zookeeper.jar";

/// What a server needs to run. The admin server, which needs more, is off.
const JARS: &[&str] = &[
    MAIN_JAR,
    "zookeeper-jute.jar",
    "slf4j-api.jar",
    "slf4j-log4j12.jar",
    "log4j-1.2.jar",
    "commons-cli.jar",
    "commons-io.jar",
    "findbugs-annotations.jar",
    "jackson-annotations.jar",
    "jackson-core.jar",
    "jackson-databind.jar",
    "metrics-core.jar",
    "netty-buffer.jar",
    "netty-common.jar",
    "netty-handler.jar",
    "netty-transport.jar",
    "netty-transport-native-epoll.jar",
    "snappy-java.jar",
];

/// The packages that hold them.
const PACKAGES: &[&str] = &[
    "libzookeeper-java",
    "libslf4j-java",
    "liblog4j1.2-java",
    "libcommons-cli-java",
    "libcommons-io-java",
    "libfindbugs-annotations-java",
    "libjackson2-annotations-java",
    "libjackson2-core-java",
    "libjackson2-databind-java",
    "libdropwizard-metrics-java",
    "libnetty-java",
    "libsnappy-java",
];

/// As Debian logs: INFO, which is no line per request. To standard output, which goes to a file.
const LOG_SETTINGS: &str = "\
log4j.rootLogger=INFO, CONSOLE
log4j.appender.CONSOLE=org.apache.log4j.ConsoleAppender
log4j.appender.CONSOLE.layout=org.apache.log4j.PatternLayout
log4j.appender.CONSOLE.layout.ConversionPattern=%d{ISO8601} - %-5p [%t:%C{1}@%L] - %m%n
";
