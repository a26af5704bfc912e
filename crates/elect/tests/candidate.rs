//! The interface of a candidate, on the in-process store and in paused time.

use std::sync::Arc;
use std::time::Duration;

use pole_elect::clock::TokioClock;
use pole_elect::store::{Store, Target};
use pole_elect::stores::MemStore;
use pole_elect::{CampaignError, Candidate, InvalidSettings, YieldReason};
use tokio::sync::mpsc;

fn candidate(store: &MemStore, id: &str) -> Candidate {
    let store: Arc<dyn Store> = Arc::new(store.clone());
    let builder = Candidate::builder(store, id).ttl(Duration::from_secs(2));
    builder.clock(Arc::new(TokioClock::start())).join().unwrap()
}

#[tokio::test(start_paused = true)]
async fn one_campaign_at_a_time() {
    let one = candidate(&MemStore::new(), "a");
    let (first, second) = tokio::join!(one.campaign(), one.campaign());
    let guard = first.unwrap();
    assert_eq!(second.unwrap_err(), CampaignError::Busy);
    assert_eq!(one.campaign().await.unwrap_err(), CampaignError::Busy, "the guard is still held");
    drop(guard);
    one.campaign().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_does_not_campaign_never_leads() {
    let store = MemStore::new();
    let (idle, eager) = (candidate(&store, "idle"), candidate(&store, "eager"));
    idle.set_score(100.0).await.unwrap();
    eager.set_score(1.0).await.unwrap();
    // A campaign that is given up counts for nothing.
    assert!(tokio::time::timeout(Duration::from_millis(1), idle.campaign()).await.is_err());
    let guard = eager.campaign().await.unwrap();
    assert!(guard.is_leader());
}

#[tokio::test(start_paused = true)]
async fn a_guard_ends_when_its_candidate_leaves_and_leaving_waits_for_it() {
    let store = MemStore::new();
    let one = candidate(&store, "a");
    let mut guard = one.campaign().await.unwrap();
    let check = guard.check();
    let leaving = tokio::spawn({
        let one = one.clone();
        async move { one.leave().await }
    });
    assert_eq!(guard.ended().await, YieldReason::Resigned);
    assert!(!check.is_leader() && !leaving.is_finished());
    drop(guard);
    leaving.await.unwrap();
    assert!(store.list().await.unwrap().is_empty());
    assert_eq!(one.campaign().await.unwrap_err(), CampaignError::Left);
}

#[tokio::test(start_paused = true)]
async fn a_guard_keeps_its_candidate_in_the_election_without_a_handle() {
    let store = MemStore::new();
    let mut changes = candidate(&store, "watcher").changes();
    let one = candidate(&store, "a");
    let guard = one.campaign().await.unwrap();
    drop(one);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(guard.is_leader());
    drop(guard);
    // Nobody is left, so the record says that the leader has resigned, and its lease goes.
    let mut watch = store.watch(Target::Leader).await.unwrap();
    while !String::from_utf8_lossy(&watch.next().await.unwrap().unwrap().value).contains("\"resigned\":true") {}
    while changes.next().await.is_some() {}
}

#[tokio::test(start_paused = true)]
async fn a_callback_hears_of_every_leader() {
    let store = MemStore::new();
    let (one, observer) = (candidate(&store, "a"), candidate(&store, "observer"));
    let (sender, mut heard) = mpsc::unbounded_channel();
    observer.on_change(move |change| drop(sender.send((change.id().map(str::to_owned), change.token().counter()))));
    let guard = one.campaign().await.unwrap();
    while heard.recv().await.unwrap() != (Some("a".to_owned()), 1) {}
    drop(guard);
    assert_eq!(heard.recv().await.unwrap(), (None, 1));
}

#[tokio::test(start_paused = true)]
async fn a_priority_counts_before_scores_until_it_expires() {
    let store = MemStore::new();
    let (low, high) = (candidate(&store, "low"), candidate(&store, "high"));
    low.set_score(1.0).await.unwrap();
    high.set_score(9.0).await.unwrap();
    low.set_priority(1, Some(Duration::from_secs(5))).await;
    let first = tokio::select! {
        guard = low.campaign() => guard.unwrap(),
        _ = high.campaign() => panic!("the priority counts"),
    };
    tokio::time::sleep(Duration::from_secs(6)).await;
    drop(first);
    tokio::select! {
        _ = low.campaign() => panic!("the priority has expired"),
        guard = high.campaign() => assert!(guard.unwrap().is_leader()),
    };
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused() {
    let store: Arc<dyn Store> = Arc::new(MemStore::new());
    let join = |id: &str, ttl| Candidate::builder(store.clone(), id).ttl(ttl).join().map(|_| ()).unwrap_err();
    assert_eq!(join("", Duration::from_secs(1)), InvalidSettings::Id { got: 0 });
    assert!(join("a", Duration::from_micros(1)).to_string().contains("at least"));
    assert!(join("a", Duration::from_millis(5)).to_string().contains("between"));
}
