//! Leading: find the best history of a quorum, bring the quorum level with it, then propose and commit.
//!
//! In: promises, acknowledgements. Out: questions, differences, proposals, commits.
//! Holds: at most one leader gathers a quorum of fresh promises for an epoch; nothing is proposed before a quorum has
//! the whole history durably; the leader counts itself by the same rules as any follower, when its disk has it.
//! Why peers have stages: a follower may arrive at any time, and each is brought level on its own.
//! Source: Zab (DSN 2011), phases 1 to 3; the pull, the hand-over and the higher epoch without an election are ours.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use pole_election::{Epoch, Proposal, Round, ServerId, Voters, Zxid};

use crate::plan::Plan;
use crate::zab::{Role, Then, Waiting};
use crate::{DiskOp, Entry, Error, Hello, Message, NotReady, Output, Phase, Promise, Snapshot, Zab};

/// A leader's state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Leading {
    /// The round in which we were chosen.
    pub(crate) round: Round,
    /// Our epoch, once picked.
    pub(crate) epoch: Epoch,
    step: Step,
    /// Our followers, and ourselves.
    pub(crate) peers: BTreeMap<ServerId, Peer>,
    /// Epochs that votes reported.
    reported: BTreeMap<ServerId, Epoch>,
    /// The highest epoch known to be promised by anyone.
    accepted_max: Epoch,
    /// How far the followers have been told of commits.
    announced: Zxid,
    /// Counts our questions to followers.
    pings: u64,
}

/// How far the leader has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Gathering,
    Promising,
    Pulling { source: ServerId },
    Synchronising,
    Established,
}

/// What the leader knows of one follower, or of itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Peer {
    stage: PeerStage,
    /// Whether it counts in quorums: a server that may have been wiped does so only after it was synchronised by an
    /// established leader.
    counts: bool,
    /// What it has durably, under our epoch.
    acked: Zxid,
    /// What it has been sent.
    sent: Zxid,
    /// The last of our questions that it answered as our follower.
    pong: u64,
    /// It promised by taking our hand-over, and so has the history up to here already.
    took_over: Option<Zxid>,
}

/// How far one follower has come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum PeerStage {
    /// It chose us.
    Greeted,
    /// It was asked for a promise.
    Asked,
    /// It promised.
    Promised(Promise),
    /// It waits for a snapshot.
    WantsSnapshot,
    /// The difference was sent.
    Synchronising,
    /// It has our history, durably.
    Level,
}

impl Leading {
    fn new(me: ServerId, round: Round, reported: BTreeMap<ServerId, Epoch>, accepted_max: Epoch) -> Self {
        let peers = BTreeMap::from([(me, Peer::new())]);
        let (epoch, announced) = (Epoch(0), Zxid::ZERO);
        Self { round, epoch, step: Step::Gathering, peers, reported, accepted_max, announced, pings: 0 }
    }

    /// A leader by hand-over: its epoch is given, its promise under way.
    pub(crate) fn taking_over(me: ServerId, round: Round, epoch: Epoch) -> Self {
        let mut leading = Self::new(me, round, BTreeMap::new(), epoch);
        leading.epoch = epoch;
        leading.step = Step::Promising;
        leading.peer(me).stage = PeerStage::Asked;
        leading
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.step {
            Step::Gathering => Phase::Gathering,
            Step::Promising => Phase::Promising,
            Step::Pulling { .. } => Phase::Pulling,
            Step::Synchronising => Phase::Synchronising,
            Step::Established => Phase::Established,
        }
    }

    /// Whom we pull from.
    pub(crate) fn source(&self) -> Option<ServerId> {
        match self.step {
            Step::Pulling { source } => Some(source),
            Step::Gathering | Step::Promising | Step::Synchronising | Step::Established => None,
        }
    }

    fn peer(&mut self, id: ServerId) -> &mut Peer {
        self.peers.entry(id).or_insert_with(Peer::new)
    }

    /// The servers that made a promise for this very question and may be counted. A server without a history may have
    /// been wiped, so beside one that has a history it does not count. Two cases are an ensemble that was interrupted
    /// at its very first start, and not a wiped minority: a quorum has no history, or all servers are here (then
    /// whatever was committed is here too).
    fn promises(&self, voters: &Voters) -> BTreeMap<ServerId, &Promise> {
        let fresh = self.peers.iter().filter_map(|(id, peer)| match &peer.stage {
            PeerStage::Promised(promise) if promise.fresh => Some((*id, promise)),
            PeerStage::Promised(_)
            | PeerStage::Greeted
            | PeerStage::Asked
            | PeerStage::WantsSnapshot
            | PeerStage::Synchronising
            | PeerStage::Level => None,
        });
        let all: BTreeMap<_, _> = fresh.collect();
        let blank = all.iter().filter(|(_, promise)| promise.blank).map(|(id, _)| *id);
        match voters.is_quorum(blank) || all.len() == voters.len() {
            true => all,
            false => all.into_iter().filter(|(_, promise)| !promise.blank).collect(),
        }
    }

    /// The servers that have our history durably and count.
    fn level(&self) -> impl Iterator<Item = (ServerId, &Peer)> {
        self.peers.iter().filter(|(_, p)| p.counts && p.stage == PeerStage::Level).map(|(id, p)| (*id, p))
    }
}

impl Peer {
    fn new() -> Self {
        Self { stage: PeerStage::Greeted, counts: true, acked: Zxid::ZERO, sent: Zxid::ZERO, pong: 0, took_over: None }
    }

    /// Whether it is sent our proposals.
    fn is_in_broadcast(&self) -> bool {
        matches!(self.stage, PeerStage::Synchronising | PeerStage::Level)
    }
}

/// Discovery.
impl Zab {
    pub(crate) fn start_leading(
        &mut self,
        round: Round,
        accepted: impl IntoIterator<Item = (ServerId, Epoch)>,
        out: &mut Vec<Output>,
    ) {
        // What votes say only helps to pick an epoch: one that cannot be is not worth an error.
        let plausible = |(id, epoch): &(ServerId, Epoch)| self.check_epoch(*id, "vote", *epoch).is_ok();
        let mut reported: BTreeMap<_, _> = accepted.into_iter().filter(plausible).collect();
        reported.insert(self.me, self.accepted_epoch);
        let accepted_max = reported.values().copied().max().unwrap_or_default();
        self.role = Role::Leading(Leading::new(self.me, round, reported, accepted_max));
        self.admit_waiting(out);
        self.try_pick_epoch(out);
    }

    /// Followers that were quicker than our own election.
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
        let Role::Leading(leading) = &mut self.role else { return };
        leading.peers.insert(from, Peer::new());
        leading.reported.insert(from, hello.accepted_epoch);
        leading.accepted_max = leading.accepted_max.max(hello.accepted_epoch);
        out.push(Output::Joined { peer: from });
        let epoch = leading.epoch;
        match leading.step {
            Step::Gathering => self.try_pick_epoch(out),
            _ if hello.taking_over == Some(epoch) => leading.peer(from).stage = PeerStage::Asked,
            // An epoch that it promised before would not count: a higher one will.
            Step::Promising if hello.accepted_epoch >= epoch => self.pick_epoch(out),
            Step::Pulling { .. } | Step::Synchronising | Step::Established if hello.accepted_epoch > epoch => {
                out.push(Output::Outbid { accepted: hello.accepted_epoch });
            }
            Step::Promising | Step::Pulling { .. } | Step::Synchronising | Step::Established => self.ask(from, out),
        }
    }

    /// With the promised epochs of a quorum known, ours can be above them all.
    fn try_pick_epoch(&mut self, out: &mut Vec<Output>) {
        let Role::Leading(leading) = &self.role else { return };
        if leading.step == Step::Gathering && self.voters.is_quorum(leading.reported.keys().copied()) {
            self.pick_epoch(out);
        }
    }

    /// Opens an epoch above all that we know, and asks everyone, ourselves first, to promise it.
    fn pick_epoch(&mut self, out: &mut Vec<Output>) {
        let me = self.me;
        let Role::Leading(leading) = &mut self.role else { return };
        leading.epoch = leading.accepted_max.max(self.accepted_epoch).next();
        leading.accepted_max = leading.epoch;
        leading.step = Step::Promising;
        let epoch = leading.epoch;
        let followers: Vec<_> = leading.peers.keys().copied().filter(|id| *id != me).collect();
        *leading.peer(me) = Peer { stage: PeerStage::Asked, ..Peer::new() };
        self.accepted_epoch = epoch;
        self.write(DiskOp::AcceptedEpoch(epoch), Then::Promised { epoch, leader: me, fresh: true }, out);
        followers.into_iter().for_each(|id| self.ask(id, out));
    }

    fn ask(&mut self, id: ServerId, out: &mut Vec<Output>) {
        let Role::Leading(leading) = &mut self.role else { return };
        *leading.peer(id) = Peer { stage: PeerStage::Asked, ..Peer::new() };
        Self::send(id, Message::NewEpoch { epoch: leading.epoch }, out);
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
        self.promised(from, promise, None, out);
        Ok(())
    }

    fn promised(&mut self, from: ServerId, promise: Promise, took_over: Option<Zxid>, out: &mut Vec<Output>) {
        let Role::Leading(leading) = &mut self.role else { return };
        let epoch = leading.epoch;
        let Some(peer) = leading.peers.get_mut(&from) else { return };
        if promise.epoch != epoch || peer.stage != PeerStage::Asked {
            return; // of an epoch that we have left behind
        }
        peer.counts = !promise.blank;
        peer.took_over = took_over;
        peer.stage = PeerStage::Promised(promise);
        match leading.step {
            Step::Promising => self.try_choose_history(out),
            Step::Synchronising | Step::Established => self.synchronise(from, out),
            Step::Gathering | Step::Pulling { .. } => {}
        }
    }

    /// A server promised a higher epoch to another. Before we have our quorum we simply go above it.
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

    /// Opens a higher epoch with the followers that we have, without an election: for a server that promised one to a
    /// candidate that failed, and before the counter overflows.
    pub fn reopen(&mut self, out: &mut Vec<Output>) {
        if matches!(self.phase(), Phase::Pulling | Phase::Synchronising | Phase::Established) {
            self.pick_epoch(out);
            out.push(Output::Progress);
        }
    }

    /// Whether the counter of our epoch nears its end.
    #[must_use]
    pub fn needs_new_epoch(&self) -> bool {
        self.phase() == Phase::Established && self.log.last().counter() >= self.limits.counter_max
    }

    /// With a quorum of promises, ours among them, the best of their histories is the one to continue.
    fn try_choose_history(&mut self, out: &mut Vec<Output>) {
        let me = self.me;
        let Role::Leading(leading) = &self.role else { return };
        let promises = leading.promises(&self.voters);
        let we_promised = matches!(leading.peers[&me].stage, PeerStage::Promised(_));
        if !we_promised || !self.voters.is_quorum(promises.keys().copied()) {
            return;
        }
        let counted: Vec<_> = promises.keys().copied().collect();
        let best = promises
            .iter()
            .max_by_key(|(id, promise)| (promise.history(), **id == me))
            .map(|(id, p)| (*id, p.last_zxid));
        let (source, last) = best.expect("a quorum is not empty");
        let Role::Leading(leading) = &mut self.role else { return };
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

    /// The source has sent all it has.
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

/// Synchronisation.
impl Zab {
    fn start_synchronising(&mut self, out: &mut Vec<Output>) {
        let me = self.me;
        let Role::Leading(leading) = &mut self.role else { return };
        leading.step = Step::Synchronising;
        let epoch = leading.epoch;
        let promised: Vec<_> = leading
            .peers
            .iter()
            .filter(|(id, peer)| **id != me && matches!(peer.stage, PeerStage::Promised(_)))
            .map(|(id, _)| *id)
            .collect();
        let own = leading.peer(me);
        own.stage = PeerStage::Synchronising;
        match own.took_over {
            Some(last) => self.became_level(me, epoch, last, out),
            None => self.take_epoch(epoch, me, out),
        }
        promised.into_iter().for_each(|id| self.synchronise(id, out));
    }

    /// Brings one follower level, by the plan that its history asks for.
    fn synchronise(&mut self, id: ServerId, out: &mut Vec<Output>) {
        let Role::Leading(leading) = &mut self.role else { return };
        let peer = leading.peer(id);
        let PeerStage::Promised(promise) = &peer.stage else { return };
        if let Some(last) = peer.took_over {
            return self.skip_synchronisation(id, last, out);
        }
        match Plan::make(&self.log, &promise.epochs) {
            Plan::Difference { truncate, after } => {
                if truncate {
                    Self::send(id, Message::Truncate { to: after }, out);
                }
                self.send_history(id, after, out);
            }
            Plan::Snapshot => {
                peer.stage = PeerStage::WantsSnapshot;
                out.push(Output::WantsSnapshot { to: id });
            }
        }
    }

    /// The snapshot that a follower waits for.
    pub(crate) fn send_snapshot(&mut self, to: ServerId, snapshot: Snapshot, out: &mut Vec<Output>) {
        let Role::Leading(leading) = &self.role else { return };
        if leading.peers.get(&to).is_some_and(|peer| peer.stage == PeerStage::WantsSnapshot) {
            self.send_parts(to, &snapshot, out);
            self.send_history(to, snapshot.zxid, out);
        }
    }

    /// The difference above `after`, then the question whether it is durable. From here on the follower is sent all
    /// that we propose; it queues behind the difference.
    fn send_history(&mut self, id: ServerId, after: Zxid, out: &mut Vec<Output>) {
        self.send_difference(id, after, out);
        let last = self.log.last();
        let Role::Leading(leading) = &mut self.role else { return };
        let epoch = leading.epoch;
        let peer = leading.peer(id);
        peer.stage = PeerStage::Synchronising;
        peer.sent = last;
        Self::send(id, Message::NewLeader { epoch, last }, out);
    }

    pub(crate) fn own_epoch_is_durable(&mut self, epoch: Epoch, last: Zxid, out: &mut Vec<Output>) {
        self.became_level(self.me, epoch, last, out);
    }

    pub(crate) fn on_ack_leader(
        &mut self,
        from: ServerId,
        epoch: Epoch,
        last: Zxid,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        if last > self.log.last() {
            return Err(Error::WrongEnd { from, message: "AckLeader", claimed: last, last: self.log.last() });
        }
        self.became_level(from, epoch, last, out);
        Ok(())
    }

    fn became_level(&mut self, from: ServerId, epoch: Epoch, last: Zxid, out: &mut Vec<Output>) {
        let Role::Leading(leading) = &mut self.role else { return };
        let established = leading.step == Step::Established;
        if epoch != leading.epoch {
            return;
        }
        let Some(peer) = leading.peers.get_mut(&from) else { return };
        if peer.stage != PeerStage::Synchronising {
            return;
        }
        peer.stage = PeerStage::Level;
        peer.acked = last;
        if established {
            peer.counts = true;
            self.welcome(from, out);
            self.try_commit(out);
        } else {
            out.push(Output::Progress);
            self.try_establish(out);
        }
    }

    /// With a quorum level, ourselves among them, the history is committed.
    fn try_establish(&mut self, out: &mut Vec<Output>) {
        let me = self.me;
        let Role::Leading(leading) = &mut self.role else { return };
        let we_are_level = leading.peers[&me].stage == PeerStage::Level;
        if leading.step != Step::Synchronising
            || !we_are_level
            || !self.voters.is_quorum(leading.level().map(|(id, _)| id))
        {
            return;
        }
        leading.step = Step::Established;
        let epoch = leading.epoch;
        let mut level = Vec::new();
        for (id, peer) in leading.peers.iter_mut().filter(|(_, peer)| peer.stage == PeerStage::Level) {
            peer.counts = true;
            level.push(*id);
        }
        self.commit(self.log.last(), out);
        out.push(Output::Established { epoch });
        level.into_iter().filter(|id| *id != me).for_each(|id| self.welcome(id, out));
    }

    /// A follower is level with an established leader: it serves.
    fn welcome(&mut self, id: ServerId, out: &mut Vec<Output>) {
        let Role::Leading(leading) = &self.role else { return };
        Self::send(id, Message::UpToDate { epoch: leading.epoch, committed: self.committed }, out);
    }

    /// A follower's link is closed.
    pub(crate) fn follower_left(&mut self, id: ServerId, out: &mut Vec<Output>) {
        let Role::Leading(leading) = &mut self.role else { return };
        if leading.peers.remove(&id).is_none() {
            return;
        }
        match leading.step {
            Step::Gathering | Step::Promising => {}
            Step::Pulling { source } if source == id => self.replace_source(out),
            Step::Pulling { .. } | Step::Synchronising | Step::Established => {
                if !self.voters.is_quorum(leading.peers.keys().copied()) {
                    out.push(Output::QuorumLost);
                }
            }
        }
    }

    /// The source of the pull is gone: the best of the remaining promises, if they are a quorum.
    fn replace_source(&mut self, out: &mut Vec<Output>) {
        let me = self.me;
        let Role::Leading(leading) = &self.role else { return };
        // What we have pulled so far is ours now.
        let own = self.promise(leading.epoch, true);
        let Role::Leading(leading) = &mut self.role else { return };
        leading.step = Step::Promising;
        leading.peer(me).stage = PeerStage::Promised(own);
        let remaining = leading.promises(&self.voters).into_keys();
        if self.voters.is_quorum(remaining) {
            self.try_choose_history(out);
        } else {
            out.push(Output::QuorumLost);
        }
    }
}

/// Broadcast.
impl Zab {
    /// Sends proposals to everyone who has been sent the history before them.
    pub(crate) fn broadcast(&mut self, prev: Zxid, entries: &[Entry], out: &mut Vec<Output>) {
        let (me, committed, last) = (self.me, self.committed, self.log.last());
        let Role::Leading(leading) = &mut self.role else { return };
        let epoch = leading.epoch;
        for (id, peer) in leading.peers.iter_mut().filter(|(id, peer)| **id != me && peer.is_in_broadcast()) {
            assert_eq!(peer.sent, prev, "a follower in the broadcast was sent everything before");
            peer.sent = last;
            Self::send(*id, Message::Propose { epoch, prev, entries: entries.to_vec(), committed }, out);
        }
        leading.announced = committed;
    }

    pub(crate) fn own_log_is_durable(&mut self, out: &mut Vec<Output>) {
        let (me, durable) = (self.me, self.durable);
        let Role::Leading(leading) = &self.role else { return };
        self.acknowledged(me, leading.epoch, durable, out);
    }

    pub(crate) fn on_ack(
        &mut self,
        from: ServerId,
        epoch: Epoch,
        zxid: Zxid,
        server: ServerId,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        if server != from {
            return Err(Error::Foreign(server));
        }
        let Role::Leading(leading) = &self.role else { return Ok(()) };
        if epoch == leading.epoch && zxid > self.log.last() {
            return Err(Error::WrongEnd { from, message: "Ack", claimed: zxid, last: self.log.last() });
        }
        self.acknowledged(from, epoch, zxid, out);
        Ok(())
    }

    fn acknowledged(&mut self, from: ServerId, epoch: Epoch, zxid: Zxid, out: &mut Vec<Output>) {
        let Role::Leading(leading) = &mut self.role else { return };
        let Some(peer) = leading.peers.get_mut(&from) else { return };
        if epoch == leading.epoch && peer.stage == PeerStage::Level {
            peer.acked = peer.acked.max(zxid);
            self.try_commit(out);
        }
    }

    /// What a quorum has durably is committed.
    fn try_commit(&mut self, out: &mut Vec<Output>) {
        let Role::Leading(leading) = &self.role else { return };
        if leading.step != Step::Established {
            return;
        }
        let mut acked: Vec<_> =
            leading.level().filter(|(id, _)| self.voters.contains(*id)).map(|(_, p)| p.acked).collect();
        acked.sort_unstable_by(|a, b| b.cmp(a));
        if let Some(zxid) = acked.get(self.voters.quorum() - 1) {
            self.commit(*zxid, out);
        }
    }

    /// Tells the followers of commits that no proposal has told them of.
    pub(crate) fn announce_commits(&mut self, out: &mut Vec<Output>) {
        let (me, zxid) = (self.me, self.committed);
        let Role::Leading(leading) = &mut self.role else { return };
        if leading.step != Step::Established || leading.announced >= zxid {
            return;
        }
        leading.announced = zxid;
        let epoch = leading.epoch;
        for (id, _) in leading.peers.iter().filter(|(id, peer)| **id != me && peer.stage == PeerStage::Level) {
            Self::send(*id, Message::Commit { epoch, zxid }, out);
        }
    }

    /// Asks all followers whether they still are. Returns the number of the question.
    pub fn ping(&mut self, out: &mut Vec<Output>) -> u64 {
        let me = self.me;
        let Role::Leading(leading) = &mut self.role else { return 0 };
        leading.pings += 1;
        let seq = leading.pings;
        leading.peer(me).pong = seq;
        for id in leading.peers.keys().filter(|id| **id != me) {
            Self::send(*id, Message::Ping { seq }, out);
        }
        seq
    }

    pub(crate) fn on_pong(&mut self, from: ServerId, seq: u64, accepted: Epoch) -> Result<(), Error> {
        let Role::Leading(leading) = &mut self.role else { return Ok(()) };
        // A larger number answers a question of our last reign: the link may have outlived it, by a hand-over.
        if seq <= leading.pings
            && accepted == leading.epoch
            && let Some(peer) = leading.peers.get_mut(&from)
        {
            peer.pong = peer.pong.max(seq);
        }
        Ok(())
    }

    /// The last question that a quorum answered as followers of this established epoch: whoever asked before it was
    /// sent knows that no higher epoch was established until then.
    #[must_use]
    pub fn confirmed(&self) -> u64 {
        let Role::Leading(leading) = &self.role else { return 0 };
        if leading.step != Step::Established {
            return 0;
        }
        let mut pongs: Vec<_> = leading.level().map(|(_, peer)| peer.pong).collect();
        pongs.sort_unstable_by(|a, b| b.cmp(a));
        pongs.get(self.voters.quorum() - 1).copied().unwrap_or(0)
    }

    /// Our followers and how far each has come: what a leader knows of its ensemble.
    pub fn followers(&self) -> impl Iterator<Item = (ServerId, Zxid)> + '_ {
        let peers = match &self.role {
            Role::Leading(leading) => Some(&leading.peers),
            Role::Following(_) | Role::Looking => None,
        };
        peers.into_iter().flatten().filter(|(id, _)| **id != self.me).map(|(id, peer)| (*id, peer.acked))
    }
}

/// Hand-over.
impl Zab {
    /// Whether `target` could take over at once.
    ///
    /// # Errors
    /// If not, why.
    pub fn can_hand_over(&self, target: ServerId) -> Result<(), NotReady> {
        let Role::Leading(leading) = &self.role else { return Err(NotReady::NotLeading) };
        let last = self.log.last();
        if leading.step != Step::Established {
            return Err(NotReady::NotLeading);
        }
        if self.committed != last || self.durable != last {
            return Err(NotReady::UnderWay);
        }
        let level = leading.peers.get(&target).is_some_and(|p| p.stage == PeerStage::Level && p.acked == last);
        if !level || target == self.me {
            return Err(NotReady::NotLevel);
        }
        Ok(())
    }

    /// Hands over to the server that `choice` proposes. From here on our epoch is over for us.
    ///
    /// # Errors
    /// If the target cannot take over now; nothing has changed then.
    pub fn hand_over(&mut self, round: Round, choice: Proposal, out: &mut Vec<Output>) -> Result<(), NotReady> {
        let target = choice.id;
        self.can_hand_over(target)?;
        let (me, last) = (self.me, self.log.last());
        let Role::Leading(leading) = core::mem::replace(&mut self.role, Role::Looking) else {
            return Err(NotReady::NotLeading);
        };
        let epoch = leading.epoch;
        let next = leading.accepted_max.max(self.accepted_epoch).next();
        for (id, peer) in leading.peers.iter().filter(|(id, _)| **id != me) {
            if peer.stage == PeerStage::Level {
                Self::send(*id, Message::Handover { epoch, next, last, round, choice: choice.clone() }, out);
            } else {
                self.reset(*id, out);
            }
        }
        self.take_over(next, target, round, out);
        out.push(Output::HandedOver { round, choice });
        Ok(())
    }

    /// A follower took our hand-over.
    pub(crate) fn on_taken_over(
        &mut self,
        from: ServerId,
        epoch: Epoch,
        last: Zxid,
        out: &mut Vec<Output>,
    ) -> Result<(), Error> {
        if let Some(waiting) = self.waiting.get_mut(&from) {
            waiting.taken_over = Some((epoch, last));
        } else {
            self.taken_over(from, epoch, last, out);
        }
        Ok(())
    }

    pub(crate) fn own_take_over_is_durable(&mut self, epoch: Epoch, last: Zxid, out: &mut Vec<Output>) {
        self.taken_over(self.me, epoch, last, out);
    }

    /// Counts as a fresh promise and as the acknowledgement of the history in one. Nobody but us proposes in this
    /// epoch, so a history of the epoch that ends before our first proposal ends where the hand-over did.
    fn taken_over(&mut self, from: ServerId, epoch: Epoch, last: Zxid, out: &mut Vec<Output>) {
        if !self.log.reaches(last) {
            return;
        }
        let mut epochs = self.log.epochs().clone();
        epochs.truncate(last);
        let promise = Promise { epoch, fresh: true, current_epoch: epoch, last_zxid: last, epochs, blank: false };
        self.promised(from, promise, Some(last), out);
    }

    /// A follower that took our hand-over has the history up to `last` already, and waits to hear that we are
    /// established; what we proposed since follows as proposals.
    fn skip_synchronisation(&mut self, id: ServerId, last: Zxid, out: &mut Vec<Output>) {
        let (ours, committed) = (self.log.last(), self.committed);
        let Role::Leading(leading) = &mut self.role else { return };
        let (epoch, established) = (leading.epoch, leading.step == Step::Established);
        let peer = leading.peer(id);
        peer.stage = PeerStage::Level;
        peer.acked = last;
        peer.sent = ours;
        if !established {
            return self.try_establish(out);
        }
        Self::send(id, Message::UpToDate { epoch, committed: last.min(committed) }, out);
        let entries: Vec<_> = self.log.between(last, ours).cloned().collect();
        if !entries.is_empty() {
            Self::send(id, Message::Propose { epoch, prev: last, entries, committed }, out);
        }
        self.try_commit(out);
    }
}
