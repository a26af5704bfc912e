//! Builds the TLS settings from the keys `ssl.*` and `ssl.quorum.*`.
//!
//! [`Tls`] holds stores with formats and passwords, protocols and cipher suites. A port with TLS has a key store, and a
//! trust store if it requests certificates. The stores are opened in `tls`, not here.

use std::path::{Path, PathBuf};

use super::report::{About, Report};
use super::settings::Tls;
use super::types::{ClientAuth, Password, Secret, Store, StoreFormat, TlsSettings};
use super::values::Values;
use crate::tls;

pub(super) fn tls(values: &Values, report: &mut Report) -> Tls {
    let tls = Tls {
        clients: settings(&CLIENTS, values, report),
        peers: settings(&PEERS, values, report),
        ..Tls::read(values)
    };
    if values.count("secureClientPort") > 0 {
        need(&tls.clients, &CLIENTS, "secureClientPort", values, report);
    }
    if tls.between_servers {
        need(&tls.peers, &PEERS, "sslQuorum", values, report);
    }
    tls
}

/// The configuration keys for one kind of port.
struct Names {
    key_store: [&'static str; 4],
    trust_store: [&'static str; 4],
    client_auth: Option<&'static str>,
    verify_host: &'static str,
    verify_client_host: &'static str,
    revocation: &'static str,
    revocation_lists: &'static str,
    protocol: &'static str,
    protocols: &'static str,
    suites: &'static str,
}

const CLIENTS: Names = Names {
    key_store: ["ssl.keyStore.location", "ssl.keyStore.type", "ssl.keyStore.password", "ssl.keyStore.passwordPath"],
    trust_store: [
        "ssl.trustStore.location",
        "ssl.trustStore.type",
        "ssl.trustStore.password",
        "ssl.trustStore.passwordPath",
    ],
    client_auth: Some("ssl.clientAuth"),
    verify_host: "ssl.hostnameVerification",
    verify_client_host: "ssl.clientHostnameVerification",
    revocation: "ssl.crl",
    revocation_lists: "pole.ssl.crlFile",
    protocol: "ssl.protocol",
    protocols: "ssl.enabledProtocols",
    suites: "ssl.ciphersuites",
};

const PEERS: Names = Names {
    key_store: [
        "ssl.quorum.keyStore.location",
        "ssl.quorum.keyStore.type",
        "ssl.quorum.keyStore.password",
        "ssl.quorum.keyStore.passwordPath",
    ],
    trust_store: [
        "ssl.quorum.trustStore.location",
        "ssl.quorum.trustStore.type",
        "ssl.quorum.trustStore.password",
        "ssl.quorum.trustStore.passwordPath",
    ],
    client_auth: None,
    verify_host: "ssl.quorum.hostnameVerification",
    verify_client_host: "ssl.quorum.clientHostnameVerification",
    revocation: "ssl.quorum.crl",
    revocation_lists: "pole.ssl.quorum.crlFile",
    protocol: "ssl.quorum.protocol",
    protocols: "ssl.quorum.enabledProtocols",
    suites: "ssl.quorum.ciphersuites",
};

fn settings(names: &Names, values: &Values, report: &mut Report) -> TlsSettings {
    let (tls12, tls13) = protocols(names, values, report);
    TlsSettings {
        key_store: store(&names.key_store, values, report),
        trust_store: store(&names.trust_store, values, report),
        client_auth: match names.client_auth.and_then(|key| values.word(key)) {
            Some("want") => ClientAuth::Want,
            Some("none") => ClientAuth::None,
            Some(_) | None => ClientAuth::Need,
        },
        revocation_lists: revocation_lists(names, values, report),
        verify_host: values.bool(names.verify_host),
        verify_client_host: values.bool(names.verify_host) && values.bool(names.verify_client_host),
        tls12,
        tls13,
        cipher_suites: cipher_suites(names, values, report),
    }
}

/// The file of revoked certificates. Apache fetches lists from where the certificates say; nothing is fetched here.
fn revocation_lists(names: &Names, values: &Values, report: &mut Report) -> Option<PathBuf> {
    let (key, file) = (names.revocation, names.revocation_lists);
    match (values.bool(key), values.text(file)) {
        (true, None) => {
            report.problem(values.line(key), key, "true", format!("needs {file} with lists of revoked certificates"));
            None
        }
        (false, Some(text)) => {
            let why = format!("not used: {key} is false");
            report.warning_about(About::NoEffect, (values.line(file), file, text), why);
            None
        }
        (_, text) => text.map(PathBuf::from),
    }
}

fn store(keys: &[&'static str; 4], values: &Values, report: &mut Report) -> Option<Store> {
    let [location, format, password, password_path] = *keys;
    let file = values.text(location)?;
    let format = match values.word(format) {
        Some("JKS") => StoreFormat::Jks,
        Some("PEM") => StoreFormat::Pem,
        Some("PKCS12") => StoreFormat::Pkcs12,
        Some(_) | None => by_ending(file).or_else(|| {
            let why = format!("its ending does not tell its format: set {format} to JKS, PEM or PKCS12");
            report.problem(values.line(location), location, file, why);
            None
        })?,
    };
    let password = match (values.text(password_path), values.text(password)) {
        (Some(path), _) => Password::InFile(PathBuf::from(path)),
        (None, Some(password)) => Password::Given(Secret(password.to_owned())),
        (None, None) => Password::None,
    };
    Some(Store { location: PathBuf::from(file), format, password })
}

fn by_ending(file: &str) -> Option<StoreFormat> {
    match Path::new(file).extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "jks" => Some(StoreFormat::Jks),
        "pem" => Some(StoreFormat::Pem),
        "p12" | "pfx" => Some(StoreFormat::Pkcs12),
        _ => None,
    }
}

/// Whether TLS 1.2 and TLS 1.3 are enabled. Older versions are insecure, and `rustls` does not support them.
fn protocols(names: &Names, values: &Values, report: &mut Report) -> (bool, bool) {
    let key = if values.text(names.protocols).is_some() { names.protocols } else { names.protocol };
    let Some(text) = values.text(key) else { return (true, true) };
    let (mut tls12, mut tls13) = (false, false);
    for name in text.split(',').map(str::trim) {
        match name {
            "TLSv1.2" => tls12 = true,
            "TLSv1.3" => tls13 = true,
            "TLS" => (tls12, tls13) = (true, true),
            _ => report.warning(values.line(key), key, text, format!("{name} is not spoken; TLSv1.2 and TLSv1.3 are")),
        }
    }
    if !tls12 && !tls13 {
        report.problem(values.line(key), key, text, "none of these is spoken: allowed is TLSv1.2, TLSv1.3");
    }
    (tls12, tls13)
}

fn cipher_suites(names: &Names, values: &Values, report: &mut Report) -> Vec<String> {
    let key = names.suites;
    let Some(text) = values.text(key) else { return Vec::new() };
    let line = values.line(key);
    let (known, unknown): (Vec<&str>, Vec<&str>) =
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).partition(|name| tls::knows_suite(name));
    if known.is_empty() {
        let why = format!("none of these is known: allowed is {}", tls::suite_names().join(", "));
        report.problem(line, key, text, why);
    } else if !unknown.is_empty() {
        report.warning(line, key, text, format!("not known, so not used: {}", unknown.join(", ")));
    }
    known.into_iter().map(str::to_owned).collect()
}

fn need(settings: &TlsSettings, names: &Names, port: &'static str, values: &Values, report: &mut Report) {
    let line = values.line(port);
    let value = values.text(port).unwrap_or_default().to_owned();
    if settings.key_store.is_none() {
        report.problem(line, port, &value, format!("needs {} with a key and certificates", names.key_store[0]));
    }
    if settings.trust_store.is_none() && settings.client_auth != ClientAuth::None {
        let or = names.client_auth.map_or(String::new(), |key| format!(", or {key}=none"));
        report.problem(line, port, &value, format!("needs {} to check certificates with{or}", names.trust_store[0]));
    }
}
