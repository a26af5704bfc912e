//! The clients of the harness: those of [`pole_client`], two load generators (`load` keeps
//! requests outstanding, `arrivals` sends them at a rate), and a server to calibrate them (`echo`). `steady` writes
//! beside other work and knows how long each write took; `crowd` has more sessions than a process has open files.
//!
//! Each runs on one thread. A load generator shares the machine with the servers, so it must be cheap.
//!
//! The requests of benchmarks and of the soak, and the checks of their results, are in [`crate::bench`] and
//! [`crate::soak`].

pub mod arrivals;
pub mod crowd;
pub mod echo;
pub mod load;
pub mod steady;

pub use pole_client::asynchronous::{Answer, Connection, Event, Refusal, Session, Timing};
pub use pole_client::{Error, children, create, exists, get_data, set_data, sync};

use tokio::task::LocalSet;

use crate::Failure;

/// Runs clients on this thread until `work` is done. Tasks that are left then are dropped, with their connections.
pub fn drive<T, E: From<Failure>>(work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|why| Failure::Check(format!("cannot start a runtime: {why}")))?;
    LocalSet::new().block_on(&runtime, work)
}
