//! Discovery by the leader: open an epoch above all others, and find the best history that a quorum has.
//!
//! Inputs are Hellos, promises and refusals; outputs are requests for a promise and a pull.
//!
//! Invariant: the history is chosen by durable promises of our epoch that were made to us, our own among them, and never by
//! what votes reported. A promise may arrive before it is asked for.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Reverse;
use pole_types::{Epoch, ServerId, Zxid};

use super::{Leading, Peer, PeerStage, Step};
use crate::direct::Listeners;
use crate::state::{OnDurable, State, send};
use crate::{DiskOp, Error, Hello, Message, Output, Promise};

impl Leading {
    /// Admits followers that chose us before our own election ended.
    pub(super) fn admit_waiting(&mut self, state: &mut State, out: &mut Vec<Output>) {
        for (peer, waiting) in core::mem::take(&mut state.waiting) {
            self.admit(state, peer, waiting.hello, out);
            if let Some((epoch, last)) = waiting.taken_over {
                self.taken_over(state, peer, epoch, last, out);
            }
            if let Some(promise) = waiting.promise {
                self.promised(state, peer, promise, None, out);
            }
        }
    }

    /// A server follows us, over a new link.
    pub(crate) fn admit(&mut self, state: &mut State, from: ServerId, hello: Hello, out: &mut Vec<Output>) {
        state.end_transfer(from, out);
        self.peers.insert(from, Peer::new());
        self.accepted_max = self.accepted_max.max(hello.accepted_epoch);
        out.push(Output::Joined { peer: from });
        let epoch = self.epoch;
        match self.step {
            Step::Gathering => {
                self.reported.insert(from);
                self.try_pick_epoch(state, out);
            }
            _ if hello.taking_over == Some(epoch) => self.peer(from).stage = PeerStage::PromiseRequested,
            // A promise of this epoch would not be fresh and would not count, so a higher epoch is opened.
            Step::Promising if hello.accepted_epoch >= epoch => self.pick_epoch(state, out),
            Step::Pulling { .. } | Step::Synchronising { .. } | Step::Established if hello.accepted_epoch > epoch => {
                out.push(Output::Outbid { accepted: hello.accepted_epoch });
            }
            Step::Promising | Step::Pulling { .. } | Step::Synchronising { .. } | Step::Established => {
                self.request_promise(state, from, out)
            }
        }
    }

    /// Picks an epoch once the accepted epochs of a quorum are known.
    pub(super) fn try_pick_epoch(&mut self, state: &mut State, out: &mut Vec<Output>) {
        if self.step == Step::Gathering && state.voters().is_quorum(self.reported.iter().copied()) {
            self.pick_epoch(state, out);
        }
    }

    /// Opens an epoch above all known ones, and asks every server to promise it, ourselves first.
    fn pick_epoch(&mut self, state: &mut State, out: &mut Vec<Output>) {
        let me = state.me;
        self.epoch = self.accepted_max.max(state.accepted_epoch).next();
        self.accepted_max = self.epoch;
        self.step = Step::Promising;
        self.reported.clear();
        self.promised.clear();
        self.listeners = Listeners::default();
        let epoch = self.epoch;
        *self.peer(me) = Peer { stage: PeerStage::PromiseRequested, ..Peer::new() };
        state.accepted_epoch = epoch;
        state.write(DiskOp::AcceptedEpoch(epoch), OnDurable::Promised { epoch, leader: me, fresh: true }, out);
        let followers: Vec<_> = self.peers.keys().copied().filter(|id| *id != me).collect();
        followers.into_iter().for_each(|id| self.request_promise(state, id, out));
    }

    fn request_promise(&mut self, state: &mut State, id: ServerId, out: &mut Vec<Output>) {
        state.end_transfer(id, out);
        let before = core::mem::replace(self.peer(id), Peer { stage: PeerStage::PromiseRequested, ..Peer::new() });
        send(id, Message::NewEpoch { epoch: self.epoch }, out);
        if let PeerStage::PromisedAhead(promise) = before.stage {
            self.promised(state, id, promise, None, out);
        }
    }

    /// Whether the promises missing for a quorum may still arrive: from ourselves, and from followers that were asked
    /// and for which `is_alive` returns true.
    pub(crate) fn awaits_promises_of(&self, state: &State, is_alive: impl Fn(ServerId) -> bool) -> bool {
        let promised: BTreeSet<_> = self.promises(state).into_keys().collect();
        let asked = self.peers.iter().filter(|(_, peer)| peer.stage == PeerStage::PromiseRequested).map(|(id, _)| *id);
        let awaited: BTreeSet<_> = asked.filter(|id| *id == state.me || is_alive(*id)).collect();
        !awaited.is_empty() && state.voters().is_quorum(promised.union(&awaited).copied())
    }

    /// A server, perhaps this one, has promised our epoch durably. `took_over`: by accepting a hand-over, with the
    /// history up to this position.
    pub(crate) fn promised(
        &mut self,
        state: &mut State,
        from: ServerId,
        promise: Promise,
        took_over: Option<Zxid>,
        out: &mut Vec<Output>,
    ) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        if self.step == Step::Gathering && peer.stage == PeerStage::Greeted {
            peer.stage = PeerStage::PromisedAhead(promise);
            return;
        }
        if promise.epoch != self.epoch {
            return;
        }
        peer.hears |= !promise.ahead;
        if peer.stage != PeerStage::PromiseRequested {
            return self.try_adopt(state, out); // it has promised ahead before
        }
        peer.counts = !promise.blank;
        peer.took_over = took_over;
        peer.stage = PeerStage::Promised(promise);
        match self.step {
            Step::Promising => {
                self.promised.push(from);
                self.try_choose_history(state, out);
            }
            Step::Synchronising { .. } | Step::Established => self.synchronise(state, from, out),
            Step::Gathering | Step::Pulling { .. } => {}
        }
    }

    /// Handles the refusal of a server that promised a higher epoch to another candidate. Before a quorum has promised
    /// ours, we open a higher one.
    pub(crate) fn on_refuse_epoch(
        &mut self,
        state: &mut State,
        from: ServerId,
        refused: Epoch,
        accepted: Epoch,
        out: &mut Vec<Output>,
    ) {
        self.accepted_max = self.accepted_max.max(accepted);
        if refused != self.epoch {
            return;
        }
        self.peer(from).stage = PeerStage::Greeted;
        match self.step {
            Step::Promising => self.pick_epoch(state, out),
            Step::Pulling { .. } | Step::Synchronising { .. } | Step::Established => {
                out.push(Output::Outbid { accepted })
            }
            Step::Gathering => {}
        }
    }

    /// Opens a higher epoch with the present followers, unless one is being opened already.
    pub(crate) fn reopen(&mut self, state: &mut State, out: &mut Vec<Output>) {
        if matches!(self.step, Step::Pulling { .. } | Step::Synchronising { .. } | Step::Established) {
            self.pick_epoch(state, out);
            out.push(Output::Progress);
        }
    }

    /// Chooses the best history among a quorum of promises, ours included, as the one to continue.
    pub(super) fn try_choose_history(&mut self, state: &mut State, out: &mut Vec<Output>) {
        let Some((source, last)) = self.best_history(state) else { return };
        let counted: Vec<_> = self.promises(state).into_keys().collect();
        self.promised.clear();
        counted.iter().for_each(|id| self.peer(*id).counts = true);
        out.push(Output::Promised { epoch: self.epoch });
        if last == state.log.last() {
            out.push(Output::Discovered { source: None });
            self.try_synchronise(state, out);
        } else {
            self.step = Step::Pulling { source };
            send(source, Message::Pull { epochs: state.log.epochs().clone() }, out);
        }
    }

    /// The server with the best history among a quorum of promises, ours included, and where that history ends. `None`
    /// without a quorum.
    fn best_history(&self, state: &State) -> Option<(ServerId, Zxid)> {
        let me = state.me;
        let promises = self.promises(state);
        let we_promised = matches!(self.peers[&me].stage, PeerStage::Promised(_));
        if !we_promised || !state.voters().is_quorum(promises.keys().copied()) {
            return None;
        }
        // Among equal histories prefer our own, then the one that was promised first: that server is probably near, so
        // pulling from it is fast.
        let promise_order = |id: ServerId| self.promised.iter().position(|other| *other == id);
        let best =
            promises.iter().max_by_key(|(id, promise)| (promise.history(), **id == me, Reverse(promise_order(**id))));
        best.map(|(id, promise)| (*id, promise.last_zxid))
    }

    /// Begins to synchronise, unless the history that we have says that we are no voter any more.
    fn try_synchronise(&mut self, state: &mut State, out: &mut Vec<Output>) {
        if state.voters().may_lead(state.me) {
            self.start_synchronising(state, out);
        } else {
            out.push(Output::QuorumLost);
        }
    }

    /// The source of the pull has sent everything that it has.
    pub(crate) fn on_pull_end(
        &mut self,
        state: &mut State,
        from: ServerId,
        last: Zxid,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        if self.source() != Some(from) {
            return Ok(());
        }
        if last != state.log.last() {
            return Err(Error::WrongEnd { from, message: "PullEnd", claimed: last, last: state.log.last() });
        }
        out.push(Output::Discovered { source: Some(from) });
        if !state.voters().may_lead(state.me) {
            // What we have pulled says that we are no voter any more. Then our own promise does not count, and the best
            // history of the voters may be shorter than ours: pulling that would undo this, without an end.
            out.push(Output::QuorumLost);
            return Ok(());
        }
        // Our own promise now includes what we have pulled. If that has changed the voters, more promises may be needed, and
        // those that we have may know more.
        let own = state.promise(self.epoch, true);
        self.peer(state.me).stage = PeerStage::Promised(own);
        match self.best_history(state) {
            Some((_, best)) if best == state.log.last() => self.try_synchronise(state, out),
            Some(_) | None => {
                self.step = Step::Promising;
                self.try_choose_history(state, out);
            }
        }
        Ok(())
    }
}
