//! Random faults of servers: SIGKILL and SIGSTOP, often at the leader, and wiped and full disks. The soak
//! ends with all servers restored.
//!
//! Invariant: at most a minority of the servers is down or stopped at any time, and a server counts as down until it
//! serves again. Only a blackout, which is requested explicitly, takes all servers down.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::disk;
use super::ledger::Ledger;
use crate::Failure;
use crate::ensemble::{Ensemble, Mode, Probe};
use crate::rng::Rng;

/// The servers, and their faults.
#[derive(Debug)]
pub(super) struct Faults {
    pub(super) ensemble: Ensemble,
    rng: Rng,
    ledger: Ledger,
    /// Faults of servers that do not serve yet.
    active: Vec<ServerFault>,
    /// The next faults, in random order; the last one is next. There are two kills for each stop.
    upcoming: Vec<Kind>,
    next: Instant,
    /// The number of SIGKILLs.
    pub(super) kills: usize,
    /// The number of SIGSTOPs.
    pub(super) stops: usize,
    /// The number of faults that hit the leader.
    pub(super) leaders: usize,
    /// The number of times that all servers were killed at once.
    pub(super) blackouts: usize,
    /// The number of times that a server lost all its files.
    pub(super) wiped: usize,
    /// The number of times that the disk of a server was full.
    pub(super) filled: usize,
    /// Set in a soak with a network, which also wipes and fills disks.
    disks: Option<Disks>,
}

#[derive(Clone, Copy, Debug)]
struct Disks {
    /// The server whose disk can be filled, if there is one.
    small: Option<usize>,
}

/// A fault of a server, until the server serves again.
#[derive(Clone, Copy, Debug)]
struct ServerFault {
    server: usize,
    kind: Kind,
    ends_at: Instant,
    /// Whether the server was restarted or continued, and only has to recover.
    ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Killed,
    Stopped,
    /// Killed, and its files are gone.
    Wiped,
    /// Its disk is full: the server exits by itself, and is restarted with free space.
    Full,
}

impl Faults {
    pub(super) fn new(ensemble: Ensemble, rng: Rng, ledger: Ledger) -> Self {
        Self {
            ensemble,
            rng,
            ledger,
            active: Vec::new(),
            upcoming: Vec::new(),
            next: Instant::now(),
            kills: 0,
            stops: 0,
            leaders: 0,
            blackouts: 0,
            wiped: 0,
            filled: 0,
            disks: None,
        }
    }

    /// Enables wiped disks, and a full disk of the server `small`, if there is one.
    pub(super) fn with_disks(&mut self, small: Option<usize>) {
        self.disks = Some(Disks { small });
    }

    /// Ends faults that are due, removes those of servers that have recovered, and injects a new one if it is time.
    /// `calm` means that there are no other faults, of links for example. Only then may a server lose its files,
    /// because only then do the others surely have all its data.
    pub(super) async fn step(&mut self, calm: bool) -> Result<(), Failure> {
        self.end_due_faults()?;
        self.remove_recovered().await?;
        let minority = (self.ensemble.servers().len() - 1) / 2;
        if calm && self.wiped_is_due() {
            self.next = Instant::now() + self.rng.between(PAUSE_MIN, PAUSE_MAX);
            let victim = self.rng.below(self.ensemble.servers().len());
            return self.inject(victim, Kind::Wiped);
        }
        let may_inject = self.active.len() < minority && !self.is_wiped() && !self.wants_calm();
        if Instant::now() >= self.next && may_inject {
            self.next = Instant::now() + self.rng.between(PAUSE_MIN, PAUSE_MAX);
            self.inject_next().await?;
        }
        Ok(())
    }

    /// Whether a wiped server has not caught up yet. No other fault may begin meanwhile.
    pub(super) fn is_wiped(&self) -> bool {
        self.active.iter().any(|fault| fault.kind == Kind::Wiped)
    }

    /// Whether the next fault is a wiped disk, which waits until there are no other faults. No new one should begin
    /// then.
    pub(super) fn wants_calm(&self) -> bool {
        self.disks.is_some() && self.upcoming.last() == Some(&Kind::Wiped)
    }

    /// Whether a disk can be wiped now: all servers serve and have done so for a while. Removes the fault from the
    /// upcoming ones.
    fn wiped_is_due(&mut self) -> bool {
        let due = self.wants_calm() && self.active.is_empty() && Instant::now() >= self.next + CALM;
        if due {
            self.upcoming.pop();
        }
        due
    }

    /// The leader, if a healthy server reports to lead.
    pub(super) async fn find_leader(&self) -> Option<usize> {
        self.leader(&self.healthy()).await
    }

    fn healthy(&self) -> Vec<usize> {
        let is_healthy = |server: &usize| self.active.iter().all(|fault| fault.server != *server);
        (0..self.ensemble.servers().len()).filter(is_healthy).collect()
    }

    /// Kills all servers at once. They are restarted one by one.
    pub(super) fn blackout(&mut self) -> Result<(), Failure> {
        self.blackouts += 1;
        let previous: Vec<ServerFault> = std::mem::take(&mut self.active);
        for fault in previous.iter().filter(|fault| fault.kind == Kind::Stopped && !fault.ended) {
            self.ensemble.server(fault.server).thaw()?;
        }
        for server in 0..self.ensemble.servers().len() {
            let is_down =
                previous.iter().any(|fault| fault.server == server && fault.kind == Kind::Killed && !fault.ended);
            if is_down {
                let ends_at = Instant::now() + DOWN_MIN;
                self.active.push(ServerFault { server, kind: Kind::Killed, ends_at, ended: false });
            } else {
                self.inject(server, Kind::Killed)?;
            }
        }
        Ok(())
    }

    /// Ends all faults and waits until all servers serve.
    pub(super) async fn restore_all(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + RECOVERY_LIMIT;
        for fault in &mut self.active {
            fault.ends_at = Instant::now();
        }
        while !self.active.is_empty() {
            self.end_due_faults()?;
            self.remove_recovered().await?;
            if Instant::now() > deadline {
                let down: Vec<usize> = self.down();
                let folder = self.ensemble.folder().display();
                return Err(Failure::Check(format!(
                    "servers {down:?} do not serve {RECOVERY_LIMIT:?} after the last fault; logs: {folder}"
                )));
            }
            sleep(STEP).await;
        }
        Ok(())
    }

    /// The numbers of the servers that do not serve.
    pub(super) fn down(&self) -> Vec<usize> {
        self.active.iter().map(|fault| fault.server + 1).collect()
    }

    /// Wipes a server and waits until it serves: it must get all data from the others. All servers must serve before,
    /// because data that only this server and one that is down have could be lost otherwise.
    pub(super) async fn replace_disk(&mut self, index: usize) -> Result<(), Failure> {
        assert!(self.active.is_empty(), "servers {:?} do not serve yet", self.down());
        self.ledger.signalled(index);
        let server = self.ensemble.server(index);
        server.kill()?;
        server.reap()?;
        server.wipe()?;
        self.active.push(ServerFault { server: index, kind: Kind::Killed, ends_at: Instant::now(), ended: false });
        self.restore_all().await
    }

    async fn inject_next(&mut self) -> Result<(), Failure> {
        let healthy = self.healthy();
        let leader = self.leader(&healthy).await;
        let victim = match leader {
            Some(leader) if self.rng.one_in(2) => leader,
            Some(_) | None => healthy[self.rng.below(healthy.len())],
        };
        if self.upcoming.is_empty() {
            self.refill();
        }
        if self.wants_calm() {
            return Ok(());
        }
        let kind = self.upcoming.pop().expect("it was just refilled");
        let victim = match (kind, self.disks) {
            (Kind::Full, Some(Disks { small: Some(small) })) if healthy.contains(&small) => small,
            // No other disk can be filled, so this waits until that server is healthy.
            (Kind::Full, _) => {
                self.upcoming.insert(0, kind);
                return Ok(());
            }
            (Kind::Killed | Kind::Stopped | Kind::Wiped, _) => victim,
        };
        self.leaders += usize::from(leader == Some(victim));
        self.inject(victim, kind)
    }

    /// Chooses the next faults, in random order.
    fn refill(&mut self) {
        self.upcoming.extend([Kind::Killed, Kind::Killed, Kind::Stopped]);
        if let Some(disks) = self.disks {
            self.upcoming.extend([Kind::Killed, Kind::Killed, Kind::Stopped, Kind::Wiped]);
            self.upcoming.extend(disks.small.map(|_| Kind::Full));
        }
        for last in (1..self.upcoming.len()).rev() {
            self.upcoming.swap(last, self.rng.below(last + 1));
        }
    }

    fn inject(&mut self, server: usize, kind: Kind) -> Result<(), Failure> {
        self.ledger.fault(format!("server {}: {kind:?}", server + 1));
        self.ledger.signalled(server);
        let span = match kind {
            Kind::Killed => {
                self.kills += 1;
                self.ensemble.server(server).kill()?;
                self.rng.between(DOWN_MIN, DOWN_MAX)
            }
            Kind::Stopped => {
                self.stops += 1;
                self.ensemble.server(server).freeze()?;
                self.rng.between(DOWN_MIN, STOPPED_MAX)
            }
            Kind::Wiped => {
                self.wiped += 1;
                let server = self.ensemble.server(server);
                server.kill()?;
                server.reap()?;
                server.wipe()?;
                self.rng.between(DOWN_MIN, DOWN_MAX)
            }
            Kind::Full => {
                self.filled += 1;
                disk::fill(&self.ensemble.servers()[server].data_dir())?;
                self.rng.between(DOWN_MIN, STOPPED_MAX)
            }
        };
        self.active.push(ServerFault { server, kind, ends_at: Instant::now() + span, ended: false });
        Ok(())
    }

    /// Restarts or continues servers whose faults are due to end.
    fn end_due_faults(&mut self) -> Result<(), Failure> {
        for fault in self.active.iter_mut().filter(|fault| !fault.ended && fault.ends_at <= Instant::now()) {
            fault.ended = true;
            self.ledger.fault(format!("server {} is started or goes on", fault.server + 1));
            match fault.kind {
                Kind::Killed | Kind::Wiped => self.ensemble.server(fault.server).start()?,
                Kind::Full => {
                    // The server has exited by itself, or has not noticed the full disk yet.
                    let server = self.ensemble.server(fault.server);
                    server.reap()?;
                    disk::restore_size(&server.data_dir())?;
                    server.start()?;
                }
                Kind::Stopped => self.ensemble.server(fault.server).thaw()?,
            }
        }
        Ok(())
    }

    /// Removes the faults of servers that serve again.
    async fn remove_recovered(&mut self) -> Result<(), Failure> {
        let ended: Vec<usize> = self.active.iter().filter(|fault| fault.ended).map(|fault| fault.server).collect();
        for server in ended {
            self.ensemble.server(server).check_running()?;
            let newest = self.newest_of_others().await;
            let serving = self.ask(server, Probe::mode_and_zxid).await;
            if serving.is_some_and(|(_, zxid)| zxid >= newest) {
                self.active.retain(|fault| fault.server != server);
                self.ledger.recovered(server);
            }
        }
        Ok(())
    }

    /// The last transaction that any server without a fault has applied. A server that was stopped says for a moment after
    /// it continues that it serves, but it is not level.
    async fn newest_of_others(&self) -> u64 {
        let mut newest = 0;
        let faulty: Vec<usize> = self.active.iter().map(|fault| fault.server).collect();
        for server in (0..self.ensemble.servers().len()).filter(|server| !faulty.contains(server)) {
            newest = newest.max(self.ask(server, Probe::mode_and_zxid).await.map_or(0, |(_, zxid)| zxid));
        }
        newest
    }

    /// The server that reports to lead, unless another one has applied transactions of a later epoch: a leader that was
    /// stopped still believes for a moment after it continues that it leads.
    async fn leader(&self, healthy: &[usize]) -> Option<usize> {
        let (mut leader, mut newest) = (None, 0);
        for server in healthy {
            let Some((mode, zxid)) = self.ask(*server, Probe::mode_and_zxid).await else { continue };
            let epoch = zxid >> 32;
            if mode == Mode::Leader {
                leader = leader.max(Some((epoch, *server)));
            }
            newest = newest.max(epoch);
        }
        leader.filter(|(epoch, _)| *epoch == newest).map(|(_, server)| server)
    }

    /// Asks on another thread, because a reply may take a second, and clients must go on.
    async fn ask<T: Send + 'static>(&self, server: usize, question: fn(Probe) -> Option<T>) -> Option<T> {
        let probe = self.ensemble.servers()[server].probe();
        tokio::task::spawn_blocking(move || question(probe)).await.unwrap_or(None)
    }
}

/// The poll interval of the soak.
pub(super) const STEP: Duration = Duration::from_millis(50);

/// The pause between two faults, unless a minority is down already. If servers recover at once, there is a fault
/// every two seconds.
const PAUSE_MIN: Duration = Duration::from_millis(1000);
const PAUSE_MAX: Duration = Duration::from_millis(3000);

/// How long a server is down or stopped. Some stops end before they are detected, some are long enough for a new
/// leader and for clients to disconnect.
const DOWN_MIN: Duration = Duration::from_millis(200);
const DOWN_MAX: Duration = Duration::from_millis(2000);
const STOPPED_MAX: Duration = Duration::from_millis(6000);

/// How long all servers must have served before one is wiped.
const CALM: Duration = Duration::from_secs(2);

/// A server that does not serve after this time is considered failed.
const RECOVERY_LIMIT: Duration = Duration::from_secs(120);
