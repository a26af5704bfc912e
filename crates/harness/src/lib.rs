//! Runs real servers and clients for the `cargo xtask` commands.
//!
//! - [`ensemble`] starts servers of Pole or of Apache ZooKeeper as child processes on loopback.
//! - [`client`] is a ZooKeeper client for load generation and for checks.
//! - [`bench`](mod@bench) compares Pole with Apache ZooKeeper.
//! - [`compat`] runs third-party clients and their tests on both.
//! - [`attack`] sends servers hostile input and load, and checks that other clients are not disturbed.
//! - [`rng`] is a seeded random number generator.
//! - [`network`] puts TCP proxies between servers and clients, so that links can be cut, slowed and reset.
//! - [`replace`] replaces all servers of an ensemble under load.
//! - [`soak`] kills and stops servers under load and checks everything that clients observed.
//! - [`timeline`] draws the way of a write through three servers.
//! - [`tls`] makes certificates for the secure ports of an ensemble.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use pole_harness::ensemble::{Ensemble, Product, Setup};
//!
//! let mut ensemble = Ensemble::ready(&Product::Pole.launcher()?, &Setup::new("example", 3))?;
//! let leader = ensemble.leader().expect("the ensemble is ready");
//! ensemble.server(leader).kill()?;
//! let successor = ensemble.wait_ready(Duration::from_secs(10))?;
//! assert_ne!(successor, leader);
//! ensemble.done()?;
//! # Ok::<(), pole_command::Failure>(())
//! ```
//!
//! Everything here runs against processes, sockets and disks. This crate does not link the server's code, so it can
//! only observe what a client or an operator could. The simulator is in `pole-sim`.

pub mod attack;
pub mod bench;
pub mod client;
pub mod compat;
pub mod ensemble;
mod kdc;
pub mod network;
pub mod replace;
pub mod rng;
pub mod soak;
pub mod timeline;
pub mod tls;

use pole_command::{self as command, Failure, arguments};
