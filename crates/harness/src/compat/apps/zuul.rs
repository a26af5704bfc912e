//! Zuul: its own tests of what it keeps in ZooKeeper, over TLS, undisturbed and while the leader is killed.

use std::process::Command;
use std::time::Duration;

use super::{App, tools};
use crate::Failure;
use crate::ensemble::{Ensemble, Product};
use crate::tls::Certificates;

pub(super) const APP: App = App {
    name: "zuul",
    prepare,
    command,
    configure,
    observers: 1,
    on_pole: &["failed=0", "failed_again=0"],
    limit: Duration::from_secs(1800),
};

fn prepare() -> Result<(), Failure> {
    tools::environment(APP.name)?;
    tools::source(APP.name)
}

/// Secure ports. Apache has them only with Netty.
fn configure(ensemble: &Ensemble, product: Product) -> Result<(), Failure> {
    let certificates = Certificates::make(ensemble.folder())?;
    let netty = match product {
        Product::Apache => "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n",
        Product::Pole => "",
    };
    ensemble.configure(|server, text| text + &certificates.lines(server.ports().secure) + netty)
}

fn command(command: &mut Command, ensemble: &Ensemble) -> Result<(), Failure> {
    let observer = ensemble.servers().last().expect("there are servers");
    command
        .env("APP_SOURCE", tools::folder(APP.name).join("source"))
        .env("APP_TLS_PORT", observer.ports().secure.to_string())
        .env("APP_TLS_AUTHORITY", Certificates::authority_in(ensemble.folder()))
        .env("APP_TLS_KEY", Certificates::key_store_in(ensemble.folder()));
    Ok(())
}
