//! The random killer: `kill -9` and SIGSTOP on servers, often on the leader, and everything healed in the end.
//!
//! Holds: at most a minority is down or stopped at any time, and a server counts as down until it serves again. Only a
//! blackout, which has to be asked for, takes them all.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::disk;
use super::ledger::Ledger;
use crate::Failure;
use crate::dice::Dice;
use crate::ensemble::{Ensemble, Mode};

/// Servers, and what has been done to them.
#[derive(Debug)]
pub(super) struct Faults {
    pub(super) ensemble: Ensemble,
    dice: Dice,
    ledger: Ledger,
    wounds: Vec<Wound>,
    /// What comes next, in random order: two kills for each stop, over any run that is long enough to count.
    deck: Vec<Kind>,
    next: Instant,
    /// SIGKILLs sent.
    pub(super) kills: usize,
    /// SIGSTOPs sent.
    pub(super) stops: usize,
    /// How many of both hit the leader.
    pub(super) leaders: usize,
    /// Times when all were killed at once.
    pub(super) blackouts: usize,
    /// Times when a server lost all its files.
    pub(super) wiped: usize,
    /// Times when the disk of a server was full.
    pub(super) filled: usize,
    /// In a soak with a network: also empty and full disks.
    disks: Option<Disks>,
}

/// What can be done to disks.
#[derive(Clone, Copy, Debug)]
struct Disks {
    /// The server whose disk can be filled, if one can be.
    small: Option<usize>,
}

/// A server that does not serve.
#[derive(Clone, Copy, Debug)]
struct Wound {
    server: usize,
    kind: Kind,
    heal_at: Instant,
    /// Whether it was started or continued again, and only has to recover.
    treated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Killed,
    Stopped,
    /// Killed, and its files are gone.
    Wiped,
    /// Its disk is full: it ends by itself, and is started again with room.
    Full,
}

impl Faults {
    /// None yet.
    pub(super) fn new(ensemble: Ensemble, dice: Dice, ledger: Ledger) -> Self {
        Self {
            ensemble,
            dice,
            ledger,
            wounds: Vec::new(),
            deck: Vec::new(),
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

    /// From now on disks are wiped too, and filled where there is one that can be: that of the server `small`.
    pub(super) fn with_disks(&mut self, small: Option<usize>) {
        self.disks = Some(Disks { small });
    }

    /// Does what is due: heals, looks who has recovered, and strikes if it is time. With `calm`, all else is well: only then
    /// may a server lose its files, for only then do the others surely have all that it had.
    pub(super) async fn step(&mut self, calm: bool) -> Result<(), Failure> {
        self.treat()?;
        self.discharge().await?;
        let minority = (self.ensemble.servers().len() - 1) / 2;
        if calm && self.wiped_is_due() {
            self.next = Instant::now() + self.dice.between(PAUSE_MIN, PAUSE_MAX);
            let victim = self.dice.below(self.ensemble.servers().len());
            return self.wound(victim, Kind::Wiped);
        }
        let may_strike = self.wounds.len() < minority && !self.is_wiped() && !self.wants_calm();
        if Instant::now() >= self.next && may_strike {
            self.next = Instant::now() + self.dice.between(PAUSE_MIN, PAUSE_MAX);
            self.strike().await?;
        }
        Ok(())
    }

    /// Whether a server without its files has not caught up yet: nothing else may be taken from the ensemble meanwhile.
    pub(super) fn is_wiped(&self) -> bool {
        self.wounds.iter().any(|wound| wound.kind == Kind::Wiped)
    }

    /// Whether a server is to lose its files as soon as all is calm; then nothing new should begin.
    pub(super) fn wants_calm(&self) -> bool {
        self.disks.is_some() && self.deck.last() == Some(&Kind::Wiped)
    }

    /// Takes the card, if all servers serve and have done so for a while.
    fn wiped_is_due(&mut self) -> bool {
        let due = self.wants_calm() && self.wounds.is_empty() && Instant::now() >= self.next + CALM;
        if due {
            self.deck.pop();
        }
        due
    }

    /// Who leads, if a server that is well says that it does.
    pub(super) async fn find_leader(&self) -> Option<usize> {
        self.leader(&self.well()).await
    }

    fn well(&self) -> Vec<usize> {
        let is_well = |server: &usize| self.wounds.iter().all(|wound| wound.server != *server);
        (0..self.ensemble.servers().len()).filter(is_well).collect()
    }

    /// Kills all servers at once. They come back one by one.
    pub(super) fn blackout(&mut self) -> Result<(), Failure> {
        self.blackouts += 1;
        let wounded: Vec<Wound> = std::mem::take(&mut self.wounds);
        for wound in wounded.iter().filter(|wound| wound.kind == Kind::Stopped && !wound.treated) {
            self.ensemble.server(wound.server).thaw()?;
        }
        for server in 0..self.ensemble.servers().len() {
            let lies =
                wounded.iter().any(|wound| wound.server == server && wound.kind == Kind::Killed && !wound.treated);
            if lies {
                let heal_at = Instant::now() + DOWN_MIN;
                self.wounds.push(Wound { server, kind: Kind::Killed, heal_at, treated: false });
            } else {
                self.wound(server, Kind::Killed)?;
            }
        }
        Ok(())
    }

    /// Heals everything and waits until all servers serve.
    pub(super) async fn heal(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + HEAL_LIMIT;
        for wound in &mut self.wounds {
            wound.heal_at = Instant::now();
        }
        while !self.wounds.is_empty() {
            self.treat()?;
            self.discharge().await?;
            if Instant::now() > deadline {
                let down: Vec<usize> = self.down();
                let folder = self.ensemble.folder().display();
                return Err(Failure::Check(format!(
                    "servers {down:?} do not serve {HEAL_LIMIT:?} after the last fault; logs: {folder}"
                )));
            }
            sleep(STEP).await;
        }
        Ok(())
    }

    /// The numbers of the servers that do not serve.
    pub(super) fn down(&self) -> Vec<usize> {
        self.wounds.iter().map(|wound| wound.server + 1).collect()
    }

    /// Gives a server an empty disk and waits until it serves: it must get everything from the others. Not before all
    /// is healed, or what only this one and another have might be lost, rightly.
    pub(super) async fn replace_disk(&mut self, index: usize) -> Result<(), Failure> {
        assert!(self.wounds.is_empty(), "servers {:?} do not serve yet", self.down());
        self.ledger.signalled(index);
        let server = self.ensemble.server(index);
        server.kill()?;
        server.reap()?;
        server.wipe()?;
        self.wounds.push(Wound { server: index, kind: Kind::Killed, heal_at: Instant::now(), treated: false });
        self.heal().await
    }

    async fn strike(&mut self) -> Result<(), Failure> {
        let well = self.well();
        let leader = self.leader(&well).await;
        let victim = match leader {
            Some(leader) if self.dice.one_in(2) => leader,
            Some(_) | None => well[self.dice.below(well.len())],
        };
        if self.deck.is_empty() {
            self.deal();
        }
        if self.wants_calm() {
            return Ok(());
        }
        let kind = self.deck.pop().expect("it was just dealt");
        let victim = match (kind, self.disks) {
            (Kind::Full, Some(Disks { small: Some(small) })) if well.contains(&small) => small,
            // No other disk can be filled: later, when that server is well.
            (Kind::Full, _) => {
                self.deck.insert(0, kind);
                return Ok(());
            }
            (Kind::Killed | Kind::Stopped | Kind::Wiped, _) => victim,
        };
        self.leaders += usize::from(leader == Some(victim));
        self.wound(victim, kind)
    }

    /// What comes next, in random order.
    fn deal(&mut self) {
        self.deck.extend([Kind::Killed, Kind::Killed, Kind::Stopped]);
        if let Some(disks) = self.disks {
            self.deck.extend([Kind::Killed, Kind::Killed, Kind::Stopped, Kind::Wiped]);
            self.deck.extend(disks.small.map(|_| Kind::Full));
        }
        for last in (1..self.deck.len()).rev() {
            self.deck.swap(last, self.dice.below(last + 1));
        }
    }

    fn wound(&mut self, server: usize, kind: Kind) -> Result<(), Failure> {
        self.ledger.fault(format!("server {}: {kind:?}", server + 1));
        self.ledger.signalled(server);
        let span = match kind {
            Kind::Killed => {
                self.kills += 1;
                self.ensemble.server(server).kill()?;
                self.dice.between(DOWN_MIN, DOWN_MAX)
            }
            Kind::Stopped => {
                self.stops += 1;
                self.ensemble.server(server).freeze()?;
                self.dice.between(DOWN_MIN, STOPPED_MAX)
            }
            Kind::Wiped => {
                self.wiped += 1;
                let server = self.ensemble.server(server);
                server.kill()?;
                server.reap()?;
                server.wipe()?;
                self.dice.between(DOWN_MIN, DOWN_MAX)
            }
            Kind::Full => {
                self.filled += 1;
                disk::fill(&self.ensemble.servers()[server].data_dir())?;
                self.dice.between(DOWN_MIN, STOPPED_MAX)
            }
        };
        self.wounds.push(Wound { server, kind, heal_at: Instant::now() + span, treated: false });
        Ok(())
    }

    fn treat(&mut self) -> Result<(), Failure> {
        for wound in self.wounds.iter_mut().filter(|wound| !wound.treated && wound.heal_at <= Instant::now()) {
            wound.treated = true;
            self.ledger.fault(format!("server {} is started or goes on", wound.server + 1));
            match wound.kind {
                Kind::Killed | Kind::Wiped => self.ensemble.server(wound.server).start()?,
                Kind::Full => {
                    // It has ended by itself, or would go on and meet the full disk at any time.
                    let server = self.ensemble.server(wound.server);
                    server.reap()?;
                    disk::empty(&server.data_dir())?;
                    server.start()?;
                }
                Kind::Stopped => self.ensemble.server(wound.server).thaw()?,
            }
        }
        Ok(())
    }

    /// Lets go of servers that serve again.
    async fn discharge(&mut self) -> Result<(), Failure> {
        let treated: Vec<usize> = self.wounds.iter().filter(|wound| wound.treated).map(|wound| wound.server).collect();
        for server in treated {
            self.ensemble.server(server).check_running()?;
            if self.mode(server).await.is_some() {
                self.wounds.retain(|wound| wound.server != server);
                self.ledger.healed(server);
            }
        }
        Ok(())
    }

    async fn leader(&self, well: &[usize]) -> Option<usize> {
        for server in well {
            if self.mode(*server).await == Some(Mode::Leader) {
                return Some(*server);
            }
        }
        None
    }

    /// Asks on another thread: the answer of a server may take a second, in which clients must go on.
    async fn mode(&self, server: usize) -> Option<Mode> {
        let probe = self.ensemble.servers()[server].probe();
        tokio::task::spawn_blocking(move || probe.mode()).await.unwrap_or(None)
    }
}

/// Between two looks at the wounded.
pub(super) const STEP: Duration = Duration::from_millis(50);

/// Between two strikes, if a minority is not down already. Servers that recover at once meet one in two
/// seconds.
const PAUSE_MIN: Duration = Duration::from_millis(1000);
const PAUSE_MAX: Duration = Duration::from_millis(3000);

/// How long a server is down or stands still. Some stops are over before anyone notices, some are long enough for a new
/// leader and for clients to give up.
const DOWN_MIN: Duration = Duration::from_millis(200);
const DOWN_MAX: Duration = Duration::from_millis(2000);
const STOPPED_MAX: Duration = Duration::from_millis(6000);

/// All servers serve for so long before one loses its files.
const CALM: Duration = Duration::from_secs(2);

/// After this a server that does not serve never will.
const HEAL_LIMIT: Duration = Duration::from_secs(120);
