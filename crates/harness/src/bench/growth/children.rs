//! Children of one znode: creating them, creating more at that size, and listing them.

use std::time::{Duration, Instant};

use pole_jute::{CreateMode, OpCode, Reply, Request};

use super::table::{Figure, Point};
use super::{OUTSTANDING, SERVERS, STEADY_RATE, ms, send};
use crate::Failure;
use crate::bench::Plan;
use crate::client::steady::Steady;
use crate::client::{self, Connection, children, create, drive};
use crate::ensemble::{Ensemble, Launcher, Setup};
use pole_client::{connect_request, decode_reply};

pub(super) fn run(launcher: &Launcher, _plan: Plan, point: &mut Point<'_>) -> Result<(), Failure> {
    let count = point.size();
    let ensemble = Ensemble::ready(launcher, &Setup::new("growth-children", SERVERS))?;
    send(&ensemble, vec![Box::new(std::iter::once(create(PARENT, b"", CreateMode::Persistent)))])?;
    send(&ensemble, shares(0, count))?;
    let before = ensemble.usage().cpu;
    let more = MORE.min(count);
    point.record(&CREATE_RATE, send(&ensemble, shares(count, count + more))?)?;
    let cpu = ensemble.usage().cpu.saturating_sub(before);
    point.record(&CPU_PER_CREATE, cpu.as_secs_f64() * 1e6 / f64::from(more))?;

    let address = ensemble.addresses()[0];
    let steady = Steady::start(&ensemble.addresses(), STEADY_RATE)?;
    let from = Instant::now();
    let mut times = Vec::new();
    let mut listed = Err(client::Error::Closed);
    for _ in 0..LISTS {
        let start = Instant::now();
        listed = drive(async { Ok::<_, Failure>(list(address).await) })?;
        times.push(start.elapsed());
    }
    point.record(&LONGEST_WRITE, ms(steady.longest(from, Instant::now())?))?;
    steady.stop()?;
    match listed {
        Ok((bytes, found)) => {
            if found as u32 != count + more {
                let what = format!("getChildren lists {found} of {} children", count + more);
                return Err(Failure::Check(what));
            }
            times.into_iter().try_for_each(|took| point.record(&LIST, ms(took)))?;
            point.record(&LIST_SIZE, bytes as f64 / 1e6)?;
        }
        Err(why) => point.note(&LIST, &format!("{why}"))?,
    }
    ensemble.done()
}

/// Creates the children with these numbers, by a session at each server.
fn shares(from: u32, to: u32) -> Vec<Box<dyn Iterator<Item = Request>>> {
    let share = |session: u32| -> Box<dyn Iterator<Item = Request>> {
        let numbers = (from + session..to).step_by(SERVERS);
        Box::new(numbers.map(|n| create(&format!("{PARENT}/{n:08}"), b"", CreateMode::Persistent)))
    };
    (0..SERVERS as u32).map(share).collect()
}

/// The size of the reply to getChildren, and the number of children in it.
async fn list(address: std::net::SocketAddr) -> Result<(usize, usize), client::Error> {
    let (mut connection, _) = Connection::open(address, &connect_request(LIMIT), LIMIT).await?;
    connection.send(1, &children(PARENT));
    connection.flush().await?;
    let waited = tokio::time::timeout(LIMIT, connection.frame()).await;
    let frame = waited.map_err(|_| client::Error::Silent(LIMIT))??;
    let bytes = frame.len();
    match decode_reply(frame, OpCode::GetChildren)? {
        (_, Some(Reply::GetChildren(reply))) => Ok((bytes, reply.children.len())),
        (header, _) => Err(client::Error::Refused(header.err)),
    }
}

pub(super) const CREATE_RATE: Figure = Figure::new("creates a second beside the others", "/s");
const CPU_PER_CREATE: Figure = Figure::new("CPU of all servers for each of them", "µs");
pub(super) const LIST: Figure = Figure::new("getChildren", "ms");
/// Whether a long read keeps writes waiting.
const LONGEST_WRITE: Figure = Figure::new("longest write of 500/s meanwhile", "ms");
const LIST_SIZE: Figure = Figure::new("its reply", "MB");

const PARENT: &str = "/growth-parent";

/// Children created at the size that is measured, at most as many as there are.
const MORE: u32 = 100 * OUTSTANDING as u32 * SERVERS as u32;

const LISTS: usize = 5;
const LIMIT: Duration = Duration::from_secs(40);
