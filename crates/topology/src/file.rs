//! Parses a topology file into a complete `Topology`, or reports the line and the reason why it is invalid.
//!
//! No float leaves this module: each is checked and converted to an integer number of nanoseconds, bits or
//! thousandths. The meaning of the values is in `link`.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use crate::error::{Error, Reason};
use crate::link::Link;
use crate::topology::{Topology, ends};

pub(crate) fn parse(text: &str) -> Result<Topology, Error> {
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_at(text, span.start));
        Error { file: None, line, reason: Reason::Syntax(error.message().to_owned()) }
    })?;
    let parser = Parser(text);
    let sites = parser.sites(&file)?;
    let links = parser.links(&file, &sites)?;
    let loads = parser.loads(&file, &sites)?;
    let cut = file.link.iter().filter(|link| link.cut).map(|link| ends(link.a.get_ref(), link.b.get_ref())).collect();
    parser.check_quorum(&file, &sites)?;
    let sites = sites.into_iter().map(|(id, place)| (id, place.site)).collect();
    Ok(Topology { name: file.name, sites, links, cut, loads })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    name: String,
    jitter_percent: Option<Spanned<f64>>,
    loss_percent: Option<Spanned<f64>>,
    window_kb: Option<Spanned<f64>>,
    #[serde(default)]
    server: Vec<ServerEntry>,
    #[serde(default)]
    link: Vec<LinkEntry>,
    #[serde(default)]
    load: Vec<LoadEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerEntry {
    id: Spanned<u64>,
    site: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkEntry {
    a: Spanned<String>,
    b: Spanned<String>,
    rtt_ms: Spanned<f64>,
    bandwidth_mbit: Option<Spanned<f64>>,
    #[serde(default)]
    cut: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadEntry {
    site: Spanned<String>,
    rate: Spanned<f64>,
}

/// The site of a server, and the line that defines it.
struct ServerSite {
    site: String,
    line: usize,
}

type Sites = BTreeMap<u64, ServerSite>;

/// The text of the file, to find the line of an error.
struct Parser<'a>(&'a str);

impl Parser<'_> {
    fn sites(&self, file: &File) -> Result<Sites, Error> {
        let mut sites = Sites::new();
        for server in &file.server {
            let (id, line) = (*server.id.get_ref(), self.line(&server.id));
            if let Some(first) = sites.get(&id) {
                return Err(error_at(line, Reason::DuplicateServer { id, first: first.line }));
            }
            sites.insert(id, ServerSite { site: server.site.get_ref().clone(), line });
        }
        if sites.is_empty() { Err(error_at(1, Reason::NoServers)) } else { Ok(sites) }
    }

    fn links(&self, file: &File, sites: &Sites) -> Result<BTreeMap<(String, String), Link>, Error> {
        let common = Link {
            rtt_ns: INSIDE_RTT_NS,
            jitter_ppm: self.optional("jitter_percent", file.jitter_percent.as_ref(), 0)?,
            loss_ppm: self.optional("loss_percent", file.loss_percent.as_ref(), 0)?,
            bandwidth_bps: BANDWIDTH_BPS,
            window_bytes: self.optional("window_kb", file.window_kb.as_ref(), WINDOW_BYTES)?,
        };
        let mut links: BTreeMap<(String, String), (Link, usize)> = BTreeMap::new();
        for entry in &file.link {
            let line = self.line(&entry.a);
            self.known_site(&entry.a, sites)?;
            self.known_site(&entry.b, sites)?;
            let rtt_ns = self.integer("rtt_ms", &entry.rtt_ms)?;
            let bandwidth_bps = self.optional("bandwidth_mbit", entry.bandwidth_mbit.as_ref(), BANDWIDTH_BPS)?;
            let (a, b) = ends(entry.a.get_ref(), entry.b.get_ref());
            if let Some((_, first)) = links.get(&(a.clone(), b.clone())) {
                return Err(error_at(line, Reason::DuplicateLink { a, b, first: *first }));
            }
            links.insert((a, b), (Link { rtt_ns, bandwidth_bps, ..common }, line));
        }
        let mut links = links.into_iter().map(|(ends, (link, _))| (ends, link)).collect();
        complete_links(&mut links, common, sites)?;
        Ok(links)
    }

    /// A single server is its own quorum; several servers must be able to exchange messages.
    fn check_quorum(&self, file: &File, sites: &Sites) -> Result<(), Error> {
        match &file.loss_percent {
            Some(loss) if *loss.get_ref() >= 100.0 && sites.len() > 1 => {
                Err(error_at(self.line(loss), Reason::NoQuorum { servers: sites.len() }))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn loads(&self, file: &File, sites: &Sites) -> Result<BTreeMap<String, u64>, Error> {
        let mut loads: BTreeMap<String, (u64, usize)> = BTreeMap::new();
        for entry in &file.load {
            let (site, line) = (self.known_site(&entry.site, sites)?.to_owned(), self.line(&entry.site));
            let rate = self.integer("rate", &entry.rate)?;
            if let Some((_, first)) = loads.get(&site) {
                return Err(error_at(line, Reason::DuplicateLoad { site, first: *first }));
            }
            loads.insert(site, (rate, line));
        }
        Ok(loads.into_iter().map(|(site, (rate, _))| (site, rate)).collect())
    }

    fn known_site<'s>(&self, site: &'s Spanned<String>, sites: &Sites) -> Result<&'s str, Error> {
        if sites.values().any(|place| place.site == *site.get_ref()) {
            return Ok(site.get_ref());
        }
        Err(error_at(self.line(site), Reason::UnknownSite { site: site.get_ref().clone() }))
    }

    fn optional(&self, key: &'static str, value: Option<&Spanned<f64>>, absent: u64) -> Result<u64, Error> {
        value.map_or(Ok(absent), |value| self.integer(key, value))
    }

    /// Converts a float of the file to an integer in our unit, or returns an error with its line.
    fn integer(&self, key: &'static str, value: &Spanned<f64>) -> Result<u64, Error> {
        let number = *value.get_ref();
        let (_, unit, low, high, allowed) =
            *LIMITS.iter().find(|limit| limit.0 == key).expect("every key with a number has its limits");
        // Written so that NaN fails.
        if number >= low && number <= high {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the limits keep it within 0 to 2^53"
            )]
            return Ok((number * unit).round() as u64);
        }
        Err(error_at(self.line(value), Reason::Range { key, value: number.to_string(), allowed }))
    }

    fn line<T>(&self, value: &Spanned<T>) -> usize {
        line_at(self.0, value.span().start)
    }
}

/// Checks that every pair of sites has a link; if not, the error names the line of the first server of the later site.
/// A site whose inner link is not in the file gets that of a local network.
fn complete_links(links: &mut BTreeMap<(String, String), Link>, inside: Link, sites: &Sites) -> Result<(), Error> {
    let mut first_lines: BTreeMap<&str, usize> = BTreeMap::new();
    for place in sites.values() {
        let line = first_lines.entry(&place.site).or_insert(place.line);
        *line = place.line.min(*line);
    }
    for a in first_lines.keys() {
        links.entry(ends(a, a)).or_insert(inside);
        for (b, line) in first_lines.iter().filter(|(b, _)| *b > a) {
            if !links.contains_key(&ends(a, b)) {
                return Err(error_at(*line, Reason::MissingLink { a: (*a).to_owned(), b: (*b).to_owned() }));
            }
        }
    }
    Ok(())
}

fn error_at(line: usize, reason: Reason) -> Error {
    Error { file: None, line, reason }
}

fn line_at(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

/// The round trip inside a site, if not in the file: that of a local network.
const INSIDE_RTT_NS: u64 = 100_000;

/// The bandwidth, if not in the file: a gigabit line as seen by TCP.
const BANDWIDTH_BPS: u64 = 940_000_000;

/// The TCP window, if not in the file: what Linux grows to without tuning.
const WINDOW_BYTES: u64 = 4096 * 1024;

/// For each number in the file: its key, the factor to our unit, minimum, maximum, and both in words. The maxima keep
/// every product below 2^53, where a float is still exact to one.
const LIMITS: [(&str, f64, f64, f64, &str); 6] = [
    // Above 133 % the shortest delay would be negative.
    ("jitter_percent", 1e4, 0.0, 100.0, "between 0 and 100"),
    ("loss_percent", 1e4, 0.0, 100.0, "between 0 and 100"),
    ("window_kb", 1024.0, 1.0, 1e9, "between 1 and 1000000000"),
    ("rtt_ms", 1e6, 0.0, 600_000.0, "between 0 and 600000"),
    ("bandwidth_mbit", 1e6, 1e-3, 1e7, "between 0.001 and 10000000"),
    ("rate", 1e3, 0.0, 1e9, "between 0 and 1000000000"),
];
