//! A store that goes back to an earlier state does not give out a token twice, as long as somebody remembers it.

use std::sync::Arc;
use std::time::Duration;

use pole_elect::clock::TokioClock;
use pole_elect::store::Store;
use pole_elect::stores::MemStore;
use pole_elect::{Candidate, Token, admin};

fn candidate(store: &MemStore, id: &str, remembered: Token) -> Candidate {
    let store: Arc<dyn Store> = Arc::new(store.clone());
    let builder = Candidate::builder(store, id).ttl(Duration::from_secs(2)).remember(remembered);
    builder.clock(Arc::new(TokioClock::start())).join().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_remembers_raises_the_epoch() {
    let store = MemStore::new();
    let empty = store.image();
    let one = candidate(&store, "a", Token::ZERO);
    let first = one.campaign().await.unwrap();
    assert_eq!(first.token(), Token::new(0, 1));
    drop(first);
    let mut second = one.campaign().await.unwrap();
    assert_eq!(second.token(), Token::new(0, 2));
    // Everything is lost, the record and the lease.
    store.restore(empty);
    second.ended().await;
    drop(second);
    let third = one.campaign().await.unwrap();
    assert_eq!(third.token(), Token::new(1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_token_remembered_over_a_restart_counts() {
    let store = MemStore::new();
    let guard = candidate(&store, "a", Token::new(4, 9)).campaign().await.unwrap();
    assert_eq!(guard.token(), Token::new(5, 1));
}

#[tokio::test(start_paused = true)]
async fn an_operator_raises_the_epoch_without_disturbing_the_leader() {
    let store = MemStore::new();
    assert_eq!(admin::raise_epoch(&store, 0).await, Ok(1));
    let one = candidate(&store, "a", Token::ZERO);
    let guard = one.campaign().await.unwrap();
    assert_eq!(guard.token(), Token::new(1, 1));
    assert_eq!(admin::raise_epoch(&store, 7).await, Ok(7));
    assert!(guard.is_leader());
    // Its resignation meets a record that it has not seen yet.
    drop(guard);
    let guard = one.campaign().await.unwrap();
    assert_eq!(guard.token(), Token::new(7, 1));
}

#[tokio::test(start_paused = true)]
async fn an_operator_moves_leadership() {
    let store = MemStore::new();
    let (a, b) = (candidate(&store, "a", Token::ZERO), candidate(&store, "b", Token::ZERO));
    a.set_score(2.0).await.unwrap();
    b.set_score(1.0).await.unwrap();
    for one in [&a, &b] {
        let one = one.clone();
        tokio::spawn(async move {
            while let Ok(mut guard) = one.campaign().await {
                guard.ended().await;
            }
        });
    }
    let mut changes = b.changes();
    while changes.next().await.unwrap().id() != Some("a") {}
    let nobody = admin::resign(&store, Some("c".to_owned()), Duration::from_secs(20)).await;
    assert_eq!(nobody, Err(admin::AdminError::NoCandidate { id: "c".to_owned() }));
    let next = admin::resign(&store, Some("b".to_owned()), Duration::from_secs(20)).await.unwrap();
    assert_eq!((next.id.as_str(), next.token), ("b", Token::new(0, 2)));
    let snapshot = admin::snapshot(&store).await.unwrap();
    assert!(snapshot.alive);
    let order: Vec<&str> = snapshot.candidates.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(order, ["a", "b"], "by score, under either leader");
}
