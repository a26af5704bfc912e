//! The session of the shell. It runs on a thread of its own, which pings and reconnects while a line is typed.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pole_client::asynchronous::{Event, Refusal, Session, Timing};
use pole_jute::{ErrorCode, Reply, Request};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::LocalSet;
use tokio::time::timeout;

use super::output::Out;
use crate::failure::{Failure, Kind};

/// An open session.
pub(super) struct ShellSession {
    session: Session,
    runtime: Handle,
    thread: JoinHandle<()>,
    /// Ends the thread when it is dropped.
    stop: oneshot::Sender<()>,
    answer_limit: Duration,
    servers: String,
}

/// One address of one server.
struct Server {
    name: String,
    address: SocketAddr,
}

impl ShellSession {
    /// Opens a session at one of the servers, within the timeout.
    pub(super) fn open(servers: &str, session_timeout: Duration, out: &Arc<Out>) -> Result<Self, Failure> {
        let known = Arc::new(resolve(servers)?);
        let (sender, events) = channel();
        let (session_sender, sessions) = channel();
        let (stop, mut stopped) = oneshot::channel();
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|why| Failure::failed(format!("cannot start a runtime: {why}")))?;
        let handle = runtime.handle().clone();
        let (addresses, names, out) =
            (known.iter().map(|server| server.address).collect::<Vec<_>>(), Arc::clone(&known), Arc::clone(out));
        let thread = std::thread::spawn(move || {
            LocalSet::new().block_on(&runtime, async {
                // Shells do not all begin with the same server.
                let first = std::process::id() as usize % addresses.len();
                let (session, mut events) = Session::open(addresses, first, timing(session_timeout));
                let _ = session_sender.send(session);
                loop {
                    tokio::select! {
                        Some(event) = events.recv() => tell(&event, &names, &sender, &out),
                        // Not before: the runtime also runs the timers of those who ask.
                        _ = &mut stopped => break,
                    }
                }
            });
        });
        let session = sessions.recv().map_err(|_| Failure::failed("the thread of the session ended"))?;
        wait_connected(&events, &known, session_timeout)?;
        Ok(Self {
            session,
            runtime: handle,
            thread,
            stop,
            answer_limit: 2 * session_timeout,
            servers: servers.to_owned(),
        })
    }

    /// The servers, as they were given.
    pub(super) fn servers(&self) -> &str {
        &self.servers
    }

    /// Reads for the completion of paths.
    pub(super) fn lookup(&self) -> Lookup {
        Lookup { session: self.session.clone(), runtime: self.runtime.clone() }
    }

    /// Sends requests without waiting in between, and returns their replies in order.
    pub(super) fn ask_all(&self, requests: Vec<Request>) -> Result<Vec<Result<Reply, ErrorCode>>, Failure> {
        let answers: Vec<_> = requests.into_iter().map(|request| self.session.ask(request)).collect();
        let all = async {
            let mut replies = Vec::new();
            for answer in answers {
                replies.push(match answer.await {
                    Ok(answer) => Ok(answer.reply),
                    Err(Refusal::Code(code, _)) => Err(code),
                    Err(Refusal::Lost) => return Err(lost()),
                    Err(Refusal::Expired) => {
                        return Err(Failure::failed("the session has expired; `connect` opens another"));
                    }
                });
            }
            Ok(replies)
        };
        self.runtime.block_on(async { timeout(self.answer_limit, all).await }).unwrap_or_else(|_| Err(self.no_answer()))
    }

    fn no_answer(&self) -> Failure {
        let what = format!("no answer from {} within {:?}", self.servers, self.answer_limit);
        Failure::new(Kind::NoQuorum, format!("{what}; the command may still take effect"))
    }

    /// Closes the session and waits until that is done.
    pub(super) fn close(self) {
        // If no server answers in time, the session expires by itself.
        let closed = self.session.ask(Request::CloseSession);
        let _ = self.runtime.block_on(async { timeout(CLOSE_LIMIT, closed).await });
        drop(self.stop);
        let _ = self.thread.join();
    }
}

/// Asks requests that may as well stay unanswered.
pub(super) struct Lookup {
    session: Session,
    runtime: Handle,
}

impl Lookup {
    /// The reply, if it comes soon.
    pub(super) fn ask(&self, request: Request) -> Option<Reply> {
        let answer = self.session.ask(request);
        let answered = self.runtime.block_on(async { timeout(LOOKUP_LIMIT, answer).await });
        answered.ok()?.ok().map(|answer| answer.reply)
    }
}

fn lost() -> Failure {
    Failure::new(Kind::Unreachable, "the connection broke before the answer; the command may have taken effect")
}

/// Reports an event to the user, and to the thread that waits for the first connection.
fn tell(event: &Event, servers: &[Server], waiting: &Sender<Event>, out: &Out) {
    match event {
        Event::Watch(event) => out.event(event),
        Event::Disconnected(server, why) => out.notice(&format!("disconnected from {}: {why}", servers[*server].name)),
        Event::Expired => out.notice("the session has expired; `connect` opens another"),
        Event::Connected(_) | Event::ConnectFailed { .. } | Event::WatchOvertaken(_) => {}
    }
    // Nobody waits after the first connection.
    let _ = waiting.send(event.clone());
}

/// Waits for the first connection. On failure, says why each server was of no use.
fn wait_connected(events: &Receiver<Event>, servers: &[Server], limit: Duration) -> Result<(), Failure> {
    let deadline = Instant::now() + limit;
    let mut reasons: Vec<Option<String>> = servers.iter().map(|_| None).collect();
    let mut reached = false;
    loop {
        match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Event::Connected(_)) => return Ok(()),
            Ok(Event::ConnectFailed { server, is_reached, why }) => {
                reasons[server] = Some(why);
                reached |= is_reached;
                // A refused connection will be refused again. A server without a quorum may get one.
                if !reached && reasons.iter().all(Option::is_some) {
                    break;
                }
            }
            Ok(Event::Expired) => {
                reached = true;
                break;
            }
            Ok(Event::Disconnected(..) | Event::Watch(_) | Event::WatchOvertaken(_)) => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    let each = servers
        .iter()
        .zip(reasons)
        .map(|(server, why)| format!("\n  {}: {}", server.name, why.unwrap_or_else(|| "no answer".to_owned())));
    let (kind, what) = if reached {
        let text = format!("no server opened a session within {limit:?}; the ensemble may have no quorum");
        (Kind::NoQuorum, text)
    } else {
        (Kind::Unreachable, "cannot reach a server (--server names others)".to_owned())
    };
    Err(Failure::new(kind, format!("{what}:{}", each.collect::<String>())))
}

/// The addresses of `host:port,host:port`.
fn resolve(servers: &str) -> Result<Vec<Server>, Failure> {
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

fn timing(session_timeout: Duration) -> Timing {
    Timing { session_timeout, silence_max: session_timeout / 3, reconnect_pause: RECONNECT_PAUSE }
}

/// Short for a person who waits, long for a server that restarts.
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);

/// A person waits at the tab key.
const LOOKUP_LIMIT: Duration = Duration::from_secs(1);

/// The shell is about to end.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

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
}
