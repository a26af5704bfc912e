//! `pole bench`: a load on an operator's own ensemble, and how long its requests take.
//!
//! Each client has a session and a node of its own: ephemeral, below a container. So nothing is left behind, also if
//! the command is killed: the nodes end with the sessions, and the container with the last of them.
//!
//! Without `--rate`, each client sends the next request when the last one is answered. With it, requests have a time at
//! which they are due, and their latency counts from that time: a server that stops for a second makes all requests of
//! that second late, not only those that were under way.
//!
//! A session that loses its connection resumes it, as in an application. What was lost with the connection is an error.

mod load;
mod mix;
mod report;

pub(crate) use mix::Mix;

use std::rc::Rc;
use std::time::Duration;

use pole_client::asynchronous::{Event, Session};
use pole_client::open_acl;
use pole_jute::{CreateMode, CreateRequest, DeleteRequest, ErrorCode, Request};
use tokio::runtime::Builder;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, timeout, timeout_at};

use crate::args::BenchArgs;
use crate::check::print_as;
use crate::failure::{Failure, Kind};
use crate::servers::{Attempts, Server, resolve, timing};

use load::{Client, Plan};
use report::Meter;

pub(crate) fn run(args: &BenchArgs, json: bool) -> Result<(), Failure> {
    let servers = resolve(&args.server)?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|why| Failure::failed(format!("cannot start a runtime: {why}")))?;
    let meter = LocalSet::new().block_on(&runtime, bench(args, &servers, json))?;
    let result = meter.result(args);
    print_as(&result, json, report::text)?;
    match result.requests {
        0 => Err(Failure::failed(format!("no request was answered; {}", meter.last_error()))),
        _ => Ok(()),
    }
}

async fn bench(args: &BenchArgs, servers: &[Server], json: bool) -> Result<Rc<Meter>, Failure> {
    let limit = Duration::from_millis(args.timeout.0);
    let folder = format!("{FOLDER}-{}", std::process::id());
    let first = connect(servers, 0, limit).await?;
    make(&first, &folder).await?;
    let mut clients = Vec::new();
    for number in 0..args.clients {
        let session = connect(servers, number, limit).await?;
        clients.push(Client::open(session, format!("{folder}/{number}"), args.size as usize).await?);
    }
    let meter = Rc::new(Meter::default());
    let begin = Instant::now() + WARM_UP;
    let plan = Plan {
        mix: args.mix.clone(),
        size: args.size as usize,
        outstanding: args.outstanding(),
        interval: args.rate.map(|rate| Duration::from_secs_f64(f64::from(args.clients) / f64::from(rate))),
        begin,
        end: begin + Duration::from_secs(args.seconds),
    };
    let running: Vec<_> = clients
        .into_iter()
        .enumerate()
        .map(|(number, client)| spawn_local(client.run(plan.clone(), number, Rc::clone(&meter))))
        .collect();
    if !json {
        spawn_local(report::progress(Rc::clone(&meter), begin, args.seconds));
    }
    for client in running {
        let _ = client.await;
    }
    // A container is deleted by the leader some time after its last child; nobody has to wait for that.
    let _ = timeout(CLOSE_LIMIT, first.ask(Request::Delete(DeleteRequest { path: folder, version: -1 }))).await;
    let _ = timeout(CLOSE_LIMIT, first.ask(Request::CloseSession)).await;
    Ok(meter)
}

/// Opens a session; different clients begin with different servers.
async fn connect(servers: &[Server], number: u32, limit: Duration) -> Result<Session, Failure> {
    let addresses = servers.iter().map(|server| server.address).collect();
    let (session, mut events) = Session::open(addresses, number as usize, timing(limit));
    let mut attempts = Attempts::new(servers);
    let deadline = Instant::now() + limit;
    loop {
        match timeout_at(deadline, events.recv()).await.ok().flatten().map(|event| attempts.note(event)) {
            Some(None) => {}
            Some(Some(true)) => break,
            Some(Some(false)) | None => return Err(attempts.failure(limit)),
        }
    }
    spawn_local(drain(events));
    Ok(session)
}

/// The channel of events is unbounded.
async fn drain(mut events: UnboundedReceiver<Event>) {
    while events.recv().await.is_some() {}
}

async fn make(session: &Session, folder: &str) -> Result<(), Failure> {
    let flags = CreateMode::Container.number();
    let request = CreateRequest { path: folder.to_owned(), data: None, acl: open_acl(), flags };
    match session.ask(Request::CreateContainer(request)).await {
        Ok(_) => Ok(()),
        Err(pole_client::asynchronous::Refusal::Code(ErrorCode::NoAuth, _)) => {
            Err(Failure::failed(format!("{folder} cannot be created: / has an ACL that does not allow it")))
        }
        Err(why) => Err(Failure::new(Kind::Failed, format!("{folder} cannot be created: {why:?}"))),
    }
}

/// Requests before this time are not counted.
const WARM_UP: Duration = Duration::from_millis(500);
const CLOSE_LIMIT: Duration = Duration::from_secs(2);
const FOLDER: &str = "/pole-bench";
