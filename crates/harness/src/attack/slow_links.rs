//! Links between servers become 300 ms slower each way: one link of the leader, all its links, then all links, where
//! the leader is also killed.
//!
//! No server may leave a leader that answers, so the epoch must stay the same and no client may be disconnected.
//! After the leader is killed, a new one must serve within six of the slow round trips. When the links become fast
//! again, the epoch must stay the same too.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::raw::RawClient;
use super::target::SESSION_TIMEOUT;
use super::{Attack, Findings, bulk};
use crate::ensemble::{Ensemble, Launcher, Mode, Probe, READY_LIMIT, Setup};
use crate::network::{Condition, Network, Place};
use crate::{Failure, client};

pub(super) const ATTACK: Attack = Attack::self_contained(
    "slow-links",
    "links become 300 ms slower each way: one of the leader's, all of the leader's, all; then the leader is killed",
    run,
);

fn run(launcher: &Launcher) -> Result<Findings, Failure> {
    let mut ensemble = Ensemble::prepare(launcher, &Setup::new("attack-slow-links", SERVERS))?;
    let network = Network::between(&ensemble)?;
    let mut leader = ensemble.start_all()?;
    let mut found = Findings::default();
    let mut notes = Vec::new();
    for case in [Case::OneOfTheLeader, Case::AllOfTheLeader, Case::All] {
        let clients: Vec<Client> =
            ensemble.addresses().into_iter().map(Client::start).collect::<io::Result<_>>().map_err(failed)?;
        sleep(CALM);
        let epoch = epoch(&ensemble);
        let slow = case.links(leader);
        set(&network, &slow, Condition::slow(DELAY));
        sleep(HOLD);
        let after = self::epoch(&ensemble);
        found = found.require(after == epoch, || format!("{}: the epoch went from {epoch} to {after}", case.name()));
        if matches!(case, Case::All) {
            let took = kill_leader(&mut ensemble, leader, epoch)?;
            notes.push(format!("killed over slow links: a leader after {} ms", took.as_millis()));
            found = found.require(took <= ELECTION_MAX, || {
                format!("the next leader served after {took:.1?}, allowed are six round trips, {ELECTION_MAX:?}")
            });
            ensemble.server(leader).start()?;
        }
        let epoch = self::epoch(&ensemble);
        set(&network, &slow, Condition::default());
        sleep(CALM);
        let after = self::epoch(&ensemble);
        found = found
            .require(after == epoch, || format!("{}, fast again: the epoch went from {epoch} to {after}", case.name()));
        let ends: Vec<(u64, bool)> = clients.into_iter().map(Client::stop).collect();
        notes.push(format!("{}: {} writes", case.name(), ends.iter().map(|(acked, _)| acked).sum::<u64>()));
        // The client of the killed server loses its connection.
        let lost = ends.iter().filter(|(_, broke)| *broke).count();
        let allowed = usize::from(matches!(case, Case::All));
        found = found.require(lost <= allowed, || format!("{}: {lost} clients lost their connection", case.name()));
        leader = ensemble.wait_ready(READY_LIMIT)?;
    }
    ensemble.check_running()?;
    if found.problems.is_empty() {
        ensemble.done()?;
    }
    Ok(Findings { note: notes.join("; "), ..found })
}

/// The links that become slower.
#[derive(Clone, Copy)]
enum Case {
    OneOfTheLeader,
    AllOfTheLeader,
    All,
}

impl Case {
    fn name(self) -> &'static str {
        match self {
            Self::OneOfTheLeader => "one link of the leader",
            Self::AllOfTheLeader => "all links of the leader",
            Self::All => "all links",
        }
    }

    fn links(self, leader: usize) -> Vec<(usize, usize)> {
        let others = (0..SERVERS).filter(|server| *server != leader);
        match self {
            Self::OneOfTheLeader => others.take(1).map(|other| (leader, other)).collect(),
            Self::AllOfTheLeader => others.map(|other| (leader, other)).collect(),
            Self::All => (0..SERVERS).flat_map(|one| (0..one).map(move |other| (one, other))).collect(),
        }
    }
}

fn set(network: &Network, links: &[(usize, usize)], condition: Condition) {
    for (one, other) in links {
        network.set(Place::Server(*one), Place::Server(*other), condition);
        network.set(Place::Server(*other), Place::Server(*one), condition);
    }
}

/// Kills the leader. Returns the time until another server leads in a newer epoch.
fn kill_leader(ensemble: &mut Ensemble, leader: usize, epoch: u64) -> Result<Duration, Failure> {
    ensemble.server(leader).reap()?;
    let killed = Instant::now();
    loop {
        let survivors = ensemble.servers().iter().enumerate().filter(|(index, _)| *index != leader);
        let leads = |probe: Probe| probe.mode() == Some(Mode::Leader);
        match survivors.map(|(_, server)| server.probe()).find(|probe| leads(*probe)) {
            Some(probe) if probe.epoch().is_some_and(|now| now > epoch) => return Ok(killed.elapsed()),
            _ if killed.elapsed() > GIVE_UP => {
                return Err(Failure::Check(format!("no leader within {GIVE_UP:?} of the end of the last one")));
            }
            _ => sleep(STEP),
        }
    }
}

fn epoch(ensemble: &Ensemble) -> u64 {
    ensemble.servers().iter().filter_map(|server| server.probe().epoch()).max().unwrap_or(0)
}

/// A session at one server that writes, one request at a time, until it is stopped or its connection breaks.
struct Client {
    stop: Arc<AtomicBool>,
    acked: Arc<AtomicU64>,
    thread: JoinHandle<io::Result<()>>,
}

impl Client {
    fn start(server: SocketAddr) -> io::Result<Self> {
        let mut raw = RawClient::plain(server)?;
        raw.open_session(SESSION_TIMEOUT)?;
        let path = format!("/client-{}", server.port());
        // The node exists already in later cases.
        let _ = bulk::create_node(&mut raw, &path, &Bytes::new());
        let (stop, acked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counter) = (Arc::clone(&stop), Arc::clone(&acked));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                raw.expect_ok(&client::set_data(&path, b"x"))?;
                counter.fetch_add(1, Ordering::Relaxed);
                sleep(STEP);
            }
            Ok(())
        });
        Ok(Self { stop, acked, thread })
    }

    /// Stops the client. Returns the number of acknowledged writes, and whether the connection broke.
    fn stop(self) -> (u64, bool) {
        self.stop.store(true, Ordering::Relaxed);
        let broke = self.thread.join().is_ok_and(|result| result.is_err());
        (self.acked.load(Ordering::Relaxed), broke)
    }
}

fn failed(why: io::Error) -> Failure {
    Failure::Check(format!("a client of the attack failed: {why}"))
}

const SERVERS: usize = 3;

/// The added delay in each direction.
const DELAY: Duration = Duration::from_millis(300);

/// Six slow round trips.
const ELECTION_MAX: Duration = Duration::from_millis(6 * 2 * 300);

/// Longer than the window of any round-trip estimate.
const CALM: Duration = Duration::from_secs(4);
const HOLD: Duration = Duration::from_secs(8);

const GIVE_UP: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(10);
