//! The session of the shell. It runs on a thread of its own, which pings and reconnects while a line is typed.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pole_client::asynchronous::{Event, Refusal, Session};
use pole_jute::{ErrorCode, Reply, Request};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::LocalSet;
use tokio::time::timeout;

use super::output::Out;
use crate::failure::{Failure, Kind};
use crate::servers::{Attempts, Server, resolve, timing};

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

/// Waits for the first connection.
fn wait_connected(events: &Receiver<Event>, servers: &[Server], limit: Duration) -> Result<(), Failure> {
    let deadline = Instant::now() + limit;
    let mut attempts = Attempts::new(servers);
    loop {
        match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(event) => match attempts.note(event) {
                Some(true) => return Ok(()),
                Some(false) => return Err(attempts.failure(limit)),
                None => {}
            },
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Err(attempts.failure(limit)),
        }
    }
}

/// A person waits at the tab key.
const LOOKUP_LIMIT: Duration = Duration::from_secs(1);

/// The shell is about to end.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);
