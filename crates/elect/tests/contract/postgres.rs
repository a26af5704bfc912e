//! PostgreSQL keeps the contract, and the table of the example refuses a leader that was replaced.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::servers::{OnServer, Server, check, find_in_path, program, skip, text, version, wait_until_ready};

#[path = "../../examples/fenced_table.rs"]
#[expect(dead_code, reason = "its main is not called")]
mod fenced_table;

pub(crate) async fn keeps_the_contract() {
    let server = match start("postgres", &["-A", "trust"], |_| {}, &[]) {
        Ok(server) => server,
        Err(why) => return skip("postgres", &why),
    };
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres/ELECTION?sslmode=disable", server.port());
    let name = program("POLE_ELECT_POSTGRES", "postgres").map_or_else(|why| why, |file| version(&file, "--version"));
    check(&OnServer::new(name, url, Duration::from_secs(2), server)).await;
}

pub(crate) async fn a_table_refuses_a_leader_that_was_replaced() {
    let server = match start("postgres-example", &["-A", "trust"], |_| {}, &[]) {
        Ok(server) => server,
        Err(why) => return skip("the example with PostgreSQL", &why),
    };
    let host = format!("127.0.0.1:{}", server.port());
    let url = format!("postgres://postgres@{host}/postgres/app/leader?sslmode=disable");
    let factory = OnServer::new("PostgreSQL", url.clone(), Duration::from_secs(2), server);
    wait_until_ready(&factory).await;
    let written = fenced_table::replace_a_leader(&url, &format!("postgresql://postgres@{host}/postgres")).await;
    assert_eq!(written.unwrap(), (70, false), "the balance, and whether the old leader could write at last");
}

/// Starts a PostgreSQL, or says why there is none. `prepare` gets the folder of the data after it was made.
pub(crate) fn start(name: &str, init: &[&str], prepare: impl Fn(&Path), settings: &[String]) -> Result<Server, String> {
    let postgres = program("POLE_ELECT_POSTGRES", "postgres")?.canonicalize().map_err(|why| why.to_string())?;
    let initdb = postgres.with_file_name("initdb");
    if !initdb.is_file() {
        return Err("no initdb beside it".to_owned());
    }
    let user = user()?;
    Ok(Server::launch_as(name, 1, user, |folder, ports| {
        let data = folder.join("data");
        let mut command = Command::new(if user.is_some() { "setpriv".into() } else { initdb.clone() });
        if let Some(user) = user {
            command.args(["--reuid", user, "--regid", user, "--clear-groups", "--"]).arg(&initdb);
        }
        command.current_dir(folder).arg("-D").arg(&data).args(["-U", "postgres", "--no-sync"]).args(init);
        let done = command.output().expect("initdb");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        prepare(&data);
        let common = [
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={}", ports[0]),
            format!("unix_socket_directories={}", text(folder)),
            // One connection for each of 200 candidates.
            "max_connections=400".to_owned(),
            "shared_buffers=16MB".to_owned(),
        ];
        let settings = common.iter().chain(settings).flat_map(|setting| ["-c".to_owned(), setting.clone()]);
        [text(&postgres), "-D".into(), text(&data)].into_iter().chain(settings).collect()
    }))
}

/// PostgreSQL does not run as root; its package brings a user for it.
pub(crate) fn user() -> Result<Option<&'static str>, String> {
    let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.starts_with(b"0\n"));
    if root && find_in_path("setpriv").is_none() {
        return Err("it does not run as root, and there is no setpriv".to_owned());
    }
    Ok(root.then_some("postgres"))
}
