//! One exploration: starts the checker on a model, and gathers what it found.

use std::any::Any;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model, Path};

/// What came of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// States reached, over all ways to reach them.
    pub(crate) states: usize,
    /// Different states.
    pub(crate) unique: usize,
    /// The longest run.
    pub(crate) depth: usize,
    /// Whether all states within the bounds were seen.
    pub(crate) complete: bool,
    pub(crate) seconds: f64,
    /// The properties that were broken, each with the steps that lead there.
    pub(crate) violations: Vec<(&'static str, Vec<String>)>,
}

/// When to stop looking. The checker's own limit is only heeded when a thread runs out of work, so models ask.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    deadline: Instant,
    cut_short: Arc<AtomicBool>,
}

impl Limit {
    pub(crate) fn after(duration: Duration) -> Self {
        Self { deadline: Instant::now() + duration, cut_short: Arc::default() }
    }

    /// Whether the time is up: then nothing follows from any state any more, and the exploration is not complete.
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
    tell: impl Fn(&M::State, Option<&M::Action>) -> String,
) -> Outcome
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    let start = Instant::now();
    let builder = model.checker().threads(threads).finish_when(HasDiscoveries::Any);
    if shortest {
        report(builder.spawn_bfs(), start, limit, tell)
    } else {
        report(builder.spawn_dfs(), start, limit, tell)
    }
}

fn report<M>(
    checker: impl Checker<M>,
    start: Instant,
    limit: &Limit,
    tell: impl Fn(&M::State, Option<&M::Action>) -> String,
) -> Outcome
where
    M: Model,
    M::State: Clone + Debug + PartialEq + Hash,
    M::Action: Clone + Debug + PartialEq,
{
    let checker = checker.join();
    let seconds = start.elapsed();
    let violations: Vec<_> = checker.discoveries().into_iter().map(|(name, path)| (name, steps(path, &tell))).collect();
    Outcome {
        states: checker.state_count(),
        unique: checker.unique_state_count(),
        depth: checker.max_depth(),
        complete: violations.is_empty() && !limit.cut_short.load(Ordering::Relaxed),
        seconds: seconds.as_secs_f64(),
        violations,
    }
}

/// The steps of a path, one a line.
fn steps<S, A>(path: Path<S, A>, tell: &impl Fn(&S, Option<&A>) -> String) -> Vec<String> {
    path.into_vec().iter().map(|(state, action)| tell(state, action.as_ref())).collect()
}

/// What a panic said.
pub(crate) fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without words").to_owned()
}
