//! `pole backup` and `pole restore` on real servers: online, offline, and what they refuse.

mod common;

use std::path::Path;

use common::{Running, Scratch, free_port, pole, run};

/// A standalone server with an admin port.
struct TestServer {
    running: Running,
    config: String,
    client: String,
    admin: String,
    data: String,
}

impl TestServer {
    fn start(scratch: &Scratch, name: &str, more: &str) -> Self {
        let (client, admin, data) = (free_port(), free_port(), scratch.0.join(name));
        let text = format!(
            "dataDir={}\nclientPort={client}\nclientPortAddress=127.0.0.1\nadmin.serverPort={admin}\npreAllocSize=64\n\
             admin.rateLimiterIntervalInMS=0\n{more}",
            data.display()
        );
        let config = scratch.file(&format!("{name}.cfg"), &text);
        let running = Self::run(&config);
        let (client, admin) = (format!("127.0.0.1:{client}"), format!("http://127.0.0.1:{admin}"));
        Self { running, config, client, admin, data: data.display().to_string() }
    }

    fn run(config: &str) -> Running {
        let running = Running::reading_stderr(&["server", "--config", config]);
        running.until(" serving ");
        running
    }

    fn stop(&mut self) {
        self.running.signal("-TERM");
        assert!(self.running.end().success());
    }

    fn shell(&self, commands: &[&str]) -> String {
        let mut args = vec!["shell", "--server", &self.client];
        commands.iter().for_each(|command| args.extend(["-c", command]));
        run(&args).1
    }
}

#[test]
fn a_backup_is_restored_on_another_running_server() {
    let scratch = Scratch::new("backup-online");
    let (source, target) = (TestServer::start(&scratch, "a", ""), TestServer::start(&scratch, "b", ""));
    source.shell(&["create /app one", "create /app/deep two"]);
    target.shell(&["create /old x"]);
    let file = scratch.0.join("backup");
    let file = file.to_str().unwrap();
    let (code, said, complaint) = run(&["backup", file, "--admin", &source.admin]);
    assert_eq!(code, 0, "{complaint}");
    assert!(said.contains("has everything up to 0x1"), "{said}");
    let (code, said, _) = run(&["check", file]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("whole, a snapshot at 0x1") && said.contains("6 nodes (0 ephemeral)"), "{said}");
    let (code, said, complaint) = run(&["restore", file, "--admin", &target.admin]);
    assert_eq!(code, 0, "{complaint}");
    assert!(said.contains("2 nodes created, 0 changed, 1 deleted"), "{said}");
    assert_eq!(target.shell(&["get /app/deep"]).trim(), "two");
    // JSON is the answer of the server.
    let (_, said, _) = run(&["restore", file, "--json", "--admin", &target.admin]);
    let answer: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&answer["command"], &answer["created"]), (&"restore".into(), &0.into()), "{said}");
    // An existing file is not replaced unasked.
    let (code, _, complaint) = run(&["backup", file, "--admin", &source.admin]);
    assert_eq!(code, 2, "{complaint}");
    assert!(complaint.contains("--force"), "{complaint}");
    assert_eq!(run(&["backup", "--force", file, "--admin", &source.admin]).0, 0);
    assert_eq!(mode(Path::new(file)), 0o600);
}

#[test]
fn a_backup_becomes_the_history_of_a_server_that_does_not_run() {
    let scratch = Scratch::new("backup-offline");
    let mut server = TestServer::start(&scratch, "a", "");
    server.shell(&["create /kept 1"]);
    let file = scratch.0.join("backup");
    let file = file.to_str().unwrap();
    assert_eq!(run(&["backup", file, "--admin", &server.admin]).0, 0);
    server.shell(&["create /later 2"]);
    // While it runs, its directory is in use.
    let (code, _, complaint) = run(&["restore", file, "--config", &server.config, "--replace"]);
    assert_eq!(code, 6, "{complaint}");
    server.stop();
    let (code, _, complaint) = run(&["restore", file, "--config", &server.config]);
    assert_eq!(code, 1, "{complaint}");
    assert!(complaint.contains("--replace"), "{complaint}");
    let (code, said, complaint) = run(&["restore", file, "--config", &server.config, "--replace"]);
    assert_eq!(code, 0, "{complaint}");
    assert!(said.contains("What was there before is in ") && said.contains("Start the server."), "{said}");
    let (code, said, complaint) = run(&["check", &server.data]);
    assert_eq!(code, 0, "{said}{complaint}");
    server.running = TestServer::run(&server.config);
    let nodes = server.shell(&["ls /"]);
    assert!(nodes.contains("kept") && !nodes.contains("later"), "{nodes}");
    // Its epoch is above that of the history that was replaced, so clients that have seen it are served.
    let (_, said, _) = run(&["status", "--json", "--admin", &server.admin]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&said).unwrap()["epoch"], 2, "{said}");
}

#[test]
fn what_is_no_backup_is_refused_and_leaves_no_file() {
    let scratch = Scratch::new("backup-bad");
    let server = TestServer::start(&scratch, "a", "admin.snapshot.enabled=false\n");
    let bad = scratch.file("bad", "ZKSN and then something else");
    let (code, said, complaint) = run(&["check", &bad]);
    assert_eq!(code, 5, "{said}{complaint}");
    for args in [&["restore", &bad, "--admin", &server.admin][..], &["restore", &bad, "--config", &server.config]] {
        let (code, _, complaint) = run(args);
        assert_eq!(code, 2, "{args:?}: {complaint}");
        assert!(complaint.contains("not a whole snapshot"), "{complaint}");
    }
    let file = scratch.0.join("backup");
    let (code, _, complaint) = run(&["backup", file.to_str().unwrap(), "--admin", &server.admin]);
    assert_eq!(code, 1, "{complaint}");
    assert!(complaint.contains("admin.snapshot.enabled"), "{complaint}");
    let left: Vec<_> = std::fs::read_dir(&scratch.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_str().unwrap().starts_with("backup")), "{left:?}");
}

#[test]
fn an_identity_that_may_not_read_everything_is_told_what_to_show() {
    let scratch = Scratch::new("backup-identity");
    let server = TestServer::start(&scratch, "a", "");
    server.shell(&["addauth digest root:secret", "setAcl / auth::cdrwa"]);
    let file = scratch.0.join("backup");
    let args = ["backup", file.to_str().unwrap(), "--admin", &server.admin];
    let (code, _, complaint) = run(&args);
    assert_eq!(code, 1, "{complaint}");
    assert!(complaint.contains("permissions on /") && complaint.contains("POLE_ADMIN_IDENTITY"), "{complaint}");
    let output = pole(&args).env("POLE_ADMIN_IDENTITY", "digest root:secret").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let (code, _, complaint) = run(&["backup", file.to_str().unwrap(), "--force", "--admin", "http://127.0.0.1:1"]);
    assert_eq!(code, 3, "{complaint}");
}

#[test]
fn a_backup_goes_to_standard_output_too() {
    let scratch = Scratch::new("backup-stdout");
    let server = TestServer::start(&scratch, "a", "");
    let output = pole(&["backup", "-", "--admin", &server.admin]).output().unwrap();
    assert!(output.status.success() && output.stdout.starts_with(b"ZKSN"), "{output:?}");
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    path.metadata().unwrap().mode() & 0o777
}

/// docs/operations.md, "Rebuilding from one server".
#[test]
fn an_ensemble_that_lost_its_majority_is_rebuilt_from_one_server() {
    let scratch = Scratch::new("rebuild");
    let ports: Vec<[u16; 4]> = (0..3).map(|_| [(); 4].map(|()| free_port())).collect();
    let lines: Vec<String> = ports
        .iter()
        .zip(1..)
        .map(|([quorum, election, client, _], id)| {
            format!("server.{id}=127.0.0.1:{quorum}:{election};127.0.0.1:{client}\n")
        })
        .collect();
    let common = |index: usize| {
        let data = scratch.0.join(index.to_string());
        format!(
            "dataDir={}\nadmin.serverPort={}\npreAllocSize=64\nadmin.rateLimiterIntervalInMS=0\n",
            data.display(),
            ports[index][3]
        )
    };
    let configs: Vec<String> = (0..3)
        .map(|index| {
            scratch.file(&format!("{index}/myid"), &format!("{}\n", index + 1));
            scratch.file(&format!("{index}.cfg"), &(common(index) + &lines.concat()))
        })
        .collect();
    let start = |config: &String| Running::reading_stderr(&["server", "--config", config]);
    let mut running: Vec<Running> = configs.iter().map(start).collect();
    running.iter().for_each(|server| drop(server.until(" serving ")));
    let clients: Vec<String> = ports.iter().map(|ports| format!("127.0.0.1:{}", ports[2])).collect();
    let (code, _, complaint) = run(&["shell", "--server", &clients[0], "-c", "create /a kept", "-c", "sync /"]);
    assert_eq!(code, 0, "{complaint}");
    // Servers 2 and 3 are lost, with their disks.
    running.drain(1..).for_each(|server| {
        server.signal("-KILL");
        drop(server);
    });
    running[0].until("electing");
    let (admin, file) = (format!("127.0.0.1:{}", ports[0][3]), scratch.0.join("saved").display().to_string());
    let (code, _, complaint) = run(&["backup", &file, "--admin", &admin]);
    assert_eq!(code, 4, "{complaint}");
    assert!(complaint.contains("no quorum. 1 of 3 servers answer; 2, 3 do not"), "{complaint}");
    running[0].signal("-TERM");
    assert!(running[0].end().success());
    for lost in ["1/version-2", "2/version-2"] {
        std::fs::remove_dir_all(scratch.0.join(lost)).unwrap();
    }
    let alone = scratch.file("alone.cfg", &common(0));
    let mut survivor = start(&alone);
    survivor.until(" serving ");
    let (code, said, complaint) = run(&["backup", &file, "--admin", &admin]);
    assert_eq!(code, 0, "{said}{complaint}");
    survivor.signal("-TERM");
    assert!(survivor.end().success());
    for config in &configs {
        let (code, said, complaint) = run(&["restore", &file, "--config", config, "--replace"]);
        assert_eq!(code, 0, "{said}{complaint}");
    }
    let running: Vec<Running> = configs.iter().map(start).collect();
    running.iter().for_each(|server| drop(server.until(" serving ")));
    for client in &clients {
        let (code, said, complaint) = run(&["shell", "--server", client, "-c", "get /a"]);
        assert_eq!((code, said.as_str()), (0, "kept\n"), "{complaint}");
    }
}
