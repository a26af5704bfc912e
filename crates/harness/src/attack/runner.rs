//! Runs one attack together with bystanders and checks the measurements.

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::bystanders::{Bystanders, Phase};
use super::{EnsembleAttack, Findings, PAUSE_EXTRA_MAX, Target};
use crate::Failure;
use crate::ensemble::{Ensemble, Launcher, READY_LIMIT, Setup, Usage, peak_resident, reset_peak};
use crate::tls::Certificates;

/// The result of one attack, printed as a row of a table.
pub(super) struct Row {
    figures: Option<Figures>,
    found: Findings,
}

/// The measurements of one attack.
struct Figures {
    idle: Phase,
    attack: Phase,
    after: Phase,
    /// The memory of the server that grew the most, in bytes.
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

    /// The row of a self-contained attack.
    pub(super) fn self_contained(found: Findings) -> Self {
        Self { figures: None, found }
    }

    /// The row of an attack that could not be run.
    pub(super) fn not_run(why: Failure) -> Self {
        let (Failure::Usage(why) | Failure::Check(why)) = why;
        Self { figures: None, found: Findings { note: String::new(), problems: vec![format!("not run: {why}")] } }
    }

    pub(super) fn passed(&self) -> bool {
        self.found.problems.is_empty()
    }

    /// The row, followed by one line for each problem.
    pub(super) fn text(&self, name: &str, took: Duration) -> String {
        let verdict = if self.passed() { "ok" } else { "FAILED" };
        let mut text = format!("{name:<24}");
        if let Some(figures) = &self.figures {
            let ms = |phase: &Phase| phase.longest.as_millis();
            let mb = |bytes: u64| bytes >> 20;
            let Memory { before, peak, after } = figures.memory;
            let disturbed = figures.attack.problems.len() + figures.after.problems.len();
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
        for problem in self.found.problems.iter().take(PROBLEMS_SHOWN) {
            let _ = writeln!(text, "    {problem}");
        }
        let more = self.found.problems.len().saturating_sub(PROBLEMS_SHOWN);
        if more > 0 {
            let _ = writeln!(text, "    and {more} more");
        }
        text
    }
}

/// Starts an ensemble and the bystanders, measures an idle phase, runs the attack, and waits until memory is back to
/// normal.
pub(super) fn run(name: &str, spec: &EnsembleAttack, launcher: &Launcher) -> Result<Row, Failure> {
    let setup = Setup::new(&format!("attack-{name}"), SERVERS).with(CONFIG);
    let setup = spec.config.iter().fold(setup, |setup, line| setup.with(line));
    let launcher = spec.files_max.map_or_else(|| launcher.clone(), |files| launcher.clone().with_files_max(files));
    let launcher = if spec.log_unread { launcher.with_log_unread() } else { launcher };
    let mut ensemble = Ensemble::prepare(&launcher, &setup)?;
    let certificates = Certificates::make(ensemble.folder())?;
    ensemble.configure(|server, text| text + &certificates.lines(server.ports().secure))?;
    let leader = ensemble.start_all()?;
    let mut target = Target::new(&ensemble, leader, certificates.client);
    (spec.prepare)(&target).map_err(|why| Failure::Check(format!("cannot prepare the attack: {why}")))?;
    target.leader = ensemble.wait_ready(READY_LIMIT)?;

    let bystanders = Bystanders::start(&ensemble.addresses(), spec.new_sessions)?;
    std::thread::sleep(IDLE);
    let idle = bystanders.phase();
    let epoch = epoch(&target);
    let before = target.resident();
    for pid in pids(&ensemble) {
        reset_peak(pid).map_err(|why| Failure::Check(format!("cannot measure the memory of a server: {why}")))?;
    }

    let guard = MemoryGuard::start(pids(&ensemble));
    let result = (spec.run)(&target);
    bystanders.await_answers();
    let attack = bystanders.phase();
    let peak: Vec<u64> = pids(&ensemble).into_iter().map(|pid| peak_resident(pid).unwrap_or(0)).collect();
    let (after_memory, after) = settle(&target, &before, &bystanders);
    let guarded = guard.stop();
    bystanders.stop()?;

    let mut found = result.unwrap_or_else(|why| Findings {
        problems: vec![format!("the attack broke off: {why}")],
        ..Findings::default()
    });
    // Servers that were overloaded may answer only now.
    let elections = match (epoch, self::epoch(&target)) {
        (Some(before), Some(after)) => after.saturating_sub(before),
        (_, _) => {
            found.problems.push("no server says in which epoch it is".into());
            0
        }
    };
    let peak = peak.iter().zip(&guarded.peaks).map(|(kernel, polled)| *kernel.max(polled));
    let memories = before.iter().zip(peak).zip(&after_memory);
    let memories: Vec<Memory> =
        memories.map(|((before, peak), after)| Memory { before: *before, peak, after: *after }).collect();
    let memory =
        memories.iter().copied().max_by_key(|memory| memory.peak.saturating_sub(memory.before)).unwrap_or_default();
    let figures = Figures { idle, attack, after, memory, elections };
    found.problems.extend(panics(&ensemble)?);
    found.problems.extend(guarded.problems);
    if let Err(Failure::Check(why) | Failure::Usage(why)) = ensemble.check_running() {
        found.problems.push(why);
    }
    found.problems.extend(problems(spec, &figures, &memories));
    if found.problems.is_empty() {
        ensemble.done()?;
    }
    Ok(Row { figures: Some(figures), found })
}

/// Kills a server that takes so much memory that the whole machine would suffer.
struct MemoryGuard {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<GuardReport>,
}

/// The observations of the guard.
#[derive(Default)]
struct GuardReport {
    /// The peak memory of each server, in bytes. The kernel has no figure for a process that has ended.
    peaks: Vec<u64>,
    problems: Vec<String>,
}

impl MemoryGuard {
    /// The servers are children that are reaped only after [`Self::stop`], so their process ids are not reused.
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
            let problems = numbered
                .map(|(server, _)| format!("server {server} was killed at {GUARD_MB} MB, to spare the machine"));
            GuardReport { problems: problems.collect(), peaks }
        });
        Self { stop, thread }
    }

    fn stop(self) -> GuardReport {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

/// Waits until the memory of all servers is back to normal, at most [`AFTER_MAX`]. Returns the memory then, and what
/// the bystanders observed meanwhile.
fn settle(target: &Target, before: &[u64], bystanders: &Bystanders) -> (Vec<u64>, Phase) {
    let start = Instant::now();
    let is_back = |target: &Target| {
        let now = target.resident();
        start.elapsed() >= AFTER_MIN && now.iter().zip(before).all(|(now, before)| *now <= recovered_max(*before))
    };
    target.wait_until(AFTER_MAX, is_back);
    (target.resident(), bystanders.phase())
}

/// The limit, in bytes, up to which memory counts as back to normal.
fn recovered_max(before: u64) -> u64 {
    (2 * before).max(before + (RECOVERED_EXTRA_MB << 20))
}

/// Checks the figures and returns the problems.
fn problems(spec: &EnsembleAttack, figures: &Figures, memories: &[Memory]) -> Vec<String> {
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
        if grown > spec.memory_mb_max {
            wrong.push(format!("server {server} grew by {grown} MB, allowed are {}", spec.memory_mb_max));
        }
        if memory.after > recovered_max(memory.before) {
            let (before, after, most) = (memory.before >> 20, memory.after >> 20, recovered_max(memory.before) >> 20);
            wrong.push(format!("server {server} had {before} MB and has {after} MB afterwards, allowed are {most}"));
        }
    }
    if *elections > spec.elections_max {
        wrong.push(format!("the leader changed {elections} times, allowed are {}", spec.elections_max));
    }
    if attack.answered == 0 {
        wrong.push("no request of the other clients was answered under attack".into());
    }
    // These come last, because there can be hundreds of them.
    for (phase, when) in [(attack, "under attack"), (after, "afterwards")] {
        wrong.extend(phase.problems.iter().map(|what| format!("{when}: {what}")));
    }
    wrong
}

/// The highest epoch of the last transactions of all servers. `None` if no server answers.
fn epoch(target: &Target) -> Option<u64> {
    let mut last = None;
    target.wait_until(EPOCH_LIMIT, |target| {
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

/// A small limit on the log that a server keeps in memory, 32 MB by default, so that it does not hide the memory
/// growth caused by the attack.
const CONFIG: &str = "pole.diffRetainMb=4";

/// Far above every limit of an attack, and less than the memory of a small machine.
const GUARD_MB: u64 = 2048;
const GUARD_STEP: Duration = Duration::from_millis(20);

/// Long enough to measure the usual pauses on this machine.
const IDLE: Duration = Duration::from_secs(2);

/// The minimum time for which the bystanders are observed after the attack.
const AFTER_MIN: Duration = Duration::from_secs(1);

/// The maximum time for memory to get back to normal.
const AFTER_MAX: Duration = Duration::from_secs(12);

/// Memory that the allocator may keep after an attack, in megabytes.
const RECOVERED_EXTRA_MB: u64 = 50;

const EPOCH_LIMIT: Duration = Duration::from_secs(15);

const PROBLEMS_SHOWN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(attack: Phase) -> Figures {
        let idle = Phase { longest: Duration::from_millis(20), answered: 100, ..Phase::default() };
        Figures { after: idle.clone(), idle, attack, memory: Memory::default(), elections: 0 }
    }

    fn spec() -> EnsembleAttack {
        EnsembleAttack::new(super::super::no_preparation, |_| Ok(Findings::default()))
    }

    #[test]
    fn a_quiet_attack_passes() {
        let attack = Phase { longest: Duration::from_millis(519), answered: 5, ..Phase::default() };
        assert!(problems(&spec(), &figures(attack), &[Memory::default()]).is_empty());
    }

    #[test]
    fn a_long_pause_a_lost_client_and_an_election_are_problems() {
        let lost = vec!["client 1 lost server 2".to_owned()];
        let attack = Phase { longest: Duration::from_millis(700), what: "a read".into(), answered: 5, problems: lost };
        let figures = Figures { elections: 1, ..figures(attack) };
        assert_eq!(problems(&spec(), &figures, &[]).len(), 3);
    }

    #[test]
    fn memory_beyond_the_limit_and_memory_that_stays_are_problems() {
        let attack = Phase { answered: 5, ..Phase::default() };
        let mb = |count: u64| count << 20;
        let memory = [
            Memory { before: mb(40), peak: mb(297), after: mb(90) },
            Memory { before: mb(40), peak: mb(100), after: mb(91) },
            Memory { before: mb(100), peak: mb(200), after: mb(200) },
        ];
        let wrong = problems(&spec(), &figures(attack), &memory);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].starts_with("server 1 grew") && wrong[1].starts_with("server 2 had 40 MB"), "{wrong:?}");
    }
}
