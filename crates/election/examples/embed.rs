//! Embeds the election in a custom service: five workers elect the one with the most free memory.
//!
//! Run: `cargo run -p pole-election --example embed`
//!
//! Each worker is a thread with a mailbox. The election needs only what is below: a `Host` that answers from memory,
//! and a loop that feeds events in and carries outputs out. In a real service, replace the mailboxes by sockets and
//! the score by a measure of how well a server would lead.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use pole_election::*;

/// The application behind the election.
struct Worker {
    free_mb: i64,
}

impl Host for Worker {
    fn assess(&mut self, _epoch: u64) -> Option<Assessment> {
        // Smaller is better in a score, so more free memory is a smaller number.
        let rank = Rank::Known(Score::from(-self.free_mb));
        let inputs = vec![Input { name: "free_mb".into(), value: self.free_mb }];
        Some(Assessment { rank, version: Zxid::ZERO, fingerprint: 1, inputs })
    }
    fn standing(&self) -> Standing {
        Standing::default() // no replicated log here: all histories are equal
    }
    fn round_trip(&self, _peer: ServerId) -> Option<Span> {
        Some(Span::from_ms(1)) // None would mean: wait up to T for a silent voter
    }
    fn ranks_below(&self, _peer: ServerId, _choice: &Proposal) -> bool {
        false // this service has no gossip
    }
    fn validate(&self, _proposal: &Proposal) -> Result<(), String> {
        Ok(())
    }
}

enum Event {
    Message(ServerId, Box<Message>),
    LeaderLost,
    Stop,
}

fn main() {
    let voters = Voters::new((1..=5).map(ServerId));
    let (mailboxes, receivers): (BTreeMap<_, _>, Vec<_>) = voters
        .iter()
        .map(|id| {
            let (sender, receiver) = channel();
            ((id, sender), (id, receiver))
        })
        .unzip();
    let (report, reports) = channel();
    let threads: Vec<_> = receivers
        .into_iter()
        .zip([900, 4200, 1600, 3100, 2500])
        .map(|((me, mailbox), free_mb)| {
            let (config, peers, report) = (Config::new(me, voters.clone()), mailboxes.clone(), report.clone());
            thread::spawn(move || run(config, Worker { free_mb }, &mailbox, &peers, &report))
        })
        .collect();

    let leader = agree(&reports, 5);
    println!("\nworker {leader} stops; the others notice and elect again\n");
    mailboxes[&leader].send(Event::Stop).expect("a live worker");
    let alive = mailboxes.iter().filter(|(id, _)| **id != leader);
    alive.for_each(|(_, mailbox)| mailbox.send(Event::LeaderLost).expect("a live worker"));
    let next = agree(&reports, 4);
    println!("\nfrom {leader} to {next}");

    mailboxes.values().for_each(|mailbox| drop(mailbox.send(Event::Stop)));
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

/// Waits until `workers` workers have elected, and prints the leader's record.
fn agree(reports: &Receiver<(ServerId, Elected)>, workers: usize) -> ServerId {
    let reports: Vec<_> = reports.iter().take(workers).collect();
    let (_, own) = reports.iter().find(|(id, elected)| *id == elected.leader).expect("the leader's own report");
    reports.iter().for_each(|(id, elected)| println!("worker {id}: my leader is {}", elected.leader));
    println!("{}", own.record);
    own.leader
}

/// Runs one worker: feeds events to the election and carries out its outputs.
fn run(
    config: Config,
    mut host: Worker,
    mailbox: &Receiver<Event>,
    peers: &BTreeMap<ServerId, Sender<Event>>,
    report: &Sender<(ServerId, Elected)>,
) {
    let me = config.me;
    let mut election = Election::new(config);
    let mut timers: BTreeMap<Timer, Instant> = BTreeMap::new();
    let mut out = Vec::new();
    peers.keys().for_each(|peer| election.link_up(*peer));
    election.start(Cause::Start, &mut host, &mut out);
    loop {
        for output in out.drain(..) {
            match output {
                // A message to a stopped worker is lost; the election tolerates that.
                Output::Send { to, message } => drop(peers[&to].send(Event::Message(me, Box::new(message)))),
                Output::Arm { timer, after } => {
                    timers.insert(timer, Instant::now() + Duration::from_nanos(after.0));
                }
                Output::Cancel(timer) => drop(timers.remove(&timer)),
                Output::Elected(elected) => report.send((me, elected)).expect("main waits for us"),
                Output::Invalid { from, reason } => eprintln!("worker {from}: {reason}"),
            }
        }
        let due = timers.iter().map(|(timer, at)| (*at, *timer)).min();
        let pause = due.map_or(Duration::from_secs(60), |(at, _)| at.saturating_duration_since(Instant::now()));
        match mailbox.recv_timeout(pause) {
            Ok(Event::Message(from, message)) => {
                if let Err(error) = election.receive(from, *message, &mut host, &mut out) {
                    eprintln!("worker {me}: {error}");
                }
            }
            Ok(Event::LeaderLost) => election.start(Cause::LeaderLost, &mut host, &mut out),
            Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                if let Some((_, timer)) = due {
                    timers.remove(&timer);
                    election.expired(timer, &mut host, &mut out);
                }
            }
        }
    }
}
