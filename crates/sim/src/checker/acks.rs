//! Checks acknowledgements: each must match the sender's disk at that moment, and its earlier promises.

use pole_types::{Epoch, Zxid};
use pole_zab::Message;

use super::CheckResult;
use crate::disk::Image;

/// The highest epoch that each server has promised, across restarts.
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

    pub(crate) fn check_message(&mut self, server: usize, message: &Message, image: &Image) -> CheckResult {
        match message {
            Message::AckEpoch(promise) => {
                self.record_promise(server, "AckEpoch", promise.epoch)?;
                check_epoch(server, "AckEpoch", "accepted epoch", promise.epoch, image.accepted_epoch)?;
                check_epoch(server, "AckEpoch", "current epoch", promise.current_epoch, image.current_epoch)?;
                check_durable(server, "AckEpoch", promise.last_zxid, image)
            }
            Message::TakenOver { epoch, last } => {
                self.record_promise(server, "TakenOver", *epoch)?;
                check_epoch(server, "TakenOver", "accepted epoch", *epoch, image.accepted_epoch)?;
                check_epoch(server, "TakenOver", "current epoch", *epoch, image.current_epoch)?;
                check_durable(server, "TakenOver", *last, image)
            }
            Message::AckLeader { epoch, last } => {
                self.check_promise(server, "AckLeader", *epoch)?;
                check_epoch(server, "AckLeader", "current epoch", *epoch, image.current_epoch)?;
                check_durable(server, "AckLeader", *last, image)
            }
            Message::Ack { epoch, zxid, .. } => {
                self.check_promise(server, "Ack", *epoch)?;
                check_epoch(server, "Ack", "current epoch", *epoch, image.current_epoch)?;
                check_durable(server, "Ack", *zxid, image)
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

    fn record_promise(&mut self, server: usize, message: &str, epoch: Epoch) -> CheckResult {
        self.check_promise(server, message, epoch)?;
        self.promised[server] = epoch;
        Ok(())
    }

    fn check_promise(&self, server: usize, message: &str, epoch: Epoch) -> CheckResult {
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

fn check_epoch(server: usize, message: &str, what: &str, claimed: Epoch, durable: Epoch) -> CheckResult {
    match durable >= claimed {
        true => Ok(()),
        false => Err(format!("server {} sends {message} with {what} {claimed}, its disk has {durable}", server + 1)),
    }
}

fn check_durable(server: usize, message: &str, claimed: Zxid, image: &Image) -> CheckResult {
    match image.contains(claimed) {
        true => Ok(()),
        false => {
            Err(format!("server {} sends {message} up to {claimed}, its disk ends at {}", server + 1, image.last()))
        }
    }
}
