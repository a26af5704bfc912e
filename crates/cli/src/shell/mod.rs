//! `pole shell`: the commands of ZooKeeper's command line, on any server that speaks its protocol.
//!
//! Three ways to use it: one command given as arguments, lines from standard input, or an editor on a terminal with
//! completion of commands and paths. What is printed is what ZooKeeper 3.8's own `zkCli.sh` prints, because scripts
//! parse it, or one JSON object for each result with `--json`. Times are in UTC.
//!
//! ```text
//! words      splits a line                       commands   the list of commands, their options and usage
//! session    the session, on a thread of its own nodes, access, watch, quota, local   what each command does
//! editor     the line editor                     output     text and JSON
//! ```

mod access;
mod commands;
mod editor;
mod local;
mod nodes;
mod output;
mod quota;
mod session;
mod watch;
mod words;

use std::io::{self, BufRead as _, IsTerminal as _};
use std::sync::Arc;
use std::time::Duration;

use pole_jute::{ErrorCode, Reply, Request};

use crate::args::ShellArgs;
use crate::failure::{Failure, Kind};
use local::History;
use output::Out;
use session::ShellSession;

/// Runs the command of the arguments, or all lines of standard input.
pub(crate) fn run(args: &ShellArgs, json: bool) -> Result<(), Failure> {
    let timeout = Duration::from_millis(args.timeout.0);
    let mut shell = Shell::connect(&args.server, timeout, Arc::new(Out::new(json)))?;
    let done = if !args.words.is_empty() {
        shell.run_words(&args.words).map(drop)
    } else if !args.commands.is_empty() {
        args.commands.iter().try_for_each(|line| shell.run_line(line).map(drop))
    } else if io::stdin().is_terminal() {
        editor::run(&mut shell)
    } else {
        shell.run_input()
    };
    // Ephemeral nodes of the session are to be gone when the command has ended.
    shell.close();
    done
}

/// A shell with at most one session.
struct Shell {
    session: Option<ShellSession>,
    timeout: Duration,
    out: Arc<Out>,
    history: History,
}

/// What the shell does after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Line,
    Quit,
}

impl Shell {
    fn connect(servers: &str, timeout: Duration, out: Arc<Out>) -> Result<Self, Failure> {
        let session = ShellSession::open(servers, timeout, &out)?;
        Ok(Self { session: Some(session), timeout, out, history: History::default() })
    }

    fn close(&mut self) {
        if let Some(session) = self.session.take() {
            session.close();
        }
    }

    /// Runs the lines of standard input. A command that fails does not end it, as in ZooKeeper's own shell; the first
    /// failure gives the exit code.
    fn run_input(&mut self) -> Result<(), Failure> {
        let mut first = None;
        let (mut failed, mut count) = (0, 0);
        for line in io::stdin().lock().lines() {
            let line = line.map_err(|why| Failure::bad_input(format!("standard input: {why}")))?;
            count += usize::from(!line.trim().is_empty());
            match self.run_line(&line) {
                Ok(Next::Line) => {}
                Ok(Next::Quit) => break,
                Err(failure) => {
                    crate::print_error(&format!("{failure}\n"));
                    failed += 1;
                    first.get_or_insert(failure.kind());
                }
            }
        }
        first.map_or(Ok(()), |kind| Err(Failure::new(kind, format!("{failed} of {count} commands failed"))))
    }

    /// Runs a line. An empty one does nothing.
    fn run_line(&mut self, line: &str) -> Result<Next, Failure> {
        let words = words::split(line).map_err(Failure::bad_input)?;
        if words.is_empty() {
            return Ok(Next::Line);
        }
        self.history.push(line.trim());
        self.run_words(&words)
    }

    fn run_words(&mut self, words: &[String]) -> Result<Next, Failure> {
        let (name, arguments) = words.split_first().ok_or_else(|| Failure::bad_input("no command"))?;
        let command = commands::find(name)?;
        let given = command.parse(arguments)?;
        (command.run)(self, &given)
    }

    /// Sends a request about a path and waits for the reply.
    fn ask(&self, path: &str, request: Request) -> Result<Reply, Failure> {
        let mut replies = self.ask_all(vec![request])?;
        let reply = replies.pop().ok_or_else(|| Failure::failed("no reply"))?;
        reply.map_err(|code| refused(code, path))
    }

    /// Sends requests without waiting in between, and returns their replies in order.
    fn ask_all(&self, requests: Vec<Request>) -> Result<Vec<Result<Reply, ErrorCode>>, Failure> {
        self.session()?.ask_all(requests)
    }

    fn session(&self) -> Result<&ShellSession, Failure> {
        self.session.as_ref().ok_or_else(|| Failure::failed("Not connected"))
    }
}

/// An error reply, in the words of ZooKeeper's own shell.
#[expect(clippy::wildcard_enum_match_arm, reason = "all others are printed by their names")]
fn refused(code: ErrorCode, path: &str) -> Failure {
    let text = match code {
        ErrorCode::NoNode => format!("Node does not exist: {path}"),
        ErrorCode::NoChildrenForEphemerals => format!("Ephemerals cannot have children: {path}"),
        ErrorCode::NodeExists => format!("Node already exists: {path}"),
        ErrorCode::NotEmpty => format!("Node not empty: {path}"),
        ErrorCode::NotReadOnly => format!("Not a read-only call: {path}"),
        ErrorCode::InvalidAcl => format!("Acl is not valid : {path}"),
        ErrorCode::NoAuth => format!("Insufficient permission : {path}"),
        ErrorCode::BadArguments => format!("Arguments are not valid : {path}"),
        ErrorCode::BadVersion => format!("version No is not valid : {path}"),
        ErrorCode::QuotaExceeded => format!("Quota has exceeded : {path}"),
        ErrorCode::NoWatcher => format!("KeeperErrorCode = No such watcher for {path}"),
        ErrorCode::AuthFailed => "Authentication failed: the server does not accept this scheme or identity".to_owned(),
        other => format!("KeeperErrorCode = {other:?} for {path}"),
    };
    Failure::new(Kind::Failed, text)
}

/// A reply to another request than the one that was sent. The client matches them, so it does not happen.
fn unexpected(reply: &Reply) -> Failure {
    Failure::failed(format!("the server sent the reply to {:?}", reply.op()))
}

/// Checks a path as ZooKeeper's own shell does, before it is sent.
fn check_path(path: &str) -> Result<(), Failure> {
    let wrong = if path.is_empty() {
        Some("Path length must be > 0".to_owned())
    } else if !path.starts_with('/') {
        Some("Path must start with / character".to_owned())
    } else if path.len() > 1 && path.ends_with('/') {
        Some("Path must not end with / character".to_owned())
    } else {
        let bad = |name: &str| matches!(name, "" | "." | "..") || name.contains('\0');
        let name = path[1..].split('/').find(|name| path.len() > 1 && bad(name));
        name.map(|name| format!("Invalid path string {path:?}: {name:?} cannot be the name of a node"))
    };
    wrong.map_or(Ok(()), |text| Err(Failure::bad_input(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_checked_before_they_are_sent() {
        for right in ["/", "/a", "/a/b.c", "/...", "/a b"] {
            assert_eq!(check_path(right), Ok(()), "{right}");
        }
        for wrong in ["", "a", "/a/", "//", "/a//b", "/a/./b", "/..", "/a\0"] {
            assert!(check_path(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn refusals_use_the_words_of_zookeeper_s_shell() {
        assert_eq!(refused(ErrorCode::NoNode, "/a").to_string(), "Node does not exist: /a");
        assert_eq!(refused(ErrorCode::SessionMoved, "/a").to_string(), "KeeperErrorCode = SessionMoved for /a");
    }
}
