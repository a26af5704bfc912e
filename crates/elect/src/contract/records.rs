//! What the [`Store`](crate::store::Store) trait promises, case by case.

use std::time::Duration;

use bytes::Bytes;

use super::Extent::{Essential, Full};
use super::{Bench, Case, CaseResult, Extent, same};
use crate::candidate::random;
use crate::promises::Judge;
use crate::store::{BoxFuture, Entry, LeaseId, Plain, RECORD_MAX, Renewed, Store, Swap, Swapped, Target, Watch};

/// All cases of this file.
pub(super) const CASES: &[(&str, Extent, Case)] = &[
    ("a-swap-needs-the-present-revision", Essential, |bench| Box::pin(a_swap_needs_the_present_revision(bench))),
    ("one-of-many-swaps-wins", Essential, |bench| Box::pin(one_of_many_swaps_wins(bench))),
    ("a-lease-lives-while-it-is-renewed", Full, |bench| Box::pin(a_lease_lives_while_it_is_renewed(bench))),
    ("a-lease-ends-without-renewal", Essential, |bench| Box::pin(a_lease_ends_without_renewal(bench))),
    ("a-lease-that-is-gone-stays-gone", Essential, |bench| Box::pin(a_lease_that_is_gone_stays_gone(bench))),
    ("a-take-over-needs-the-holder-gone", Essential, |bench| Box::pin(a_take_over_needs_the_holder_gone(bench))),
    ("a-take-over-needs-an-own-lease", Essential, |bench| Box::pin(a_take_over_needs_an_own_lease(bench))),
    ("the-list-has-the-live-records", Essential, |bench| Box::pin(the_list_has_the_live_records(bench))),
    ("a-watch-begins-with-the-present", Essential, |bench| Box::pin(a_watch_begins_with_the_present(bench))),
    ("a-watch-hears-of-every-last-state", Essential, |bench| Box::pin(a_watch_hears_of_every_last_state(bench))),
    ("a-watch-hears-of-a-withdrawal", Essential, |bench| Box::pin(a_watch_hears_of_a_withdrawal(bench))),
    ("a-watch-hears-of-an-expiry", Full, |bench| Box::pin(a_watch_hears_of_an_expiry(bench))),
    ("records-up-to-the-limit-fit", Essential, |bench| Box::pin(records_up_to_the_limit_fit(bench))),
    ("a-restart-keeps-plain-records", Essential, |bench| Box::pin(a_restart_keeps_plain_records(bench))),
];

async fn a_swap_needs_the_present_revision(bench: &Bench<'_>) -> CaseResult {
    let (a, b) = (bench.connect().await?, bench.connect().await?);
    for record in [Plain::Leader, Plain::Succession] {
        same("the first read", read(&*a, record.into()).await?, None)?;
        let Swapped::Done(first) = swap(&*a, record, None, "1").await? else { return Err("no record made".into()) };
        same("a second creation", swap(&*b, record, None, "x").await?, Swapped::Conflict)?;
        let entry = read(&*b, record.into()).await?.ok_or("the record is not there")?;
        same("the record after its creation", (text(&entry), entry.revision), ("1".to_owned(), first))?;
        let Swapped::Done(second) = swap(&*b, record, Some(first), "2").await? else {
            return Err("a swap under the present revision failed".into());
        };
        same("whether revisions differ", first != second, true)?;
        same("a swap under an old revision", swap(&*a, record, Some(first), "x").await?, Swapped::Conflict)?;
        same("the record at last", read(&*a, record.into()).await?.map(|entry| text(&entry)), Some("2".to_owned()))?;
    }
    Ok(None)
}

async fn one_of_many_swaps_wins(bench: &Bench<'_>) -> CaseResult {
    const CLIENTS: usize = 8;
    let first = bench.connect().await?;
    let Swapped::Done(mut revision) = swap(&*first, Plain::Leader, None, "0").await? else {
        return Err("no record made".into());
    };
    for round in 0..5 {
        let mut tasks = tokio::task::JoinSet::new();
        for client in 0..CLIENTS {
            let store = bench.connect().await?;
            let value = format!("{round}.{client}");
            tasks.spawn(async move {
                swap(&*store, Plain::Leader, Some(revision), &value).await.map(|swapped| (swapped, value))
            });
        }
        let mut winners = Vec::new();
        while let Some(result) = tasks.join_next().await {
            match result.map_err(|error| error.to_string())?? {
                (Swapped::Done(new), value) => winners.push((new, value)),
                (Swapped::Conflict, _) => {}
                (other @ (Swapped::StillHeld | Swapped::LeaseGone), _) => return Err(format!("unexpected {other:?}")),
            }
        }
        same("winners", winners.len(), 1)?;
        let (new, value) = winners.remove(0);
        let entry = read(&*first, Target::Leader).await?.ok_or("the record is not there")?;
        same("the record of the winner", (text(&entry), entry.revision), (value, new))?;
        revision = new;
    }
    Ok(None)
}

async fn a_lease_lives_while_it_is_renewed(bench: &Bench<'_>) -> CaseResult {
    let (a, b) = (bench.connect().await?, bench.connect().await?);
    let lease = lease_id();
    let granted = publish(&*a, lease, "1", bench.ttl()).await?;
    for _ in 0..9 {
        tokio::time::sleep(granted / 3).await;
        same("a renewal in time", renew(&*a, lease, None).await?, Renewed::Extended)?;
    }
    same("the record", read(&*b, Target::Lease(lease)).await?.map(|entry| text(&entry)), Some("1".to_owned()))?;
    same("a renewal with content", renew(&*a, lease, Some("2")).await?, Renewed::Extended)?;
    same("the new content", read(&*b, Target::Lease(lease)).await?.map(|entry| text(&entry)), Some("2".to_owned()))?;
    Ok(None)
}

/// The lease does not end early, and not later than promised.
async fn a_lease_ends_without_renewal(bench: &Bench<'_>) -> CaseResult {
    let (a, b) = (bench.connect().await?, bench.connect().await?);
    let promises = a.promises();
    let lease = lease_id();
    let sent = tokio::time::Instant::now();
    let granted = publish(&*a, lease, "1", bench.ttl()).await?;
    // The watcher must know the record before the owner goes silent: where clients judge, this is when it begins to count.
    let mut watch = b.watch(Target::Lease(lease)).await.map_err(|error| error.to_string())?;
    next(&mut *watch, bench.ttl()).await?.ok_or("the record is not there")?;
    abandon(a);
    let limit = granted * promises.late_factor + granted * 2 + promises.late + SLACK;
    same("the record at its end", next(&mut *watch, limit).await?, None)?;
    let lived = sent.elapsed();
    if lived + promises.early < granted {
        return Err(format!("granted {granted:?}, ended after {lived:?}"));
    }
    same("the record after its end", read(&*b, Target::Lease(lease)).await?, None)?;
    Ok(None)
}

/// The promise on which take-overs rest: after anybody saw the lease gone, its owner cannot revive it.
async fn a_lease_that_is_gone_stays_gone(bench: &Bench<'_>) -> CaseResult {
    let (a, b) = (bench.connect().await?, bench.connect().await?);
    let withdrawn = lease_id();
    publish(&*a, withdrawn, "1", bench.ttl()).await?;
    a.withdraw(withdrawn).await.map_err(|error| error.to_string())?;
    same("a withdrawn record", read(&*b, Target::Lease(withdrawn)).await?, None)?;
    same("its renewal", renew(&*a, withdrawn, None).await?, Renewed::Gone)?;
    same("its renewal with content", renew(&*a, withdrawn, Some("2")).await?, Renewed::Gone)?;
    same("the record after that", read(&*b, Target::Lease(withdrawn)).await?, None)?;
    a.withdraw(withdrawn).await.map_err(|error| format!("a second withdrawal: {error}"))?;
    Ok(None)
}

async fn a_take_over_needs_the_holder_gone(bench: &Bench<'_>) -> CaseResult {
    let (a, b) = (bench.connect().await?, bench.connect().await?);
    let (holder, taker) = (lease_id(), lease_id());
    publish(&*a, holder, "a", bench.ttl()).await?;
    publish(&*b, taker, "b", bench.ttl()).await?;
    let take = |expected, gone, alive, value: &str| Swap {
        record: Plain::Leader,
        expected,
        value: Bytes::copy_from_slice(value.as_bytes()),
        gone,
        alive,
    };
    let first = do_swap(&*a, take(None, None, Some(holder), "a")).await?;
    let Swapped::Done(revision) = first else { return Err(format!("the first holder got {first:?}")) };
    let early = do_swap(&*b, take(Some(revision), Some(holder), Some(taker), "b")).await?;
    same("a take-over while the holder lives", early, Swapped::StillHeld)?;
    a.withdraw(holder).await.map_err(|error| error.to_string())?;
    let taken = do_swap(&*b, take(Some(revision), Some(holder), Some(taker), "b")).await?;
    same("a take-over when it is gone", matches!(taken, Swapped::Done(_)), true)?;
    let late = do_swap(&*a, take(Some(revision), Some(holder), None, "a")).await?;
    same("a second take-over from the same revision", late, Swapped::Conflict)?;
    Ok(None)
}

/// etcd's `Campaign` could win with a lease that it had lost.
async fn a_take_over_needs_an_own_lease(bench: &Bench<'_>) -> CaseResult {
    let a = bench.connect().await?;
    if !a.promises().transactions {
        return Ok(Some("the store has no transactions; the deadline of the client protects".into()));
    }
    let lease = lease_id();
    publish(&*a, lease, "a", bench.ttl()).await?;
    a.withdraw(lease).await.map_err(|error| error.to_string())?;
    let value = Bytes::from_static(b"a");
    let swap = Swap { record: Plain::Leader, expected: None, value, gone: None, alive: Some(lease) };
    same("a take-over without a lease", do_swap(&*a, swap).await?, Swapped::LeaseGone)?;
    same("the record", read(&*a, Target::Leader).await?, None)?;
    Ok(None)
}

async fn the_list_has_the_live_records(bench: &Bench<'_>) -> CaseResult {
    let (a, b) = (bench.connect().await?, bench.connect().await?);
    let list = async || -> Result<Vec<(LeaseId, Bytes)>, String> {
        let listed = b.list().await.map_err(|error| error.to_string())?;
        let mut listed: Vec<_> = listed.into_iter().map(|leased| (leased.lease, leased.value)).collect();
        listed.sort();
        Ok(listed)
    };
    same("an empty list", list().await?, Vec::new())?;
    // Plain records are not candidates.
    swap(&*a, Plain::Leader, None, "l").await?;
    swap(&*a, Plain::Succession, None, "s").await?;
    let mut leases: Vec<LeaseId> = (0..5).map(|_| lease_id()).collect();
    leases.sort();
    for lease in &leases {
        publish(&*a, *lease, &lease.to_string(), bench.ttl().max(Duration::from_secs(10))).await?;
    }
    let expected: Vec<_> = leases.iter().map(|lease| (*lease, Bytes::from(lease.to_string()))).collect();
    same("the list", list().await?, expected.clone())?;
    a.withdraw(leases[0]).await.map_err(|error| error.to_string())?;
    same("the list after a withdrawal", list().await?, expected[1..].to_vec())?;
    Ok(None)
}

async fn a_watch_begins_with_the_present(bench: &Bench<'_>) -> CaseResult {
    let (a, b) = (bench.connect().await?, bench.connect().await?);
    let lease = lease_id();
    for target in [Target::Leader, Target::Succession, Target::Lease(lease)] {
        let mut watch = b.watch(target).await.map_err(|error| error.to_string())?;
        same("an absent record", next(&mut *watch, SLACK).await?, None)?;
    }
    swap(&*a, Plain::Leader, None, "1").await?;
    publish(&*a, lease, "2", bench.ttl()).await?;
    for (target, value) in [(Target::Leader, "1"), (Target::Lease(lease), "2")] {
        let mut watch = b.watch(target).await.map_err(|error| error.to_string())?;
        let entry = next(&mut *watch, SLACK).await?;
        same("a present record", entry.map(|entry| text(&entry)), Some(value.to_owned()))?;
    }
    Ok(None)
}

/// States may be left out, but never the last one.
async fn a_watch_hears_of_every_last_state(bench: &Bench<'_>) -> CaseResult {
    let (a, b) = (bench.connect().await?, bench.connect().await?);
    let mut watch = b.watch(Target::Leader).await.map_err(|error| error.to_string())?;
    same("the first state", next(&mut *watch, SLACK).await?, None)?;
    let mut revision = None;
    for burst in 0..4 {
        for step in 0..=burst * 5 {
            match swap(&*a, Plain::Leader, revision, &format!("{burst}.{step}")).await? {
                Swapped::Done(new) => revision = Some(new),
                other @ (Swapped::Conflict | Swapped::StillHeld | Swapped::LeaseGone) => {
                    return Err(format!("the only writer got {other:?}"));
                }
            }
        }
        let mut seen = None;
        while seen != revision {
            seen = next(&mut *watch, SLACK).await?.map(|entry| entry.revision);
        }
    }
    Ok(None)
}

/// A watcher that never hears of a deletion follows a leader that is gone (etcd's `Observe`).
async fn a_watch_hears_of_a_withdrawal(bench: &Bench<'_>) -> CaseResult {
    let (a, b) = (bench.connect().await?, bench.connect().await?);
    let lease = lease_id();
    publish(&*a, lease, "1", bench.ttl().max(Duration::from_secs(30))).await?;
    let mut watch = b.watch(Target::Lease(lease)).await.map_err(|error| error.to_string())?;
    next(&mut *watch, SLACK).await?.ok_or("the record is not there")?;
    a.withdraw(lease).await.map_err(|error| error.to_string())?;
    same("the record after its withdrawal", next(&mut *watch, SLACK).await?, None)?;
    Ok(None)
}

async fn a_watch_hears_of_an_expiry(bench: &Bench<'_>) -> CaseResult {
    let (a, b) = (bench.connect().await?, bench.connect().await?);
    let promises = a.promises();
    let lease = lease_id();
    let granted = publish(&*a, lease, "1", bench.ttl()).await?;
    let mut watch = b.watch(Target::Lease(lease)).await.map_err(|error| error.to_string())?;
    next(&mut *watch, SLACK).await?.ok_or("the record is not there")?;
    same("a renewal", renew(&*a, lease, None).await?, Renewed::Extended)?;
    abandon(a);
    let limit = granted * (promises.late_factor + 2) + promises.late + SLACK;
    same("the record after its end", next(&mut *watch, limit).await?, None)?;
    if promises.judge == Judge::Clients {
        return Ok(None);
    }
    let late = bench.connect().await?;
    same("the record for a new client", read(&*late, Target::Lease(lease)).await?, None)?;
    Ok(None)
}

async fn records_up_to_the_limit_fit(bench: &Bench<'_>) -> CaseResult {
    let a = bench.connect().await?;
    let lease = lease_id();
    let large = "x".repeat(RECORD_MAX);
    swap(&*a, Plain::Leader, None, &large).await?;
    publish(&*a, lease, &large, bench.ttl()).await?;
    for target in [Target::Leader, Target::Lease(lease)] {
        same("its size", read(&*a, target).await?.map(|entry| entry.value.len()), Some(RECORD_MAX))?;
    }
    let over = Bytes::from("x".repeat(RECORD_MAX + 1));
    let swap = Swap { record: Plain::Succession, expected: None, value: over, gone: None, alive: None };
    same("whether one byte more is refused", a.swap(swap).await.is_err(), true)?;
    Ok(None)
}

async fn a_restart_keeps_plain_records(bench: &Bench<'_>) -> CaseResult {
    let Some(restart) = bench.factory.restart() else {
        return Ok(Some("this store cannot be restarted here".into()));
    };
    let a = bench.connect().await?;
    swap(&*a, Plain::Leader, None, "1").await?;
    let before = read(&*a, Target::Leader).await?;
    restart.await.map_err(|error| error.to_string())?;
    // The old client must find its way back by itself.
    let deadline = tokio::time::Instant::now() + SLACK;
    let after = loop {
        match a.read(Target::Leader).await {
            Ok(after) => break after,
            Err(error) if tokio::time::Instant::now() > deadline => return Err(format!("after the restart: {error}")),
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    };
    same("the record after the restart", after, before)?;
    Ok(None)
}

/// Drops the last handle of a client without a word to the store, as a crash does.
fn abandon(store: std::sync::Arc<dyn Store>) {
    drop(store);
}

async fn read(store: &dyn Store, target: Target) -> Result<Option<Entry>, String> {
    store.read(target).await.map_err(|error| format!("read of {target}: {error}"))
}

async fn swap(
    store: &dyn Store,
    record: Plain,
    expected: Option<crate::store::Revision>,
    value: &str,
) -> Result<Swapped, String> {
    let value = Bytes::copy_from_slice(value.as_bytes());
    do_swap(store, Swap { record, expected, value, gone: None, alive: None }).await
}

async fn do_swap(store: &dyn Store, swap: Swap) -> Result<Swapped, String> {
    store.swap(swap).await.map_err(|error| format!("swap: {error}"))
}

async fn publish(store: &dyn Store, lease: LeaseId, value: &str, ttl: Duration) -> Result<Duration, String> {
    let value = Bytes::copy_from_slice(value.as_bytes());
    store.publish(lease, value, ttl).await.map(|granted| granted.ttl).map_err(|error| format!("publish: {error}"))
}

async fn renew(store: &dyn Store, lease: LeaseId, value: Option<&str>) -> Result<Renewed, String> {
    let value = value.map(|value| Bytes::copy_from_slice(value.as_bytes()));
    store.renew(lease, value).await.map_err(|error| format!("renew: {error}"))
}

/// The next answer of a watch, within a limit.
fn next(watch: &mut dyn Watch, limit: Duration) -> BoxFuture<'_, Result<Option<Entry>, String>> {
    Box::pin(async move {
        match tokio::time::timeout(limit, watch.next()).await {
            Ok(answer) => answer.map_err(|error| format!("watch: {error}")),
            Err(_) => Err(format!("a watch heard nothing within {limit:?}")),
        }
    })
}

fn lease_id() -> LeaseId {
    LeaseId((u128::from(random()) << 64) | u128::from(random()))
}

fn text(entry: &Entry) -> String {
    String::from_utf8_lossy(&entry.value).into_owned()
}

/// How long an answer may take that depends on nothing but the store's speed.
const SLACK: Duration = Duration::from_secs(10);

/// The time between two attempts to reach a store that restarts.
const RETRY: Duration = Duration::from_millis(50);
