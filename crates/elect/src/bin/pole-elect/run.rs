//! A candidate that runs a command while it leads.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use pole_elect::clock::{BootClock, Clock as _};
use pole_elect::store::Store;
use pole_elect::{Candidate, Guard, Strategy, Timing, YieldReason};
use pole_oracle::ResignConfig;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin, Command};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::RunArgs;
use crate::failure::Failure;
use crate::{log, metrics, score, supervise};

/// Campaigns, runs the command in each term, and ends with the command's exit code when it ends by itself, or with 0
/// after SIGTERM or SIGINT.
pub(crate) async fn run(store: Arc<dyn Store>, args: RunArgs, command: Vec<OsString>) -> Result<ExitCode, Failure> {
    let id = args.id.clone().unwrap_or_default();
    let ttl = args.ttl.map_or(store.promises().ttl_min.max(TTL_DEFAULT), |ttl| ttl.0);
    let early = store.promises().early;
    let candidate = join(store, &args, &id, ttl)?;
    // Where a store may end a lease early, there is less time than the lease has.
    let limits = Limits::new(ttl.saturating_sub(early), args.grace.map(|grace| grace.0))?;
    log::info("starting", &[("id", &id), ("ttl_ms", &ttl.as_millis().to_string())]);
    if let Some(address) = &args.metrics {
        metrics::start(&candidate, address).await?;
    }
    tokio::spawn(report_trouble(candidate.clone()));
    tokio::spawn(report_leader(candidate.clone()));
    score::start(&candidate, &args).await?;
    candidate.set_priority(args.priority, args.priority_for.map(|span| span.0)).await;
    let mut stop = Stop::new()?;
    loop {
        let guard = tokio::select! {
            guard = candidate.campaign() => guard.map_err(Failure::failed)?,
            () = stop.asked() => {
                candidate.leave().await;
                return Ok(ExitCode::SUCCESS);
            }
        };
        let ended = lead(guard, &id, &command, &limits, &mut stop).await;
        if !matches!(ended, Ok(Ended::Term)) {
            // So that the next leader need not wait for the end of our lease.
            candidate.leave().await;
            log::info("stopping", &[]);
        }
        if let Ended::Process(code) = ended? {
            return Ok(code);
        }
    }
}

fn join(store: Arc<dyn Store>, args: &RunArgs, id: &str, ttl: Duration) -> Result<Candidate, Failure> {
    let strategy = if args.first_come { Strategy::FirstCome } else { Strategy::BestScore };
    Candidate::builder(store, id)
        .timing(Timing::for_ttl(ttl))
        .oracle(&args.oracle, args.oracle_version)
        .strategy(strategy)
        .resign(ResignConfig { enabled: !args.stay, ..ResignConfig::default() })
        .never(args.never)
        .join()
        .map_err(Failure::bad_input)
}

/// Why the command has ended.
enum Ended {
    /// The term is over; another campaign follows.
    Term,
    /// This process is to end, with that code.
    Process(ExitCode),
}

/// Runs the command under a guard. The guard is dropped, which lets the next leader begin, after the command has ended.
async fn lead(
    mut guard: Guard,
    id: &str,
    command: &[OsString],
    limits: &Limits,
    stop: &mut Stop,
) -> Result<Ended, Failure> {
    let token = guard.token().to_string();
    log::info("leading", &[("token", &token)]);
    let (mut child, mut orders) = start(&guard, id, command, limits)?;
    let mut told = guard.deadline();
    let mut tick = tokio::time::interval(limits.tick);
    let (mut stopping, mut yielded) = (false, false);
    loop {
        let ended = tokio::select! {
            status = child.wait() => {
                let status = status.map_err(Failure::failed)?;
                let code = u8::try_from(status.code().unwrap_or(1)).unwrap_or(1);
                // The end of leadership is no end of this process, whatever the command makes of SIGTERM.
                let overdue = status.signal() == Some(supervise::OVERDUE.as_raw());
                let by_itself = !yielded && !stopping && !overdue;
                log::info("ended", &[("token", &token), ("code", &code.to_string())]);
                return Ok(match (by_itself, stopping) {
                    (true, _) => Ended::Process(ExitCode::from(code)),
                    (false, true) => Ended::Process(ExitCode::SUCCESS),
                    (false, false) => Ended::Term,
                });
            }
            _ = tick.tick() => {
                let deadline = guard.deadline();
                if deadline > told && !stopping {
                    told = deadline;
                    order(&mut orders, &limits.until(told.0)).await;
                }
                continue;
            }
            reason = guard.ended(), if !yielded => Some(reason),
            () = stop.asked(), if !stopping => None,
        };
        stopping |= ended.is_none();
        yielded |= ended.is_some();
        let reason = ended.unwrap_or(YieldReason::Resigned);
        log::info("resigning", &[("token", &token), ("why", &reason.to_string())]);
        order(&mut orders, &limits.stop(&reason, told.0)).await;
    }
}

fn start(guard: &Guard, id: &str, command: &[OsString], limits: &Limits) -> Result<(Child, ChildStdin), Failure> {
    let program = supervise::this_program().map_err(Failure::failed)?;
    let (soft, hard) = limits.of(guard.deadline().0);
    let mut child = Command::new(program)
        .arg0("pole-elect")
        .arg(supervise::SUPERVISE)
        .args([soft.to_string(), hard.to_string()])
        .args(command)
        .env("POLE_ELECT_TOKEN", guard.token().to_string())
        .env("POLE_ELECT_ID", id)
        .stdin(Stdio::piped())
        // Not in our group: Ctrl-C reaches us, and we end the command in order.
        .process_group(0)
        .spawn()
        .map_err(|error| Failure::failed(format!("cannot start the command: {error}")))?;
    let orders = child.stdin.take().expect("standard input is piped");
    Ok((child, orders))
}

/// A supervisor that has ended does not read; its exit is noticed elsewhere.
async fn order(orders: &mut ChildStdin, line: &str) {
    let _ = orders.write_all(line.as_bytes()).await;
}

/// When the command is asked to end and when it is killed, before the lease can pass on.
struct Limits {
    grace: u64,
    margin: u64,
    tick: Duration,
}

impl Limits {
    fn new(usable: Duration, grace: Option<Duration>) -> Result<Self, Failure> {
        let grace = grace.unwrap_or(usable / 5);
        if grace > usable / 2 {
            let text = format!("--grace must be at most half of the usable lease of {usable:?}, got {grace:?}");
            return Err(Failure::bad_input(text));
        }
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Ok(Self { grace: nanos(grace), margin: nanos(usable / 20), tick: usable / 20 })
    }

    /// SIGTERM and SIGKILL for a deadline.
    fn of(&self, deadline: u64) -> (u64, u64) {
        let hard = deadline.saturating_sub(self.margin);
        (hard.saturating_sub(self.grace), hard)
    }

    fn until(&self, deadline: u64) -> String {
        let (soft, hard) = self.of(deadline);
        format!("until {soft} {hard}\n")
    }

    /// The order at the end of a term. A lease that is lost leaves no time.
    fn stop(&self, reason: &YieldReason, deadline: u64) -> String {
        let hard = match reason {
            YieldReason::DeadlinePassed | YieldReason::LeaseLost | YieldReason::Superseded => 0,
            YieldReason::HandOver { .. } | YieldReason::Resigned => {
                self.of(deadline).1.min(BootClock.now().0 + self.grace)
            }
        };
        format!("stop {hard}\n")
    }
}

/// SIGTERM and SIGINT.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn new() -> Result<Self, Failure> {
        let signal = |kind| signal(kind).map_err(Failure::failed);
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

async fn report_trouble(mut candidate: Candidate) {
    let mut last = String::new();
    while let Some(error) = candidate.trouble().await {
        let text = error.to_string();
        // The same failure again and again is one line.
        if text != last {
            log::warn("store_failed", &[("why", &text)]);
            last = text;
        }
    }
}

async fn report_leader(candidate: Candidate) {
    let mut changes = candidate.changes();
    let mut last = None;
    while let Some(change) = changes.next().await {
        let leader = change.id().map(str::to_owned);
        if leader != last && !change.leading {
            match &leader {
                Some(id) => log::info("following", &[("leader", id), ("token", &change.token().to_string())]),
                None => log::info("vacant", &[]),
            }
        }
        last = leader;
    }
}

const TTL_DEFAULT: Duration = Duration::from_secs(10);
