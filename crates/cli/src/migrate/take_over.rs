//! `pole migrate take-over`: leads the operator through the end of a move, and permits Pole to start.
//!
//! The copy follows on this thread, and another one asks all servers of Apache several times a second. Each round of
//! answers gives the next step (`pole_migrate::TakeOver`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use pole_api::commands::TakenOver;
use pole_migrate::{Answer, ApacheServer, Control, Position, Progress, Replica, Step, TakeOver, ask, copy_history};
use pole_storage::{is_following, mark_following, unmark_following};
use pole_types::{ServerId, Zxid};

use super::args::TakeOverArgs;
use super::ensemble::{Source, failed};
use super::follow::{Lines, is_level, stop_on_signal};
use super::hex;
use super::stop_command::StopCommand;
use crate::check::{counted, print_as};
use crate::failure::{Failure, Kind};
use crate::{print, print_error};

pub(crate) fn run(args: &TakeOverArgs, json: bool) -> Result<(), Failure> {
    let source = Source::load(&args.follow)?;
    mark_targets(args)?;
    let mut replica = source.open()?;
    let stop = stop_on_signal()?;
    let ended = AtomicBool::new(false);
    let zxid = std::thread::scope(|scope| {
        let (sender, rounds) = sync_channel(1);
        let (servers, ended) = (&source.follow.servers, &ended);
        scope.spawn(move || poll(servers, &sender, ended));
        let result = lead(args, json, &source, &mut replica, &rounds, &stop);
        ended.store(true, Ordering::Relaxed);
        // A round that waits to be taken would keep its thread.
        drop(rounds);
        result
    })?;
    finish(args, json, &source, replica, zxid)
}

/// Asks all servers again and again. A round is taken before the next one begins.
fn poll(servers: &[ApacheServer], rounds: &SyncSender<BTreeMap<ServerId, Answer>>, ended: &AtomicBool) {
    while !ended.load(Ordering::Relaxed) {
        let began = Instant::now();
        let answers = std::thread::scope(|scope| {
            let asked: Vec<_> =
                servers.iter().map(|server| (server.id, scope.spawn(|| ask(server, ASK_LIMIT)))).collect();
            let answer = |thread: std::thread::ScopedJoinHandle<'_, Answer>| {
                thread.join().unwrap_or_else(|_| Answer::Unknown("the question failed".to_owned()))
            };
            asked.into_iter().map(|(id, thread)| (id, answer(thread))).collect::<BTreeMap<_, _>>()
        });
        if rounds.send(answers).is_err() {
            return;
        }
        std::thread::sleep(ROUND.saturating_sub(began.elapsed()));
    }
}

/// Follows until the copy is whole. Returns its last transaction.
fn lead(
    args: &TakeOverArgs,
    json: bool,
    source: &Source,
    replica: &mut Replica,
    rounds: &Receiver<BTreeMap<ServerId, Answer>>,
    stop: &AtomicBool,
) -> Result<Zxid, Failure> {
    let mut guide = Guide {
        source,
        take_over: TakeOver::new(source.voters.clone(), args.down.iter().copied().map(ServerId).collect(), source.tick),
        stopper: StopCommand::new(args.stop_command.clone()),
        began: Instant::now(),
        said: String::new(),
        json,
        stopping: false,
    };
    let (mut lines, mut outcome) = (Lines::new(json), None);
    let limit = Duration::from_millis(args.timeout.0);
    let followed = source.follow.run(replica, &mut |progress| {
        if !guide.stopping {
            lines.show(progress);
        }
        if let Ok(answers) = rounds.try_recv() {
            outcome = guide.step(progress, &answers);
        }
        let gave_up = if stop.load(Ordering::Relaxed) {
            Some("stopped by a signal".to_owned())
        } else {
            (guide.began.elapsed() > limit).then(|| format!("not done after {}", args.timeout.text()))
        };
        if let (None, Some(why)) = (&outcome, gave_up) {
            let last = if guide.said.is_empty() { "no server of Apache was asked yet" } else { &guide.said };
            let text = format!("{why}; the copy is not complete, and Apache goes on. The last step was: {last}");
            outcome = Some(Err(Failure::failed(text)));
        }
        if outcome.is_some() { Control::Stop } else { Control::Continue }
    });
    followed.map_err(|error| failed(&error))?;
    outcome.unwrap_or_else(|| Err(Failure::failed("it ended early")))
}

/// Tells the operator what to do.
struct Guide<'a> {
    source: &'a Source,
    take_over: TakeOver,
    stopper: StopCommand,
    began: Instant,
    /// The last thing said, which is not repeated.
    said: String,
    json: bool,
    /// Servers are to be stopped: no lines of progress any more.
    stopping: bool,
}

impl Guide<'_> {
    /// The end, if this is one.
    fn step(&mut self, progress: &Progress, answers: &BTreeMap<ServerId, Answer>) -> Option<Result<Zxid, Failure>> {
        for failure in self.stopper.failures() {
            print_error(&format!("pole: {failure}\n"));
        }
        if let Some(why) = self.unlisted(progress) {
            return Some(Err(Failure::bad_input(why)));
        }
        // Before anything is stopped, the copy has to have seen a ping and be level with it.
        let up_to_date = if self.stopping { progress.up_to_date } else { is_level(progress) };
        let position = Position { last: progress.last, epoch: progress.epoch, up_to_date };
        match self.take_over.step(self.began.elapsed(), position, answers) {
            Step::Wait(why) if self.stopping => self.say(&format!("waits: {why}")),
            // The lines of progress say it.
            Step::Wait(_) => {}
            Step::Unreachable(id, why) => self.say(&format!(
                "{} cannot be asked ({why}). If its machine is off for good, run this again with --down {id}.",
                self.listed(&[id])
            )),
            Step::StopFollowers(ids) => {
                if !self.stopping {
                    self.stopping = true;
                    self.say(&format!("The copy is level at {}.", hex(progress.last)));
                }
                self.say(&format!("Stop {} now.", self.listed(&ids)));
                self.run_command(&ids);
            }
            Step::StartFollower(ids) => {
                self.say(&format!(
                    "Apache has no leader any more, and it was not asked for its last transaction in time. Nothing is lost. \
                     Start {} again, or as many of them as make a quorum: only then does it say what it has committed.",
                    self.listed(&ids)
                ));
                self.stopper = StopCommand::new(None);
            }
            Step::StopLeader(id, zxid) => {
                self.say(&format!(
                    "All others are stopped. The leader is at {}, and so is the copy: nothing is missing. Stop {} now.",
                    hex(zxid),
                    self.listed(&[id])
                ));
                self.run_command(&[id]);
            }
            Step::Done(zxid) => return Some(Ok(zxid)),
            Step::Refuse(why) => return Some(Err(Failure::new(Kind::Failed, why))),
        }
        None
    }

    /// Why the configuration is not that of the ensemble, if it is not. A server that nobody asks could be part of a
    /// quorum.
    fn unlisted(&self, progress: &Progress) -> Option<String> {
        let listed: BTreeSet<ServerId> = self.source.follow.servers.iter().map(|server| server.id).collect();
        let names = |ids: &BTreeSet<ServerId>| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        (!progress.members.is_empty() && progress.members != listed).then(|| {
            format!(
                "the ensemble has the servers {}, and the configuration lists {}: give --apache its present configuration",
                names(&progress.members),
                names(&listed)
            )
        })
    }

    fn run_command(&mut self, ids: &[ServerId]) {
        let source = self.source;
        for server in source.follow.servers.iter().filter(|server| ids.contains(&server.id)) {
            if let Some(said) = self.stopper.run(server) {
                self.print(&said);
            }
        }
    }

    fn listed(&self, ids: &[ServerId]) -> String {
        let servers = self.source.follow.servers.iter().filter(|server| ids.contains(&server.id));
        servers.map(ToString::to_string).collect::<Vec<_>>().join(" and ")
    }

    fn say(&mut self, text: &str) {
        if self.said != text {
            text.clone_into(&mut self.said);
            self.print(text);
        }
    }

    fn print(&self, text: &str) {
        if !self.json {
            // If nobody reads it, the operator still sees what the servers do.
            let _ = print(&format!("[{:>7.3} s] {text}\n", self.began.elapsed().as_secs_f64()));
        }
    }
}

/// Refuses a target with a history before Apache is touched, and marks the others: a server that is started on one too
/// early would be blank.
fn mark_targets(args: &TakeOverArgs) -> Result<(), Failure> {
    let failed = |error: pole_storage::FileError| Failure::failed(error.to_string());
    for dir in &args.copy_to {
        if dir.join("version-2").exists() && !is_following(dir).map_err(failed)? {
            let dir = dir.display();
            let text = format!("--copy-to {dir}: it has a history of its own; move its version-2 away");
            return Err(Failure::bad_input(text));
        }
        mark_following(dir).map_err(failed)?;
    }
    Ok(())
}

/// Copies the history to the other servers, and permits all to start. Their own mark is the last to go, so none starts
/// before all have the history: two blank servers would be a quorum.
fn finish(args: &TakeOverArgs, json: bool, source: &Source, replica: Replica, zxid: Zxid) -> Result<(), Failure> {
    let (nodes, sessions) = (replica.tree().node_count(), replica.tree().session_count());
    let (epoch, digest) = (replica.epochs().1.0, replica.tree().digest().to_string());
    let failed = |error: String| Failure::failed(error);
    let last = replica.close().map_err(|error| failed(error.to_string()))?;
    if last != zxid {
        return Err(failed(format!("the copy ends at {}, expected {}: report it", hex(last), hex(zxid))));
    }
    let storage = &source.config.storage;
    let mut directories = vec![storage.data_dir.display().to_string()];
    for dir in &args.copy_to {
        let copied = copy_history((&storage.data_dir, &storage.log_dir), (dir, dir));
        copied.map_err(|error| {
            let own = storage.data_dir.display();
            failed(format!(
                "{error}. Apache is stopped, and {own}/version-2 is complete: copy it to the other Pole servers yourself, \
                 then remove the files called following beside it and there"
            ))
        })?;
        directories.push(dir.display().to_string());
    }
    unmark_following(&storage.data_dir).map_err(|error| failed(error.to_string()))?;
    let taken = TakenOver { zxid: hex(zxid), epoch, nodes, sessions, digest, directories };
    let left = source.config.members().iter().count().saturating_sub(taken.directories.len());
    print_as(&taken, json, |taken| text(taken, left, &args.follow.config))
}

/// What was done, and what is left to do: `left` servers of Pole have no history yet.
fn text(taken: &TakenOver, left: usize, config: &Path) -> String {
    let TakenOver { zxid, epoch, nodes, sessions, digest, directories } = taken;
    let (nodes, sessions) = (counted(*nodes, "znode"), counted(*sessions, "session"));
    let copy = match left {
        0 => String::new(),
        count => format!(
            "{count} more of Pole's servers need this history, by a copy of version-2 or a take-over of their own. Start none \
             before all have it.\n"
        ),
    };
    format!(
        "Nothing of Apache runs. The copy has everything up to {zxid}: {nodes}, {sessions}, epoch {epoch}, digest \
         {digest}.\n\
         Complete: {}\n{copy}\
         Start all servers of Pole now: pole server --config {}\n\
         Disable the service of Apache, so that nothing starts it again.\n",
        directories.join(", "),
        config.display()
    )
}

/// How long a server may take to answer. One that takes longer is asked again.
const ASK_LIMIT: Duration = Duration::from_millis(500);

/// How often all servers are asked. A leader without followers answers for at most one tick.
const ROUND: Duration = Duration::from_millis(25);
