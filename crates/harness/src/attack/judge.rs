//! Runs one attack beside innocent clients, and judges.

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::innocents::{Innocents, Phase};
use super::{Found, PAUSE_EXTRA_MAX, Service, Target};
use crate::Failure;
use crate::ensemble::{Ensemble, Launcher, READY_LIMIT, Setup, Usage, peak_resident, reset_peak};
use crate::tls::Certificates;

/// The result of one attack.
pub(super) struct Row {
    figures: Option<Figures>,
    found: Found,
}

/// What was measured.
struct Figures {
    idle: Phase,
    attack: Phase,
    after: Phase,
    /// Of the server that grew the most, in bytes.
    memory: Memory,
    elections: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    before: u64,
    peak: u64,
    after: u64,
}

impl Row {
    pub(super) const HEAD: &'static str = "\
attack                    pause of others (ms)  memory of a server (MB)  elec-  others
                           idle  attack  after   before    peak   after  tions  disturbed";

    /// Of an attack that judges by itself.
    pub(super) fn alone(found: Found) -> Self {
        Self { figures: None, found }
    }

    /// Of an attack that could not be run.
    pub(super) fn not_run(why: Failure) -> Self {
        let (Failure::Usage(why) | Failure::Check(why)) = why;
        Self { figures: None, found: Found { note: String::new(), complaints: vec![format!("not run: {why}")] } }
    }

    pub(super) fn passed(&self) -> bool {
        self.found.complaints.is_empty()
    }

    /// The row of a table, and what is wrong below it.
    pub(super) fn text(&self, name: &str, took: Duration) -> String {
        let verdict = if self.passed() { "ok" } else { "FAILED" };
        let mut text = format!("{name:<24}");
        if let Some(figures) = &self.figures {
            let ms = |phase: &Phase| phase.longest.as_millis();
            let mb = |bytes: u64| bytes >> 20;
            let Memory { before, peak, after } = figures.memory;
            let disturbed = figures.attack.complaints.len() + figures.after.complaints.len();
            let _ = write!(
                text,
                " {:>6} {:>7} {:>6} {:>8} {:>7} {:>7} {:>6} {:>10}",
                ms(&figures.idle),
                ms(&figures.attack),
                ms(&figures.after),
                mb(before),
                mb(peak),
                mb(after),
                figures.elections,
                disturbed
            );
        }
        let _ = writeln!(text, "  {verdict} in {:.0} s: {}", took.as_secs_f64(), self.found.note);
        for complaint in self.found.complaints.iter().take(COMPLAINTS_SHOWN) {
            let _ = writeln!(text, "    {complaint}");
        }
        let more = self.found.complaints.len().saturating_sub(COMPLAINTS_SHOWN);
        if more > 0 {
            let _ = writeln!(text, "    and {more} more");
        }
        text
    }
}

/// Starts an ensemble, lets the innocent clients run idle, attacks, and waits until all is quiet again.
pub(super) fn fight(name: &str, service: &Service, launcher: &Launcher) -> Result<Row, Failure> {
    let setup = Setup::new(&format!("attack-{name}"), SERVERS).with(CONFIG);
    let setup = service.config.iter().fold(setup, |setup, line| setup.with(line));
    let launcher = service.files_max.map_or_else(|| launcher.clone(), |files| launcher.clone().with_files_max(files));
    let launcher = if service.log_unread { launcher.with_log_unread() } else { launcher };
    let mut ensemble = Ensemble::prepare(&launcher, &setup)?;
    let certificates = Certificates::make(ensemble.folder())?;
    ensemble.configure(|server, text| text + &certificates.lines(server.ports().secure))?;
    let leader = ensemble.start_all()?;
    let mut target = Target::new(&ensemble, leader, certificates.client);
    (service.prepare)(&target).map_err(|why| Failure::Check(format!("cannot prepare the attack: {why}")))?;
    target.leader = ensemble.wait_ready(READY_LIMIT)?;

    let innocents = Innocents::start(&ensemble.addresses(), service.newcomers)?;
    std::thread::sleep(IDLE);
    let idle = innocents.phase();
    let epoch = epoch(&target);
    let before = target.resident();
    for pid in pids(&ensemble) {
        reset_peak(pid).map_err(|why| Failure::Check(format!("cannot measure the memory of a server: {why}")))?;
    }

    let guard = MemoryGuard::start(pids(&ensemble));
    let struck = (service.strike)(&target);
    let attack = innocents.phase();
    let peak: Vec<u64> = pids(&ensemble).into_iter().map(|pid| peak_resident(pid).unwrap_or(0)).collect();
    let (after_memory, after) = settle(&target, &before, &innocents);
    let watched = guard.stop();
    innocents.stop()?;

    let mut found = struck
        .unwrap_or_else(|why| Found { complaints: vec![format!("the attack broke off: {why}")], ..Found::default() });
    // The servers may answer again only now that the load is gone.
    let elections = match (epoch, self::epoch(&target)) {
        (Some(before), Some(after)) => after.saturating_sub(before),
        (_, _) => {
            found.complaints.push("no server says in which epoch it is".into());
            0
        }
    };
    let peak = peak.iter().zip(&watched.peaks).map(|(told, seen)| *told.max(seen));
    let memories = before.iter().zip(peak).zip(&after_memory);
    let memories: Vec<Memory> =
        memories.map(|((before, peak), after)| Memory { before: *before, peak, after: *after }).collect();
    let memory =
        memories.iter().copied().max_by_key(|memory| memory.peak.saturating_sub(memory.before)).unwrap_or_default();
    let figures = Figures { idle, attack, after, memory, elections };
    found.complaints.extend(panics(&ensemble)?);
    found.complaints.extend(watched.complaints);
    if let Err(Failure::Check(why) | Failure::Usage(why)) = ensemble.check_running() {
        found.complaints.push(why);
    }
    found.complaints.extend(complaints(service, &figures, &memories));
    if found.complaints.is_empty() {
        ensemble.done()?;
    }
    Ok(Row { figures: Some(figures), found })
}

/// Ends a server that takes so much memory that the machine would suffer, and with it everything else that runs there.
struct MemoryGuard {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Watched>,
}

/// What the guard saw.
#[derive(Default)]
struct Watched {
    /// The most memory of each server, in bytes: of one that has ended the system tells nothing any more.
    peaks: Vec<u64>,
    complaints: Vec<String>,
}

impl MemoryGuard {
    /// The servers are children that are reaped only after [`Self::stop`], so the numbers stay theirs.
    fn start(pids: Vec<u32>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut ended = vec![false; pids.len()];
            let mut peaks = vec![0; pids.len()];
            while !stopped.load(Ordering::Relaxed) {
                let servers = pids.iter().zip(&mut ended).zip(&mut peaks);
                for ((pid, ended), peak) in servers.filter(|((_, ended), _)| !**ended) {
                    let resident = Usage::of(*pid).map_or(0, |usage| usage.resident_bytes);
                    *peak = resident.max(*peak);
                    let number = i32::try_from(*pid).ok().and_then(Pid::from_raw);
                    if resident >> 20 > GUARD_MB
                        && let Some(number) = number
                    {
                        *ended = kill_process(number, Signal::KILL).is_ok();
                    }
                }
                std::thread::sleep(GUARD_STEP);
            }
            let numbered = (1..).zip(ended).filter(|(_, ended)| *ended);
            let complaints = numbered
                .map(|(server, _)| format!("server {server} was killed at {GUARD_MB} MB, to spare the machine"));
            Watched { complaints: complaints.collect(), peaks }
        });
        Self { stop, thread }
    }

    fn stop(self) -> Watched {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

/// Waits until the memory is back, for a time that has an end. Returns the memory then, and what clients saw.
fn settle(target: &Target, before: &[u64], innocents: &Innocents) -> (Vec<u64>, Phase) {
    let start = Instant::now();
    let is_back = |target: &Target| {
        let now = target.resident();
        start.elapsed() >= AFTER_MIN && now.iter().zip(before).all(|(now, before)| *now <= back(*before))
    };
    target.within(AFTER_MAX, is_back);
    (target.resident(), innocents.phase())
}

/// So much memory counts as before.
fn back(before: u64) -> u64 {
    (2 * before).max(before + (BACK_MB << 20))
}

/// What is wrong with these figures.
fn complaints(service: &Service, figures: &Figures, memories: &[Memory]) -> Vec<String> {
    let Figures { idle, attack, after, elections, .. } = figures;
    let mut wrong = Vec::new();
    for (phase, when) in [(attack, "under attack"), (after, "afterwards")] {
        let extra = phase.longest.saturating_sub(idle.longest);
        if extra > PAUSE_EXTRA_MAX {
            let (ms, most, longest) = (extra.as_millis(), PAUSE_EXTRA_MAX.as_millis(), phase.longest.as_millis());
            wrong.push(format!(
                "{} {when} took {longest} ms: {ms} ms beyond the idle run, allowed are {most}",
                phase.what
            ));
        }
    }
    for (server, memory) in (1..).zip(memories) {
        let grown = memory.peak.saturating_sub(memory.before) >> 20;
        if grown > service.memory_mb_max {
            wrong.push(format!("server {server} grew by {grown} MB, allowed are {}", service.memory_mb_max));
        }
        if memory.after > back(memory.before) {
            let (before, after, most) = (memory.before >> 20, memory.after >> 20, back(memory.before) >> 20);
            wrong.push(format!("server {server} had {before} MB and has {after} MB afterwards, allowed are {most}"));
        }
    }
    if *elections > service.elections_max {
        wrong.push(format!("the leader changed {elections} times, allowed are {}", service.elections_max));
    }
    if attack.answered == 0 {
        wrong.push("no request of the other clients was answered under attack".into());
    }
    // Last: they can be hundreds.
    for (phase, when) in [(attack, "under attack"), (after, "afterwards")] {
        wrong.extend(phase.complaints.iter().map(|what| format!("{when}: {what}")));
    }
    wrong
}

/// The last epoch of which any server has a transaction.
fn epoch(target: &Target) -> Option<u64> {
    let mut last = None;
    target.within(EPOCH_LIMIT, |target| {
        last = target.probes().iter().filter_map(|probe| probe.epoch()).max();
        last.is_some()
    });
    last
}

fn pids(ensemble: &Ensemble) -> Vec<u32> {
    ensemble.servers().iter().filter_map(|server| server.pid()).collect()
}

/// The first line of each panic in the logs.
fn panics(ensemble: &Ensemble) -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    for server in ensemble.servers() {
        let path = server.log_path();
        let text = fs::read(&path).map_err(|why| Failure::io("read", &path, &why))?;
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().filter(|line| line.contains("panicked at"));
        found.extend(lines.map(|line| format!("server {} panicked: {line}", server.id())));
    }
    Ok(found)
}

const SERVERS: usize = 3;

/// The log that a server keeps in memory, 32 MB unless configured, is no trace of an attack: with less of it the rest shows.
const CONFIG: &str = "pole.diffRetainMb=4";

/// Far above every bound, and less than a small machine has.
const GUARD_MB: u64 = 2048;
const GUARD_STEP: Duration = Duration::from_millis(20);

/// Long enough that what a pause is on this machine shows.
const IDLE: Duration = Duration::from_secs(2);

/// At least so long are the clients watched afterwards.
const AFTER_MIN: Duration = Duration::from_secs(1);

/// Memory that is not back by then does not come back by itself.
const AFTER_MAX: Duration = Duration::from_secs(12);

/// Megabytes that an allocator may keep.
const BACK_MB: u64 = 50;

const EPOCH_LIMIT: Duration = Duration::from_secs(15);

const COMPLAINTS_SHOWN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(attack: Phase) -> Figures {
        let idle = Phase { longest: Duration::from_millis(20), answered: 100, ..Phase::default() };
        Figures { after: idle.clone(), idle, attack, memory: Memory::default(), elections: 0 }
    }

    fn service() -> Service {
        Service::new(super::super::nothing, |_| Ok(Found::default()))
    }

    #[test]
    fn a_quiet_attack_passes() {
        let attack = Phase { longest: Duration::from_millis(519), answered: 5, ..Phase::default() };
        assert!(complaints(&service(), &figures(attack), &[Memory::default()]).is_empty());
    }

    #[test]
    fn a_long_pause_a_lost_client_and_an_election_are_complaints() {
        let lost = vec!["client 1 lost server 2".to_owned()];
        let attack =
            Phase { longest: Duration::from_millis(700), what: "a read".into(), answered: 5, complaints: lost };
        let figures = Figures { elections: 1, ..figures(attack) };
        assert_eq!(complaints(&service(), &figures, &[]).len(), 3);
    }

    #[test]
    fn memory_beyond_the_bound_and_memory_that_stays_are_complaints() {
        let attack = Phase { answered: 5, ..Phase::default() };
        let mb = |count: u64| count << 20;
        let memory = [
            Memory { before: mb(40), peak: mb(297), after: mb(90) },
            Memory { before: mb(40), peak: mb(100), after: mb(91) },
            Memory { before: mb(100), peak: mb(200), after: mb(200) },
        ];
        let wrong = complaints(&service(), &figures(attack), &memory);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].starts_with("server 1 grew") && wrong[1].starts_with("server 2 had 40 MB"), "{wrong:?}");
    }
}
