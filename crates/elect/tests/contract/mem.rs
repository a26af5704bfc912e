//! The in-process store keeps the contract, in paused time.

use std::sync::Arc;
use std::time::Duration;

use pole_elect::contract::{self, Extent, Factory};
use pole_elect::store::{BoxFuture, Error, Store};
use pole_elect::stores::MemStore;

struct Mem;

impl Factory for Mem {
    fn name(&self) -> String {
        "mem".to_owned()
    }

    fn connect<'a>(&'a self, election: &'a str) -> BoxFuture<'a, Result<Arc<dyn Store>, Error>> {
        Box::pin(async move {
            let store: Arc<dyn Store> = Arc::new(MemStore::named(election));
            Ok(store)
        })
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(2)
    }

    fn has_real_time(&self) -> bool {
        false
    }
}

pub(crate) async fn keeps_the_contract() {
    let report = contract::run(&Mem, Extent::Full).await;
    println!("{report}");
    assert!(report.passed(), "{report}");
}
