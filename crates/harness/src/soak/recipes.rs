//! Two recipes that applications build on ZooKeeper: a lock, and accounts whose sum stays constant.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use pole_jute::{
    CreateMode, DeleteRequest, ErrorCode, GetDataRequest, MultiOp, MultiReadOp, MultiReadRequest, MultiReadResult,
    MultiRequest, Reply, Request, SetDataRequest,
};
use tokio::sync::watch;
use tokio::time::sleep;

use super::check::Violation;
use super::clients::STEADY;
use crate::Failure;
use crate::client::{self, Refusal, Session, load};
use crate::rng::Rng;

/// The observations of the recipes, shared by all their tasks.
#[derive(Clone, Debug, Default)]
pub(super) struct Recipes {
    records: Rc<RefCell<Records>>,
}

#[derive(Debug, Default)]
struct Records {
    /// The intervals in which the lock was held: from the reply to the create until just before the delete.
    held: Vec<(Instant, Instant)>,
    transfers: u64,
    sums: u64,
    violations: Vec<Violation>,
}

impl Recipes {
    /// Creates the accounts and starts the sessions, which begin at different servers.
    pub(super) async fn start(
        sites: &[Vec<SocketAddr>],
        mut rng: Rng,
        stop: &watch::Receiver<bool>,
    ) -> Result<Self, Failure> {
        let accounts = (0..ACCOUNTS).map(|account| {
            client::create(&account_path(account), START.to_string().as_bytes(), CreateMode::Persistent)
        });
        let parent = client::create(PARENT, b"", CreateMode::Persistent);
        let failed = |why| Failure::Check(format!("cannot create the accounts: {why}"));
        load::send_all(sites[0][0], std::iter::once(parent).chain(accounts), 16, None).await.map_err(failed)?;
        let recipes = Self::default();
        for number in 0..CONTENDERS {
            let (session, _) = Session::open(sites[number % sites.len()].clone(), number, STEADY);
            tokio::task::spawn_local(recipes.clone().contend(number, session, stop.clone()));
            let (session, _) = Session::open(sites[number % sites.len()].clone(), number + 1, STEADY);
            let rng = Rng::new(rng.below(usize::MAX) as u64);
            tokio::task::spawn_local(recipes.clone().transfer(session, rng, stop.clone()));
        }
        Ok(recipes)
    }

    /// The counts, as text.
    pub(super) fn summary(&self) -> String {
        let records = self.records.borrow();
        format!("locks held {}, transfers {}, sums read {}", records.held.len(), records.transfers, records.sums)
    }

    pub(super) fn violations(&self) -> Vec<Violation> {
        let records = self.records.borrow();
        let mut held = records.held.clone();
        held.sort_unstable();
        let twice = held.windows(2).filter(|pair| pair[1].0 < pair[0].1);
        let twice = twice.map(|pair| Violation::TwoHolders {
            both_us: pair[0].1.min(pair[1].1).duration_since(pair[1].0).as_micros(),
        });
        records.violations.iter().cloned().chain(twice).collect()
    }

    /// Repeatedly acquires the lock, holds it for a moment, and releases it.
    async fn contend(self, number: usize, session: Session, stop: watch::Receiver<bool>) {
        let mine = number.to_string();
        while !*stop.borrow() {
            let taken = match session.ask(client::create(LOCK, mine.as_bytes(), CreateMode::Ephemeral)).await {
                Ok(_) => true,
                // The lock may have been taken by our own request, whose reply was lost.
                Err(Refusal::Lost | Refusal::Code(ErrorCode::NodeExists, _)) => is_mine(&session, &mine).await,
                Err(Refusal::Expired) => return,
                Err(Refusal::Code(code, _)) => return self.refused("a lock", code),
            };
            if taken {
                let from = Instant::now();
                sleep(HOLD).await;
                self.records.borrow_mut().held.push((from, Instant::now()));
                self.release(&session, &mine).await;
            }
            sleep(PAUSE).await;
        }
    }

    async fn release(&self, session: &Session, mine: &str) {
        loop {
            let delete = Request::Delete(DeleteRequest { path: LOCK.to_owned(), version: -1 });
            match session.ask(delete).await {
                Ok(_) | Err(Refusal::Code(ErrorCode::NoNode, _) | Refusal::Expired) => return,
                Err(Refusal::Lost) if !is_mine(session, mine).await => return,
                Err(Refusal::Lost) => (),
                Err(Refusal::Code(code, _)) => return self.refused("the release of a lock", code),
            }
        }
    }

    /// Repeatedly moves one unit from an account to another, if neither has changed since both were read.
    async fn transfer(self, session: Session, mut rng: Rng, stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            sleep(PAUSE).await;
            let Some(accounts) = self.read_all(&session).await else { continue };
            let (from, to) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS));
            if from == to {
                continue;
            }
            let set = |account: usize, value: i64| {
                let data = Some(value.to_string().into());
                MultiOp::SetData(SetDataRequest { path: account_path(account), data, version: accounts[account].1 })
            };
            let ops = vec![set(from, accounts[from].0 - 1), set(to, accounts[to].0 + 1)];
            if session.ask(Request::Multi(MultiRequest { ops })).await.is_ok() {
                self.records.borrow_mut().transfers += 1;
            }
        }
    }

    /// Reads the value and version of all accounts in one state. Their sum must be the initial one.
    async fn read_all(&self, session: &Session) -> Option<Vec<(i64, i32)>> {
        let read = |account| MultiReadOp::GetData(GetDataRequest { path: account_path(account), watch: false });
        let request = Request::MultiRead(MultiReadRequest { ops: (0..ACCOUNTS).map(read).collect() });
        let Ok(client::Answer { reply: Reply::MultiRead(reply), zxid }) = session.ask(request).await else {
            return None;
        };
        let accounts: Vec<(i64, i32)> = reply
            .results
            .iter()
            .filter_map(|result| match result {
                MultiReadResult::GetData(read) => {
                    let text = String::from_utf8_lossy(read.data.as_deref().unwrap_or_default()).into_owned();
                    Some((text.parse().ok()?, read.stat.version))
                }
                MultiReadResult::GetChildren(_) | MultiReadResult::Error(_) => None,
            })
            .collect();
        let sum: i64 = accounts.iter().map(|(value, _)| value).sum();
        let mut records = self.records.borrow_mut();
        records.sums += 1;
        if accounts.len() != ACCOUNTS || sum != START * ACCOUNTS as i64 {
            records.violations.push(Violation::Sum { sum, expected: START * ACCOUNTS as i64, zxid });
        }
        (accounts.len() == ACCOUNTS).then_some(accounts)
    }

    fn refused(&self, what: &str, code: ErrorCode) {
        self.records
            .borrow_mut()
            .violations
            .push(Violation::RecipeRefused { what: what.to_owned(), code: code.to_string() });
    }
}

/// Whether the lock is ours, after a sync. Retries until there is a reply.
async fn is_mine(session: &Session, mine: &str) -> bool {
    loop {
        let (sync, read) = (session.ask(client::sync()), session.ask(client::get_data(LOCK, false)));
        match (sync.await, read.await) {
            (Ok(_), Ok(client::Answer { reply: Reply::GetData(reply), .. })) => {
                return reply.data.as_deref() == Some(mine.as_bytes());
            }
            (Ok(_), Ok(_) | Err(Refusal::Code(..))) | (_, Err(Refusal::Expired)) => return false,
            (_, _) => (),
        }
    }
}

fn account_path(account: usize) -> String {
    format!("{PARENT}/{account}")
}

const LOCK: &str = "/soak/lock";
const PARENT: &str = "/soak/accounts";
const ACCOUNTS: usize = 5;
const START: i64 = 1000;

/// The number of sessions that contend for the lock, and of those that move amounts between accounts.
const CONTENDERS: usize = 3;

const HOLD: Duration = Duration::from_millis(5);
const PAUSE: Duration = Duration::from_millis(20);
