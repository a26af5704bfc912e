//! Of three replicas the best connected one leads, and leadership follows when the clients move.
//!
//! Each replica measures its round trips to the clients and publishes the score. A leader hands over only to a replica
//! that is better by a margin, for a while, and not too often, so noise does not move it.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pole_elect::store::Store;
use pole_elect::stores::MemStore;
use pole_elect::{Candidate, Timing};
use pole_oracle::ResignConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

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
    let (distances, clients) = start_clients(Distances::from([("lisbon", 2), ("london", 60), ("oslo", 60)])).await?;
    let mut replicas = Vec::new();
    for site in ["lisbon", "london", "oslo"] {
        let builder = Candidate::builder(store.clone(), site).timing(timing.clone()).resign(resign);
        let replica = builder.oracle("round-trips", 1).join()?;
        tokio::spawn(measure(replica.clone(), clients));
        tokio::spawn(serve(replica.clone()));
        replicas.push(replica);
    }
    let first = leader_other_than(&replicas[0], None).await;
    distances.send_replace(Distances::from([("lisbon", 60), ("london", 60), ("oslo", 2)]));
    let second = leader_other_than(&replicas[0], Some(&first)).await;
    Ok((first, second))
}

/// Publishes the shortest of some round trips, again and again. Higher is better, so a shorter one scores higher.
async fn measure(replica: Candidate, clients: SocketAddr) -> io::Result<()> {
    loop {
        let mut shortest = Duration::MAX;
        for _ in 0..3 {
            let start = Instant::now();
            let mut stream = TcpStream::connect(clients).await?;
            stream.write_all(replica.id().as_bytes()).await?;
            stream.shutdown().await?;
            stream.read_u8().await?;
            shortest = shortest.min(start.elapsed());
        }
        replica.set_score(1.0 / shortest.as_secs_f64()).await.map_err(io::Error::other)?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
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

/// The round trip to each site, in milliseconds.
type Distances = BTreeMap<&'static str, u64>;

/// Clients that answer a site after the time that the network in between would take.
async fn start_clients(distances: Distances) -> io::Result<(watch::Sender<Distances>, SocketAddr)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (sender, distances) = watch::channel(distances);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let distances = distances.clone();
            tokio::spawn(async move {
                let mut site = String::new();
                (&mut stream).take(64).read_to_string(&mut site).await?;
                let distance_ms = distances.borrow().get(site.as_str()).copied().unwrap_or_default();
                tokio::time::sleep(Duration::from_millis(distance_ms)).await;
                stream.write_u8(0).await
            });
        }
    });
    Ok((sender, address))
}
