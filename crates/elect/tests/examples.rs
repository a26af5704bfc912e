//! The examples do what they say.

#[path = "../examples/best_connected.rs"]
#[expect(dead_code, reason = "its main is not called")]
mod best_connected;
#[path = "../examples/fenced_service.rs"]
#[expect(dead_code, reason = "its main is not called")]
mod fenced_service;
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

#[tokio::test]
async fn a_service_refuses_a_leader_that_was_replaced() {
    use pole_elect::Token;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(fenced_service::serve(listener));
    let put = async |token| fenced_service::put(&address, token, "x").await.unwrap();
    assert_eq!(put(Token::new(0, 7)).await, "200");
    assert_eq!(put(Token::new(1, 1)).await, "200");
    assert_eq!(put(Token::new(0, 7)).await, "409");
    assert_eq!(put(Token::new(1, 1)).await, "200");
}
