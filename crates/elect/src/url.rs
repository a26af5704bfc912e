//! The URL of a store: `etcd://host:2379/app/leader`.
//!
//! ```text
//! scheme://[user[:password]@][host[:port][,host[:port]]…][/path][?key=value[&key=value]…]
//! ```
//!
//! Parts are percent-decoded once. What the path and the options mean is defined by the adapter of the scheme; an
//! adapter refuses options that it does not know ([`StoreUrl::check_options`]). The password is never displayed.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A parsed URL.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl {
    /// `etcd`, `zk`, `postgres`, `consul`, `k8s`, `nats`, `redis`, `mem`; some also with a suffix for TLS (`etcds`).
    pub scheme: String,
    /// The user, if any.
    pub user: Option<String>,
    /// The password, if any.
    pub password: Option<String>,
    /// The servers, at most [`HOSTS_MAX`].
    pub hosts: Vec<Host>,
    /// The path without its leading slash.
    pub path: String,
    /// The options after the question mark.
    pub options: BTreeMap<String, String>,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// A name or an address; an IPv6 address without its brackets.
    pub name: String,
    /// The port, if given.
    pub port: Option<u16>,
}

impl Host {
    /// `name:port`, with brackets around an IPv6 address.
    #[must_use]
    pub fn address(&self, default_port: u16) -> String {
        let port = self.port.unwrap_or(default_port);
        if self.name.contains(':') { format!("[{}]:{port}", self.name) } else { format!("{}:{port}", self.name) }
    }
}

impl StoreUrl {
    /// The value of an option.
    #[must_use]
    pub fn option(&self, key: &str) -> Option<&str> {
        self.options.get(key).map(String::as_str)
    }

    /// Checks that all options are known, so that a typing mistake does not pass in silence.
    ///
    /// # Errors
    /// The first unknown option, with the known ones.
    pub fn check_options(&self, known: &[&str]) -> Result<(), InvalidUrl> {
        match self.options.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => Err(InvalidUrl::Option { key: key.clone(), known: known.join(", ") }),
        }
    }

    /// The addresses of all servers; `localhost` if none is given.
    #[must_use]
    pub fn addresses(&self, default_port: u16) -> Vec<String> {
        if self.hosts.is_empty() {
            return vec![format!("localhost:{default_port}")];
        }
        self.hosts.iter().map(|host| host.address(default_port)).collect()
    }
}

impl FromStr for StoreUrl {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        if text.len() > URL_MAX {
            return Err(InvalidUrl::TooLong { got: text.len() });
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| InvalidUrl::Scheme { url: hide(text) })?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) =
            authority.rsplit_once('@').map_or((None, authority), |(login, hosts)| (Some(login), hosts));
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            None => (None, None),
            Some((user, password)) => (non_empty(decode(user)?), non_empty(decode(password)?)),
        };
        let hosts = hosts.split(',').filter(|host| !host.is_empty()).map(parse_host).collect::<Result<Vec<_>, _>>()?;
        if hosts.len() > HOSTS_MAX {
            return Err(InvalidUrl::Hosts { got: hosts.len() });
        }
        let path = decode(path)?.trim_end_matches('/').to_owned();
        Ok(Self { scheme: scheme.to_ascii_lowercase(), user, password, hosts, path, options: parse_options(query)? })
    }
}

/// The URL without its password, and without a user that has none: for NATS that is a token.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self.hosts.iter().map(display_host).collect();
        write!(f, "{}://", self.scheme)?;
        if let (Some(user), Some(_)) = (&self.user, &self.password) {
            write!(f, "{user}@")?;
        }
        write!(f, "{}", hosts.join(","))?;
        if self.path.is_empty() { Ok(()) } else { write!(f, "/{}", self.path) }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

fn display_host(host: &Host) -> String {
    match host.port {
        Some(port) => host.address(port),
        None => host.name.clone(),
    }
}

fn non_empty(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn parse_host(text: &str) -> Result<Host, InvalidUrl> {
    let invalid = || InvalidUrl::Host { host: text.to_owned() };
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (name, after) = rest.split_once(']').ok_or_else(invalid)?;
            let port = if after.is_empty() { None } else { Some(after.strip_prefix(':').ok_or_else(invalid)?) };
            (name, port)
        }
        None => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
    };
    let port = port.map(str::parse).transpose().map_err(|_| invalid())?;
    if name.is_empty() { Err(invalid()) } else { Ok(Host { name: decode(name)?, port }) }
}

fn parse_options(query: &str) -> Result<BTreeMap<String, String>, InvalidUrl> {
    let mut options = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let key = decode(key)?;
        if options.insert(key.clone(), decode(value)?).is_some() {
            return Err(InvalidUrl::Repeated { key });
        }
    }
    Ok(options)
}

fn decode(text: &str) -> Result<String, InvalidUrl> {
    let invalid = || InvalidUrl::Encoding { part: hide(text) };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first == b'%' {
            let (digits, after) = tail.split_at_checked(2).ok_or_else(invalid)?;
            let digits = str::from_utf8(digits).map_err(|_| invalid())?;
            bytes.push(u8::from_str_radix(digits, 16).map_err(|_| invalid())?);
            rest = after;
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).map_err(|_| invalid())
}

/// The start of a text for an error message: enough to find it, too little to show a password.
fn hide(text: &str) -> String {
    let start: String = text.chars().take(8).collect();
    if start.len() < text.len() { start + "…" } else { start }
}

/// Why a URL cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum InvalidUrl {
    #[error("a store is a URL such as etcd://host:2379/app/leader, got {url:?}")]
    Scheme { url: String },
    #[error("the URL of a store has at most {URL_MAX} characters, got {got}")]
    TooLong { got: usize },
    #[error("at most {HOSTS_MAX} servers, got {got}")]
    Hosts { got: usize },
    #[error("a server is host, host:port or [ipv6]:port, got {host:?}")]
    Host { host: String },
    #[error("invalid percent-encoding in {part:?}")]
    Encoding { part: String },
    #[error("option {key:?} is given twice")]
    Repeated { key: String },
    #[error("unknown option {key:?}; known: {known}")]
    Option { key: String, known: String },
    #[error("option {key}: expected {expected}, got {got:?}")]
    Value { key: &'static str, expected: &'static str, got: String },
    #[error("{scheme}:// needs a path that names the election, as in {example}")]
    Path { scheme: String, example: &'static str },
    #[error("unknown store {scheme:?}; known: mem, etcd, zk, postgres, consul, k8s, nats, redis")]
    UnknownStore { scheme: String },
    #[error("this build has no {scheme}://; build it with the feature {feature:?}")]
    NotBuilt { scheme: String, feature: &'static str },
}

/// The maximum length of a URL.
const URL_MAX: usize = 4096;

/// The maximum number of servers in a URL; more than any quorum needs.
pub const HOSTS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> StoreUrl {
        text.parse().unwrap()
    }

    #[test]
    fn all_parts_are_found() {
        let url = parse("etcd://root:s%40fe@a:2379,[::1]:2380,c/app/leader?cacert=/etc/ca.pem&x=");
        assert_eq!((url.scheme.as_str(), url.path.as_str()), ("etcd", "app/leader"));
        assert_eq!((url.user.as_deref(), url.password.as_deref()), (Some("root"), Some("s@fe")));
        assert_eq!(url.addresses(99), ["a:2379", "[::1]:2380", "c:99"]);
        assert_eq!((url.option("cacert"), url.option("x"), url.option("y")), (Some("/etc/ca.pem"), Some(""), None));
    }

    #[test]
    fn hosts_and_path_are_optional() {
        assert_eq!(parse("mem://"), parse("MEM://"));
        assert!(parse("mem://").hosts.is_empty());
        assert_eq!(parse("postgres:///db/app").addresses(5432), ["localhost:5432"]);
        assert_eq!(parse("k8s://default/lease/").path, "lease");
    }

    #[test]
    fn the_password_is_never_displayed() {
        let url = parse("redis://u:secret@h:1/p");
        assert_eq!(format!("{url} {url:?}"), "redis://u@h:1/p StoreUrl(redis://u@h:1/p)");
        let token = parse("nats://secret@h:1/p");
        assert_eq!(format!("{token} {token:?}"), "nats://h:1/p StoreUrl(nats://h:1/p)");
        let error = "redis:u:secret@h".parse::<StoreUrl>().unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| text.parse::<StoreUrl>().unwrap_err().to_string();
        assert!(error("host:2379/app").contains("a store is a URL"));
        assert!(error("etcd://h:port/app").contains("\"h:port\""));
        assert!(error("etcd://h/%zz").contains("percent"));
        assert!(error("etcd://h/p?a=1&a=2").contains("twice"));
        assert!(error(&format!("etcd://h/{}", "x".repeat(URL_MAX))).contains("4096"));
        assert!(error(&format!("etcd://{}/p", ["h"; 17].join(","))).contains("got 17"));
        let unknown = parse("etcd://h/p?cacrt=x").check_options(&["cacert", "cert"]).unwrap_err();
        assert_eq!(unknown.to_string(), "unknown option \"cacrt\"; known: cacert, cert");
    }
}
