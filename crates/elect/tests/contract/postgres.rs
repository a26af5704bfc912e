//! PostgreSQL keeps the contract.

use std::process::Command;
use std::time::Duration;

use crate::servers::{OnServer, Server, check, find_in_path, program, skip, text, version};

pub(crate) async fn keeps_the_contract() {
    let postgres = match program("POLE_ELECT_POSTGRES", "postgres") {
        Ok(found) => found.canonicalize().expect("the path of a program"),
        Err(why) => return skip("postgres", &why),
    };
    let initdb = postgres.with_file_name("initdb");
    if !initdb.is_file() {
        return skip("postgres", "no initdb beside it");
    }
    // PostgreSQL does not run as root; its package brings a user for it.
    let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.starts_with(b"0\n"));
    if root && find_in_path("setpriv").is_none() {
        return skip("postgres", "it does not run as root, and there is no setpriv");
    }
    let user = root.then_some("postgres");
    let server = Server::launch_as("postgres", 1, user, |folder, ports| {
        let data = folder.join("data");
        let mut init = Command::new(if root { "setpriv".into() } else { initdb.clone() });
        if root {
            init.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups", "--"]).arg(&initdb);
        }
        init.current_dir(folder).arg("-D").arg(&data).args(["-A", "trust", "-U", "postgres", "--no-sync"]);
        let done = init.output().expect("initdb");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let settings = [
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={}", ports[0]),
            format!("unix_socket_directories={}", text(folder)),
            // One connection for each of 200 candidates.
            "max_connections=400".to_owned(),
            "shared_buffers=16MB".to_owned(),
        ];
        let settings = settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]);
        [text(&postgres), "-D".into(), text(&data)].into_iter().chain(settings).collect()
    });
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres/ELECTION?sslmode=disable", server.port());
    check(&OnServer::new(version(&postgres, "--version"), url, Duration::from_secs(2), server)).await;
}
