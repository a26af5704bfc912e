//! The links of one server as its node's loop uses them.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use pole_election::ServerId;
use pole_node::{Channel, Message};
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, spawn_local};

use super::config::{Listen, PeerConfig, PeerError};
use super::delay::Delays;
use super::hub::Hub;
use super::inbox::Inbox;
use super::{dial, listen};

/// All links of one server. Dropping it closes them and frees the ports.
///
/// The order of calls: any number of [`Peers::send`] and [`Peers::reset`] as the node's effects say, then one
/// [`Peers::flush`]; arrivals are taken from the [`Inbox`] one at a time.
#[derive(Debug)]
pub struct Peers {
    hub: Rc<Hub>,
    listen: Listen,
    /// Links with messages since the last flush.
    touched: BTreeSet<(ServerId, Channel)>,
    tasks: Vec<AbortHandle>,
}

/// Opens both ports and starts to dial. Must be called on a `LocalSet`, on which all links then live.
///
/// # Errors
/// If one of the ports cannot be listened on; [`PeerError::is_in_use`] tells why.
pub async fn open(config: PeerConfig, inbox: Inbox) -> Result<Peers, PeerError> {
    let Listen { quorum, election } = config.listen;
    let quorum = listen::bind(quorum, "quorum")?;
    let election = listen::bind(election, "election")?;
    let at = |listener: &TcpListener, channel, asked: SocketAddr| {
        let unknown = |source: io::Error| PeerError::Listen { channel, address: asked, source };
        listener.local_addr().map_err(unknown)
    };
    let listen = Listen {
        quorum: at(&quorum, "quorum", config.listen.quorum)?,
        election: at(&election, "election", config.listen.election)?,
    };
    let hub = Rc::new(Hub::new(config, inbox));
    let mut tasks = vec![
        spawn_local(listen::keep_listening(Rc::clone(&hub), quorum, Channel::Quorum)).abort_handle(),
        spawn_local(listen::keep_listening(Rc::clone(&hub), election, Channel::Election)).abort_handle(),
    ];
    for link in hub.links.values().filter(|link| link.peer < hub.me) {
        tasks.push(spawn_local(dial::keep_dialled(Rc::clone(&hub), Rc::clone(link))).abort_handle());
    }
    Ok(Peers { hub, listen, touched: BTreeSet::new(), tasks })
}

impl Peers {
    /// Queues a message; [`Peers::flush`] writes it. On a link that is down, or to a stranger, it is lost.
    pub fn send(&mut self, to: ServerId, channel: Channel, message: &Message) {
        if let Some(link) = self.hub.links.get(&(to, channel)) {
            link.send(&self.hub, message);
            self.touched.insert((to, channel));
        }
    }

    /// Writes each link that has something to say, once, as far as its socket has room. The rest follows by itself.
    pub fn flush(&mut self) {
        for key in std::mem::take(&mut self.touched) {
            self.hub.links[&key].flush(&self.hub);
        }
    }

    /// Closes a link, without an event. Nothing of it arrives any more, also of what waits in the inbox; it is opened
    /// again when possible.
    pub fn reset(&mut self, peer: ServerId, channel: Channel) {
        if let Some(link) = self.hub.links.get(&(peer, channel)) {
            link.reset(&self.hub);
        }
    }

    /// Changes the emulated lines, for what is sent from now on.
    pub fn set_delays(&mut self, delays: Option<Delays>) {
        self.hub.set_delays(delays);
    }

    /// Where this server listens.
    #[must_use]
    pub fn listen(&self) -> Listen {
        self.listen
    }

    /// Writes what the sockets take, stops listening and dialling, and closes all links; their ends arrive as `Down`.
    pub fn close_all(&mut self) {
        self.flush();
        self.tasks.drain(..).for_each(|task| task.abort());
        self.hub.links.values().for_each(|link| link.end(&self.hub));
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.close_all();
    }
}
