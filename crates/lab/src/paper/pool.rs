//! Runs jobs on as many threads as there are cores. What comes out does not depend on how many those are.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use super::Error;
use super::job::{Done, Job};
use super::ledger::Ledger;

/// How far a study is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Runs that are done.
    pub done: usize,
    /// Of so many; what an earlier study had done already is not counted.
    pub total: usize,
    /// The last one that was done.
    pub what: &'a str,
}

/// Runs what the ledger does not have yet. Returns the runs that failed, each with why.
pub(super) fn run(
    jobs: &[Job],
    threads: usize,
    ledger: &mut Ledger,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Vec<(String, String)>, Error> {
    let open: Vec<&Job> = jobs.iter().filter(|job| ledger.get(&job.key).is_none()).collect();
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel::<(usize, Result<Done, String>)>();
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, open.len().max(1)) {
            let (sender, next, open) = (sender.clone(), &next, &open);
            scope.spawn(move || {
                // Whoever gets the results may have given up: then there is no more to do.
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
    results: mpsc::Receiver<(usize, Result<Done, String>)>,
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
    // In the order of the jobs, whoever was first.
    failed.sort_by_key(|(at, ..)| *at);
    Ok(failed.into_iter().map(|(_, key, why)| (key, why)).collect())
}
