//! The random killer: `kill -9` and SIGSTOP on servers, often on the leader, and everything healed in the end.
//!
//! Holds: at most a minority is down or stopped at any time, and a server counts as down until it serves again. Only a
//! blackout, which has to be asked for, takes them all.

use std::time::Duration;

use tokio::time::{Instant, sleep};

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
        }
    }

    /// Does what is due: heals, looks who has recovered, and strikes if it is time.
    pub(super) async fn step(&mut self) -> Result<(), Failure> {
        self.treat()?;
        self.discharge().await?;
        let minority = (self.ensemble.servers().len() - 1) / 2;
        if Instant::now() >= self.next && self.wounds.len() < minority {
            self.next = Instant::now() + self.dice.between(PAUSE_MIN, PAUSE_MAX);
            self.strike().await?;
        }
        Ok(())
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
        let well: Vec<usize> = (0..self.ensemble.servers().len())
            .filter(|server| self.wounds.iter().all(|wound| wound.server != *server))
            .collect();
        let leader = self.leader(&well).await;
        let victim = match leader {
            Some(leader) if self.dice.one_in(2) => leader,
            Some(_) | None => well[self.dice.below(well.len())],
        };
        self.leaders += usize::from(leader == Some(victim));
        if self.deck.is_empty() {
            self.deck.extend([Kind::Killed, Kind::Killed, Kind::Stopped]);
        }
        let kind = self.deck.swap_remove(self.dice.below(self.deck.len()));
        self.wound(victim, kind)
    }

    fn wound(&mut self, server: usize, kind: Kind) -> Result<(), Failure> {
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
        };
        self.wounds.push(Wound { server, kind, heal_at: Instant::now() + span, treated: false });
        Ok(())
    }

    fn treat(&mut self) -> Result<(), Failure> {
        for wound in self.wounds.iter_mut().filter(|wound| !wound.treated && wound.heal_at <= Instant::now()) {
            wound.treated = true;
            match wound.kind {
                Kind::Killed => self.ensemble.server(wound.server).start()?,
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

/// After this a server that does not serve never will.
const HEAL_LIMIT: Duration = Duration::from_secs(120);
