//! When to ping a server, and when to give it up. The caller passes the time.

use std::time::{Duration, Instant};

/// The timers of one connection.
#[derive(Clone, Copy, Debug)]
pub struct KeepAlive {
    silence_max: Duration,
    last_received: Instant,
    next_ping: Instant,
}

/// What a driver has to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing before this time.
    At(Instant),
    /// Send a ping. It is due again after a third of the allowed silence.
    Ping,
    /// Nothing arrived for as long as a server may be silent: drop the connection.
    Silent,
}

impl KeepAlive {
    /// Starts the timers of a connection that was opened now.
    pub fn new(silence_max: Duration, now: Instant) -> Self {
        Self { silence_max, last_received: now, next_ping: now + silence_max / PINGS }
    }

    /// Something arrived.
    pub fn received(&mut self, now: Instant) {
        self.last_received = now;
    }

    /// What is due at this time.
    pub fn due(&mut self, now: Instant) -> Due {
        let silent = self.last_received + self.silence_max;
        if now >= silent {
            Due::Silent
        } else if now >= self.next_ping {
            self.next_ping = now + self.silence_max / PINGS;
            Due::Ping
        } else {
            Due::At(self.next_ping.min(silent))
        }
    }
}

/// Pings within the allowed silence, so that a single slow reply does not end a connection.
const PINGS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ping_is_due_every_third_of_the_silence_and_the_end_after_all_of_it() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut timers = KeepAlive::new(Duration::from_secs(9), start);
        assert_eq!(timers.due(at(1)), Due::At(at(3)));
        assert_eq!(timers.due(at(3)), Due::Ping);
        assert_eq!(timers.due(at(3)), Due::At(at(6)));
        timers.received(at(4));
        assert_eq!(timers.due(at(11)), Due::Ping);
        assert_eq!(timers.due(at(12)), Due::At(at(13)));
        assert_eq!(timers.due(at(13)), Due::Silent);
    }
}
