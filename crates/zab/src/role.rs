//! The role of a server: looking for a leader, following one, or leading.

use alloc::vec::Vec;
use pole_election::Round;
use pole_types::{Epoch, ServerId};

use crate::following::Following;
use crate::leading::Leading;
use crate::state::{OnDurable, State};
use crate::{DiskOp, Error, Output, Phase};

/// The role that the last election or hand-over gave us.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Looking,
    Following(Following),
    Leading(Leading),
}

impl Role {
    pub(crate) fn phase(&self) -> Phase {
        match self {
            Self::Looking => Phase::Looking,
            Self::Following(following) => following.phase(),
            Self::Leading(leading) => leading.phase(),
        }
    }

    pub(crate) fn leading(&self) -> Option<&Leading> {
        match self {
            Self::Leading(leading) => Some(leading),
            Self::Looking | Self::Following(_) => None,
        }
    }

    pub(crate) fn leading_mut(&mut self) -> Option<&mut Leading> {
        match self {
            Self::Leading(leading) => Some(leading),
            Self::Looking | Self::Following(_) => None,
        }
    }

    /// Our state as a follower of `leader`, if we follow it.
    pub(crate) fn following(&mut self, leader: ServerId) -> Option<&mut Following> {
        match self {
            Self::Following(following) if following.leader == leader => Some(following),
            Self::Following(_) | Self::Looking | Self::Leading(_) => None,
        }
    }

    /// Whether `from` may change our history: it is our leader and has our promise, or it is the source of our pull.
    pub(crate) fn is_synchronised_by(&self, from: ServerId) -> bool {
        match self {
            Self::Looking => false,
            Self::Following(following) => following.leader == from && following.has_reported_promise(),
            Self::Leading(leading) => leading.source() == Some(from),
        }
    }

    /// Checks the newest epoch of history that is sent to us.
    pub(crate) fn check_history(&self, from: ServerId, message: &'static str, epoch: Epoch) -> Result<(), Error> {
        match self {
            Self::Leading(leading) if epoch >= leading.epoch => {
                let reason = "nobody but this server proposes in its epoch";
                Err(Error::ImpossibleEpoch { from, message, epoch, reason })
            }
            Self::Leading(_) | Self::Following(_) | Self::Looking => Ok(()),
        }
    }

    /// Promises and adopts epoch `next` under `target`, which may be this server. Both sides of a hand-over do this.
    pub(crate) fn take_over(
        state: &mut State,
        next: Epoch,
        target: ServerId,
        round: Round,
        out: &mut Vec<Output>,
    ) -> Self {
        let last = state.log.last();
        state.end_transfers(out);
        state.accepted_epoch = next;
        state.current_epoch = next;
        state.write(DiskOp::TakeOver(next), OnDurable::TookOver { epoch: next, leader: target, last }, out);
        if target == state.me {
            Self::Leading(Leading::taking_over(state, round, next, out))
        } else {
            Self::Following(Following::taking_over(state, target, round, next, out))
        }
    }
}
