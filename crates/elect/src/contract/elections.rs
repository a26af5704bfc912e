//! What an election promises on every store.
//!
//! Each case runs candidates that campaign for ever. Whenever one of them leads, the [`Witness`] checks that its token
//! is higher than all before and that no other guard is valid at that moment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pole_oracle::ResignConfig;
use pole_types::{Span, Time};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::Extent::{Essential, Full};
use super::faulty::Faulty;
use super::{Bench, Case, CaseResult, Extent, Proxied, same};
use crate::candidate::Candidate;
use crate::clock::{Clock, TokioClock};
use crate::election::Strategy;
use crate::guard::Check;
use crate::promises::Promises;
use crate::store::Store;
use crate::timing::Timing;
use crate::token::Token;

/// All cases of this file.
pub(super) const CASES: &[(&str, Extent, Case)] = &[
    ("the-best-score-wins", Essential, |bench| Box::pin(the_best_score_wins(bench))),
    ("succession-is-in-order", Essential, |bench| Box::pin(succession_is_in_order(bench))),
    ("a-crashed-leader-is-replaced-in-time", Essential, |bench| Box::pin(a_crashed_leader_is_replaced_in_time(bench))),
    ("a-leader-hands-over-to-a-better-candidate", Essential, |bench| Box::pin(a_leader_hands_over(bench))),
    ("a-leader-resigns-to-the-best", Essential, |bench| Box::pin(a_leader_resigns_to_the_best(bench))),
    ("a-leader-resigns-to-a-named-candidate", Full, |bench| Box::pin(a_leader_resigns_to_a_named_candidate(bench))),
    ("an-unknown-score-leads-only-alone", Full, |bench| Box::pin(an_unknown_score_leads_only_alone(bench))),
    ("a-never-candidate-never-leads", Full, |bench| Box::pin(a_never_candidate_never_leads(bench))),
    ("a-partitioned-leader-stops-and-comes-back", Full, |bench| Box::pin(a_partitioned_leader_comes_back(bench))),
    ("a-leader-behind-a-cut-proxy-is-replaced", Essential, |bench| {
        Box::pin(a_leader_behind_a_cut_proxy_is_replaced(bench))
    }),
    ("a-paused-leader-wakes-up-without-leadership", Full, |bench| {
        Box::pin(a_paused_leader_wakes_up_without_leadership(bench))
    }),
    ("a-slow-clock-within-the-bound-is-safe", Full, |bench| Box::pin(a_slow_clock_is_safe(bench))),
    ("a-lease-lost-in-the-campaign-does-not-win", Essential, |bench| Box::pin(a_lost_lease_does_not_win(bench))),
    ("a-lost-lease-leads-to-a-new-campaign", Essential, |bench| Box::pin(a_lost_lease_campaigns_again(bench))),
    ("a-restart-of-the-store-keeps-one-leader", Full, |bench| Box::pin(a_restart_keeps_one_leader(bench))),
    ("first-come-has-one-leader", Full, |bench| Box::pin(first_come_has_one_leader(bench))),
    ("two-hundred-candidates", Full, |bench| Box::pin(two_hundred_candidates(bench))),
];

async fn the_best_score_wins(bench: &Bench<'_>) -> CaseResult {
    let mut crew = Crew::new(bench);
    crew.join_all(&[("a", 3), ("b", 9), ("c", 5)]).await?;
    same("the leader", crew.leader().await?.0, "b".to_owned())?;
    crew.end()
}

async fn succession_is_in_order(bench: &Bench<'_>) -> CaseResult {
    let mut crew = Crew::new(bench);
    crew.join_all(&[("a", 1), ("b", 4), ("c", 2), ("d", 3)]).await?;
    for (expected, rest) in [("b", &["d", "c", "a"][..]), ("d", &["c", "a"]), ("c", &["a"])] {
        same("the leader", crew.leader().await?.0, expected.to_owned())?;
        crew.wait_for_list(expected, rest).await?;
        crew.crash(expected);
    }
    same("the last leader", crew.leader().await?.0, "a".to_owned())?;
    crew.end()
}

async fn a_crashed_leader_is_replaced_in_time(bench: &Bench<'_>) -> CaseResult {
    let mut crew = Crew::new(bench);
    crew.join("a", Some(2)).await?;
    crew.join("b", Some(1)).await?;
    same("the leader", crew.leader().await?.0, "a".to_owned())?;
    crew.wait_for_list("a", &["b"]).await?;
    let promises = bench.connect().await?.promises();
    crew.crash("a");
    let crashed = Instant::now();
    same("the next leader", crew.leader().await?.0, "b".to_owned())?;
    let bound = bench.ttl() * (promises.late_factor + 1) + promises.late;
    same("whether it took too long", crashed.elapsed() > bound, false)?;
    crew.end()
}

async fn a_leader_hands_over(bench: &Bench<'_>) -> CaseResult {
    let mut crew = Crew::new(bench);
    crew.resign = ResignConfig {
        hold: Span(crew.timing.review.0 * 2),
        cooldown: Span(crew.timing.review.0),
        ..ResignConfig::default()
    };
    crew.join("a", Some(100)).await?;
    same("the leader", crew.leader().await?.0, "a".to_owned())?;
    crew.join_all(&[("b", 105), ("c", 150)]).await?;
    same("the better candidate", crew.leader().await?.0, "c".to_owned())?;
    crew.end()
}

async fn a_leader_resigns_to_the_best(bench: &Bench<'_>) -> CaseResult {
    let mut crew = Crew::new(bench);
    crew.join_all(&[("a", 3), ("b", 1), ("c", 2)]).await?;
    same("the leader", crew.leader().await?.0, "a".to_owned())?;
    crew.wait_for_list("a", &["c", "b"]).await?;
    crew.candidate("a").resign(None).await;
    let resigned = Instant::now();
    same("the next leader", crew.leader().await?.0, "c".to_owned())?;
    same("whether it waited for the lease", resigned.elapsed() > bench.ttl() / 2, false)?;
    crew.end()
}

async fn a_leader_resigns_to_a_named_candidate(bench: &Bench<'_>) -> CaseResult {
    let mut crew = Crew::new(bench);
    crew.join_all(&[("a", 3), ("b", 1), ("c", 2)]).await?;
    same("the leader", crew.leader().await?.0, "a".to_owned())?;
    crew.wait_for_list("a", &["c", "b"]).await?;
    crew.candidate("a").resign(Some("b")).await;
    same("the next leader", crew.leader().await?.0, "b".to_owned())?;
    crew.end()
}

async fn an_unknown_score_leads_only_alone(bench: &Bench<'_>) -> CaseResult {
    let mut crew = Crew::new(bench);
    crew.join("z", None).await?;
    crew.join("a", Some(-5)).await?;
    same("the leader", crew.leader().await?.0, "a".to_owned())?;
    crew.crash("a");
    same("the next leader", crew.leader().await?.0, "z".to_owned())?;
    crew.end()
}

async fn a_never_candidate_never_leads(bench: &Bench<'_>) -> CaseResult {
    let mut crew = Crew::new(bench);
    crew.never = true;
    crew.join("n", Some(100)).await?;
    crew.never = false;
    crew.join("a", Some(1)).await?;
    same("the leader", crew.leader().await?.0, "a".to_owned())?;
    crew.crash("a");
    crew.join("b", Some(1)).await?;
    same("the next leader", crew.leader().await?.0, "b".to_owned())?;
    crew.end()
}

async fn a_partitioned_leader_comes_back(bench: &Bench<'_>) -> CaseResult {
    let mut crew = Crew::new(bench);
    crew.join("a", Some(2)).await?;
    crew.join("b", Some(1)).await?;
    same("the leader", crew.leader().await?.0, "a".to_owned())?;
    crew.store("a").cut();
    // That the guard of "a" is false by now is checked by the witness.
    same("the leader of the rest", crew.leader().await?.0, "b".to_owned())?;
    crew.store("a").mend();
    crew.wait_for_list("b", &["a"]).await?;
    crew.candidate("b").resign(None).await;
    same("the leader after the partition", crew.leader().await?.0, "a".to_owned())?;
    crew.end()
}

/// Nothing arrives in either direction, and no connection is closed. When the network is back, all of them are reset.
async fn a_leader_behind_a_cut_proxy_is_replaced(bench: &Bench<'_>) -> CaseResult {
    let Some(connect) = bench.factory.connect_through_proxy(&bench.election) else {
        return Ok(Some("this store has no network".into()));
    };
    let Proxied { store, link } = connect.await.map_err(|error| format!("cannot connect: {error}"))?;
    let mut crew = Crew::new(bench);
    crew.join_on(store, "a", Some(2)).await?;
    crew.join("b", Some(1)).await?;
    same("the leader", crew.leader().await?.0, "a".to_owned())?;
    crew.wait_for_list("a", &["b"]).await?;
    link.cut();
    // That the guard of "a" is false by now is checked by the witness.
    same("the leader of the rest", crew.leader().await?.0, "b".to_owned())?;
    link.mend();
    crew.wait_for_list("b", &["a"]).await?;
    crew.candidate("b").resign(None).await;
    same("the leader after the cut", crew.leader().await?.0, "a".to_owned())?;
    crew.end()
}

/// The thread of "a" stands still, as after SIGSTOP, until "b" leads. When it continues, no task has run yet.
async fn a_paused_leader_wakes_up_without_leadership(bench: &Bench<'_>) -> CaseResult {
    if !bench.factory.has_real_time() {
        return Ok(Some("the time of this test stands still with its thread".into()));
    }
    let mut crew = Crew::new(bench);
    crew.join("a", Some(1)).await?;
    let (_, first) = crew.leader().await?;
    let second = std::thread::scope(|scope| scope.spawn(|| lead_once(bench)).join());
    let leads = crew.valid();
    let second = second.map_err(|_| "the thread of the other candidate panicked")??;
    same("who leads when the paused leader wakes up", leads, None)?;
    same("whether the token is higher", second > first, true)?;
    same("the leader afterwards", crew.leader().await?.0, "a".to_owned())?;
    crew.end()
}

/// A candidate in a thread and a runtime of its own, which leads once and leaves.
fn lead_once(bench: &Bench<'_>) -> Result<Token, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let lead = async {
        let store = bench.connect().await?;
        let builder = Candidate::builder(store, "b").timing(Timing::for_ttl(bench.ttl()));
        let candidate = builder.clock(Arc::new(TokioClock::start())).join().map_err(|error| error.to_string())?;
        candidate.set_score(1.0).await.map_err(|error| error.to_string())?;
        let token = candidate.campaign().await.map_err(|error| error.to_string())?.token();
        candidate.leave().await;
        Ok(token)
    };
    // The limit of the case does not hold here: its thread stands still.
    let limit = bench.ttl() * 20 + Duration::from_secs(30);
    let limited = async { timeout(limit, lead).await.map_err(|_| format!("b does not lead after {limit:?}"))? };
    runtime.map_err(|error| error.to_string())?.block_on(limited)
}

async fn a_slow_clock_is_safe(bench: &Bench<'_>) -> CaseResult {
    let mut crew = Crew::new(bench);
    // It loses nine thousandths, and the bound is ten.
    crew.clock = Arc::new(SlowClock { inner: TokioClock::start(), permille: 991 });
    crew.join("a", Some(2)).await?;
    crew.clock = Arc::new(TokioClock::start());
    crew.join("b", Some(1)).await?;
    same("the leader", crew.leader().await?.0, "a".to_owned())?;
    crew.crash("a");
    same("the next leader", crew.leader().await?.0, "b".to_owned())?;
    crew.end()
}

/// etcd's `Campaign`: the lease is lost after it was granted and before the candidate wins.
async fn a_lost_lease_does_not_win(bench: &Bench<'_>) -> CaseResult {
    let mut crew = Crew::new(bench);
    crew.join("a", Some(1)).await?;
    crew.wait_for_candidates(1).await?;
    crew.store("a").end_leases().await.map_err(|error| error.to_string())?;
    // It gets another lease by itself, and wins with that one: the record names a lease that lives.
    same("the leader", crew.leader().await?.0, "a".to_owned())?;
    let store = bench.connect().await?;
    let record = crew.candidate("a").leader().record.ok_or("no leader record")?;
    let lease = store.read(crate::store::Target::Lease(record.lease)).await.map_err(|error| error.to_string())?;
    same("whether the leader's lease is alive", lease.is_some(), true)?;
    crew.end()
}

/// client-go: losing the lease ends the process. Here it ends the term, and the candidate campaigns again.
async fn a_lost_lease_campaigns_again(bench: &Bench<'_>) -> CaseResult {
    let mut crew = Crew::new(bench);
    crew.join("a", Some(1)).await?;
    let (_, first) = crew.leader().await?;
    crew.store("a").end_leases().await.map_err(|error| error.to_string())?;
    let (id, second) = crew.leader().await?;
    same("the leader and whether its token is higher", (id.as_str(), second > first), ("a", true))?;
    crew.end()
}

async fn a_restart_keeps_one_leader(bench: &Bench<'_>) -> CaseResult {
    let Some(restart) = bench.factory.restart() else {
        return Ok(Some("this store cannot be restarted here".into()));
    };
    let mut crew = Crew::new(bench);
    crew.join("a", Some(2)).await?;
    crew.join("b", Some(1)).await?;
    crew.leader().await?;
    restart.await.map_err(|error| error.to_string())?;
    // Whether the leader survives depends on the store. In any case leadership can move afterwards.
    let leader = loop {
        if let Some(id) = crew.valid() {
            break id;
        }
        crew.leader().await?;
    };
    crew.candidate(&leader).resign(None).await;
    crew.leader().await?;
    crew.end()
}

async fn first_come_has_one_leader(bench: &Bench<'_>) -> CaseResult {
    let mut crew = Crew::new(bench);
    crew.strategy = Strategy::FirstCome;
    for id in ["a", "b", "c"] {
        crew.join(id, None).await?;
    }
    let (first, _) = crew.leader().await?;
    crew.crash(&first);
    let (second, _) = crew.leader().await?;
    same("whether the crashed one leads", first == second, false)?;
    crew.end()
}

async fn two_hundred_candidates(bench: &Bench<'_>) -> CaseResult {
    const CANDIDATES: i64 = 200;
    let mut crew = Crew::new(bench);
    // All of them share one thread, and a leader that is too busy to renew its lease would be replaced.
    crew.timing = patient(bench.ttl() * 2);
    for number in 0..CANDIDATES {
        crew.join(&format!("c{number:03}"), Some(number)).await?;
    }
    crew.wait_for_candidates(CANDIDATES as usize).await?;
    // Those who came first may have elected a leader before the others came; the list then has the best of all.
    let (first, _) = crew.leader().await?;
    let ids: Vec<String> = (0..CANDIDATES).rev().map(|number| format!("c{number:03}")).collect();
    let others: Vec<&str> = ids.iter().map(String::as_str).filter(|id| *id != first).collect();
    crew.wait_for_list(&first, &others[..crew.timing.list_length]).await?;
    crew.crash(&first);
    same("the best of the rest", crew.leader().await?.0, others[0].to_owned())?;
    crew.end()
}

/// The candidates of one case.
struct Crew<'a> {
    bench: &'a Bench<'a>,
    witness: Arc<Witness>,
    terms: mpsc::Receiver<(String, Token)>,
    report: mpsc::Sender<(String, Token)>,
    members: BTreeMap<String, (Candidate, Arc<Faulty>)>,
    tasks: JoinSet<()>,
    /// The last failure of the store that each candidate has reported.
    troubles: Arc<Mutex<BTreeMap<String, String>>>,
    timing: Timing,
    resign: ResignConfig,
    strategy: Strategy,
    clock: Arc<dyn Clock>,
    never: bool,
}

impl<'a> Crew<'a> {
    fn new(bench: &'a Bench<'a>) -> Self {
        let (report, terms) = mpsc::channel(1024);
        Self {
            bench,
            witness: Arc::default(),
            terms,
            report,
            members: BTreeMap::new(),
            tasks: JoinSet::new(),
            troubles: Arc::default(),
            timing: patient(bench.ttl()),
            resign: ResignConfig { enabled: true, ..ResignConfig::default() },
            strategy: Strategy::BestScore,
            clock: Arc::new(TokioClock::start()),
            never: false,
        }
    }

    /// A candidate on a connection of its own, which campaigns until it crashes.
    async fn join(&mut self, id: &str, score: Option<i64>) -> Result<(), String> {
        self.join_on(self.bench.connect().await?, id, score).await
    }

    /// All at once, so that a slow connection of one does not give the others time to elect without it.
    async fn join_all(&mut self, candidates: &[(&str, i64)]) -> Result<(), String> {
        let mut stores = Vec::new();
        for _ in candidates {
            stores.push(self.bench.connect().await?);
        }
        for ((id, score), store) in candidates.iter().zip(stores) {
            self.join_on(store, id, Some(*score)).await?;
        }
        Ok(())
    }

    async fn join_on(&mut self, store: Arc<dyn Store>, id: &str, score: Option<i64>) -> Result<(), String> {
        let store = Arc::new(Faulty::new(store));
        let builder = Candidate::builder(store.clone(), id).timing(self.timing.clone()).clock(self.clock.clone());
        let builder = builder.resign(self.resign).strategy(self.strategy).never(self.never);
        let candidate = builder.join().map_err(|error| error.to_string())?;
        if let Some(score) = score {
            candidate.set_score(score as f64).await.map_err(|error| error.to_string())?;
        }
        let (witness, report, id) = (self.witness.clone(), self.report.clone(), id.to_owned());
        self.members.insert(id.clone(), (candidate.clone(), store));
        let (mut watched, troubles, of) = (candidate.clone(), self.troubles.clone(), id.clone());
        self.tasks.spawn(async move {
            while let Some(error) = watched.trouble().await {
                troubles.lock().unwrap_or_else(PoisonError::into_inner).insert(of.clone(), error.to_string());
            }
        });
        self.tasks.spawn(async move {
            while let Ok(mut guard) = candidate.campaign().await {
                witness.begins(&id, guard.check());
                if report.send((id.clone(), guard.token())).await.is_err() {
                    return;
                }
                guard.ended().await;
            }
        });
        Ok(())
    }

    /// The next leader and its token.
    async fn leader(&mut self) -> Result<(String, Token), String> {
        let limit = leader_limit(self.bench, &self.bench.connect().await?.promises());
        let next = timeout(limit, self.terms.recv()).await;
        let next = next.map_err(|_| format!("nobody leads after {limit:?}; {}", self.trouble()))?;
        self.witness.verdict()?;
        next.ok_or_else(|| "all candidates are gone".to_owned())
    }

    /// The candidate whose guard is valid now.
    fn valid(&self) -> Option<String> {
        self.witness.valid()
    }

    fn candidate(&self, id: &str) -> &Candidate {
        &self.members[id].0
    }

    fn store(&self, id: &str) -> &Faulty {
        &self.members[id].1
    }

    /// Nothing that the candidate sends reaches the store any more.
    fn crash(&mut self, id: &str) {
        self.store(id).cut();
    }

    /// Waits until the leader has written this succession list.
    async fn wait_for_list(&self, leader: &str, expected: &[&str]) -> Result<(), String> {
        use crate::record::{Record, Succession};
        let store = self.bench.connect().await?;
        let mut watch = store.watch(crate::store::Target::Succession).await.map_err(|error| error.to_string())?;
        let limit = self.bench.ttl() * 10 + Duration::from_secs(30);
        let wait = async {
            loop {
                let entry = watch.next().await.map_err(|error| error.to_string())?;
                let list = entry.and_then(|entry| Succession::decode(&entry.value).ok());
                if list.is_some_and(|list| list.by == leader && list.list.iter().map(|one| &one.id).eq(expected)) {
                    return Ok(());
                }
            }
        };
        let late = |_| format!("the list of {leader} never was {expected:?}; {}", self.trouble());
        timeout(limit, wait).await.map_err(late)?
    }

    /// What the candidates say about the store, for a case that failed.
    fn trouble(&self) -> String {
        let troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        format!("the last failures of the store: {troubles:?}")
    }

    /// Waits until that many candidates are in the store.
    async fn wait_for_candidates(&self, count: usize) -> Result<(), String> {
        let store = self.bench.connect().await?;
        let limit = self.bench.ttl() * 10 + Duration::from_secs(30);
        let wait = async {
            while store.list().await.map_err(|error| error.to_string())?.len() < count {
                tokio::time::sleep(self.bench.ttl() / 50).await;
            }
            Ok(())
        };
        timeout(limit, wait).await.map_err(|_| format!("fewer than {count} candidates"))?
    }

    fn end(mut self) -> CaseResult {
        self.tasks.abort_all();
        self.witness.verdict().map(|()| None)
    }
}

/// Five times the usual time to wait for others. On a busy machine a candidate may be published late, and the others must
/// not elect without it; or it may be late for its turn, and the next one must not take it.
fn patient(ttl: Duration) -> Timing {
    let timing = Timing::for_ttl(ttl);
    Timing { settle: Span(timing.settle.0 * 5), stagger: Span(timing.stagger.0 * 5), ..timing }
}

/// The time within which somebody has to lead, whatever happened before.
fn leader_limit(bench: &Bench<'_>, promises: &Promises) -> Duration {
    bench.ttl() * (promises.late_factor + 10) + promises.late + Duration::from_secs(10)
}

/// Checks every beginning of a term.
#[derive(Default)]
struct Witness {
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    terms: Vec<(String, Check)>,
    wrong: Option<String>,
}

impl Witness {
    fn begins(&self, id: &str, check: Check) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let token = check.token();
        let mut wrong = seen.wrong.take();
        for (other, term) in &seen.terms {
            if term.is_leader() {
                wrong.get_or_insert(format!("{other} still leads with {} when {id} begins {token}", term.token()));
            }
            if term.token() >= token {
                wrong.get_or_insert(format!("{id} got token {token} after {} of {other}", term.token()));
            }
        }
        seen.wrong = wrong;
        seen.terms.push((id.to_owned(), check));
    }

    fn verdict(&self) -> Result<(), String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.wrong.clone().map_or(Ok(()), Err)
    }

    fn valid(&self) -> Option<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.terms.iter().rev().find(|(_, term)| term.is_leader()).map(|(id, _)| id.clone())
    }
}

/// A clock that runs slow.
struct SlowClock {
    inner: TokioClock,
    permille: u64,
}

impl Clock for SlowClock {
    fn now(&self) -> Time {
        Time((u128::from(self.inner.now().0) * u128::from(self.permille) / 1000) as u64)
    }
}
