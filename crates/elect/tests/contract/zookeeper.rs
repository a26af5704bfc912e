//! Apache ZooKeeper and Pole keep the contract.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use crate::servers::{OnServer, Server, check, program, skip, text, version};

pub(crate) async fn apache_keeps_the_contract() {
    match start_apache("zookeeper") {
        Ok(server) => check(&on_server("Apache ZooKeeper", server)).await,
        Err(why) => skip("Apache ZooKeeper", &why),
    }
}

pub(crate) async fn pole_keeps_the_contract() {
    match start_pole("pole") {
        Ok((server, version)) => check(&on_server(&format!("Pole, {version}"), server)).await,
        Err(why) => skip("Pole", &why),
    }
}

fn on_server(name: &str, server: Server) -> OnServer {
    let url = format!("zk://127.0.0.1:{}/ELECTION?tick={TICK_MS}", server.port());
    OnServer::new(name, url, Duration::from_secs(2), server)
}

pub(crate) fn start_apache(name: &str) -> Result<Server, String> {
    start_apache_with(name, &[])
}

/// With these lines about the port of clients, `PORT`, instead of a plain port.
pub(crate) fn start_apache_with(name: &str, settings: &[String]) -> Result<Server, String> {
    let java = program("POLE_ELECT_JAVA", "java")?;
    let folder = env::var_os("POLE_ELECT_ZOOKEEPER_JARS").map_or_else(|| "/usr/share/java".into(), PathBuf::from);
    if !folder.join("zookeeper.jar").is_file() {
        let folder = folder.display();
        return Err(format!("no zookeeper.jar in {folder}; POLE_ELECT_ZOOKEEPER_JARS names another folder"));
    }
    let class_path = JARS.iter().map(|jar| text(&folder.join(jar))).collect::<Vec<_>>().join(":");
    Ok(Server::launch(name, 1, |folder, ports| {
        let config = write_config(folder, ports[0], settings);
        let main = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
        [text(&java), "-Xmx256m".into(), "-cp".into(), class_path.clone(), main.into(), config].into()
    }))
}

pub(crate) fn start_pole(name: &str) -> Result<(Server, String), String> {
    start_pole_with(name, &[])
}

pub(crate) fn start_pole_with(name: &str, settings: &[String]) -> Result<(Server, String), String> {
    let pole = program("POLE_BIN", "pole")?;
    let server = Server::launch(name, 1, |folder, ports| {
        let config = write_config(folder, ports[0], settings);
        [text(&pole), "server".into(), "--config".into(), config].into()
    });
    Ok((server, version(&pole, "--version")))
}

/// One server without peers. 200 candidates come from one address, with two connections each.
fn write_config(folder: &Path, port: u16, settings: &[String]) -> String {
    let plain = ["clientPort=PORT".to_owned(), "clientPortAddress=127.0.0.1".to_owned()];
    let settings = if settings.is_empty() { &plain } else { settings };
    let config = format!(
        "tickTime={TICK_MS}\ninitLimit=10\nsyncLimit=5\ndataDir={}\nmaxClientCnxns=0\nadmin.enableServer=false\n{}\n",
        text(&folder.join("data")),
        settings.join("\n").replace("PORT", &port.to_string())
    );
    let file = folder.join("zoo.cfg");
    fs::write(&file, config).expect("the configuration");
    text(&file)
}

/// Ten times quicker than usual, so that sessions of 2 s end in time.
pub(crate) const TICK_MS: u64 = 200;

/// The jars that a server needs, as Debian names them.
const JARS: &[&str] = &[
    "zookeeper.jar",
    "zookeeper-jute.jar",
    "slf4j-api.jar",
    "slf4j-nop.jar",
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
