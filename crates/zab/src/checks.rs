//! Checks of messages that do not depend on our role: what no correct server sends, whatever was lost or reordered.

use alloc::collections::BTreeMap;

use pole_types::{Epoch, ServerId, Zxid};

use crate::state::State;
use crate::{Error, Message, Promise};

impl State {
    /// Checks a message before any role handles it.
    pub(crate) fn check(&self, from: ServerId, message: &Message) -> Result<(), Error> {
        if !self.limits.joiners && !self.members.in_force().contains(from) {
            return Err(Error::Foreign(from));
        }
        match message {
            Message::Hello(hello) => self.check_epoch(from, "Hello", hello.accepted_epoch),
            Message::AckEpoch(promise) => check_promise(from, promise),
            Message::RefuseEpoch { refused, accepted } if accepted <= refused => {
                let reason = "a refusal names a higher epoch";
                Err(Error::ImpossibleEpoch { from, message: "RefuseEpoch", epoch: *accepted, reason })
            }
            Message::RefuseEpoch { accepted, .. } => self.check_epoch(from, "RefuseEpoch", *accepted),
            Message::NewEpoch { epoch } => self.check_epoch(from, "NewEpoch", *epoch),
            Message::Handover { next, .. } => self.check_epoch(from, "Handover", *next),
            Message::Pull { epochs } if !epochs.is_well_formed() => Err(Error::MalformedHistory(from)),
            Message::Ack { server, .. } if *server != from => Err(Error::Foreign(*server)),
            Message::Ack { epoch, zxid, .. } if zxid.epoch() > *epoch => {
                let reason = "what is acknowledged is not newer than the epoch in which it is";
                Err(Error::ImpossibleEpoch { from, message: "Ack", epoch: zxid.epoch(), reason })
            }
            Message::Snapshot(part)
                if !part.epochs.is_well_formed() || part.epochs.last().unwrap_or(Zxid::ZERO) != part.zxid =>
            {
                Err(Error::MalformedHistory(from))
            }
            Message::TakenOver { .. }
            | Message::PullEnd { .. }
            | Message::AckLeader { .. }
            | Message::Ack { .. }
            | Message::Pong { .. }
            | Message::Decline
            | Message::Pull { .. }
            | Message::Truncate { .. }
            | Message::Snapshot(_)
            | Message::Received
            | Message::Entries { .. }
            | Message::NewLeader { .. }
            | Message::UpToDate { .. }
            | Message::Propose { .. }
            | Message::Commit { .. }
            | Message::Ping { .. } => Ok(()),
        }
    }

    /// Checks an epoch named by a peer. Epochs grow one by one, so one far above ours is a mistake, and accepting it
    /// would exhaust the 32 bits. So would many smaller leaps in a row, so the limit is much lower in the upper half of
    /// the range.
    pub(crate) fn check_epoch(&self, from: ServerId, message: &'static str, epoch: Epoch) -> Result<(), Error> {
        let leap_max = if epoch.0 <= u32::MAX / 2 { EPOCH_LEAP_MAX } else { HIGH_EPOCH_LEAP_MAX };
        if epoch.0.saturating_sub(self.accepted_epoch.0) > leap_max {
            let reason = "it is too far above the epoch promised here";
            return Err(Error::ImpossibleEpoch { from, message, epoch, reason });
        }
        Ok(())
    }

    /// The epochs reported by votes, as far as they are possible. They only help to guess the next epoch, so an impossible
    /// one is ignored without an error.
    pub(crate) fn plausible(&self, accepted: impl IntoIterator<Item = (ServerId, Epoch)>) -> BTreeMap<ServerId, Epoch> {
        accepted.into_iter().filter(|(id, epoch)| self.check_epoch(*id, "vote", *epoch).is_ok()).collect()
    }

    /// Checks the epoch of history sent by a peer: it must not exceed the epoch that we promised.
    pub(crate) fn check_history(&self, from: ServerId, message: &'static str, epoch: Epoch) -> Result<(), Error> {
        if epoch > self.accepted_epoch {
            let reason = "history is not newer than the epoch promised before it is sent";
            return Err(Error::ImpossibleEpoch { from, message, epoch, reason });
        }
        Ok(())
    }
}

fn check_promise(from: ServerId, promise: &Promise) -> Result<(), Error> {
    if !promise.epochs.is_well_formed() || promise.epochs.last().unwrap_or(Zxid::ZERO) != promise.last_zxid {
        return Err(Error::MalformedHistory(from));
    }
    if promise.current_epoch > promise.epoch || promise.last_zxid.epoch() > promise.epoch {
        let reason = "a history cannot be newer than the epoch promised after it";
        return Err(Error::ImpossibleEpoch { from, message: "AckEpoch", epoch: promise.current_epoch, reason });
    }
    let newest = promise.current_epoch.max(promise.last_zxid.epoch());
    if promise.fresh && newest == promise.epoch {
        let reason = "a history cannot be of the epoch that is promised just now";
        return Err(Error::ImpossibleEpoch { from, message: "AckEpoch", epoch: newest, reason });
    }
    Ok(())
}

/// How far an epoch may be above our own promise: about one year of elections, one every two seconds.
const EPOCH_LEAP_MAX: u32 = 1 << 24;

/// The same in the upper half of the range, which is reached only by mistake: a few minutes of an ensemble that cannot
/// agree. A faulty peer would need eight million such leaps to exhaust the range.
const HIGH_EPOCH_LEAP_MAX: u32 = 1 << 8;
