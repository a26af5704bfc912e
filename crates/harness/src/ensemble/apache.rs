//! Apache ZooKeeper 3.8 from Debian's packages: already installed, installed now, or unpacked under `target/apache`.
//!
//! Debian's archive is used instead of a download from Apache because build machines can reach it, and because our
//! published figures name its version.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::command::{install, is_installed, may_install, output_of, program, target_dir};

/// The program and its arguments, without the configuration file.
///
/// The JVM gets no options except the log settings, like in Debian's own start script.
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

/// The folder with the jars of ZooKeeper and its dependencies.
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

/// Installs the packages if we have the permission, else unpacks them under `target`.
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

/// Lists every jar by name, because the manifest has absolute paths, which do not exist if the packages are only
/// unpacked. The first entry is a folder with our log settings.
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

/// The jars that a server needs. The admin server, which needs more, is disabled.
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
    "netty-codec.jar",
    "netty-common.jar",
    "netty-handler.jar",
    "netty-resolver.jar",
    "netty-transport.jar",
    "netty-transport-native-epoll.jar",
    "netty-transport-native-unix-common.jar",
    "snappy-java.jar",
];

/// The packages that contain these jars.
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

/// Level INFO, as in Debian, which does not log requests. Standard output goes to a file.
const LOG_SETTINGS: &str = "\
log4j.rootLogger=INFO, CONSOLE
log4j.appender.CONSOLE=org.apache.log4j.ConsoleAppender
log4j.appender.CONSOLE.layout=org.apache.log4j.PatternLayout
log4j.appender.CONSOLE.layout.ConversionPattern=%d{ISO8601} - %-5p [%t:%C{1}@%L] - %m%n
";
