//! What happens on links: arrivals, openings and closings, and the dialling of what is closed.

use pole_election::ServerId;
use pole_node::{Channel, Message};

use super::Mark;
use super::hosts::{Death, Item};
use super::judge::Verdict;
use super::network::LinkId;
use super::stage::id;
use super::world::{Happening, World};
use crate::play::Passage;

impl World {
    pub(crate) fn arrives(&mut self, link: LinkId, end: usize, generation: u32, message: Message) -> Verdict {
        let server = self.network.links[link].ends[end];
        if self.is_dead(server) {
            self.record_message(self.network.links[link].ends[1 - end], id(server), &message, Passage::Lost);
        }
        self.hand(server, Item::Message { link, end, generation, message })
    }

    pub(crate) fn opened(&mut self, link: LinkId, end: usize, generation: u32) -> Verdict {
        let wire = &self.network.links[link];
        if wire.generation != generation || !wire.up {
            return Ok(());
        }
        let server = wire.ends[end];
        self.hand(server, Item::Opened { link, end, generation })
    }

    pub(crate) fn closed(&mut self, link: LinkId, end: usize, generation: u32) -> Verdict {
        let server = self.network.links[link].ends[end];
        self.hand(server, Item::Closed { link, end, generation })
    }

    pub(crate) fn stalled(&mut self, link: LinkId, end: usize, generation: u32) -> Verdict {
        match self.network.still_stalls(link, end, generation, self.now) {
            true => self.breaks(link, generation),
            false => Ok(()),
        }
    }

    /// The connection breaks for both ends.
    pub(crate) fn breaks(&mut self, link: LinkId, generation: u32) -> Verdict {
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

    /// The connection breaks for one end; the other hears of it when a new one takes its place, or much later.
    pub(crate) fn breaks_at(&mut self, link: LinkId, end: usize) -> Verdict {
        let wire = &mut self.network.links[link];
        let generation = wire.generation;
        wire.up = false;
        let at = self.now + self.network.settings.transport_timeout;
        self.queue.push(at, Happening::Closed { link, end: 1 - end, generation });
        let wait = self.network.redial_wait();
        self.dial_later(link, wait);
        self.closed(link, end, generation)
    }

    /// A process closes its end.
    pub(crate) fn reset(&mut self, server: usize, peer: ServerId, channel: Channel) {
        let Some((link, end)) = self.network.find(server, peer, channel) else { return };
        let generation = self.network.links[link].generation;
        let heard = self.network.close(link, end, self.now + self.hosts[server].step_cost);
        let heard = heard.filter(|_| !self.loses_fin(link));
        let at = heard.unwrap_or(self.now + self.network.settings.transport_timeout);
        self.queue.push(at, Happening::Closed { link, end: 1 - end, generation });
        let wait = self.network.redial_wait();
        self.dial_later(link, wait);
    }

    /// Whether the end of a connection is not heard at the other end.
    fn loses_fin(&mut self, link: LinkId) -> bool {
        let lost = self.network.loses_fin();
        if lost {
            self.report.marks.hit(Mark::FinLost);
            self.network.links[link].ends.into_iter().for_each(|server| self.touched(server));
        }
        lost
    }

    /// The process of a server is gone: its ends are closed, and the others hear of it now or much later.
    pub(crate) fn drop_links(&mut self, server: usize, death: Death) {
        for link in 0..self.network.links.len() {
            let wire = &self.network.links[link];
            let Some(end) = wire.ends.iter().position(|s| *s == server) else { continue };
            let generation = wire.generation;
            let heard = self.network.close(link, end, self.now);
            let at = match death {
                Death::Killed => heard,
                Death::Silent => None,
            };
            let at = at.unwrap_or(self.now + self.network.settings.transport_timeout);
            self.queue.push(at, Happening::Closed { link, end: 1 - end, generation });
            let wait = self.network.redial_wait();
            self.dial_later(link, wait);
        }
    }

    pub(crate) fn dial_later(&mut self, link: LinkId, wait: u64) {
        if !std::mem::replace(&mut self.network.links[link].dialling, true) {
            self.queue.push(self.now + wait, Happening::Dial(link));
        }
    }

    /// Tries to open a closed link; again later if that is not possible.
    pub(crate) fn dial(&mut self, link: LinkId) -> Verdict {
        let wire = &mut self.network.links[link];
        wire.dialling = false;
        if wire.up {
            return Ok(());
        }
        let [a, b] = wire.ends;
        let times = match self.is_dead(a) || self.is_dead(b) {
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
            self.queue.push(at, Happening::Opened { link, end, generation });
        }
        Ok(())
    }
}
