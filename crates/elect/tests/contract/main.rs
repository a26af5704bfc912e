//! Every store keeps the contract. A store whose server is not installed is skipped by name.
//!
//! The stores run side by side, whatever the number of processors: they wait for leases most of the time.

mod consul;
mod etcd;
mod kubernetes;
mod lease_api;
mod mem;
mod nats;
mod postgres;
mod redis;
mod servers;
mod zookeeper;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use tokio::runtime::Builder;

fn main() -> ExitCode {
    let trials = vec![
        on_server("consul", consul::keeps_the_contract),
        on_server("etcd", etcd::keeps_the_contract),
        on_server("kubernetes", kubernetes::keeps_the_contract),
        on_server("kubernetes-model", kubernetes::model_keeps_the_contract),
        Trial::test("mem", || {
            // The clock of the in-process store is tokio's, which need not run at its real speed.
            Builder::new_current_thread().enable_all().start_paused(true).build()?.block_on(mem::keeps_the_contract());
            Ok(())
        }),
        on_server("nats", nats::keeps_the_contract),
        on_server("pole", zookeeper::pole_keeps_the_contract),
        on_server("postgresql", postgres::keeps_the_contract),
        on_server("redis", redis::keeps_the_contract),
        on_server("zookeeper", zookeeper::apache_keeps_the_contract),
    ];
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(trials.len());
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn on_server<F: Future<Output = ()> + 'static>(name: &str, contract: fn() -> F) -> Trial {
    Trial::test(name, move || {
        Builder::new_current_thread().enable_all().build()?.block_on(contract());
        Ok(())
    })
}
