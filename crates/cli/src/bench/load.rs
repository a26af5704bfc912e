//! The requests of one client.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use pole_client::asynchronous::{Refusal, Session};
use pole_client::{create, delete, get_data, set_data};
use pole_jute::{CreateMode, Request};
use tokio::sync::Semaphore;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep_until, timeout};

use super::mix::{Kind, Mix};
use super::report::Meter;
use crate::failure::Failure;

/// What all clients do.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) mix: Mix,
    /// The bytes of a node.
    pub(super) size: usize,
    /// How many requests of a client are under way at most.
    pub(super) outstanding: usize,
    /// The time between two requests of a client; without it, the next one follows the last.
    pub(super) interval: Option<Duration>,
    /// Requests that are due before this time are not counted.
    pub(super) begin: Instant,
    pub(super) end: Instant,
}

pub(super) struct Client {
    session: Session,
    path: String,
    /// Nodes below cannot be: an ephemeral node has no children. They have this number in their names instead.
    created: Rc<Cell<u64>>,
}

impl Client {
    /// Creates the node of a client.
    pub(super) async fn open(session: Session, path: String, size: usize) -> Result<Self, Failure> {
        let made = session.ask(create(&path, &vec![b'x'; size], CreateMode::Ephemeral)).await;
        made.map_err(|why| Failure::failed(format!("{path} cannot be created: {why:?}")))?;
        Ok(Self { session, path, created: Rc::default() })
    }

    /// Sends requests until the end, waits for the last answers, and closes the session.
    pub(super) async fn run(self, plan: Plan, number: usize, meter: Rc<Meter>) {
        let room = Arc::new(Semaphore::new(plan.outstanding));
        let data: Rc<[u8]> = vec![b'x'; plan.size].into();
        // Clients with a rate begin one after the other.
        let mut due =
            Instant::now() + plan.interval.map_or(Duration::ZERO, |each| each.mul_f64(number as f64 % 97.0 / 97.0));
        for sent in number as u64 * 7.. {
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else { break };
            match plan.interval {
                Some(interval) => {
                    sleep_until(due).await;
                    due += interval;
                }
                None => due = Instant::now(),
            }
            let asked = match plan.interval {
                Some(interval) => due - interval,
                None => due,
            };
            if asked >= plan.end || Instant::now() >= plan.end {
                break;
            }
            let kind = plan.mix.kind(sent);
            let answer = self.session.ask(self.request(kind, &data));
            let (meter, is_counted, session) = (Rc::clone(&meter), asked >= plan.begin, self.session.clone());
            spawn_local(async move {
                let result = timeout(ANSWER_LIMIT, answer).await;
                let error = match result {
                    Ok(Ok(_)) => None,
                    Ok(Err(why)) => Some(describe(why)),
                    Err(_) => Some(format!("no answer within {} s", ANSWER_LIMIT.as_secs())),
                };
                if is_counted {
                    meter.record(kind, asked, error);
                }
                drop((permit, session));
            });
        }
        // All permits are back when the last request is answered.
        let all = u32::try_from(plan.outstanding).unwrap_or(u32::MAX);
        let _ = timeout(ANSWER_LIMIT, room.acquire_many(all)).await;
        let _ = timeout(CLOSE_LIMIT, self.session.ask(Request::CloseSession)).await;
    }

    fn request(&self, kind: Kind, data: &[u8]) -> Request {
        match kind {
            Kind::Read => get_data(&self.path, false),
            Kind::Write => set_data(&self.path, data),
            Kind::Create => {
                // Every second one deletes what the last one created. They are carried out in order.
                let turn = self.created.get();
                self.created.set(turn + 1);
                let path = format!("{}-{}", self.path, turn / 2);
                match turn % 2 {
                    0 => create(&path, data, CreateMode::Ephemeral),
                    _ => delete(&path),
                }
            }
        }
    }
}

fn describe(why: Refusal) -> String {
    match why {
        Refusal::Code(code, _) => code.to_string(),
        Refusal::Lost => "the connection broke".to_owned(),
        Refusal::Expired => "the session expired".to_owned(),
    }
}

/// Longer than any election.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const CLOSE_LIMIT: Duration = Duration::from_secs(2);
