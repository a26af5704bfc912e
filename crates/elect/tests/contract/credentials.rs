//! Servers that ask for TLS, client certificates and passwords, each with an election of the command `pole-elect`.
//!
//! The command is a process of its own, so that credentials can also be given by its environment. A wrong or missing
//! credential must fail, and no message may show a password.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};

use crate::servers::{Folder, Server, program, skip, text};
use crate::{etcd, postgres, zookeeper};

pub(crate) async fn etcd() {
    let program = match program("POLE_ELECT_ETCD", "etcd") {
        Ok(found) => found,
        Err(why) => return skip("etcd with credentials", &why),
    };
    let keys = Keys::new("etcd");
    // Two listeners: the plain one is for the administrator, who creates the user.
    let server = Server::launch("etcd-tls", 3, |folder, ports| {
        let [plain, tls, peer] = ports else { panic!("three ports") };
        let (plain, tls) = (format!("http://127.0.0.1:{plain}"), format!("https://127.0.0.1:{tls}"));
        let peer = format!("http://127.0.0.1:{peer}");
        let mut command = etcd::command(&program, folder, &format!("{plain},{tls}"), &peer);
        command.extend([
            format!("--cert-file={}", keys.file("server.pem")),
            format!("--key-file={}", keys.file("server.key")),
            format!("--trusted-ca-file={}", keys.file("ca.pem")),
            "--client-cert-auth".to_owned(),
        ]);
        command
    });
    let user = format!("{{\"name\": \"root\", \"password\": \"{PASSWORD}\"}}");
    for (path, body) in [
        ("/v3/auth/user/add", user.as_str()),
        ("/v3/auth/role/add", "{\"name\": \"root\"}"),
        ("/v3/auth/user/grant", "{\"user\": \"root\", \"role\": \"root\"}"),
        ("/v3/auth/enable", "{}"),
    ] {
        post(server.port(), path, body).await;
    }
    let host = format!("127.0.0.1:{}", server.ports()[1]);
    let files = keys.options();
    succeeds(&format!("etcds://root:{PASSWORD}@{host}/app?{files}"), &[]);
    let login = format!("root:{PASSWORD}");
    let [ca, cert, key] = keys.files();
    let variables =
        [("ETCDCTL_USER", &*login), ("ETCDCTL_CACERT", &ca), ("ETCDCTL_CERT", &cert), ("ETCDCTL_KEY", &key)];
    succeeds(&format!("etcds://{host}/app"), &variables);
    fails(&format!("etcds://root:wrong@{host}/app?{files}"), &[]);
    fails(&format!("etcds://{host}/app?{files}"), &[]);
    fails(&format!("etcds://root:{PASSWORD}@{host}/app?cacert={ca}"), &[]);
    fails(&format!("etcds://root:{PASSWORD}@{host}/app"), &[]);
}

pub(crate) async fn postgresql() {
    let keys = Keys::new("postgres");
    let password_file = keys.write("password", PASSWORD);
    let init = ["-A", "scram-sha-256", "--pwfile", &password_file];
    let prepare = |data: &Path| {
        let rule = "hostssl all all 127.0.0.1/32 scram-sha-256 clientcert=verify-ca\n";
        fs::write(data.join("pg_hba.conf"), rule).expect("the rules of PostgreSQL");
        // PostgreSQL takes only a key that nobody else may read.
        let key = data.join("server.key");
        fs::copy(keys.file("server.key"), &key).expect("the key");
        let done = Command::new("chmod").arg("600").arg(&key).status().expect("chmod");
        assert!(done.success());
        if let Ok(Some(user)) = postgres::user() {
            let done = Command::new("chown").arg(user).arg(&key).status().expect("chown");
            assert!(done.success());
        }
    };
    let settings = [
        "ssl=on".to_owned(),
        format!("ssl_cert_file={}", keys.file("server.pem")),
        "ssl_key_file=server.key".to_owned(),
        format!("ssl_ca_file={}", keys.file("ca.pem")),
    ];
    let server = match postgres::start("postgres-tls", &init, prepare, &settings) {
        Ok(server) => server,
        Err(why) => return skip("postgres with credentials", &why),
    };
    let host = format!("127.0.0.1:{}", server.port());
    let files = keys.options();
    succeeds(&format!("postgres://postgres:{PASSWORD}@{host}/postgres/app?sslmode=require&{files}"), &[]);
    let [ca, cert, key] = keys.files();
    let variables = [
        ("PGUSER", "postgres"),
        ("PGPASSWORD", PASSWORD),
        ("PGSSLMODE", "require"),
        ("PGSSLROOTCERT", &ca),
        ("PGSSLCERT", &cert),
        ("PGSSLKEY", &key),
    ];
    succeeds(&format!("postgres://{host}/postgres/app"), &variables);
    fails(&format!("postgres://postgres:wrong@{host}/postgres/app?sslmode=require&{files}"), &[]);
    fails(&format!("postgres://postgres:{PASSWORD}@{host}/postgres/app?sslmode=require&cacert={ca}"), &[]);
    fails(&format!("postgres://postgres:{PASSWORD}@{host}/postgres/app?sslmode=disable"), &[]);
}

pub(crate) async fn redis() {
    let program = match program("POLE_ELECT_REDIS", "redis-server") {
        Ok(found) => found,
        Err(why) => return skip("redis with credentials", &why),
    };
    let keys = Keys::new("redis");
    let server = Server::launch("redis-tls", 1, |folder, ports| {
        let (port, folder, [ca, cert, key]) = (ports[0].to_string(), text(folder), keys.server_files());
        let options = ["--bind", "127.0.0.1", "--port", "0", "--dir", &folder, "--save", "", "--requirepass", PASSWORD];
        let tls = ["--tls-port", &port, "--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
        [text(&program)].into_iter().chain(options.iter().chain(&tls).map(ToString::to_string)).collect()
    });
    let host = format!("127.0.0.1:{}", server.port());
    let files = keys.options();
    succeeds(&format!("rediss://default:{PASSWORD}@{host}/app?{files}"), &[]);
    succeeds(&format!("rediss://{host}/app?{files}"), &[("REDISCLI_AUTH", PASSWORD)]);
    fails(&format!("rediss://default:wrong@{host}/app?{files}"), &[]);
    fails(&format!("rediss://{host}/app?{files}"), &[]);
    fails(&format!("rediss://default:{PASSWORD}@{host}/app?cacert={}", keys.file("ca.pem")), &[]);
}

pub(crate) async fn nats() {
    let program = match program("POLE_ELECT_NATS", "nats-server") {
        Ok(found) => found,
        Err(why) => return skip("nats with credentials", &why),
    };
    let keys = Keys::new("nats");
    let server = Server::launch("nats-tls", 1, |folder, ports| {
        let (port, data, [ca, cert, key]) = (ports[0].to_string(), text(&folder.join("data")), keys.server_files());
        let options = ["-a", "127.0.0.1", "-p", &port, "-js", "-sd", &data, "--auth", PASSWORD];
        let tls = ["--tlsverify", "--tlscert", &cert, "--tlskey", &key, "--tlscacert", &ca];
        [text(&program)].into_iter().chain(options.iter().chain(&tls).map(ToString::to_string)).collect()
    });
    let host = format!("127.0.0.1:{}", server.port());
    let files = keys.options();
    succeeds(&format!("natss://{PASSWORD}@{host}/bucket/app?{files}"), &[]);
    let [ca, cert, key] = keys.files();
    let variables = [("NATS_TOKEN", PASSWORD), ("NATS_CA", &ca), ("NATS_CERT", &cert), ("NATS_KEY", &key)];
    succeeds(&format!("natss://{host}/bucket/app"), &variables);
    fails(&format!("natss://wrong@{host}/bucket/app?{files}"), &[]);
    fails(&format!("natss://{host}/bucket/app?{files}"), &[]);
    fails(&format!("natss://{PASSWORD}@{host}/bucket/app?cacert={ca}"), &[]);
}

pub(crate) async fn consul() {
    let program = match program("POLE_ELECT_CONSUL", "consul") {
        Ok(found) => found,
        Err(why) => return skip("consul with credentials", &why),
    };
    let keys = Keys::new("consul");
    let server = Server::launch("consul-tls", 5, |folder, ports| {
        let [https, server, serf_lan, serf_wan, grpc] = ports else { panic!("five ports") };
        let [ca, cert, key] = keys.server_files();
        let settings = format!(
            r#"{{"server": true, "bootstrap_expect": 1, "bind_addr": "127.0.0.1", "client_addr": "127.0.0.1",
                "session_ttl_min": "2s", "performance": {{"raft_multiplier": 1}}, "disable_update_check": true,
                "data_dir": {:?}, "ports": {{"https": {https}, "http": -1, "server": {server}, "serf_lan": {serf_lan},
                "serf_wan": {serf_wan}, "grpc": {grpc}, "dns": -1}}, "verify_incoming_https": true, "ca_file": {ca:?},
                "cert_file": {cert:?}, "key_file": {key:?},
                "acl": {{"enabled": true, "default_policy": "deny", "tokens": {{"master": "{PASSWORD}"}}}}}}"#,
            text(&folder.join("data"))
        );
        let file = folder.join("settings.json");
        fs::write(&file, settings).expect("the settings");
        [text(&program), "agent".into(), "-config-file".into(), text(&file)].into()
    });
    let host = format!("127.0.0.1:{}", server.port());
    let files = keys.options();
    let token_file = keys.write("token", PASSWORD);
    succeeds(&format!("consuls://:{PASSWORD}@{host}/app?ttl_min=2&{files}"), &[]);
    succeeds(&format!("consuls://{host}/app?ttl_min=2&token_file={token_file}&{files}"), &[]);
    let [ca, cert, key] = keys.files();
    let variables = [("CONSUL_CACERT", &*ca), ("CONSUL_CLIENT_CERT", &cert), ("CONSUL_CLIENT_KEY", &key)];
    let token = ("CONSUL_HTTP_TOKEN", PASSWORD);
    succeeds(&format!("consuls://{host}/app?ttl_min=2"), &[&variables[..], &[token]].concat());
    fails(&format!("consuls://{host}/app?ttl_min=2"), &variables);
    fails(&format!("consuls://:wrong@{host}/app?ttl_min=2&{files}"), &[]);
    fails(&format!("consuls://:{PASSWORD}@{host}/app?ttl_min=2&cacert={ca}"), &[]);
}

pub(crate) async fn zookeeper() {
    match zookeeper::start_apache("zookeeper-digest") {
        Ok(server) => asks_for_a_digest(&server),
        Err(why) => return skip("Apache ZooKeeper with credentials", &why),
    }
    let keys = Keys::new("zookeeper");
    let server = zookeeper::start_apache_with("zookeeper-tls", &tls_settings(&keys)).expect("it was started before");
    asks_for_a_certificate(&server, &keys);
}

pub(crate) async fn pole() {
    match zookeeper::start_pole("pole-digest") {
        Ok((server, _)) => asks_for_a_digest(&server),
        Err(why) => return skip("Pole with credentials", &why),
    }
    let keys = Keys::new("pole");
    let (server, _) = zookeeper::start_pole_with("pole-tls", &tls_settings(&keys)).expect("it was started before");
    asks_for_a_certificate(&server, &keys);
}

/// The settings of ZooKeeper for a port with TLS, on which clients need a certificate.
fn tls_settings(keys: &Keys) -> Vec<String> {
    let [_, cert, key] = keys.server_files();
    let read = |file: &str| fs::read_to_string(file).expect("a file of ours");
    let store = keys.write("keystore.pem", &(read(&key) + &read(&cert)));
    [
        "secureClientPort=PORT".to_owned(),
        "secureClientPortAddress=127.0.0.1".to_owned(),
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory".to_owned(),
        format!("ssl.keyStore.location={store}"),
        format!("ssl.trustStore.location={}", keys.file("ca.pem")),
        "ssl.clientAuth=need".to_owned(),
    ]
    .into()
}

fn asks_for_a_certificate(server: &Server, keys: &Keys) {
    let (host, tick) = (format!("127.0.0.1:{}", server.port()), zookeeper::TICK_MS);
    succeeds(&format!("zks://{host}/app?tick={tick}&{}", keys.options()), &[]);
    succeeds(&format!("zks://user:{PASSWORD}@{host}/own?tick={tick}&{}", keys.options()), &[]);
    fails(&format!("zks://{host}/app?tick={tick}&cacert={}", keys.file("ca.pem")), &[]);
    fails(&format!("zks://{host}/app?tick={tick}"), &[]);
    fails(&format!("zk://{host}/app?tick={tick}"), &[]);
}

/// The first client owns the nodes; others are refused.
fn asks_for_a_digest(server: &Server) {
    let (host, tick) = (format!("127.0.0.1:{}", server.port()), zookeeper::TICK_MS);
    succeeds(&format!("zk://user:{PASSWORD}@{host}/app?tick={tick}"), &[]);
    succeeds(&format!("zk://user:{PASSWORD}@{host}/app?tick={tick}"), &[]);
    fails(&format!("zk://user:wrong@{host}/app?tick={tick}"), &[]);
    fails(&format!("zk://{host}/app?tick={tick}"), &[]);
}

/// Runs an election with one candidate to its end. A server may need a moment until it has a leader of its own.
pub(crate) fn succeeds(url: &str, variables: &[(&str, &str)]) {
    let deadline = Instant::now() + LIMIT;
    while let Err(why) = elect(url, variables) {
        assert!(Instant::now() < deadline, "{why}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A wrong or missing credential is refused, and not shown.
pub(crate) fn fails(url: &str, variables: &[(&str, &str)]) {
    let why = elect(url, variables).expect_err("refused, but it led");
    assert!(!why.is_empty() && !why.contains(PASSWORD), "{why}");
}

fn elect(url: &str, variables: &[(&str, &str)]) -> Result<(), String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pole-elect"));
    command.args([url, "--id", "a", "--score", "1", "--ttl", "4s", "--", "echo", "leading"]);
    // Nothing from the environment of the test.
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).envs(variables.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command");
    let deadline = Instant::now() + LIMIT;
    while child.try_wait().expect("the state of a child").is_none() {
        if Instant::now() > deadline {
            child.kill().expect("the end of a child");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().expect("the output of a child");
    if output.status.success() && output.stdout == b"leading\n" {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Posts JSON to a server that may have begun to listen only now.
async fn post(port: u16, path: &str, body: &str) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let length = body.len();
    let request = format!("POST {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\n{body}");
    let deadline = Instant::now() + LIMIT;
    loop {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.expect("a server that listens");
        stream.write_all(request.as_bytes()).await.expect("a server that reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        if answer.split(' ').nth(1) == Some("200") {
            return;
        }
        assert!(Instant::now() < deadline, "{path}: {answer}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// An authority with a certificate for servers on loopback and one for clients, in files.
pub(crate) struct Keys {
    folder: Folder,
}

impl Keys {
    pub(crate) fn new(name: &str) -> Self {
        let keys = Self { folder: Folder::new(&format!("{name}-keys")) };
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().expect("a key");
        let root = params.self_signed(&key).expect("a certificate");
        keys.write("ca.pem", &root.pem());
        let issuer = Issuer::new(params, key);
        for name in ["server", "client"] {
            let key = KeyPair::generate().expect("a key");
            let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
            let mut params = CertificateParams::new(names).expect("names");
            // Without a common name: with users enabled, etcd's gateway refuses a client certificate that has one.
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(DnType::OrganizationName, name);
            let certificate = params.signed_by(&key, &issuer).expect("a certificate");
            keys.write(&format!("{name}.pem"), &certificate.pem());
            keys.write(&format!("{name}.key"), &key.serialize_pem());
        }
        keys
    }

    pub(crate) fn write(&self, name: &str, content: &str) -> String {
        let file = self.folder.0.join(name);
        fs::write(&file, content).expect("a file of credentials");
        text(&file)
    }

    pub(crate) fn file(&self, name: &str) -> String {
        text(&self.folder.0.join(name))
    }

    /// Authority, certificate and key of a client.
    fn files(&self) -> [String; 3] {
        ["ca.pem", "client.pem", "client.key"].map(|name| self.file(name))
    }

    fn server_files(&self) -> [String; 3] {
        ["ca.pem", "server.pem", "server.key"].map(|name| self.file(name))
    }

    /// The options of a URL.
    fn options(&self) -> String {
        let [ca, cert, key] = self.files();
        format!("cacert={ca}&cert={cert}&key={key}")
    }
}

const PASSWORD: &str = "7c9d3f52-5f5c-4d56-8a2e-90c6b1d8e4aa";

/// For one command, and for a server to get ready.
const LIMIT: Duration = Duration::from_secs(60);
