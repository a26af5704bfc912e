//! A job that runs in one process at a time, however many are started.
//!
//! Start it several times with a store that they share: `cargo run --example singleton_job -- etcd://127.0.0.1/job a`.
//! One of them counts. Stop it, and another one continues, under a higher token.

use std::time::Duration;

use pole_elect::{Candidate, Check, Strategy, stores};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "mem://".to_owned());
    let id = args.next().unwrap_or_else(|| format!("process-{}", std::process::id()));
    run_job(&url, &id, 10).await?;
    Ok(())
}

/// Runs the job to its end, as soon as this process is the one. Returns the token under which it ended.
pub(crate) async fn run_job(url: &str, id: &str, rounds: u32) -> Result<u64, Box<dyn std::error::Error>> {
    let store = stores::open(&url.parse()?).await?;
    // Any process is as good as another, so the first one that comes may lead.
    let candidate = Candidate::builder(store, id).strategy(Strategy::FirstCome).ttl(Duration::from_secs(2)).join()?;
    // If leadership is lost, the job is cancelled at its next await and begins again with the next campaign.
    let token = candidate.run(|check| job(check, rounds)).await?;
    candidate.leave().await;
    Ok(token)
}

async fn job(check: Check, rounds: u32) -> u64 {
    for round in 1..=rounds {
        // Between two awaits time may have passed. Ask again before anything that must be done by one process only.
        if check.is_leader() {
            println!("round {round} under token {}", check.token());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    check.token().number()
}
