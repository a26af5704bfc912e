//! `pole up` with real processes on loopback.

mod common;

use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{LIMIT, Running, free_base_port, run, send};
use pole_client::blocking::Session;

/// An ensemble that is ready.
struct UpProcess {
    running: Running,
    base: u16,
    output: Vec<String>,
    /// Tests run one at a time, because each starts five processes.
    _guard: MutexGuard<'static, ()>,
}

impl UpProcess {
    fn ready() -> Self {
        let guard = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
        let base = free_base_port();
        let running = Running::reading_stdout(&["up", "--base-port", &base.to_string()]);
        let output = running.until("Ctrl-C stops all");
        Self { running, base, output, _guard: guard }
    }

    /// The rows of the table, as columns: id, site, clients, admin, mode, pid.
    fn rows(&self) -> Vec<Vec<&str>> {
        let words = self.output.iter().map(|line| line.split_whitespace().collect::<Vec<_>>());
        words.filter(|words| words.len() == 6 && words[0].parse::<u64>().is_ok()).collect()
    }

    /// Id and process of the leader.
    fn leader(&self) -> (String, u32) {
        let rows = self.rows();
        let leader = rows.iter().find(|row| row[4] == "leader").expect("one leads");
        (leader[0].to_owned(), leader[5].parse().unwrap())
    }

    fn dir(&self) -> &str {
        let line = self.output.iter().find_map(|line| line.strip_prefix("Data and logs are in "));
        line.and_then(|line| line.split(' ').next()).expect("it says where")
    }

    /// A client session at each server.
    fn clients(&self) -> Vec<Session> {
        let address = |id| SocketAddr::from((Ipv4Addr::LOCALHOST, self.base + id));
        (1..=5).map(|id| Session::connect(address(id), LIMIT).unwrap()).collect()
    }
}

static SERIAL: Mutex<()> = Mutex::new(());

#[test]
fn it_shows_five_servers_of_which_one_leads() {
    let up = UpProcess::ready();
    let modes: Vec<_> = up.rows().iter().map(|row| row[4].to_owned()).collect();
    assert_eq!(modes.len(), 5, "{:#?}", up.output);
    assert_eq!(modes.iter().filter(|mode| *mode == "leader").count(), 1, "{modes:?}");
}

#[test]
fn a_zookeeper_client_gets_a_session_from_every_server() {
    assert_eq!(UpProcess::ready().clients().len(), 5);
}

#[test]
fn a_killed_leader_is_replaced_and_restarted_and_both_are_reported() {
    let up = UpProcess::ready();
    let (id, pid) = up.leader();
    send("-KILL", pid);
    up.running.until(&format!("server {id} ("));
    let lines = up.running.until(" leads in epoch ");
    let successor = lines.last().unwrap();
    assert!(!successor.contains(&format!("server {id} (")), "{successor}");
    let lines = up.running.until(" is back, as process ");
    assert!(lines.last().unwrap().contains(&format!("server {id} (")), "{lines:?}");
}

#[test]
fn links_follow_their_file_and_a_wrong_file_changes_nothing() {
    let up = UpProcess::ready();
    let file = Path::new(up.dir()).join("topology.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("rtt_ms = 77.06", "rtt_ms = -1")).unwrap();
    let lines = up.running.until("server 4 (D1): ");
    assert!(lines.last().unwrap().contains("rtt_ms"), "{lines:?}");
    std::fs::write(&file, text.replace("rtt_ms = 77.06", "rtt_ms = 7.5")).unwrap();
    up.running.until("server 4 (D1): the links are as the file says now");
}

#[test]
fn an_interrupt_ends_the_servers_and_removes_what_they_wrote() {
    let mut up = UpProcess::ready();
    let dir = up.dir().to_owned();
    assert!(Path::new(&dir).is_dir(), "{dir}");
    up.running.signal("-INT");
    assert_eq!(up.running.end().code(), Some(0));
    assert!(!Path::new(&dir).exists(), "{dir}");
    for id in 1..=5 {
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, up.base + id)).is_err(), "server {id} still listens");
    }
}

#[test]
fn the_servers_end_when_the_command_is_killed() {
    let up = UpProcess::ready();
    let (clients, dir) = (up.clients(), up.dir().to_owned());
    up.running.signal("-KILL");
    for mut client in clients {
        // An end of the stream or a reset means that the process is gone; a timeout does not.
        if let Err(error) = client.stream().read(&mut [0]) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn it_can_end_as_soon_as_it_is_ready() {
    let _guard = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let (code, output, _) = run(&["up", "--until-ready", "--base-port", &free_base_port().to_string()]);
    assert_eq!(code, 0, "{output}");
    assert!(output.starts_with("Pole is up: 5 servers in 3 data centres"), "{output}");
}

#[test]
fn without_its_port_the_dashboard_is_missing_and_the_servers_are_not() {
    let _guard = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let base = free_base_port();
    let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, base)).unwrap();
    let (code, output, _) = run(&["up", "--until-ready", "--base-port", &base.to_string()]);
    assert_eq!(code, 0, "{output}");
    assert!(output.contains(&format!("No dashboard: port {base}: ")), "{output}");
}

#[test]
fn a_load_that_cannot_be_made_is_refused() {
    let _guard = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let (code, _, complaint) = run(&["up", "--load", "9000", "--base-port", &free_base_port().to_string()]);
    assert_eq!(code, 2, "{complaint}");
    assert!(complaint.contains("from 0 to 5000"), "{complaint}");
}
