//! `cargo xtask attack`: real servers under attack, and how the other clients fare.
//!
//! Each attack is one program in a file of its own. Most run against three release servers on loopback, beside innocent clients
//! that write and read through every server. An attack passes if
//!
//! - the longest pause of the innocent clients is at most `PAUSE_EXTRA_MAX` longer than in the idle run before it,
//! - the resident memory of each server grows by no more than the bound of the attack, and is back afterwards,
//! - no innocent client loses its connection,
//! - no server ends or panics, and no leader changes without need,
//! - and what the attack itself looks for holds, such as connections that must be dropped by a deadline.
//!
//! Attacks that need servers of their own judge by themselves: those on disks start a server on damaged files and look at its exit
//! code and message, those on large data measure pauses and memory.
//!
//! The figures depend on the machine: the attacker, the innocent clients and the servers share it.

mod auth_acl;
mod auth_names;
mod bulk;
mod containers;
mod corrupt_epoch_files;
mod count_reads;
mod descriptors;
mod disk;
mod empty_joiner;
mod ephemeral_names;
mod expire_many;
mod flipped_bits;
mod innocents;
mod judge;
mod many_ephemerals;
mod missing_snapshots;
mod multi_read;
mod peer_greetings;
mod random_bytes;
mod raw;
mod restart_memory;
mod rqld_loop;
mod session_churn;
mod slow_greeting;
mod slow_links;
mod target;
mod unread_log;
mod unread_reads;
mod unread_tls;
mod watch_flood;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;

use crate::ensemble::{Launcher, Product};
use crate::{Failure, arguments};
use judge::Row;
use target::{Found, Target};

/// Attacks real servers and judges how the other clients fare.
#[derive(Debug, Parser)]
struct Options {
    /// Which attacks; all unless named.
    names: Vec<String>,
    /// Only says which there are.
    #[arg(long)]
    list: bool,
    /// Only those that take less than ten seconds and pass.
    #[arg(long)]
    quick: bool,
}

/// Runs the chore.
pub fn run(args: &[String]) -> Result<ExitCode, Failure> {
    let options: Options = arguments("attack", args)?;
    let attacks = chosen(&options)?;
    if options.list {
        for attack in &attacks {
            println!("{:<20} {}{}", attack.name, if attack.quick { "quick: " } else { "" }, attack.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    raise_files_limit();
    let launcher = Product::Pole.launcher()?;
    println!("{}", Row::HEAD);
    let mut failed = 0;
    for attack in &attacks {
        let start = Instant::now();
        let row = attack.run(&launcher);
        failed += usize::from(!row.passed());
        print!("{}", row.text(attack.name, start.elapsed()));
    }
    println!("{} passed, {failed} failed", attacks.len() - failed);
    Ok(ExitCode::from(u8::from(failed > 0)))
}

fn chosen(options: &Options) -> Result<Vec<&'static Attack>, Failure> {
    if let Some(unknown) = options.names.iter().find(|name| ATTACKS.iter().all(|attack| attack.name != *name)) {
        let known: Vec<_> = ATTACKS.iter().map(|attack| attack.name).collect();
        return Err(Failure::Usage(format!("there is no attack called `{unknown}`; there are: {}", known.join(", "))));
    }
    let is_chosen = |attack: &&Attack| {
        let named = options.names.is_empty() || options.names.iter().any(|name| name == attack.name);
        named && (attack.quick || !options.quick)
    };
    Ok(ATTACKS.iter().filter(is_chosen).collect())
}

/// One attack.
struct Attack {
    name: &'static str,
    /// What it does, for a list.
    about: &'static str,
    /// Whether it takes less than ten seconds and passes: then it is one of the test command.
    quick: bool,
    kind: Kind,
}

enum Kind {
    /// On a running ensemble, beside innocent clients.
    Service(Service),
    /// With servers of its own and without innocent clients, as on the files of a server.
    Alone(fn(&Launcher) -> Result<Found, Failure>),
}

/// An attack on a running ensemble.
struct Service {
    /// Lines for every `zoo.cfg`.
    config: &'static [&'static str],
    /// Open files that a server may have.
    files_max: Option<u64>,
    /// Whether the log of each server goes into a pipe that nobody reads.
    log_unread: bool,
    /// Whether clients with new sessions must be served meanwhile too. Not where refusing them is the defence.
    newcomers: bool,
    /// By how many megabytes the resident memory of a server may grow during the attack.
    memory_mb_max: u64,
    /// How many changes of the leader are no fault.
    elections_max: u64,
    /// What the attack needs in the tree, done before the idle run.
    prepare: fn(&Target) -> std::io::Result<()>,
    /// The attack.
    strike: fn(&Target) -> std::io::Result<Found>,
}

impl Attack {
    const fn service(name: &'static str, about: &'static str, service: Service) -> Self {
        Self { name, about, quick: false, kind: Kind::Service(service) }
    }

    const fn alone(name: &'static str, about: &'static str, run: fn(&Launcher) -> Result<Found, Failure>) -> Self {
        Self { name, about, quick: false, kind: Kind::Alone(run) }
    }

    const fn quick(mut self) -> Self {
        self.quick = true;
        self
    }

    fn run(&self, launcher: &Launcher) -> Row {
        let row = match &self.kind {
            Kind::Service(service) => judge::fight(self.name, service, launcher),
            Kind::Alone(run) => run(launcher).map(Row::alone),
        };
        row.unwrap_or_else(Row::not_run)
    }
}

impl Service {
    const fn new(prepare: fn(&Target) -> std::io::Result<()>, strike: fn(&Target) -> std::io::Result<Found>) -> Self {
        Self {
            config: &[],
            files_max: None,
            log_unread: false,
            newcomers: true,
            memory_mb_max: MEMORY_MB_MAX,
            elections_max: 0,
            prepare,
            strike,
        }
    }
}

/// Nothing to prepare.
fn nothing(_: &Target) -> std::io::Result<()> {
    Ok(())
}

/// An attacker holds thousands of connections. Where the limit cannot be raised, the attacks say how far they came.
fn raise_files_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// In the order of the parts of a server: transactions, reads, connections, sessions, peers, disks.
const ATTACKS: &[Attack] = &[
    ephemeral_names::ATTACK,
    many_ephemerals::ATTACK,
    auth_names::ATTACK,
    auth_acl::ATTACK,
    count_reads::ATTACK,
    unread_reads::ATTACK,
    multi_read::ATTACK,
    unread_tls::ATTACK,
    slow_greeting::ATTACK,
    unread_log::ATTACK,
    descriptors::ATTACK,
    session_churn::ATTACK,
    watch_flood::ATTACK,
    expire_many::ATTACK,
    containers::ATTACK,
    peer_greetings::ATTACK,
    slow_links::ATTACK,
    random_bytes::ATTACK,
    rqld_loop::REFUSED,
    rqld_loop::COOLED_DOWN,
    empty_joiner::ATTACK,
    restart_memory::ATTACK,
    missing_snapshots::ATTACK,
    flipped_bits::ATTACK,
    corrupt_epoch_files::ATTACK,
];

/// Beyond the longest pause of the idle run.
const PAUSE_EXTRA_MAX: Duration = Duration::from_millis(500);

/// Megabytes by which a server may grow, unless an attack says otherwise: the requests and answers of a few dozen connections, a
/// few transactions of the largest size on each link, and what the allocator keeps.
const MEMORY_MB_MAX: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attack_has_a_name_of_its_own_and_says_what_it_does() {
        for (index, attack) in ATTACKS.iter().enumerate() {
            assert!(!attack.about.is_empty(), "{}", attack.name);
            assert!(ATTACKS[..index].iter().all(|other| other.name != attack.name), "{} stands twice", attack.name);
        }
    }

    #[test]
    fn an_attack_that_nobody_knows_is_refused_with_the_names_of_all() {
        let options = Options { names: vec!["flood".into()], list: false, quick: false };
        let Err(Failure::Usage(why)) = chosen(&options).map(drop) else { panic!("it was chosen") };
        assert!(why.contains("`flood`") && why.contains("watch-flood"), "{why}");
    }
}
