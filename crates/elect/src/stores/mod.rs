//! The stores that an election can run on, each behind a feature, and [`open`], which picks one by its URL.
//!
//! Each adapter of a server is one file that implements `Adapter` and has a function `open(&StoreUrl)`; `adapter` makes a
//! [`Store`] of it. It knows nothing of elections.

#[cfg(feature = "_tls")]
mod adapter;
#[cfg(feature = "consul")]
mod consul;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "_http")]
mod http;
#[cfg(feature = "kubernetes")]
mod kubernetes;
#[cfg(feature = "mem")]
mod mem;
#[cfg(feature = "nats")]
mod nats;
#[cfg(any(feature = "consul", feature = "kubernetes", feature = "nats", feature = "redis", feature = "zookeeper"))]
mod own;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "_tls")]
mod tls;
#[cfg(feature = "zookeeper")]
mod tunnel;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use std::sync::Arc;

#[cfg(feature = "_tls")]
use adapter::Adapted;
#[cfg(any(feature = "mem", feature = "_tls"))]
use bytes::Bytes;

#[cfg(any(feature = "mem", feature = "_tls"))]
use crate::store::RECORD_MAX;
use crate::store::{self, Store};
use crate::url::{InvalidUrl, StoreUrl};

#[cfg(feature = "mem")]
pub use mem::{MemImage, MemStore};

/// Opens the store that a URL names. Adapters connect here, so that a wrong address is reported at once.
///
/// # Errors
/// If the URL is invalid, the feature is missing from this build, or the store cannot be reached.
pub async fn open(url: &StoreUrl) -> Result<Arc<dyn Store>, OpenError> {
    match url.scheme.as_str() {
        #[cfg(feature = "mem")]
        "mem" => Ok(Arc::new(mem::open(url)?)),
        #[cfg(feature = "consul")]
        "consul" | "consuls" => Ok(Adapted::store(consul::open(url).await?)),
        #[cfg(feature = "etcd")]
        "etcd" | "etcds" => Ok(Adapted::store(etcd::open(url).await?)),
        #[cfg(feature = "kubernetes")]
        "k8s" => Ok(Adapted::store(kubernetes::open(url).await?)),
        #[cfg(feature = "nats")]
        "nats" | "natss" => Ok(Adapted::store(nats::open(url).await?)),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(Adapted::store(postgres::open(url).await?)),
        #[cfg(feature = "redis")]
        "redis" | "rediss" => Ok(Adapted::store(redis::open(url).await?)),
        #[cfg(feature = "zookeeper")]
        "zk" | "zks" => Ok(Adapted::store(zookeeper::open(url).await?)),
        scheme => match FEATURES.iter().find(|(known, _)| *known == scheme) {
            Some((_, feature)) => Err(InvalidUrl::NotBuilt { scheme: scheme.to_owned(), feature }.into()),
            None => Err(InvalidUrl::UnknownStore { scheme: scheme.to_owned() }.into()),
        },
    }
}

/// Refuses a record over the limit before it is sent.
#[cfg(any(feature = "mem", feature = "_tls"))]
fn check_size(record: &Bytes) -> Result<(), store::Error> {
    if record.len() <= RECORD_MAX {
        return Ok(());
    }
    Err(store::Error::TooLarge(format!("a record has at most {RECORD_MAX} bytes, got {}", record.len())))
}

/// Schemes and the features that bring them.
const FEATURES: &[(&str, &str)] = &[
    ("mem", "mem"),
    ("etcd", "etcd"),
    ("etcds", "etcd"),
    ("zk", "zookeeper"),
    ("zks", "zookeeper"),
    ("postgres", "postgres"),
    ("postgresql", "postgres"),
    ("consul", "consul"),
    ("consuls", "consul"),
    ("k8s", "kubernetes"),
    ("nats", "nats"),
    ("natss", "nats"),
    ("redis", "redis"),
    ("rediss", "redis"),
];

/// Why a store cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The URL is wrong.
    #[error(transparent)]
    Url(#[from] InvalidUrl),
    /// The store does not answer or refuses.
    #[error(transparent)]
    Store(#[from] store::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_store_is_picked_by_its_scheme() {
        let open = async |url: &str| open(&url.parse().unwrap()).await.map(|store| store.promises().store);
        assert_eq!(open("mem://a").await, Ok("mem"));
        let unknown = open("mongo://h/p").await.unwrap_err();
        assert!(unknown.to_string().starts_with("unknown store \"mongo\""), "{unknown}");
        let option = open("mem://a?ttl=3").await.unwrap_err();
        assert!(option.to_string().starts_with("unknown option \"ttl\""), "{option}");
    }
}
