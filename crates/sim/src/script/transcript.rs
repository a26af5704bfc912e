//! Turns observations into the output of a script.
//!
//! Servers that do the same thing one after another share a line. What is observed at all is decided in
//! `sim::scripting`.

use std::collections::BTreeMap;

use pole_election::{DecidedBy, Record};
use pole_node::Note;
use pole_types::{Cxid, ServerId};
use pole_zab::{Entry, Message};

use super::command::CrashPointArg;
use super::names::{Names, refusal};
use crate::kv::Answer;
use crate::{DurableState, Observation, Response, ServerMessage, id};

/// The output of a script, and the state that its lines depend on.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    /// Why a server abandoned its leader, until it reports the election.
    given_up: BTreeMap<usize, String>,
    /// How each server got its present leader.
    chosen: BTreeMap<usize, Chosen>,
    /// The last election that each server saw end.
    pub(crate) records: BTreeMap<usize, Record>,
    /// Descriptions of the pending requests, by client.
    expected: BTreeMap<(usize, Cxid), String>,
    lines: Vec<Line>,
}

#[derive(Clone, Debug)]
enum Chosen {
    Elected(Record),
    HandedOver,
}

/// A line about one server, or about several that did the same.
#[derive(Debug)]
enum Line {
    Plain(String),
    /// The text for one server, and for several.
    Shared {
        who: Vec<usize>,
        one: String,
        many: String,
    },
}

impl Transcript {
    /// Registers a pending request of a client.
    pub(crate) fn expect(&mut self, client: usize, cxid: Cxid, what: String) {
        self.expected.insert((client, cxid), what);
    }

    /// Drops the pending requests of a client.
    pub(crate) fn forget(&mut self, client: usize) {
        self.expected.retain(|(whose, _), _| *whose != client);
    }

    /// Adds a line.
    pub(crate) fn push_line(&mut self, line: String) {
        self.lines.push(Line::Plain(line));
    }

    /// Adds lines for observations.
    pub(crate) fn record(&mut self, observations: Vec<Observation>, names: &Names) {
        for observation in observations {
            match observation {
                Observation::Noted { server, note } => self.noted(server, note),
                Observation::Leads { server, epoch, quorum } => {
                    let how = match self.chosen.remove(&server) {
                        Some(Chosen::Elected(record)) => format!("by {}", record.decided_by),
                        Some(Chosen::HandedOver) => "by hand-over".to_owned(),
                        None => "without an election".to_owned(),
                    };
                    self.push_line(format!("{} leads, epoch {epoch}, quorum {}, {how}", id(server), group(quorum)));
                }
                Observation::Reached { server, point, disk } => {
                    self.push_line(format!(
                        "{} crashes {}, {}",
                        id(server),
                        CrashPointArg::name(point),
                        on_disk(&disk)
                    ));
                }
                Observation::ReadsLog { server, after } => {
                    self.push_line(format!("{} reads its log after {after} from disk", id(server)));
                }
                Observation::Restored { server, zxid } => {
                    self.push_line(format!("{} has restored its state at {zxid}", id(server)));
                }
                Observation::Halted { server, reason } => self.push_line(format!("{} halts: {reason}", id(server))),
                Observation::Sent { from, to, message } => self.sent(from, to, &message),
                Observation::SimClient { client, action } => {
                    self.push_line(format!("{} {action}", names.name_of_sim_client(client)))
                }
                Observation::ServerMessage { client, message } => self.server_message(client, message, names),
            }
        }
    }

    /// Takes the lines since the last call.
    pub(crate) fn take(&mut self) -> String {
        let lines = self.lines.drain(..).map(Line::text).collect();
        fold(lines).into_iter().map(|line| line + "\n").collect()
    }

    fn noted(&mut self, server: usize, note: Note) {
        match note {
            Note::Electing { cause, .. } => match self.given_up.remove(&server) {
                Some(reason) => self.share(server, format!("elects: {reason}"), format!("elect: {reason}")),
                None if cause == pole_election::Cause::Start => {}
                None => self.share(server, format!("elects: {cause}"), format!("elect: {cause}")),
            },
            Note::Elected(record) => {
                self.records.insert(server, (*record).clone());
                self.chosen.insert(server, Chosen::Elected(*record));
            }
            Note::Serving { leader, .. } => self.follows(server, leader),
            Note::Members { members, version } => {
                self.push_line(format!("{} counts {members} from {version} on", id(server)))
            }
            Note::Resigning { to, cause } => self.push_line(format!("{} resigns for {to}: {cause}", id(server))),
            Note::Unreached { voter, heard_by } => {
                self.push_line(format!("{} does not reach {voter}, which {heard_by} hears", id(server)))
            }
            Note::ResignationAborted { refusal } => {
                self.push_line(format!("{} does not resign: {refusal}", id(server)))
            }
            Note::HandedOver { to } => {
                self.chosen.insert(server, Chosen::HandedOver);
                self.share(server, format!("takes the hand-over to {to}"), format!("take the hand-over to {to}"));
            }
            Note::Abandoned { reason } => drop(self.given_up.insert(server, reason)),
            Note::OutOfOrder { error } => self.push_line(format!("{} closes a connection: {error}", id(server))),
            Note::BadPeer { from, error } => {
                self.push_line(format!("{} closes its link to {from}: {error}", id(server)))
            }
            Note::InvalidScore { reason, .. } => {
                self.share(server, format!("ranks as unknown: {reason}"), format!("rank as unknown: {reason}"));
            }
            Note::BadOracle { version, error } => {
                self.push_line(format!("{} cannot build the oracle of {version}: {error}", id(server)));
            }
            Note::Installed { zxid } => self.push_line(format!("{} installs a snapshot at {zxid}", id(server))),
            Note::DiskHangs => self.push_line(format!("{} finds its disk hanging", id(server))),
            Note::Leading { .. } | Note::Following { .. } | Note::SlowWrite { .. } => {}
        }
    }

    fn follows(&mut self, server: usize, leader: ServerId) {
        match self.chosen.remove(&server) {
            Some(Chosen::Elected(record)) if record.decided_by == DecidedBy::Incumbent => {
                let voters = record.participants.iter().filter(|voter| **voter != id(server)).copied();
                let confirmed = group(voters.collect());
                self.push_line(format!("{} follows {leader}: incumbent, confirmed by {confirmed}", id(server)));
            }
            Some(Chosen::Elected(_) | Chosen::HandedOver) | None => {
                self.share(server, format!("follows {leader}"), format!("follow {leader}"));
            }
        }
    }

    fn sent(&mut self, from: usize, to: ServerId, message: &Message) {
        let from = id(from);
        match message {
            Message::Truncate { to: zxid } => self.push_line(format!("{from} cuts the log of {to} to {zxid}")),
            Message::Entries { entries, .. } => self.push_line(format!("{from} sends {to} {}", ranges(entries.iter()))),
            Message::Snapshot(snapshot) => self.push_line(format!("{from} sends {to} a snapshot at {}", snapshot.zxid)),
            Message::Pull { .. } => self.push_line(format!("{from} pulls from {to}")),
            Message::RefuseEpoch { refused, accepted } => {
                self.push_line(format!("{from} refuses {to} the epoch {refused}, it promised {accepted}"));
            }
            Message::Decline => self.push_line(format!("{from} tells {to} that it does not lead")),
            Message::AckEpoch(promise) => {
                self.push_line(format!("{from} tells {to} that it promised epoch {} before", promise.epoch));
            }
            Message::Hello(_)
            | Message::NewEpoch { .. }
            | Message::Received
            | Message::PullEnd { .. }
            | Message::NewLeader { .. }
            | Message::AckLeader { .. }
            | Message::UpToDate { .. }
            | Message::Propose { .. }
            | Message::Ack { .. }
            | Message::Commit { .. }
            | Message::Handover { .. }
            | Message::TakenOver { .. }
            | Message::Ping { .. }
            | Message::Pong { .. } => {}
        }
    }

    fn server_message(&mut self, client: usize, message: ServerMessage, names: &Names) {
        let name = names.name_of_client(client);
        match message {
            ServerMessage::Attached(response) => self.answered(client, Cxid(0), &response, names),
            ServerMessage::Reply(cxid, response) => self.answered(client, cxid, &response, names),
            ServerMessage::Closed(reason) => self.lost(client, format!("session {name} is closed: {reason}")),
            ServerMessage::Reset => self.lost(client, format!("session {name} loses its connection")),
        }
    }

    fn answered(&mut self, client: usize, cxid: Cxid, response: &Response, names: &Names) {
        let Some(what) = self.expected.remove(&(client, cxid)) else { return };
        let zxid = response.zxid;
        match Answer::decode(&response.body) {
            Some(Answer::Refused(why)) => self.push_line(format!("{what} refused {zxid}: {}", refusal(why))),
            Some(Answer::Holds(value)) if what.starts_with("read ") => {
                self.push_line(format!("{what}: {} at {zxid}", names.name_of_value(value)));
            }
            Some(Answer::Holds(_) | Answer::Session) | None => self.push_line(format!("{what} ok {zxid}")),
        }
    }

    fn lost(&mut self, client: usize, line: String) {
        let unknown: Vec<_> =
            self.expected.range((client, Cxid(0))..).filter(|((whose, _), _)| *whose == client).collect();
        let unknown: Vec<_> = unknown.into_iter().map(|(_, what)| what.as_str()).collect();
        let line = match unknown.is_empty() {
            true => line,
            false => format!("{line}; unknown: {}", unknown.join(", ")),
        };
        self.forget(client);
        self.push_line(line);
    }

    fn share(&mut self, server: usize, one: String, many: String) {
        match self.lines.last_mut() {
            Some(Line::Shared { who, many: same, .. }) if *same == many => who.push(server),
            Some(Line::Plain(_) | Line::Shared { .. }) | None => {
                self.lines.push(Line::Shared { who: vec![server], one, many });
            }
        }
    }
}

impl Line {
    fn text(self) -> String {
        match self {
            Self::Plain(text) => text,
            Self::Shared { mut who, one, many } => {
                let times = who.len();
                who.sort_unstable();
                who.dedup();
                let ids: Vec<_> = who.iter().map(|server| id(*server).to_string()).collect();
                let line = format!("{} {}", ids.join(" "), if ids.len() == 1 { one } else { many });
                if times == ids.len() { line } else { format!("{line} ({times} times)") }
            }
        }
    }
}

/// Folds repetitions: a group of up to four lines that repeats at least three times is printed once, with a count.
fn fold(lines: Vec<String>) -> Vec<String> {
    let mut folded = Vec::new();
    let mut rest = lines.as_slice();
    while !rest.is_empty() {
        let repeats = |period: usize| {
            let same = rest.chunks_exact(period).take_while(|chunk| *chunk == &rest[..period]).count();
            (same >= 3).then_some((period, same))
        };
        match (1..=4.min(rest.len())).find_map(repeats) {
            Some((period, times)) => {
                folded.extend_from_slice(&rest[..period]);
                folded.push(if period == 1 {
                    format!("({times} times)")
                } else {
                    format!("(these {period}, {times} times)")
                });
                rest = &rest[period * times..];
            }
            None => {
                folded.push(rest[0].clone());
                rest = &rest[1..];
            }
        }
    }
    folded
}

/// Servers in parentheses.
pub(crate) fn group(ids: Vec<ServerId>) -> String {
    let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
    format!("({})", ids.join(" "))
}

/// Describes the durable state after a crash.
pub(crate) fn on_disk(disk: &DurableState) -> String {
    let DurableState { last, accepted, current } = disk;
    format!("its disk ends at {last}, accepted {accepted}, current {current}")
}

/// The positions of entries, as one range per epoch.
pub(crate) fn ranges<'a>(entries: impl Iterator<Item = &'a Entry>) -> String {
    let mut ranges: Vec<(pole_types::Zxid, pole_types::Zxid)> = Vec::new();
    for entry in entries {
        match ranges.last_mut() {
            Some((first, last)) if first.epoch() == entry.zxid.epoch() => *last = entry.zxid,
            Some(_) | None => ranges.push((entry.zxid, entry.zxid)),
        }
    }
    let text: Vec<_> = ranges
        .into_iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    if text.is_empty() { "empty".to_owned() } else { text.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_repeats_is_told_once_with_a_count() {
        let lines = |text: &str| text.chars().map(String::from).collect::<Vec<_>>();
        assert_eq!(fold(lines("abababc")), ["a", "b", "(these 2, 3 times)", "c"]);
        assert_eq!(fold(lines("xaaay")), ["x", "a", "(3 times)", "y"]);
        assert_eq!(fold(lines("abab")), ["a", "b", "a", "b"]);
    }

    #[test]
    fn servers_that_do_the_same_share_a_line() {
        let mut transcript = Transcript::default();
        transcript.share(2, "sings".to_owned(), "sing".to_owned());
        transcript.share(0, "sings".to_owned(), "sing".to_owned());
        transcript.push_line("silence".to_owned());
        transcript.share(1, "sings".to_owned(), "sing".to_owned());
        assert_eq!(transcript.take(), "1 3 sing\nsilence\n2 sings\n");
    }
}
