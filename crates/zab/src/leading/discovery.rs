//! Discovery by the leader: open an epoch above all others, and find the best history that a quorum has.
//!
//! Inputs are Hellos, promises and refusals; outputs are requests for a promise and a pull.
//!
//! Invariant: the history is chosen by durable promises made for this very request, our own among them, and never by
//! what votes reported.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;
use pole_election::Round;
use pole_types::{Epoch, ServerId, Zxid};

use super::{Leading, Peer, PeerStage, Step};
use crate::zab::{OnDurable, Role, Waiting};
use crate::{DiskOp, Error, Hello, Message, Output, Phase, Promise, Zab};

impl Zab {
    pub(crate) fn start_leading(
        &mut self,
        round: Round,
        accepted: impl IntoIterator<Item = (ServerId, Epoch)>,
        out: &mut Vec<Output>,
    ) {
        // The epochs in votes only help to pick an epoch, so an impossible one is ignored without an error.
        let plausible = |(id, epoch): &(ServerId, Epoch)| self.check_epoch(*id, "vote", *epoch).is_ok();
        let mut reported: BTreeMap<_, _> = accepted.into_iter().filter(plausible).collect();
        reported.insert(self.me, self.accepted_epoch);
        let accepted_max = reported.values().copied().max().unwrap_or_default();
        self.role = Role::Leading(Leading::new(self.me, round, reported, accepted_max));
        self.admit_waiting(out);
        self.try_pick_epoch(out);
    }

    /// Admits followers that chose us before our own election ended.
    pub(crate) fn admit_waiting(&mut self, out: &mut Vec<Output>) {
        for (peer, waiting) in core::mem::take(&mut self.waiting) {
            self.admit(peer, waiting.hello, out);
            if let Some((epoch, last)) = waiting.taken_over {
                self.taken_over(peer, epoch, last, out);
            }
        }
    }

    pub(crate) fn on_hello(&mut self, from: ServerId, hello: Hello, out: &mut Vec<Output>) -> Result<(), Error> {
        self.check_epoch(from, "Hello", hello.accepted_epoch)?;
        match &self.role {
            Role::Leading(_) => self.admit(from, hello, out),
            // We may still be electing, or a hand-over to us may be under way on another link.
            Role::Looking => drop(self.waiting.insert(from, Waiting { hello, taken_over: None })),
            Role::Following(following) if hello.round > following.round => {
                self.waiting.insert(from, Waiting { hello, taken_over: None });
            }
            Role::Following(_) => Self::send(from, Message::Decline, out),
        }
        Ok(())
    }

    fn admit(&mut self, from: ServerId, hello: Hello, out: &mut Vec<Output>) {
        self.end_transfer(from, out);
        let Role::Leading(leading) = &mut self.role else { return };
        leading.peers.insert(from, Peer::new());
        leading.reported.insert(from, hello.accepted_epoch);
        leading.accepted_max = leading.accepted_max.max(hello.accepted_epoch);
        out.push(Output::Joined { peer: from });
        let epoch = leading.epoch;
        match leading.step {
            Step::Gathering => self.try_pick_epoch(out),
            _ if hello.taking_over == Some(epoch) => leading.peer(from).stage = PeerStage::PromiseRequested,
            // A promise of this epoch would not be fresh and would not count, so a higher epoch is opened.
            Step::Promising if hello.accepted_epoch >= epoch => self.pick_epoch(out),
            Step::Pulling { .. } | Step::Synchronising | Step::Established if hello.accepted_epoch > epoch => {
                out.push(Output::Outbid { accepted: hello.accepted_epoch });
            }
            Step::Promising | Step::Pulling { .. } | Step::Synchronising | Step::Established => {
                self.request_promise(from, out)
            }
        }
    }

    /// Picks an epoch once the accepted epochs of a quorum are known.
    fn try_pick_epoch(&mut self, out: &mut Vec<Output>) {
        let Role::Leading(leading) = &self.role else { return };
        if leading.step == Step::Gathering && self.voters.is_quorum(leading.reported.keys().copied()) {
            self.pick_epoch(out);
        }
    }

    /// Opens an epoch above all known ones, and asks every server to promise it, ourselves first.
    fn pick_epoch(&mut self, out: &mut Vec<Output>) {
        let me = self.me;
        let Role::Leading(leading) = &mut self.role else { return };
        leading.epoch = leading.accepted_max.max(self.accepted_epoch).next();
        leading.accepted_max = leading.epoch;
        leading.step = Step::Promising;
        leading.promised.clear();
        let epoch = leading.epoch;
        let followers: Vec<_> = leading.peers.keys().copied().filter(|id| *id != me).collect();
        *leading.peer(me) = Peer { stage: PeerStage::PromiseRequested, ..Peer::new() };
        self.accepted_epoch = epoch;
        self.write(DiskOp::AcceptedEpoch(epoch), OnDurable::Promised { epoch, leader: me, fresh: true }, out);
        followers.into_iter().for_each(|id| self.request_promise(id, out));
    }

    fn request_promise(&mut self, id: ServerId, out: &mut Vec<Output>) {
        self.end_transfer(id, out);
        let Role::Leading(leading) = &mut self.role else { return };
        *leading.peer(id) = Peer { stage: PeerStage::PromiseRequested, ..Peer::new() };
        Self::send(id, Message::NewEpoch { epoch: leading.epoch }, out);
    }

    /// Whether the promises missing for a quorum may still arrive: from ourselves, and from followers that were asked
    /// and for which `is_alive` returns true.
    #[must_use]
    pub fn awaits_promises_of(&self, is_alive: impl Fn(ServerId) -> bool) -> bool {
        let Role::Leading(leading) = &self.role else { return false };
        let promised: BTreeSet<_> = leading.promises(&self.voters).into_keys().collect();
        let asked =
            leading.peers.iter().filter(|(_, peer)| peer.stage == PeerStage::PromiseRequested).map(|(id, _)| *id);
        let awaited: BTreeSet<_> = asked.filter(|id| *id == self.me || is_alive(*id)).collect();
        !awaited.is_empty() && self.voters.is_quorum(promised.union(&awaited).copied())
    }

    pub(crate) fn own_promise_is_durable(&mut self, promise: Promise, out: &mut Vec<Output>) {
        self.promised(self.me, promise, None, out);
    }

    pub(crate) fn on_ack_epoch(
        &mut self,
        from: ServerId,
        promise: Promise,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
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
        self.promised(from, promise, None, out);
        Ok(())
    }

    pub(super) fn promised(
        &mut self,
        from: ServerId,
        promise: Promise,
        took_over: Option<Zxid>,
        out: &mut Vec<Output>,
    ) {
        let Role::Leading(leading) = &mut self.role else { return };
        let epoch = leading.epoch;
        let Some(peer) = leading.peers.get_mut(&from) else { return };
        if promise.epoch != epoch || peer.stage != PeerStage::PromiseRequested {
            return; // a promise of an earlier epoch
        }
        peer.counts = !promise.blank;
        peer.took_over = took_over;
        peer.stage = PeerStage::Promised(promise);
        match leading.step {
            Step::Promising => {
                leading.promised.push(from);
                self.try_choose_history(out);
            }
            Step::Synchronising | Step::Established => self.synchronise(from, out),
            Step::Gathering | Step::Pulling { .. } => {}
        }
    }

    /// Handles the refusal of a server that promised a higher epoch to another candidate. Before a quorum has promised
    /// ours, we open a higher one.
    pub(crate) fn on_refuse_epoch(
        &mut self,
        from: ServerId,
        refused: Epoch,
        accepted: Epoch,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        self.check_epoch(from, "RefuseEpoch", accepted)?;
        let Role::Leading(leading) = &mut self.role else { return Ok(()) };
        if accepted <= refused {
            let reason = "a refusal names a higher epoch";
            return Err(Error::ImpossibleEpoch { from, message: "RefuseEpoch", epoch: accepted, reason });
        }
        leading.reported.insert(from, accepted);
        leading.accepted_max = leading.accepted_max.max(accepted);
        if refused != leading.epoch {
            return Ok(());
        }
        leading.peer(from).stage = PeerStage::Greeted;
        match leading.step {
            Step::Promising => self.pick_epoch(out),
            Step::Pulling { .. } | Step::Synchronising | Step::Established => out.push(Output::Outbid { accepted }),
            Step::Gathering => {}
        }
        Ok(())
    }

    /// Opens a higher epoch with the present followers, without an election: to admit a server that promised a higher
    /// one to a failed candidate, and before the zxid counter overflows.
    pub fn reopen(&mut self, out: &mut Vec<Output>) {
        if matches!(self.phase(), Phase::Pulling | Phase::Synchronising | Phase::Established) {
            self.pick_epoch(out);
            out.push(Output::Progress);
        }
    }

    /// Whether the counter of our epoch has reached [`counter_max`](crate::Limits::counter_max).
    #[must_use]
    pub fn needs_new_epoch(&self) -> bool {
        self.phase() == Phase::Established && self.log.last().counter() >= self.limits.counter_max
    }

    /// Chooses the best history among a quorum of promises, ours included, as the one to continue.
    pub(super) fn try_choose_history(&mut self, out: &mut Vec<Output>) {
        let me = self.me;
        let Role::Leading(leading) = &self.role else { return };
        let promises = leading.promises(&self.voters);
        let we_promised = matches!(leading.peers[&me].stage, PeerStage::Promised(_));
        if !we_promised || !self.voters.is_quorum(promises.keys().copied()) {
            return;
        }
        let counted: Vec<_> = promises.keys().copied().collect();
        // Among equal histories prefer our own, then the one that was promised first: that server is probably near, so
        // pulling from it is fast.
        let promise_order = |id: ServerId| leading.promised.iter().position(|other| *other == id);
        let best = promises
            .iter()
            .max_by_key(|(id, promise)| (promise.history(), **id == me, Reverse(promise_order(**id))))
            .map(|(id, p)| (*id, p.last_zxid));
        let (source, last) = best.expect("a quorum is not empty");
        let Role::Leading(leading) = &mut self.role else { return };
        leading.promised.clear();
        counted.iter().for_each(|id| leading.peer(*id).counts = true);
        let epoch = leading.epoch;
        out.push(Output::Promised { epoch });
        if last == self.log.last() {
            out.push(Output::Discovered { source: None });
            self.start_synchronising(out);
        } else {
            leading.step = Step::Pulling { source };
            Self::send(source, Message::Pull { epochs: self.log.epochs().clone() }, out);
        }
    }

    /// The source of the pull has sent everything that it has.
    pub(crate) fn on_pull_end(&mut self, from: ServerId, last: Zxid, out: &mut Vec<Output>) -> Result<(), Error> {
        let Role::Leading(leading) = &self.role else { return Ok(()) };
        if leading.source() != Some(from) {
            return Ok(());
        }
        if last != self.log.last() {
            return Err(Error::WrongEnd { from, message: "PullEnd", claimed: last, last: self.log.last() });
        }
        out.push(Output::Discovered { source: Some(from) });
        self.start_synchronising(out);
        Ok(())
    }
}
