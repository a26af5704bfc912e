//! Builds the configuration from checked values: applies the rules between keys, and reads the files that it names.
//!
//! Each of the [`Values`] is valid by itself. The [`Config`] is complete even if a problem was reported, so that one
//! pass finds all problems. Afterwards this server is one of the ensemble, no two ports collide on one host, and the
//! oracle can be built.
//!
//! The form of `server.N` is parsed in `pole_tree`, TLS in `ssl`.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::topology::Topology;
use pole_oracle::Spec;
use pole_tree::{Address, MemberLine, MemberRole, Members, MembersReader};
use pole_types::ServerId;

use super::properties::{self, Entry};
use super::report::{About, Report};
use super::settings::{Admin, Clients, Ensemble, Pole, SNAPSHOTS_MIN, Storage, Timing};
use super::types::Emulation;
use super::values::Values;
use super::{Config, Identity, ReadFile, authentication, dynamic, ssl};
use crate::log::Filter;

pub(super) fn config(values: &Values, read: ReadFile<'_>, identity: Identity, report: &mut Report) -> Config {
    let storage = storage(values, report);
    let (members, members_version) = members(values, read, report);
    let servers = &members.servers;
    let alone = servers.is_empty() || (servers.len() == 1 && values.bool("standaloneEnabled"));
    let mut written = values.written(&members);
    written.0.extend(authentication::lines(values));
    let only = servers.values().next().filter(|_| alone).and_then(|server| server.client.clone());
    let ensemble = if alone {
        if servers.is_empty() && !values.bool("standaloneEnabled") {
            let line = values.line("standaloneEnabled");
            report.problem(line, "standaloneEnabled", "false", "needs at least one server.N line");
        }
        None
    } else {
        let own_id = match (identity, servers.keys().next()) {
            (Identity::Is(id), _) => Some(id),
            (Identity::Any, Some(first)) => Some(*first),
            (Identity::Any, None) | (Identity::FromFile, _) => None,
        };
        let ensemble = ensemble(values, members, (&storage.data_dir, own_id), read, report);
        ensemble.map(|ensemble| Ensemble { members_version, ..ensemble })
    };
    let mut clients = clients(values, report);
    join_client_port(&mut clients, ensemble.as_ref(), only, values, report);
    refuse_shared_ports(ensemble.as_ref(), &clients, values, report);
    let service = authentication::service(values, read, report);
    if service.extended_types && ensemble.as_ref().is_some_and(|ensemble| ensemble.me > LAST_ID_WITH_TTL) {
        let line = values.line("extendedTypesEnabled");
        report.problem(
            line,
            "extendedTypesEnabled",
            "true",
            "leaves server ids up to 254: choose another for this one",
        );
    }
    Config {
        timing: timing(values, report),
        admin: admin(values, report),
        tls: ssl::tls(values, report),
        pole: pole(values, ensemble.as_ref(), read, report),
        ensemble,
        clients,
        storage,
        service,
        written,
    }
}

fn storage(values: &Values, report: &mut Report) -> Storage {
    if values.text("dataDir").is_none() {
        report.problem(values.line("dataDir"), "dataDir", "", "not set: name a directory for snapshots and log");
    }
    let retain = values.count("autopurge.snapRetainCount");
    if retain < SNAPSHOTS_MIN {
        let why = format!("at least {SNAPSHOTS_MIN} are kept");
        let key = "autopurge.snapRetainCount";
        report.warning(values.line(key), key, &retain.to_string(), why);
    }
    Storage::read(values)
}

/// Reads the `server.N` lines from this file or from the `dynamicConfigFile`, which also tells their version.
fn members(values: &Values, read: ReadFile<'_>, report: &mut Report) -> (Members, i64) {
    let is_member = |entry: &&Entry| MembersReader::is_about(member_key(&entry.key));
    values.families.iter().filter(|entry| !is_member(entry)).for_each(|entry| check_family(entry, report));
    let Some(file) = values.text("dynamicConfigFile") else {
        return (read_members(values.families.iter().filter(is_member), report), 0);
    };
    let line = values.line("dynamicConfigFile");
    for Entry { key, value, line } in values.families.iter().filter(is_member) {
        report.problem(*line, key, value, "belongs into the dynamicConfigFile, since there is one");
    }
    match read(Path::new(file)) {
        Ok(text) => {
            let before = report.switch_file(file);
            let entries = properties::parse(&text, report);
            let mut version = dynamic::version_of_name(Path::new(file)).unwrap_or(0);
            for Entry { key, value, line } in entries.iter().filter(|entry| !is_member(entry)) {
                match (key.as_str(), u64::from_str_radix(value, 16)) {
                    ("version", Ok(number)) => version = number.cast_signed(),
                    ("version", Err(_)) => report.problem(*line, key, value, "is no hexadecimal number"),
                    _ => {
                        let why = "only server.N, group.N, weight.N and version may stand in the dynamicConfigFile";
                        report.problem(*line, key, value, why);
                    }
                }
            }
            let members = read_members(entries.iter().filter(is_member), report);
            report.switch_file(&before);
            (members, version)
        }
        Err(error) => {
            report.problem(line, "dynamicConfigFile", file, format!("cannot be read: {error}"));
            Default::default()
        }
    }
}

/// Keys may be written with the prefix of Java's system properties.
fn member_key(key: &str) -> &str {
    key.strip_prefix("zookeeper.").unwrap_or(key)
}

fn read_members<'a>(entries: impl Iterator<Item = &'a Entry>, report: &mut Report) -> Members {
    let mut reader = MembersReader::default();
    for Entry { key, value, line } in entries {
        let id: Option<u64> = member_key(key).strip_prefix("server.").and_then(|id| id.parse().ok());
        if id.is_some_and(|id| id > SERVER_ID_MAX) {
            let why = format!("the id of a server is a number from 0 to {SERVER_ID_MAX}");
            report.problem(*line, key, value, why);
            continue;
        }
        match reader.add(member_key(key), value) {
            Ok(MemberLine::Added) => {}
            Ok(MemberLine::Replaced) => {
                report.warning(*line, key, value, "this server was named before; this line counts");
            }
            Err(why) => report.problem(*line, key, value, why),
        }
    }
    let problem = |why: String| report.problem(0, "group.N", "", why);
    reader.finish().unwrap_or_else(|problems| {
        problems.into_iter().for_each(problem);
        Members::default()
    })
}

/// The largest id of a server, as in Apache: session ids begin with one byte of it.
const SERVER_ID_MAX: u64 = 255;

/// A key with a number at its end that describes no member.
fn check_family(Entry { key, value, line }: &Entry, report: &mut Report) {
    match member_key(key).split_once('.') {
        Some(("authProvider", _)) => authentication::check_provider(key, value, *line, report),
        Some(("superUser", _)) => {}
        _ => report.warning_about(About::Unknown, (*line, key, value), "unknown key, not used"),
    }
}

fn ensemble(
    values: &Values,
    members: Members,
    (data_dir, own_id): (&Path, Option<ServerId>),
    read: ReadFile<'_>,
    report: &mut Report,
) -> Option<Ensemble> {
    let servers = &members.servers;
    match members.participants() {
        0 => report.problem(0, "server.N", "", "no server votes: at least one has to be a participant"),
        _ if !members.votes.is_empty() => {}
        1 | 2 => report.warning(0, "", "", "No server failure will be tolerated. You need at least 3 servers."),
        count if count % 2 == 0 => {
            report.warning(0, "", "", "Non-optimal configuration, consider an odd number of servers.");
        }
        _ => {}
    }
    let myid = data_dir.join("myid");
    let listed = || servers.keys().map(ServerId::to_string).collect::<Vec<_>>().join(", ");
    if let Some(id) = own_id {
        if servers.contains_key(&id) {
            return Some(of_server(id, members, values, report));
        }
        let why = format!("there is no server.{id} line: allowed is one of {}", listed());
        report.problem(0, "server.N", "", why);
        return None;
    }
    let why = match read(&myid).as_deref().map(|text| text.lines().next().unwrap_or_default().trim().parse()) {
        Ok(Ok(id)) if servers.contains_key(&ServerId(id)) => {
            return Some(of_server(ServerId(id), members, values, report));
        }
        Ok(Ok(id)) => format!("says {id}, and there is no server.{id} line: allowed is one of {}", listed()),
        Ok(Err(_)) => format!("holds no number: write the id of this server into it, one of {}", listed()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            format!("is missing: write the id of this server into it, one of {}", listed())
        }
        Err(error) => format!("cannot be read: {error}"),
    };
    report.problem(
        values.line("dataDir"),
        "dataDir",
        &data_dir.display().to_string(),
        format!("{} {why}", myid.display()),
    );
    None
}

/// The ensemble from the point of view of one of its servers.
fn of_server(me: ServerId, members: Members, values: &Values, report: &mut Report) -> Ensemble {
    let listed = members.servers.get(&me).map(|server| server.role).unwrap_or_default();
    if let Some(role) = values.text("peerType").and_then(MemberRole::parse).filter(|role| *role != listed)
        && values.line("peerType") > 0
    {
        let why = format!("the server.{me} line says {}, and that counts", listed.name());
        report.warning(values.line("peerType"), "peerType", role.name(), why);
    }
    Ensemble { me, members, ..Ensemble::read(values) }
}

fn clients(values: &Values, report: &mut Report) -> Clients {
    Clients {
        plain: listener(values, "clientPort", "clientPortAddress", report),
        secure: listener(values, "secureClientPort", "secureClientPortAddress", report),
        ..Clients::read(values)
    }
}

fn listener(values: &Values, port: &'static str, host: &'static str, report: &mut Report) -> Option<Address> {
    let number = u16::try_from(values.count(port)).unwrap_or_default();
    let name = values.text(host).and_then(|name| parse_host(values, host, name, report));
    match (number, name) {
        (0, Some(name)) => {
            report.problem(values.line(host), host, &name, format!("is set, but {port} is not"));
            None
        }
        (0, None) => None,
        (number, name) => Some(Address::new(name.unwrap_or_else(|| "0.0.0.0".to_owned()), number)),
    }
}

fn parse_host(values: &Values, key: &'static str, name: &str, report: &mut Report) -> Option<String> {
    pole_tree::parse_host(name).map_err(|why| report.problem(values.line(key), key, name, why)).ok()
}

/// The client part of this server's `server.N` line is the client port. Both may be set if they agree.
fn join_client_port(
    clients: &mut Clients,
    ensemble: Option<&Ensemble>,
    only: Option<Address>,
    values: &Values,
    report: &mut Report,
) {
    let mine = ensemble
        .and_then(|ensemble| ensemble.members.servers.get(&ensemble.me))
        .and_then(|server| server.client.clone());
    let Some(listed) = mine.or(only) else {
        if clients.plain.is_none() && clients.secure.is_none() {
            report.warning(0, "clientPort", "", "not set: this server has no port for clients");
        }
        return;
    };
    if let Some(given) = &clients.plain {
        let differs = given.port != listed.port || (!given.is_wildcard() && given.host != listed.host);
        if differs {
            let why = format!("differs from {listed} in the server.N line of this server: leave one of them out");
            report.problem(values.line("clientPort"), "clientPort", &given.port.to_string(), why);
        }
    }
    clients.plain = Some(listed);
}

fn refuse_shared_ports(ensemble: Option<&Ensemble>, clients: &Clients, values: &Values, report: &mut Report) {
    let mut taken = BTreeMap::new();
    let mut take = |(host, port): (String, u16), whose: &str, line: usize| {
        if let Some(other) = taken.insert((host.to_ascii_lowercase(), port), whose.to_owned()) {
            report.problem(line, whose, "", format!("port {port} on {host} is also a port of {other}: choose another"));
        }
    };
    let mut own_host = "0.0.0.0";
    let mut listed = None;
    for (id, server) in ensemble.iter().flat_map(|ensemble| &ensemble.members.servers) {
        let key = format!("server.{id}");
        // A line of the dynamicConfigFile has no number here; the key identifies it.
        let line = values.families.iter().rfind(|entry| entry.key == key).map_or(0, |entry| entry.line);
        server.sockets().into_iter().for_each(|socket| take(socket, &key, line));
        if ensemble.is_some_and(|ensemble| ensemble.me == *id) {
            own_host = &server.host;
            listed = server.client.as_ref();
        }
    }
    let plain = clients.plain.iter().filter(|_| listed.is_none()).map(|address| (address, "clientPort"));
    for (address, key) in plain.chain(clients.secure.iter().map(|address| (address, "secureClientPort"))) {
        take(address.on(own_host), key, values.line(key));
    }
}

fn timing(values: &Values, report: &mut Report) -> Timing {
    let timing = Timing::read(values);
    let Timing { min_session_timeout_ms: min, max_session_timeout_ms: max, .. } = timing;
    if min > max {
        let line = values.line("minSessionTimeout").max(values.line("maxSessionTimeout"));
        report.problem(line, "minSessionTimeout", &min.to_string(), format!("is more than maxSessionTimeout={max}"));
    }
    timing
}

fn admin(values: &Values, report: &mut Report) -> Admin {
    let mut address = |host: &'static str, port: &'static str| {
        let name = values.text(host).and_then(|name| parse_host(values, host, name, report))?;
        Some(Address::new(name, u16::try_from(values.count(port)).ok()?))
    };
    let admin = Admin {
        address: address("admin.serverAddress", "admin.serverPort").filter(|_| values.bool("admin.enableServer")),
        metrics: address("metricsProvider.httpHost", "metricsProvider.httpPort").filter(|metrics| metrics.port > 0),
        ..Admin::read(values)
    };
    if let (Some(Address { host, .. }), None) = (&admin.address, &admin.token)
        && host != "localhost"
        && !host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
    {
        let why = "is not loopback, and pole.admin.token is not set: it answers questions and changes nothing";
        report.warning(values.line("admin.serverAddress"), "admin.serverAddress", host, why);
    }
    admin
}

fn pole(values: &Values, ensemble: Option<&Ensemble>, read: ReadFile<'_>, report: &mut Report) -> Pole {
    let emulation = emulation(values, ensemble, read, report);
    let topology_site = emulation
        .as_ref()
        .zip(ensemble)
        .and_then(|(emulation, ensemble)| emulation.topology.site(ensemble.me.0).map(str::to_owned));
    let mut pole = Pole { emulation, ..Pole::read(values) };
    pole.site = pole.site.or(topology_site);
    if pole.liveness_timeout_ms < 2 * pole.liveness_ms {
        let why =
            format!("allowed is at least twice pole.livenessMs={}: one late message is no death", pole.liveness_ms);
        let key = "pole.livenessTimeoutMs";
        report.problem(values.line(key), key, &pole.liveness_timeout_ms.to_string(), why);
    }
    if pole.trust_blank {
        let why = "a server without a history votes as if it never had one: set it back when the ensemble serves";
        report.warning(values.line("pole.trustBlank"), "pole.trustBlank", "true", why);
    }
    if let Some(text) = values.text("pole.logFilter")
        && let Err(error) = text.parse::<Filter>()
    {
        report.problem(values.line("pole.logFilter"), "pole.logFilter", text, error.to_string());
    }
    check_oracle(&pole, values, report);
    pole
}

/// Checks that the configured oracle can be built, and also those whose parameters are set.
fn check_oracle(pole: &Pole, values: &Values, report: &mut Report) {
    let mut bad_param = false;
    let preference = ("pole.oracle.preference", "preference", &pole.preference);
    for (key, name, text) in [preference, ("pole.oracle.combined", "combined", &pole.combined)] {
        let Some(text) = text else { continue };
        let spec = Spec::new(name).with(name, text);
        // A preference within a combination has its own key, which was checked just before.
        let within = pole.preference.as_deref().filter(|_| name == "combined" && !bad_param);
        let spec = within.map_or(spec.clone(), |preference| spec.with("preference", preference));
        if let Err(error) = spec.build() {
            bad_param = true;
            report.problem(values.line(key), key, text, error.to_string());
        }
    }
    if let Err(error) = pole.spec()
        && !bad_param
    {
        report.problem(values.line("pole.oracle"), "pole.oracle", &pole.oracle, error.to_string());
    }
}

fn emulation(
    values: &Values,
    ensemble: Option<&Ensemble>,
    read: ReadFile<'_>,
    report: &mut Report,
) -> Option<Emulation> {
    let (key, file) = ("pole.topology", values.text("pole.topology")?);
    let line = values.line(key);
    let topology = match read(Path::new(file)).map(|text| Topology::parse(&text)) {
        Ok(Ok(topology)) => topology,
        Ok(Err(error)) => {
            report.problem(line, key, file, error.in_file(file).to_string());
            return None;
        }
        Err(error) => {
            report.problem(line, key, file, format!("cannot be read: {error}"));
            return None;
        }
    };
    report.warning(line, key, file, "delays of this file are put on the links to other servers: for tests only");
    let servers = ensemble.iter().flat_map(|ensemble| ensemble.members.servers.keys());
    for id in servers.filter(|id| topology.site(id.0).is_none()) {
        report.problem(line, key, file, format!("server {id} has no site there: add a [[server]] with id={id}"));
    }
    Some(Emulation { file: PathBuf::from(file), topology })
}

/// The byte that holds the server id in a session id is 255 for nodes with a time to live.
const LAST_ID_WITH_TTL: ServerId = ServerId(254);
