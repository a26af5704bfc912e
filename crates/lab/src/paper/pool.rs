//! Runs jobs on a pool of threads. The results do not depend on the number of threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use super::Error;
use super::job::{Job, JobResult};
use super::ledger::Ledger;

/// The progress of a study.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The number of finished runs.
    pub done: usize,
    /// The number of all runs, without those that were already stored.
    pub total: usize,
    /// The key of the last finished run.
    pub what: &'a str,
}

/// Runs the jobs that the ledger does not have yet. Returns the keys of failed runs with their errors.
pub(super) fn run(
    jobs: &[Job],
    threads: usize,
    ledger: &mut Ledger,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Vec<(String, String)>, Error> {
    let open: Vec<&Job> = jobs.iter().filter(|job| ledger.get(&job.key).is_none()).collect();
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel::<(usize, Result<JobResult, String>)>();
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, open.len().max(1)) {
            let (sender, next, open) = (sender.clone(), &next, &open);
            scope.spawn(move || {
                // A closed channel means that the collector has stopped on an error.
                while let Some((at, job)) = take(next, open) {
                    if sender.send((at, job.run())).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        collect(&open, results, ledger, progress)
    })
}

fn take<'a>(next: &AtomicUsize, open: &[&'a Job]) -> Option<(usize, &'a Job)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    open.get(at).map(|job| (at, *job))
}

fn collect(
    open: &[&Job],
    results: mpsc::Receiver<(usize, Result<JobResult, String>)>,
    ledger: &mut Ledger,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Vec<(String, String)>, Error> {
    let mut failed = Vec::new();
    for (count, (at, result)) in (1..).zip(results) {
        let key = &open[at].key;
        match result {
            Ok(done) => ledger.add(key.clone(), done)?,
            Err(why) => failed.push((at, key.clone(), why)),
        }
        progress(Progress { done: count, total: open.len(), what: key });
    }
    // In the order of the jobs, regardless of which one finished first.
    failed.sort_by_key(|(at, ..)| *at);
    Ok(failed.into_iter().map(|(_, key, why)| (key, why)).collect())
}
