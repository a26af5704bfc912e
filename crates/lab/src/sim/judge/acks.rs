//! Acknowledgements: what leaves a server is compared with its disk at that moment, and with what it promised.

use pole_election::{Epoch, Zxid};
use pole_zab::Message;

use super::Verdict;
use crate::sim::disk::Image;

/// What each server has promised to others, over all its lives.
#[derive(Debug)]
pub(crate) struct Acks {
    promised: Vec<Epoch>,
}

impl Acks {
    pub(crate) fn new(servers: usize) -> Self {
        Self { promised: vec![Epoch(0); servers] }
    }

    pub(crate) fn wiped(&mut self, server: usize) {
        self.promised[server] = Epoch(0);
    }

    pub(crate) fn sends(&mut self, server: usize, message: &Message, image: &Image) -> Verdict {
        match message {
            Message::AckEpoch(promise) => {
                self.promises(server, "AckEpoch", promise.epoch)?;
                at_least(server, "AckEpoch", "accepted epoch", promise.epoch, image.accepted_epoch)?;
                at_least(server, "AckEpoch", "current epoch", promise.current_epoch, image.current_epoch)?;
                holds(server, "AckEpoch", promise.last_zxid, image)
            }
            Message::TakenOver { epoch, last } => {
                self.promises(server, "TakenOver", *epoch)?;
                at_least(server, "TakenOver", "accepted epoch", *epoch, image.accepted_epoch)?;
                at_least(server, "TakenOver", "current epoch", *epoch, image.current_epoch)?;
                holds(server, "TakenOver", *last, image)
            }
            Message::AckLeader { epoch, last } => {
                self.keeps(server, "AckLeader", *epoch)?;
                at_least(server, "AckLeader", "current epoch", *epoch, image.current_epoch)?;
                holds(server, "AckLeader", *last, image)
            }
            Message::Ack { epoch, zxid, .. } => {
                self.keeps(server, "Ack", *epoch)?;
                at_least(server, "Ack", "current epoch", *epoch, image.current_epoch)?;
                holds(server, "Ack", *zxid, image)
            }
            Message::Hello(_)
            | Message::Decline
            | Message::NewEpoch { .. }
            | Message::RefuseEpoch { .. }
            | Message::Pull { .. }
            | Message::Truncate { .. }
            | Message::Snapshot(_)
            | Message::Entries { .. }
            | Message::Received
            | Message::PullEnd { .. }
            | Message::NewLeader { .. }
            | Message::UpToDate { .. }
            | Message::Propose { .. }
            | Message::Commit { .. }
            | Message::Handover { .. }
            | Message::Ping { .. }
            | Message::Pong { .. } => Ok(()),
        }
    }

    fn promises(&mut self, server: usize, message: &str, epoch: Epoch) -> Verdict {
        self.keeps(server, message, epoch)?;
        self.promised[server] = epoch;
        Ok(())
    }

    fn keeps(&self, server: usize, message: &str, epoch: Epoch) -> Verdict {
        match self.promised[server] <= epoch {
            true => Ok(()),
            false => Err(format!(
                "server {} sends {message} of epoch {epoch} after it promised {}",
                server + 1,
                self.promised[server]
            )),
        }
    }
}

fn at_least(server: usize, message: &str, what: &str, said: Epoch, durable: Epoch) -> Verdict {
    match durable >= said {
        true => Ok(()),
        false => Err(format!("server {} sends {message} with {what} {said}, its disk has {durable}", server + 1)),
    }
}

fn holds(server: usize, message: &str, said: Zxid, image: &Image) -> Verdict {
    match image.contains(said) {
        true => Ok(()),
        false => Err(format!("server {} sends {message} up to {said}, its disk ends at {}", server + 1, image.last())),
    }
}
