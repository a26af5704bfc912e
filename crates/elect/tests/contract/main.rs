//! Every store keeps the contract. A store whose server is not installed is skipped by name.
//!
//! The stores run side by side, whatever the number of processors: they wait for leases most of the time. With all cases
//! only a few of them do, because 200 candidates keep a processor busy.

mod consul;
mod credentials;
mod etcd;
mod kubernetes;
mod lease_api;
mod mem;
mod nats;
mod postgres;
mod proxy;
mod redis;
mod servers;
mod zookeeper;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use pole_elect::contract::Extent;
use tokio::runtime::Builder;

fn main() -> ExitCode {
    let mut trials = vec![
        on_server("consul", consul::keeps_the_contract),
        on_server("consul-credentials", credentials::consul),
        on_server("etcd-credentials", credentials::etcd),
        on_server("kubernetes", kubernetes::keeps_the_contract),
        on_server("kubernetes-model", kubernetes::model_keeps_the_contract),
        Trial::test("mem", || {
            // The clock of the in-process store is tokio's, which need not run at its real speed.
            Builder::new_current_thread().enable_all().start_paused(true).build()?.block_on(mem::keeps_the_contract());
            Ok(())
        }),
        on_server("nats", nats::keeps_the_contract),
        on_server("nats-credentials", credentials::nats),
        on_server("pole", zookeeper::pole_keeps_the_contract),
        on_server("pole-credentials", credentials::pole),
        on_server("postgresql", postgres::keeps_the_contract),
        on_server("postgresql-credentials", credentials::postgresql),
        on_server("postgresql-example", postgres::a_table_refuses_a_leader_that_was_replaced),
        on_server("redis", redis::keeps_the_contract),
        on_server("redis-credentials", credentials::redis),
        on_server("zookeeper-credentials", credentials::zookeeper),
        on_server("zookeeper", zookeeper::apache_keeps_the_contract),
    ];
    trials.extend(etcd::trials());
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(match servers::extent() {
        Extent::Essential => trials.len(),
        Extent::Full => 3,
    });
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A test in a runtime of its own.
fn on_server<F: AsyncFnOnce() + Send + 'static>(name: &str, contract: F) -> Trial {
    Trial::test(name, move || {
        Builder::new_current_thread().enable_all().build()?.block_on(contract());
        Ok(())
    })
}
