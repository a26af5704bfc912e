//! The emulated links as they are now, and the topology file that the servers read them from.

use std::collections::BTreeSet;

use pole_api::UpLink;
use pole_topology::{Link, Topology};

/// Changes of the links of a topology.
pub(crate) struct Links {
    topology: Topology,
    /// Sites that are cut off from all others.
    cut_off: BTreeSet<String>,
    sites: Vec<String>,
}

impl Links {
    pub(crate) fn new(topology: &Topology) -> Self {
        let sites: BTreeSet<String> = topology.servers().map(|server| server.site).collect();
        Self { topology: topology.clone(), cut_off: BTreeSet::new(), sites: sites.into_iter().collect() }
    }

    pub(crate) fn set_rtt(&mut self, a: &str, b: &str, rtt_ms: f64) -> Result<(), String> {
        if a == b || ![a, b].iter().all(|site| self.sites.iter().any(|own| own == site)) {
            return Err(format!("there is no link between {a} and {b}: the sites are {}", self.sites.join(", ")));
        }
        if !(RTT_MS_MIN..=RTT_MS_MAX).contains(&rtt_ms) {
            return Err(format!("rtt_ms: expected a number from {RTT_MS_MIN} to {RTT_MS_MAX}"));
        }
        self.topology = self.topology.with_rtt(a, b, (rtt_ms * 1e6) as u64);
        Ok(())
    }

    pub(crate) fn set_cut(&mut self, site: &str, is_cut: bool) -> Result<(), String> {
        if !self.sites.iter().any(|own| own == site) {
            return Err(format!("there is no site {site}: the sites are {}", self.sites.join(", ")));
        }
        if self.sites.len() == 1 {
            return Err("there is only one site, which cannot be cut off from another".to_owned());
        }
        if is_cut {
            self.cut_off.insert(site.to_owned())
        } else {
            self.cut_off.remove(site)
        };
        Ok(())
    }

    /// The links between different sites.
    pub(crate) fn list(&self) -> Vec<UpLink> {
        let links = self.pairs().filter(|(a, b, _)| a != b);
        let link = |(a, b, link): (&String, &String, Link)| UpLink {
            a: a.clone(),
            b: b.clone(),
            rtt_ms: link.rtt_ns as f64 / 1e6,
            cut: self.is_cut(a, b),
        };
        links.map(link).collect()
    }

    /// The topology file.
    pub(crate) fn text(&self) -> String {
        let mut text =
            format!("# Written by `pole up`. Changes take effect at once.\nname = {:?}\n", self.topology.name());
        if let Some((_, _, link)) = self.pairs().next() {
            let percent = |ppm: u64| ppm as f64 / 1e4;
            text += &format!(
                "jitter_percent = {:?}\nloss_percent = {:?}\n",
                percent(link.jitter_ppm),
                percent(link.loss_ppm)
            );
            text += &format!("window_kb = {:?}\n", link.window_bytes as f64 / 1024.0);
        }
        for server in self.topology.servers() {
            text += &format!("\n[[server]]\nid = {}\nsite = {:?}\n", server.id, server.site);
        }
        for (a, b, link) in self.pairs() {
            let (rtt_ms, mbit) = (link.rtt_ns as f64 / 1e6, link.bandwidth_bps as f64 / 1e6);
            text += &format!("\n[[link]]\na = {a:?}\nb = {b:?}\nrtt_ms = {rtt_ms:?}\nbandwidth_mbit = {mbit:?}\n");
            if self.is_cut(a, b) {
                text += "cut = true\n";
            }
        }
        for load in self.topology.loads() {
            text += &format!("\n[[load]]\nsite = {:?}\nrate = {:?}\n", load.site, load.rate_milli as f64 / 1e3);
        }
        text
    }

    fn is_cut(&self, a: &str, b: &str) -> bool {
        a != b && (self.cut_off.contains(a) || self.cut_off.contains(b))
    }

    /// All pairs of sites, and each site with itself.
    fn pairs(&self) -> impl Iterator<Item = (&String, &String, Link)> {
        let pairs = self.sites.iter().enumerate().flat_map(|(at, a)| self.sites[at..].iter().map(move |b| (a, b)));
        pairs.filter_map(|(a, b)| Some((a, b, self.topology.link_of_sites(a, b)?)))
    }
}

/// Below the round trip inside a site, servers would be nearer to other sites than to their own.
const RTT_MS_MIN: f64 = 0.1;
/// Longer than any round trip on earth.
const RTT_MS_MAX: f64 = 1_000.0;

#[cfg(test)]
mod tests {
    use pole_topology::PRESETS;

    use super::*;

    #[test]
    fn the_written_file_is_the_same_topology() {
        for (name, text) in PRESETS {
            let topology = Topology::parse(text).unwrap();
            assert_eq!(Topology::parse(&Links::new(&topology).text()), Ok(topology), "{name}");
        }
    }

    #[test]
    fn changes_are_in_the_file_and_in_the_list() {
        let (_, text) = PRESETS.iter().find(|(name, _)| *name == "d1").unwrap();
        let mut links = Links::new(&Topology::parse(text).unwrap());
        links.set_rtt("D3", "D1", 12.5).unwrap();
        links.set_cut("D3", true).unwrap();
        let shown: Vec<_> = links.list().into_iter().map(|link| (link.a + &link.b, link.rtt_ms, link.cut)).collect();
        assert_eq!(shown, [("D1D2".into(), 9.88, false), ("D1D3".into(), 12.5, true), ("D2D3".into(), 53.26, true)]);
        let written = Topology::parse(&links.text()).unwrap();
        assert_eq!(written.rtt(1, 4), Some(12_500_000));
        assert!(written.is_cut(1, 4) && written.is_cut(2, 1) && !written.is_cut(2, 4) && !written.is_cut(4, 5));
        links.set_cut("D3", false).unwrap();
        assert!(!Topology::parse(&links.text()).unwrap().is_cut(1, 4));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let (_, text) = PRESETS[0];
        let mut links = Links::new(&Topology::parse(text).unwrap());
        let own = links.sites[0].clone();
        assert!(links.set_rtt("nowhere", &own, 1.0).is_err() && links.set_rtt(&own, &own, 1.0).is_err());
        let other = links.sites[1].clone();
        for wrong in [0.0, -1.0, 2_000.0, f64::NAN] {
            assert!(links.set_rtt(&own, &other, wrong).is_err(), "{wrong}");
        }
        assert!(links.set_cut("nowhere", true).is_err());
    }
}
