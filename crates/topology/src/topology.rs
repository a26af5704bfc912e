//! A validated topology: the sites of servers, the links between them, and the load of each site.
//!
//! Invariants: every server has a site, every pair of sites has a link, and every load belongs to a site with a
//! server.
//!
//! The file format and its errors are in `file`, the effect of a link on a message in `link`.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Error;
use crate::file;
use crate::link::Link;

/// A server and its site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    /// The id, as in `server.N`.
    pub id: u64,
    /// The site, as in `[[server]]`.
    pub site: String,
}

/// The requests of the clients of one site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Load {
    /// The site of the clients. Each server of the site gets the same share.
    pub site: String,
    /// Thousandths of a write request per second.
    pub rate_milli: u64,
}

/// Sites, links and loads. Created by [`Topology::parse`] or [`Topology::preset`], so always consistent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Topology {
    pub(crate) name: String,
    pub(crate) sites: BTreeMap<u64, String>,
    /// By the names of both ends, the smaller first. The link from a site to itself is the network inside the site.
    pub(crate) links: BTreeMap<(String, String), Link>,
    /// The ends of the links over which nothing arrives.
    pub(crate) cut: BTreeSet<(String, String)>,
    pub(crate) loads: BTreeMap<String, u64>,
}

impl Topology {
    /// Parses a topology file. Anything ambiguous is rejected.
    ///
    /// # Errors
    /// The line and the reason, see [`crate::Reason`]; add the file name with [`Error::in_file`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        file::parse(text)
    }

    /// The name given in the file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All servers, by id.
    pub fn servers(&self) -> impl Iterator<Item = Server> + '_ {
        self.sites.iter().map(|(id, site)| Server { id: *id, site: site.clone() })
    }

    /// The site of a server, or None if the topology has no such server.
    #[must_use]
    pub fn site(&self, server: u64) -> Option<&str> {
        self.sites.get(&server).map(String::as_str)
    }

    /// The link between two servers, or [`Link::LOOPBACK`] from a server to itself.
    #[must_use]
    pub fn link(&self, a: u64, b: u64) -> Option<Link> {
        let (from, to) = (self.site(a)?, self.site(b)?);
        if a == b { Some(Link::LOOPBACK) } else { self.link_of_sites(from, to) }
    }

    /// The link between two sites, or the one inside a site.
    #[must_use]
    pub fn link_of_sites(&self, a: &str, b: &str) -> Option<Link> {
        self.links.get(&ends(a, b)).copied()
    }

    /// Whether nothing arrives over the link between two servers, in either direction. The simulator has its own faults
    /// and ignores this.
    #[must_use]
    pub fn is_cut(&self, a: u64, b: u64) -> bool {
        let sites = self.site(a).zip(self.site(b));
        a != b && sites.is_some_and(|(a, b)| self.cut.contains(&ends(a, b)))
    }

    /// The mean round trip between two servers, in nanoseconds.
    #[must_use]
    pub fn rtt(&self, a: u64, b: u64) -> Option<u64> {
        self.link(a, b).map(|link| link.rtt_ns)
    }

    /// The throughput of a bulk transfer between two servers, in bits per second: [`Link::throughput_bps`].
    #[must_use]
    pub fn bandwidth(&self, a: u64, b: u64) -> Option<u64> {
        self.link(a, b).map(|link| link.throughput_bps())
    }

    /// The loads, by site; a site without one has no clients.
    pub fn loads(&self) -> impl Iterator<Item = Load> + '_ {
        self.loads.iter().map(|(site, rate)| Load { site: site.clone(), rate_milli: *rate })
    }

    /// The requests that clients send to one server, in thousandths per second: its share of the load of its site.
    #[must_use]
    pub fn rate_milli(&self, server: u64) -> u64 {
        let Some(site) = self.site(server) else { return 0 };
        let sharing = self.sites.values().filter(|other| *other == site).count() as u64;
        self.loads.get(site).copied().unwrap_or(0) / sharing
    }

    /// The same total load, distributed unevenly: the share `permille` / 1000 at `site`, the rest in equal parts at
    /// the other sites. This is p = permille / 1000 in the paper, with the site of [`crate::favoured`].
    #[must_use]
    pub fn weighted(&self, site: &str, permille: u64) -> Self {
        let total: u128 = self.loads.values().map(|rate| u128::from(*rate)).sum();
        let names: BTreeSet<&String> = self.sites.values().collect();
        let permille = u128::from(permille.min(1000));
        let others = (names.len() as u128).saturating_sub(1).max(1);
        let share =
            |name: &str| if name == site { total * permille / 1000 } else { total * (1000 - permille) / 1000 / others };
        let loads = names.iter().map(|name| ((*name).clone(), u64::try_from(share(name)).unwrap_or(u64::MAX)));
        Self { loads: loads.collect(), ..self.clone() }
    }

    /// The same topology with another round trip between two sites, in nanoseconds, for experiments that vary it.
    /// Below the round trip inside a site (0.1 ms by default), a server would be nearer to other sites than to its
    /// own.
    #[must_use]
    pub fn with_rtt(&self, a: &str, b: &str, rtt_ns: u64) -> Self {
        let mut changed = self.clone();
        if let Some(link) = changed.links.get_mut(&ends(a, b)) {
            link.rtt_ns = rtt_ns;
        }
        changed
    }
}

/// The key of a link: it has no direction, so the smaller name comes first.
pub(crate) fn ends(a: &str, b: &str) -> (String, String) {
    let (low, high) = if a <= b { (a, b) } else { (b, a) };
    (low.to_owned(), high.to_owned())
}
