//! A log that nobody reads: standard error is a pipe that is full from the start. Every line that a thread writes itself
//! would stop that thread for ever.

use std::io::{self, Write};

use super::raw::connect;
use super::{Attack, Found, Service, Target, nothing};

pub(super) const ATTACK: Attack = Attack::service(
    "unread-log",
    "600 connections that are worth a line in the log, which is a full pipe that nobody reads",
    Service { log_unread: true, config: &["maxClientCnxns=0"], ..Service::new(nothing, strike) },
)
.quick();

fn strike(target: &Target) -> io::Result<Found> {
    let mut sent = 0;
    for number in 0..CONNECTIONS {
        let mut stream = connect(target.address(number % target.ports.len()))?;
        // The length of a frame that no server accepts: the connection is closed, and the log says why.
        sent += usize::from(stream.write_all(&u32::MAX.to_be_bytes()).is_ok());
    }
    Ok(Found::note(format!("{sent} frames of an impossible length")))
}

const CONNECTIONS: usize = 600;
