//! The examples do what they say.

#[path = "../examples/best_connected.rs"]
#[expect(dead_code, reason = "its main is not called")]
mod best_connected;
#[path = "../examples/singleton_job.rs"]
#[expect(dead_code, reason = "its main is not called")]
mod singleton_job;

#[tokio::test]
async fn a_singleton_job_runs_once_at_a_time() {
    let url = "mem://tests/singleton";
    let run = |id| singleton_job::run_job(url, id, 3);
    let (first, second) = tokio::join!(run("a"), run("b"));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!((first.min(second), first.max(second)), (1, 2), "one after the other, each under a token of its own");
}

#[tokio::test]
async fn the_best_connected_replica_leads() {
    let (first, second) = best_connected::follow_the_clients().await.unwrap();
    assert_eq!((first.as_str(), second.as_str()), ("lisbon", "oslo"));
}
