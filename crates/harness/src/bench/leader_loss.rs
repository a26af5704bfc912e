//! Five servers: how long no write succeeds after the leader is killed or frozen.
//!
//! The time is measured from the signal to the first acknowledgement of a write that was sent after it, by a client
//! of a survivor. There is a client at every survivor; each writes at once, and again as soon as it learns that its
//! write was lost. Clients reconnect every 5 ms. Apache's own client would wait up to a second, at random, so this
//! favours Apache.

use std::time::{Duration, Instant};

use pole_jute::CreateMode;
use tokio::sync::mpsc;

use super::Plan;
use super::metric::{Metric, Row};
use super::three_servers::EAGER;
use crate::Failure;
use crate::client::{self, Refusal, Session, drive};
use crate::ensemble::{Ensemble, Launcher, READY_LIMIT, Setup};

/// Kills and freezes leaders, one after the other.
pub(super) fn run(
    launcher: &Launcher,
    rows: &[Row],
    plan: Plan,
    record: &mut dyn FnMut(Metric, f64),
) -> Result<(), Failure> {
    let selected = |row| rows.contains(&row);
    if !selected(Row::Kill) && !selected(Row::Freeze) {
        return Ok(());
    }
    let mut ensemble = Ensemble::ready(launcher, &Setup::new("bench-leader", SERVERS))?;
    if selected(Row::Kill) {
        for _ in 0..plan.kills {
            record(Metric::Kill, gap(&mut ensemble, Loss::Killed)?.as_secs_f64() * 1e3);
        }
    }
    if selected(Row::Freeze) {
        for _ in 0..plan.freezes {
            record(Metric::Freeze, gap(&mut ensemble, Loss::Frozen)?.as_secs_f64() * 1e3);
        }
    }
    ensemble.done()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    Killed,
    Frozen,
}

/// Takes the leader down, measures, and brings it back.
fn gap(ensemble: &mut Ensemble, loss: Loss) -> Result<Duration, Failure> {
    let leader = ensemble.wait_ready(READY_LIMIT)?;
    let took = drive(measure(ensemble, leader, loss))?;
    match loss {
        Loss::Killed => ensemble.server(leader).start()?,
        Loss::Frozen => ensemble.server(leader).thaw()?,
    }
    ensemble.wait_ready(READY_LIMIT)?;
    Ok(took)
}

async fn measure(ensemble: &mut Ensemble, leader: usize, loss: Loss) -> Result<Duration, Failure> {
    let mut survivors = ensemble.addresses();
    survivors.remove(leader);
    let clients: Vec<_> = (0..survivors.len()).map(|first| Session::open(survivors.clone(), first, EAGER)).collect();
    for (session, _) in &clients {
        // Connects every client, and warms up every server.
        for _ in 0..WARM_WRITES {
            session.ask(write()).await.map_err(|why| Failure::Check(format!("a write before the loss: {why:?}")))?;
        }
    }

    let signalled = Instant::now();
    match loss {
        Loss::Killed => ensemble.server(leader).kill()?,
        Loss::Frozen => ensemble.server(leader).freeze()?,
    }
    let (acknowledged, mut first) = mpsc::unbounded_channel();
    for (session, _) in &clients {
        tokio::task::spawn_local(write_until_acknowledged(session.clone(), acknowledged.clone()));
    }
    drop(acknowledged);
    match tokio::time::timeout(GAP_MAX, first.recv()).await {
        Ok(Some(at)) => Ok(at.duration_since(signalled)),
        Ok(None) => Err(Failure::Check("all sessions were lost with the leader".into())),
        Err(_) => Err(Failure::Check(format!("no write for {GAP_MAX:?}; logs: {}", ensemble.folder().display()))),
    }
}

async fn write_until_acknowledged(session: Session, acknowledged: mpsc::UnboundedSender<Instant>) {
    loop {
        match session.ask(write()).await {
            Ok(_) => {
                // Another client may have been first.
                let _ = acknowledged.send(Instant::now());
                return;
            }
            Err(Refusal::Lost) => (),
            Err(Refusal::Expired | Refusal::Code(..)) => return,
        }
    }
}

/// A write that needs no existing node, and whose node is deleted with its session.
fn write() -> pole_jute::Request {
    client::create("/written-", b"", CreateMode::EphemeralSequential)
}

const SERVERS: usize = 5;

/// Enough to run all code paths once.
const WARM_WRITES: usize = 20;

/// Apache was once observed to need 20 s.
const GAP_MAX: Duration = Duration::from_secs(90);
