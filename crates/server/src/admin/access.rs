//! Who may change something, and who may read nodes.
//!
//! A process on this machine may change something; from another machine a caller needs the token. A web page is
//! another matter: a browser on this machine sends requests on behalf of any page that its user has open.
//!
//! - A page says where it comes from (`Origin`, `Sec-Fetch-Site`). Only a page that this port served may go on, and it
//!   may change something only with `pole.admin.actions`.
//! - A page can give its own host name the address of this server (DNS rebinding), so that it counts as served by this
//!   port. The `Host` of a request must therefore be an address, `localhost`, or a configured name. A caller with the
//!   token may use any name, because no such page knows the token.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, HeaderName, header};

use super::error::ApiError;
use crate::shared::Shared;

/// Checks whether this caller may make changes.
pub(crate) fn check_change(shared: &Shared, from: SocketAddr, headers: &HeaderMap) -> Result<(), ApiError> {
    if comes_from_page(headers) {
        check_page(shared, headers)?;
        if !shared.settings.config.admin.actions {
            let error = "this server takes no changes from pages in a browser: use pole or curl, or set \
                         pole.admin.actions=true";
            return Err(ApiError::denied(error));
        }
    }
    if has_token(shared, headers) {
        return Ok(());
    }
    if !from.ip().to_canonical().is_loopback() {
        return Err(ApiError::denied(match shared.settings.config.admin.token {
            None => format!("changes from {} need pole.admin.token in the configuration of this server", from.ip()),
            Some(_) => "show the token of this server: Authorization: Bearer <pole.admin.token>".to_owned(),
        }));
    }
    check_host(shared, headers)
}

/// Checks whether this caller may watch the server: anybody but pages of others.
pub(crate) fn check_watch(shared: &Shared, headers: &HeaderMap) -> Result<(), ApiError> {
    if comes_from_page(headers) {
        check_page(shared, headers)?;
    }
    if has_token(shared, headers) { Ok(()) } else { check_host(shared, headers) }
}

/// Checks whether this caller may read nodes. Data and credentials do not leave the machine unless they are encrypted.
pub(crate) fn check_nodes(
    shared: &Shared,
    from: SocketAddr,
    is_encrypted: bool,
    headers: &HeaderMap,
) -> Result<(), ApiError> {
    check_watch(shared, headers)?;
    if is_encrypted || from.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    let error = "nodes are not sent over the network without encryption: use https (admin.portUnification), a tunnel or a \
                 ZooKeeper client";
    Err(ApiError::denied(error))
}

/// Whether the caller presents the token of this server.
pub(crate) fn has_token(shared: &Shared, headers: &HeaderMap) -> bool {
    let Some(token) = &shared.settings.config.admin.token else { return false };
    let presented = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
    let presented = presented.and_then(|value| value.strip_prefix(b"Bearer ")).unwrap_or_default();
    is_same(presented, token.0.as_bytes())
}

/// Browsers send at least one of these with every request that a page makes, except plain reads of its own origin
/// without encryption, which [`check_host`] covers.
fn comes_from_page(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN) || headers.get(FETCH_SITE).is_some_and(|site| site != "none")
}

/// Checks that a page was served by this port.
fn check_page(shared: &Shared, headers: &HeaderMap) -> Result<(), ApiError> {
    let refused = || Err(ApiError::denied("requests from pages of other sites are refused"));
    if headers.get(FETCH_SITE).is_some_and(|site| site != "same-origin" && site != "none") {
        return refused();
    }
    if let Some(origin) = headers.get(header::ORIGIN) {
        let host = headers.get(header::HOST).map(|host| host.as_bytes()).unwrap_or_default();
        let origin = origin.as_bytes();
        let origin = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
        if host.is_empty() || origin != Some(host) {
            return refused();
        }
    }
    check_host(shared, headers)
}

/// Checks that the request names this server by an address or by a name of its own.
fn check_host(shared: &Shared, headers: &HeaderMap) -> Result<(), ApiError> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = name_of(host);
    let config = &shared.settings.config;
    let is_given = |list: &str| list.split(',').map(str::trim).any(|given| given.eq_ignore_ascii_case(name));
    let current = shared.members();
    let is_known = name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || config.admin.address.as_ref().is_some_and(|address| address.host.eq_ignore_ascii_case(name))
        || current.members.servers.values().any(|server| server.host.eq_ignore_ascii_case(name))
        || config.admin.hosts.as_deref().is_some_and(is_given);
    if is_known && !name.is_empty() {
        return Ok(());
    }
    let error =
        format!("\"{host}\" is no known name of this server: use its address, or add the name to pole.admin.hosts");
    Err(ApiError::denied(error))
}

/// The host without its port, and an IPv6 address without its brackets.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

/// Compares in constant time, so that the duration does not reveal how much of the token was right.
pub(crate) fn is_same(shown: &[u8], token: &[u8]) -> bool {
    let differing = shown.iter().zip(token).fold(0, |seen, (a, b)| seen | (a ^ b));
    shown.len() == token.len() && differing == 0
}

/// Where the page of a request comes from, as the browser says.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "127.0.0.1:9";
    const AWAY: &str = "10.0.0.1:9";

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().expect("a header"))).collect()
    }

    fn may_change(server: &Shared, from: &str, pairs: &[(&'static str, &str)]) -> bool {
        check_change(server, from.parse().expect("an address"), &headers(pairs)).is_ok()
    }

    #[test]
    fn this_machine_needs_no_token() {
        let server = Shared::configured("pole.admin.token=secret\n");
        for from in [HERE, "127.8.8.8:9", "[::1]:9", "[::ffff:127.0.0.1]:9"] {
            assert!(may_change(&server, from, &[("host", "localhost:8080")]), "{from}");
        }
    }

    #[test]
    fn another_machine_needs_the_token_and_nothing_but_the_token() {
        let server = Shared::configured("pole.admin.token=secret\n");
        assert!(may_change(&server, AWAY, &[("authorization", "Bearer secret"), ("host", "any.name")]));
        for wrong in ["Bearer secre", "Bearer secrets", "Bearer ", "secret"] {
            assert!(!may_change(&server, AWAY, &[("authorization", wrong), ("host", "10.0.0.2:8080")]), "{wrong:?}");
        }
        assert!(!may_change(&server, AWAY, &[("host", "10.0.0.2:8080")]));
    }

    #[test]
    fn without_a_token_in_the_configuration_another_machine_changes_nothing() {
        assert!(!may_change(&Shared::configured(""), AWAY, &[("authorization", "Bearer "), ("host", "10.0.0.2")]));
    }

    #[test]
    fn a_name_that_is_not_ours_may_lead_here_by_the_will_of_a_page() {
        let server = Shared::configured("admin.serverAddress=zk1.internal\npole.admin.hosts=zk.example, www.example\n");
        for ours in
            ["127.0.0.1:8080", "[::1]:8080", "[::1]", "LOCALHOST", "zk1.internal:8080", "zk.example", "www.example:1"]
        {
            assert!(may_change(&server, HERE, &[("host", ours)]), "{ours}");
            assert!(check_watch(&server, &headers(&[("host", ours)])).is_ok(), "{ours}");
        }
        for strange in ["", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example"] {
            assert!(!may_change(&server, HERE, &[("host", strange)]), "{strange}");
            assert!(check_watch(&server, &headers(&[("host", strange)])).is_err(), "{strange}");
        }
        assert!(!may_change(&server, HERE, &[]));
    }

    #[test]
    fn a_page_must_be_our_own_and_needs_leave_to_change_something() {
        let (watched, acting) = (Shared::configured(""), Shared::configured("pole.admin.actions=true\n"));
        let own = [("host", "127.0.0.1:8080"), ("origin", "http://127.0.0.1:8080"), ("sec-fetch-site", "same-origin")];
        assert!(may_change(&acting, HERE, &own) && !may_change(&watched, HERE, &own));
        assert!(check_watch(&watched, &headers(&own)).is_ok());
        for origin in ["http://elsewhere", "http://127.0.0.1:9090", "null", "127.0.0.1:8080", "http://"] {
            let foreign = [("host", "127.0.0.1:8080"), ("origin", origin)];
            assert!(!may_change(&acting, HERE, &foreign), "{origin}");
            assert!(check_watch(&acting, &headers(&foreign)).is_err(), "{origin}");
        }
        for site in ["cross-site", "same-site"] {
            assert!(!may_change(&acting, HERE, &[("host", "127.0.0.1:8080"), ("sec-fetch-site", site)]), "{site}");
        }
        let rebound = [("host", "evil.example:8080"), ("origin", "http://evil.example:8080")];
        assert!(!may_change(&acting, HERE, &rebound));
    }

    #[test]
    fn nodes_leave_the_machine_only_encrypted_even_with_the_token() {
        let server = Shared::configured("pole.admin.token=secret\n");
        let token = headers(&[("authorization", "Bearer secret"), ("host", "10.0.0.2")]);
        let (here, away) = (HERE.parse().expect("an address"), AWAY.parse().expect("an address"));
        assert!(check_nodes(&server, away, false, &token).is_err());
        assert!(check_nodes(&server, away, true, &token).is_ok());
        assert!(check_nodes(&server, here, false, &headers(&[("host", "localhost")])).is_ok());
        assert!(check_nodes(&server, away, true, &headers(&[("host", "evil.example")])).is_err());
    }
}
