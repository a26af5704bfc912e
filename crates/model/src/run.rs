//! One exploration: runs the checker on a model and collects the results.

use std::any::Any;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model, Path};

/// The result of exploring one configuration.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// States reached, counted once per path.
    pub(crate) states: usize,
    /// Distinct states.
    pub(crate) unique: usize,
    /// The length of the longest run.
    pub(crate) depth: usize,
    /// Whether all states within the bounds were explored.
    pub(crate) complete: bool,
    pub(crate) seconds: f64,
    /// The violated properties, each with the steps that lead there.
    pub(crate) violations: Vec<(&'static str, Vec<String>)>,
}

/// The time limit of an exploration. The checker checks its own limit only when a thread runs out of work, so the
/// models check this one.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    deadline: Instant,
    cut_short: Arc<AtomicBool>,
}

impl Limit {
    pub(crate) fn after(duration: Duration) -> Self {
        Self { deadline: Instant::now() + duration, cut_short: Arc::default() }
    }

    /// Whether the time is up. If so, no state has successors any more, and the exploration is incomplete.
    pub(crate) fn is_over(&self) -> bool {
        let over = Instant::now() >= self.deadline;
        if over {
            self.cut_short.store(true, Ordering::Relaxed);
        }
        over
    }
}

/// Explores the model until its limit.
pub(crate) fn explore<M>(
    model: M,
    limit: &Limit,
    threads: usize,
    shortest: bool,
    describe: impl Fn(&M::State, Option<&M::Action>) -> String,
) -> Outcome
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    let start = Instant::now();
    let builder = model.checker().threads(threads).finish_when(HasDiscoveries::Any);
    if shortest {
        report(builder.spawn_bfs(), start, limit, describe)
    } else {
        report(builder.spawn_dfs(), start, limit, describe)
    }
}

fn report<M>(
    checker: impl Checker<M>,
    start: Instant,
    limit: &Limit,
    describe: impl Fn(&M::State, Option<&M::Action>) -> String,
) -> Outcome
where
    M: Model,
    M::State: Clone + Debug + PartialEq + Hash,
    M::Action: Clone + Debug + PartialEq,
{
    let checker = checker.join();
    let seconds = start.elapsed();
    let violations: Vec<_> =
        checker.discoveries().into_iter().map(|(name, path)| (name, steps(path, &describe))).collect();
    Outcome {
        states: checker.state_count(),
        unique: checker.unique_state_count(),
        depth: checker.max_depth(),
        complete: violations.is_empty() && !limit.cut_short.load(Ordering::Relaxed),
        seconds: seconds.as_secs_f64(),
        violations,
    }
}

/// The steps of a path, one per line.
fn steps<S, A>(path: Path<S, A>, describe: &impl Fn(&S, Option<&A>) -> String) -> Vec<String> {
    path.into_vec().iter().map(|(state, action)| describe(state, action.as_ref())).collect()
}

/// The message of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}
