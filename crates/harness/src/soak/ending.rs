//! The end of a soak: all faults are over, and the contents of every server are read.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use pole_jute::{ErrorCode, Reply};
use tokio::time::{sleep, timeout};

use super::clients::{KEYS, STEADY, path_of, queue};
use super::history::{Kind, Shown};
use super::ledger::Ledger;
use crate::Failure;
use crate::client::{self, Answer, Refusal, Session};

/// Reads the contents of every server, after a sync.
pub(super) async fn read_all_servers(
    servers: &[SocketAddr],
    sessions: usize,
    ledger: &Ledger,
) -> Result<Vec<Shown>, Failure> {
    let mut shown = Vec::new();
    for (index, server) in servers.iter().enumerate() {
        let (session, _events) = Session::open(vec![*server], 0, STEADY);
        let reader = ServerReader { server: index + 1, session_number: sessions + 1 + index, session, ledger };
        let seen = timeout(READ_LIMIT, reader.read_all(sessions)).await;
        shown.push(seen.map_err(|_| reader.failed(&format!("nothing for {READ_LIMIT:?}")))??);
    }
    Ok(shown)
}

/// Reads the contents of one server.
struct ServerReader<'a> {
    server: usize,
    /// The number of its session in the ledger, after all others.
    session_number: usize,
    session: Session,
    ledger: &'a Ledger,
}

impl ServerReader<'_> {
    async fn read_all(&self, sessions: usize) -> Result<Shown, Failure> {
        let mut shown = Shown { server: self.server, ..Shown::default() };
        let sync = self.session.ask(client::sync());
        let keys: Vec<_> = (0..KEYS)
            .map(|key| {
                let index = self.ledger.asked(self.session_number, Kind::Read { key, synced: true });
                (index, self.session.ask(client::get_data(&path_of(key), false)))
            })
            .collect();
        self.done(sync.await)?;
        for (index, read) in keys {
            let answer = read.await;
            self.ledger.settled(index, answer.clone());
            self.done(answer)?;
        }
        for number in 0..sessions {
            let queue = queue(number);
            for name in self.children(&queue).await? {
                // The name begins with the value. A name without one matches no request, which the check then reports.
                let value = name.split('-').next().and_then(|value| value.parse().ok()).unwrap_or(u64::MAX);
                shown.appended.insert(format!("{queue}/{name}"), value);
            }
        }
        self.ephemerals(&mut shown).await?;
        for top in ["/soak/k", "/soak/q", "/soak/accounts"] {
            self.tree(top, &mut shown).await?;
        }
        Ok(shown)
    }

    /// Reads the ephemeral nodes. Waits up to [`EXPIRY_LIMIT`] until those of short sessions are gone.
    async fn ephemerals(&self, shown: &mut Shown) -> Result<(), Failure> {
        let deadline = Instant::now() + EXPIRY_LIMIT;
        loop {
            shown.ephemerals.clear();
            for name in self.children("/soak/e").await? {
                let path = format!("/soak/e/{name}");
                // A node may have been deleted since it was listed.
                if let Ok(Answer { reply: Reply::Exists(reply), .. }) = self.session.ask(client::exists(&path)).await {
                    shown.ephemerals.insert(path, reply.stat.czxid);
                }
            }
            let left = shown.ephemerals.keys().any(|path| path.contains("/short-"));
            if !left || Instant::now() > deadline {
                return Ok(());
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Reads all nodes below one, level by level. A missing top node was not used in this soak.
    async fn tree(&self, top: &str, shown: &mut Shown) -> Result<(), Failure> {
        let mut level = vec![top.to_owned()];
        while !level.is_empty() {
            let asked: Vec<_> = level
                .drain(..)
                .map(|path| {
                    let data = self.session.ask(client::get_data(&path, false));
                    let children = self.session.ask(client::children(&path));
                    (path, data, children)
                })
                .collect();
            for (path, data, children) in asked {
                let (data, children) = (data.await, children.await);
                if matches!(data, Err(Refusal::Code(ErrorCode::NoNode, _))) {
                    continue;
                }
                if let Reply::GetData(read) = self.done(data)?.reply {
                    let text = format!("{:?} {:?}", read.data.unwrap_or_default(), read.stat);
                    shown.tree.insert(path.clone(), text);
                }
                if let Reply::GetChildren(reply) = self.done(children)?.reply {
                    level.extend(reply.children.iter().map(|name| format!("{path}/{name}")));
                }
            }
        }
        Ok(())
    }

    async fn children(&self, path: &str) -> Result<Vec<String>, Failure> {
        let answer = self.done(self.session.ask(client::children(path)).await)?;
        if let Reply::GetChildren(reply) = answer.reply {
            Ok(reply.children)
        } else {
            Err(self.failed("a reply of another kind"))
        }
    }

    fn done(&self, answer: Result<Answer, Refusal>) -> Result<Answer, Failure> {
        answer.map_err(|why| self.failed(&format!("{why:?}")))
    }

    fn failed(&self, why: &str) -> Failure {
        Failure::Check(format!("cannot look at what server {} has in the end: {why}", self.server))
    }
}

/// Generous, because all faults are over.
const READ_LIMIT: Duration = Duration::from_secs(90);

/// The timeout of short sessions, plus a margin for the server.
const EXPIRY_LIMIT: Duration = Duration::from_secs(30);
