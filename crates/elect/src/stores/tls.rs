//! Connections to the servers of stores: TCP with keep-alive, and TLS on it.
//!
//! TLS is configured by the options of a store's URL, or by the environment variables that its own tools read:
//! `cacert` (else the certificate authorities of the system), `cert` and `key` for a client certificate, all PEM files.

#![cfg_attr(not(feature = "all-stores"), allow(dead_code, reason = "each store uses a part of it"))]

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::store::Error;
use crate::url::StoreUrl;

/// The options of a URL that concern TLS.
pub(super) const TLS_OPTIONS: [&str; 3] = ["cacert", "cert", "key"];

/// The files of a TLS configuration.
#[derive(Clone, Debug, Default)]
pub(super) struct TlsFiles {
    pub(super) cacert: Option<String>,
    pub(super) cert: Option<String>,
    pub(super) key: Option<String>,
}

impl TlsFiles {
    /// From the options of a URL, else from the named environment variables.
    pub(super) fn of(url: &StoreUrl, [cacert, cert, key]: [&str; 3]) -> Self {
        let file = |option: &str, variable: &str| setting(url, option, variable);
        Self { cacert: file("cacert", cacert), cert: file("cert", cert), key: file("key", key) }
    }

    pub(super) fn config(&self) -> Result<ClientConfig, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(Error::refused)?.with_root_certificates(self.roots()?);
        match (&self.cert, &self.key) {
            (None, None) => Ok(builder.with_no_client_auth()),
            (Some(cert), Some(key)) => {
                let key = PrivateKeyDer::from_pem_file(key).map_err(|why| file_error(key, why))?;
                builder.with_client_auth_cert(certificates(cert)?, key).map_err(|why| file_error(cert, why))
            }
            (Some(_), None) | (None, Some(_)) => {
                Err(Error::refused("a client certificate needs both files, cert and key"))
            }
        }
    }

    fn roots(&self) -> Result<RootCertStore, Error> {
        let mut roots = RootCertStore::empty();
        match &self.cacert {
            Some(file) => {
                for certificate in certificates(file)? {
                    roots.add(certificate).map_err(|why| file_error(file, why))?;
                }
            }
            // Single certificates of the system that cannot be read are left out, as other programs do.
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        Ok(roots)
    }
}

/// An option of a URL, else an environment variable that is not empty.
pub(super) fn setting(url: &StoreUrl, option: &str, variable: &str) -> Option<String> {
    let variable = || std::env::var(variable).ok().filter(|value| !value.is_empty());
    url.option(option).map(str::to_owned).or_else(variable)
}

fn certificates(file: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match found {
        Ok(found) if found.is_empty() => Err(file_error(file, "no certificate in it")),
        Ok(found) => Ok(found),
        Err(why) => Err(file_error(file, why)),
    }
}

fn file_error(file: &str, why: impl std::fmt::Display) -> Error {
    Error::refused(format!("{file}: {why}"))
}

/// Connects to `host:port`, with TLS if a configuration is given.
pub(super) async fn connect(address: &str, tls: Option<&Arc<ClientConfig>>) -> Result<Stream, Error> {
    let connecting = async {
        let tcp = TcpStream::connect(address).await?;
        prepare(&tcp)?;
        let Some(config) = tls else { return Ok(Stream::Plain(tcp)) };
        let name = ServerName::try_from(host_of(address).to_owned()).map_err(io::Error::other)?;
        let stream = TlsConnector::from(config.clone()).connect(name, tcp).await?;
        Ok::<_, io::Error>(Stream::Tls(Box::new(stream)))
    };
    match timeout(CONNECT_LIMIT, connecting).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(why)) => Err(Error::unavailable(format!("{address}: {why}"))),
        Err(_) => Err(Error::unavailable(format!("{address}: no connection within {CONNECT_LIMIT:?}"))),
    }
}

/// Keep-alive ends a watch, which only reads, on a connection whose other end has vanished.
fn prepare(tcp: &TcpStream) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE).with_retries(3);
    socket2::SockRef::from(tcp).set_tcp_keepalive(&keepalive)
}

/// The host of `host:port`, without the brackets of an IPv6 address.
pub(super) fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

/// A connection with or without TLS.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// The time for a connection with its TLS handshake. The driver has a shorter limit for each operation; this one is for
/// the opening of a store.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// A dead peer is noticed after about four times this.
const KEEPALIVE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_found_in_an_address() {
        assert_eq!(host_of("etcd.local:2379"), "etcd.local");
        assert_eq!(host_of("[::1]:2379"), "::1");
    }

    #[test]
    fn wrong_files_are_named() {
        let missing = TlsFiles { cacert: Some("no-such.pem".into()), ..TlsFiles::default() };
        assert!(missing.config().unwrap_err().to_string().starts_with("no-such.pem"));
        let half = TlsFiles { cert: Some("c.pem".into()), ..TlsFiles::default() };
        assert!(half.config().unwrap_err().to_string().contains("both files"));
    }
}
