//! The servers that a client command connects to, and why none of them opened a session.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use pole_client::asynchronous::{Event, Timing};

use crate::failure::{Failure, Kind};

/// One address of one server.
pub(crate) struct Server {
    /// As it was given.
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
}

/// The addresses of `host:port,host:port`.
pub(crate) fn resolve(servers: &str) -> Result<Vec<Server>, Failure> {
    let names: Vec<&str> = servers.split(',').map(str::trim).collect();
    names.iter().try_for_each(|name| check_name(name))?;
    let mut known = Vec::new();
    for name in names {
        let unknown = |why| Failure::new(Kind::Unreachable, format!("cannot resolve {name}: {why}"));
        let addresses = name.to_socket_addrs().map_err(unknown)?;
        known.extend(addresses.map(|address| Server { name: name.to_owned(), address }));
    }
    Ok(known)
}

fn check_name(name: &str) -> Result<(), Failure> {
    if name.contains('/') {
        return Err(Failure::bad_input(format!("{name}: a path after the server is not supported; give full paths")));
    }
    match name.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(()),
        Some(_) | None => Err(Failure::bad_input(format!("expected HOST:PORT[,HOST:PORT], got {name:?}"))),
    }
}

pub(crate) fn timing(session_timeout: Duration) -> Timing {
    Timing { session_timeout, silence_max: session_timeout / 3, reconnect_pause: RECONNECT_PAUSE }
}

/// The attempts of one session to connect for the first time.
pub(crate) struct Attempts<'a> {
    servers: &'a [Server],
    /// Whether each server was reached, and why that was of no use.
    reasons: Vec<Option<(bool, String)>>,
    expired: bool,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(servers: &'a [Server]) -> Self {
        Self { servers, reasons: servers.iter().map(|_| None).collect(), expired: false }
    }

    /// Takes an event of the session. Returns whether it is connected, or `None` if it is worth waiting for more.
    pub(crate) fn note(&mut self, event: Event) -> Option<bool> {
        match event {
            Event::Connected(_) => Some(true),
            Event::ConnectFailed { server, is_reached, why } => {
                self.reasons[server] = Some((is_reached, why));
                // A refused connection will be refused again. A server without a quorum may get one.
                let hopeless = |reason: &Option<(bool, String)>| reason.as_ref().is_some_and(|(reached, _)| !reached);
                self.reasons.iter().all(hopeless).then_some(false)
            }
            Event::Expired => {
                self.expired = true;
                Some(false)
            }
            Event::Disconnected(..) | Event::Watch(_) | Event::WatchOvertaken(_) => None,
        }
    }

    /// Why no server opened a session within the limit.
    pub(crate) fn failure(self, limit: Duration) -> Failure {
        let is_reached = |reason: &&Option<(bool, String)>| reason.as_ref().is_some_and(|(reached, _)| *reached);
        let reached = self.reasons.iter().filter(is_reached).count();
        let (kind, what) = if reached > 0 || self.expired {
            let (all, limit) = (self.servers.len(), limit.as_secs_f64());
            let text =
                format!("no quorum: {reached} of {all} servers answer, and none opened a session within {limit} s");
            (Kind::NoQuorum, text)
        } else {
            (Kind::Unreachable, "cannot reach a server (--server names others)".to_owned())
        };
        let why = |reason: Option<(bool, String)>| reason.map_or_else(|| "no answer".to_owned(), |(_, why)| why);
        let each = self.servers.iter().zip(self.reasons);
        let each = each.map(|(server, reason)| format!("\n  {}: {}", server.name, why(reason)));
        Failure::new(kind, format!("{what}:{}", each.collect::<String>()))
    }
}

/// Short for a person who waits, long for a server that restarts.
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_need_a_port_and_no_path() {
        assert_eq!(resolve("127.0.0.1:1,127.0.0.1:2").map(|all| all.len()).unwrap(), 2);
        for wrong in ["", "localhost", ":2181", "a:b", "127.0.0.1:2181/chroot", "127.0.0.1:1,"] {
            assert!(resolve(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_failure_counts_the_servers_that_answer_and_says_why_each_was_of_no_use() {
        let servers = resolve("127.0.0.1:1,127.0.0.1:2,127.0.0.1:3").unwrap();
        let mut attempts = Attempts::new(&servers);
        let failed = |server, is_reached, why: &str| Event::ConnectFailed { server, is_reached, why: why.to_owned() };
        assert_eq!(attempts.note(failed(0, true, "closed the connection")), None);
        assert_eq!(attempts.note(failed(2, false, "Connection refused")), None);
        let failure = attempts.failure(Duration::from_secs(3));
        assert_eq!(failure.kind(), Kind::NoQuorum);
        let expected = "no quorum: 1 of 3 servers answer, and none opened a session within 3 s:\n  127.0.0.1:1: closed the \
                        connection\n  127.0.0.1:2: no answer\n  127.0.0.1:3: Connection refused";
        assert_eq!(failure.to_string(), expected);
    }

    #[test]
    fn servers_that_all_refuse_are_not_waited_for() {
        let servers = resolve("127.0.0.1:1,127.0.0.1:2").unwrap();
        let mut attempts = Attempts::new(&servers);
        let refused = |server| Event::ConnectFailed { server, is_reached: false, why: "Connection refused".to_owned() };
        assert_eq!((attempts.note(refused(0)), attempts.note(refused(1))), (None, Some(false)));
        assert_eq!(attempts.failure(Duration::from_secs(3)).kind(), Kind::Unreachable);
    }
}
