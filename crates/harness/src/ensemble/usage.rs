//! CPU time and memory of a process, from Linux's `/proc`.

use std::fs;
use std::time::Duration;

/// The CPU time of a process since its start, over all threads, and its current resident memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// User and system time. The resolution is one tick, usually 10 ms.
    pub cpu: Duration,
    /// Resident memory (`VmRSS`).
    pub resident_bytes: u64,
}

impl Usage {
    /// Reads the usage of a running process. `None` if it does not exist.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        Some(Self { cpu: cpu(&stat)?, resident_bytes: resident(&status)? })
    }
}

/// The peak resident memory of a process since [`reset_peak`], in bytes (`VmHWM`).
pub fn peak_resident(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    kilobytes(&status, "VmHWM:")
}

/// Resets the peak that [`peak_resident`] returns.
pub fn reset_peak(pid: u32) -> std::io::Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5")
}

impl std::iter::Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| Self {
            cpu: a.cpu + b.cpu,
            resident_bytes: a.resident_bytes + b.resident_bytes,
        })
    }
}

fn cpu(stat: &str) -> Option<Duration> {
    // The program name is in parentheses and may itself contain spaces and parentheses.
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_whitespace().skip(USER_TIME_AFTER_NAME);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_secs(user + system) / u32::try_from(rustix::param::clock_ticks_per_second()).ok()?)
}

fn resident(status: &str) -> Option<u64> {
    kilobytes(status, "VmRSS:")
}

fn kilobytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Field 14 of `stat` is the user time; the name is field 2.
const USER_TIME_AFTER_NAME: usize = 11;

#[test]
fn a_name_with_parentheses_does_not_shift_the_fields() {
    let ticks = rustix::param::clock_ticks_per_second();
    let stat = format!("12 (a) b) S 1 12 12 0 -1 4194304 100 0 0 0 {} {} 0 0 20 0 1 0 500 1 2", 2 * ticks, ticks);
    assert_eq!(cpu(&stat), Some(Duration::from_secs(3)));
}

#[test]
fn resident_memory_is_in_kilobytes() {
    assert_eq!(resident("Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t1\n"), Some(2 << 20));
}

#[test]
fn this_process_has_used_something() {
    assert!(Usage::of(std::process::id()).unwrap().resident_bytes > 0);
}
