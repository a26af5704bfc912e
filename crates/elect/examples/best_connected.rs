//! Of three replicas the best connected one leads, and leadership follows when the network changes.
//!
//! Each replica measures its round trips to the clients and publishes the score. A leader hands over only to a replica
//! that is better by a margin, for a while, and not too often, so noise does not move it.

use std::sync::Arc;
use std::time::Duration;

use pole_elect::store::Store;
use pole_elect::stores::MemStore;
use pole_elect::{Candidate, Timing};
use pole_oracle::ResignConfig;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (first, second) = follow_the_clients().await?;
    println!("first {first}, and after the clients had moved {second}");
    Ok(())
}

/// Three replicas, clients near Lisbon, then near Oslo. Returns who led before and after.
pub(crate) async fn follow_the_clients() -> Result<(String, String), Box<dyn std::error::Error>> {
    let store: Arc<dyn Store> = Arc::new(MemStore::new());
    let timing = Timing::for_ttl(Duration::from_secs(1));
    // The policy of an example, in a hurry. The default waits for ten seconds, and a minute between two hand-overs.
    let resign = ResignConfig { hold: timing.review, cooldown: timing.review, ..ResignConfig::default() };
    let mut replicas = Vec::new();
    for (site, rtt_ms) in [("lisbon", 4.0), ("london", 21.0), ("oslo", 38.0)] {
        let builder = Candidate::builder(store.clone(), site).timing(timing.clone()).resign(resign);
        let replica = builder.oracle("round-trips", 1).join()?;
        replica.set_score(score(rtt_ms)).await?;
        tokio::spawn(serve(replica.clone()));
        replicas.push(replica);
    }
    let first = leader_other_than(&replicas[0], None).await;
    for (replica, rtt_ms) in replicas.iter().zip([41.0, 19.0, 3.0]) {
        replica.set_score(score(rtt_ms)).await?;
    }
    let second = leader_other_than(&replicas[0], Some(&first)).await;
    Ok((first, second))
}

/// Higher is better, so a shorter round trip scores higher.
fn score(rtt_ms: f64) -> f64 {
    1000.0 / rtt_ms
}

/// Leads whenever elected, until the end of the term.
async fn serve(replica: Candidate) {
    while let Ok(mut guard) = replica.campaign().await {
        let reason = guard.ended().await;
        println!("{} stops: {reason}", replica.id());
    }
}

async fn leader_other_than(replica: &Candidate, last: Option<&str>) -> String {
    let mut changes = replica.changes();
    loop {
        match replica.leader().id() {
            Some(id) if Some(id) != last => return id.to_owned(),
            Some(_) | None => changes.next().await,
        };
    }
}
