//! `cargo xtask attack`: hostile load and damaged files against real servers, and checks that other clients are not
//! disturbed.
//!
//! Each attack has its own file. Most run against three release servers on loopback, together with bystanders:
//! clients that write and read through every server. Such an attack passes if
//!
//! - the longest pause of the bystanders is at most `PAUSE_EXTRA_MAX` longer than in the idle phase before the attack,
//! - the resident memory of each server grows by no more than the limit of the attack, and shrinks again afterwards,
//! - no bystander loses its connection,
//! - no server exits or panics, and the leader does not change more often than the attack allows,
//! - the attack's own checks succeed, for example that connections are dropped by a deadline.
//!
//! Self-contained attacks start their own servers and do all checks themselves. Those on disks start a server on
//! damaged files and check its exit code and message; those on large data measure pauses and memory.
//!
//! The figures depend on the machine, because the attacker, the bystanders and the servers share it.

mod auth_acl;
mod auth_names;
mod bulk;
mod bystanders;
mod containers;
mod corrupt_epoch_files;
mod count_reads;
mod descriptors;
mod disk;
mod empty_joiner;
mod ephemeral_names;
mod expire_many;
mod flipped_bits;
mod floods;
mod many_ephemerals;
mod missing_snapshots;
mod multi_read;
mod peer_greetings;
mod random_bytes;
mod raw;
mod restart_memory;
mod rqld_loop;
mod runner;
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
use pole_progress::Bar;

use crate::ensemble::{Launcher, Product};
use crate::{Failure, arguments};
use runner::Row;
use target::{Findings, Target};

/// Attacks real servers and checks that other clients are not disturbed.
#[derive(Debug, Parser)]
struct Options {
    /// Names of the attacks to run; all by default.
    names: Vec<String>,
    /// List the attacks without running them.
    #[arg(long)]
    list: bool,
    /// Only run attacks that take less than ten seconds.
    #[arg(long)]
    quick: bool,
}

/// Runs `cargo xtask attack`.
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
    let (mut failed, bar) = (0, Bar::new("attacks"));
    for (done, attack) in attacks.iter().enumerate() {
        let start = Instant::now();
        bar.update(done, attacks.len(), attack.name);
        let row = attack.run(&launcher);
        failed += usize::from(!row.passed());
        bar.suspend(|| print!("{}", row.text(attack.name, start.elapsed())));
    }
    bar.update(attacks.len(), attacks.len(), "");
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
    /// A description, for the list.
    about: &'static str,
    /// Whether the attack takes less than ten seconds and is therefore part of `cargo xtask test`.
    quick: bool,
    kind: Kind,
}

enum Kind {
    /// Runs against an ensemble, together with bystanders.
    OnEnsemble(EnsembleAttack),
    /// Starts its own servers, for example on damaged files, and has no bystanders.
    SelfContained(fn(&Launcher) -> Result<Findings, Failure>),
}

/// An attack on a running ensemble with bystanders.
struct EnsembleAttack {
    /// Lines for every `zoo.cfg`.
    config: &'static [&'static str],
    /// The limit of open files of each server. `None` means that servers inherit ours.
    files_max: Option<u64>,
    /// Whether the log of each server goes to a full pipe that is never read.
    log_unread: bool,
    /// Whether new sessions must be served during the attack too. False where refusing them is the defence.
    new_sessions: bool,
    /// The limit on the growth of a server's resident memory during the attack, in megabytes.
    memory_mb_max: u64,
    /// The number of leader changes that are allowed.
    elections_max: u64,
    /// Creates the nodes that the attack needs, before the idle phase.
    prepare: fn(&Target) -> std::io::Result<()>,
    /// Runs the attack.
    run: fn(&Target) -> std::io::Result<Findings>,
}

impl Attack {
    const fn on_ensemble(name: &'static str, about: &'static str, attack: EnsembleAttack) -> Self {
        Self { name, about, quick: false, kind: Kind::OnEnsemble(attack) }
    }

    const fn self_contained(
        name: &'static str,
        about: &'static str,
        run: fn(&Launcher) -> Result<Findings, Failure>,
    ) -> Self {
        Self { name, about, quick: false, kind: Kind::SelfContained(run) }
    }

    const fn quick(mut self) -> Self {
        self.quick = true;
        self
    }

    fn run(&self, launcher: &Launcher) -> Row {
        let row = match &self.kind {
            Kind::OnEnsemble(attack) => runner::run(self.name, attack, launcher),
            Kind::SelfContained(run) => run(launcher).map(Row::self_contained),
        };
        row.unwrap_or_else(Row::not_run)
    }
}

impl EnsembleAttack {
    const fn new(prepare: fn(&Target) -> std::io::Result<()>, run: fn(&Target) -> std::io::Result<Findings>) -> Self {
        Self {
            config: &[],
            files_max: None,
            log_unread: false,
            new_sessions: true,
            memory_mb_max: MEMORY_MB_MAX,
            elections_max: 0,
            prepare,
            run,
        }
    }
}

fn no_preparation(_: &Target) -> std::io::Result<()> {
    Ok(())
}

/// Raises the limit of open files, because attacks hold thousands of connections. If this fails, the notes of the
/// attacks show how many connections they got.
fn raise_files_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Ordered by the attacked part of a server: transactions, reads, connections, sessions, peers, disks.
const ATTACKS: &[Attack] = &[
    ephemeral_names::ATTACK,
    many_ephemerals::ATTACK,
    auth_names::ATTACK,
    auth_acl::ATTACK,
    floods::LARGE_MULTIS,
    floods::MEDIUM_MULTIS,
    floods::FAILED_WRITES,
    floods::ACL_WRITES,
    floods::QUOTAS,
    floods::DEEP_PATHS,
    floods::SYNCS,
    floods::ACL_READS,
    floods::LIST_READS,
    floods::READS_BEHIND_WRITES,
    floods::LONG_LISTS,
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

/// The allowed extra pause, compared with the longest pause of the idle phase.
const PAUSE_EXTRA_MAX: Duration = Duration::from_millis(500);

/// The default limit on the memory growth of a server, in megabytes: the requests and replies of a few dozen
/// connections, a few transactions of the largest size on each link, and memory that the allocator keeps.
const MEMORY_MB_MAX: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attack_has_a_unique_name_and_a_description() {
        for (index, attack) in ATTACKS.iter().enumerate() {
            assert!(!attack.about.is_empty(), "{}", attack.name);
            assert!(ATTACKS[..index].iter().all(|other| other.name != attack.name), "{} stands twice", attack.name);
        }
    }

    #[test]
    fn an_unknown_attack_is_refused_with_the_names_of_all() {
        let options = Options { names: vec!["flood".into()], list: false, quick: false };
        let Err(Failure::Usage(why)) = chosen(&options).map(drop) else { panic!("it was chosen") };
        assert!(why.contains("`flood`") && why.contains("watch-flood"), "{why}");
    }
}
