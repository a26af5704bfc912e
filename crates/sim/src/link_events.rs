//! Events of links: arrivals, opened and closed connections, and redialling.

use pole_node::{Channel, Message};
use pole_types::ServerId;

use super::Mark;
use super::checker::CheckResult;
use super::hosts::{CrashKind, InboxItem};
use super::network::LinkId;
use super::scripting::id;
use super::world::{SimEvent, World};
use crate::recording::Delivery;

impl World {
    pub(crate) fn arrives(&mut self, link: LinkId, end: usize, generation: u32, message: Message) -> CheckResult {
        let server = self.network.links[link].ends[end];
        if self.is_down(server) {
            self.record_message(self.network.links[link].ends[1 - end], id(server), &message, Delivery::Lost);
        }
        self.deliver(server, InboxItem::Message { link, end, generation, message })
    }

    pub(crate) fn opened(&mut self, link: LinkId, end: usize, generation: u32) -> CheckResult {
        let wire = &self.network.links[link];
        if wire.generation != generation || !wire.up {
            return Ok(());
        }
        let server = wire.ends[end];
        self.deliver(server, InboxItem::Opened { link, end, generation })
    }

    pub(crate) fn closed(&mut self, link: LinkId, end: usize, generation: u32) -> CheckResult {
        let server = self.network.links[link].ends[end];
        self.deliver(server, InboxItem::Closed { link, end, generation })
    }

    pub(crate) fn stalled(&mut self, link: LinkId, end: usize, generation: u32) -> CheckResult {
        match self.network.still_stalls(link, end, generation, self.now) {
            true => self.breaks(link, generation),
            false => Ok(()),
        }
    }

    /// Breaks the connection for both ends.
    pub(crate) fn breaks(&mut self, link: LinkId, generation: u32) -> CheckResult {
        let wire = &mut self.network.links[link];
        if wire.generation != generation || !wire.up {
            return Ok(());
        }
        wire.up = false;
        let wait = self.network.redial_wait();
        self.dial_later(link, wait);
        self.closed(link, 0, generation)?;
        self.closed(link, 1, generation)
    }

    /// Breaks the connection for one end. The other learns of it when a new connection replaces it, or after the
    /// transport timeout.
    pub(crate) fn breaks_at(&mut self, link: LinkId, end: usize) -> CheckResult {
        let wire = &mut self.network.links[link];
        let generation = wire.generation;
        wire.up = false;
        let at = self.now + self.network.settings.transport_timeout;
        self.queue.push(at, SimEvent::Closed { link, end: 1 - end, generation });
        let wait = self.network.redial_wait();
        self.dial_later(link, wait);
        self.closed(link, end, generation)
    }

    /// A process closes its end of a link.
    pub(crate) fn reset(&mut self, server: usize, peer: ServerId, channel: Channel) {
        let Some((link, end)) = self.network.find(server, peer, channel) else { return };
        let generation = self.network.links[link].generation;
        let notified_at = self.network.close(link, end, self.now + self.hosts[server].step_cost);
        let notified_at = notified_at.filter(|_| !self.loses_fin(link));
        let at = notified_at.unwrap_or(self.now + self.network.settings.transport_timeout);
        self.queue.push(at, SimEvent::Closed { link, end: 1 - end, generation });
        let wait = self.network.redial_wait();
        self.dial_later(link, wait);
    }

    /// Draws whether the notification of a close is lost.
    fn loses_fin(&mut self, link: LinkId) -> bool {
        let lost = self.network.loses_fin();
        if lost {
            self.report.marks.hit(Mark::FinLost);
            self.network.links[link].ends.into_iter().for_each(|server| self.mark_fault(server));
        }
        lost
    }

    /// Closes all links of a server that crashed. The peers learn of it at once, or after the transport timeout.
    pub(crate) fn drop_links(&mut self, server: usize, crash: CrashKind) {
        for link in 0..self.network.links.len() {
            let wire = &self.network.links[link];
            let Some(end) = wire.ends.iter().position(|s| *s == server) else { continue };
            let generation = wire.generation;
            let notified_at = self.network.close(link, end, self.now);
            let at = match crash {
                CrashKind::Killed => notified_at,
                CrashKind::Silent => None,
            };
            let at = at.unwrap_or(self.now + self.network.settings.transport_timeout);
            self.queue.push(at, SimEvent::Closed { link, end: 1 - end, generation });
            let wait = self.network.redial_wait();
            self.dial_later(link, wait);
        }
    }

    pub(crate) fn dial_later(&mut self, link: LinkId, wait: u64) {
        let [a, b] = self.network.links[link].ends;
        if !self.setup.members.are_linked(id(a), id(b)) {
            return;
        }
        if !std::mem::replace(&mut self.network.links[link].dialling, true) {
            self.queue.push(self.now + wait, SimEvent::Dial(link));
        }
    }

    /// Tries to open a closed link; on failure, schedules another attempt.
    pub(crate) fn dial(&mut self, link: LinkId) -> CheckResult {
        let wire = &mut self.network.links[link];
        wire.dialling = false;
        if wire.up {
            return Ok(());
        }
        let [a, b] = wire.ends;
        let times = match self.is_down(a) || self.is_down(b) {
            true => None,
            false => self.network.dial(link, self.now),
        };
        let Some(times) = times else {
            let wait = self.network.redial_wait().max(20_000_000);
            self.dial_later(link, wait);
            return Ok(());
        };
        let generation = self.network.links[link].generation;
        for (end, at) in times.into_iter().enumerate() {
            self.queue.push(at, SimEvent::Opened { link, end, generation });
        }
        Ok(())
    }
}
